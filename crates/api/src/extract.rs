//! What handlers take: bodies, queries and names, with errors as problems.

use crate::OperatorError;
use crate::problem::{Problem, ProblemType};
use crate::routes::Api;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

/// A JSON body; an empty one counts as `{}`.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Api> for Body<T> {
    type Rejection = Response;
    async fn from_request(request: Request, state: &Api) -> Result<Self, Response> {
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => OperatorError::invalid(rejection.body_text()).into_response(),
        })?;
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        // serde would take a list for an object, its items for the fields in their order.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(OperatorError::invalid("the body is not what this path takes: it is no JSON object").into_response());
        }
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| OperatorError::invalid(format!("the body is not what this path takes: {error}")).into_response())
    }
}

/// The answer to a body above the limit.
pub(crate) fn too_large() -> Response {
    Problem::response(
        ProblemType::TooLarge,
        "the body is too large; split it, or send addresses as a stream to /v1/addresses/import",
    )
}

/// The query.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Asked<T> {
    type Rejection = OperatorError;
    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, OperatorError> {
        let query = Query::try_from_uri(&parts.uri);
        query.map(|Query(query)| Self(query)).map_err(|error| OperatorError::invalid(error.body_text()))
    }
}

/// The path's parts.
pub(crate) struct At<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Api> for At<T> {
    type Rejection = OperatorError;
    async fn from_request_parts(parts: &mut Parts, state: &Api) -> Result<Self, OperatorError> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(path)| Self(path)).map_err(|error| OperatorError::invalid(error.body_text()))
    }
}

/// A name or id in a path.
pub(crate) fn name<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, OperatorError> {
    text.parse().map_err(|error: T::Err| OperatorError::invalid(error.to_string()))
}
