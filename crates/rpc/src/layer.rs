//! The tower layer below jsonrpsee. jsonrpsee numbers the calls and sorts the replies; this layer owns the transport and
//! hands jsonrpsee strict 2.0 with status 200, or a [`Failure`] that it carries through untouched.

use crate::connect::BoxError;
use crate::failure::Failure;
use crate::normalise::normalise;
use crate::wire::Wire;
use http_body_util::BodyExt;
use jsonrpsee::core::client::Error as ClientError;
use jsonrpsee::core::http_helpers::HttpError;
use jsonrpsee::http_client::transport::Error as TransportError;
use jsonrpsee::http_client::{HttpBody, HttpRequest, HttpResponse};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// Puts the wire in the place of jsonrpsee's own transport.
#[derive(Clone)]
pub(crate) struct WireLayer(pub(crate) Arc<Wire>);

impl<S> Layer<S> for WireLayer {
    type Service = WireService;
    fn layer(&self, _own_transport: S) -> WireService {
        WireService(self.0.clone())
    }
}

#[derive(Clone)]
pub(crate) struct WireService(Arc<Wire>);

impl Service<HttpRequest> for WireService {
    type Response = HttpResponse;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, TransportError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        let wire = self.0.clone();
        Box::pin(async move {
            let body = request.into_body().collect().await.map_err(carry)?.to_bytes();
            let batch = calls_in(&body);
            let answer = wire.post(body).await.map_err(|failure| carry(failure.into()))?;
            let body = normalise(answer, batch, &|text| wire.scrub(text)).map_err(|failure| carry(failure.into()))?;
            Ok(HttpResponse::new(HttpBody::new(http_body_util::Full::new(body))))
        })
    }
}

/// How many calls a batch holds; none for a single call.
fn calls_in(request: &[u8]) -> Option<usize> {
    if request.first() != Some(&b'[') {
        return None;
    }
    Some(serde_json::from_slice::<Vec<serde::de::IgnoredAny>>(request).map_or(0, |calls| calls.len()))
}

fn carry(error: BoxError) -> TransportError {
    TransportError::Http(HttpError::Stream(error))
}

/// What a jsonrpsee error is for us. `calls` is the number of calls that were sent, or none for a single one.
pub(crate) fn failure_of(error: ClientError, batch: Option<usize>) -> Failure {
    match error {
        ClientError::Transport(error) => match error.downcast::<TransportError>() {
            Ok(error) => match *error {
                TransportError::Http(HttpError::Stream(error)) => match error.downcast::<Failure>() {
                    Ok(failure) => *failure,
                    Err(error) => Failure::Interrupted(error.to_string()),
                },
                error => Failure::Request(error.to_string()),
            },
            Err(error) => Failure::Request(error.to_string()),
        },
        ClientError::InvalidRequestId(error) => match batch {
            Some(asked) => Failure::MissingReply { asked },
            None => Failure::Undecodable(format!("it answers another call: {error}")),
        },
        ClientError::ParseError(error) => Failure::Undecodable(error.to_string()),
        error => Failure::Request(error.to_string()),
    }
}
