//! The listening side.

use crate::access::Access;
use crate::dashboard::Samples;
use crate::guard::Guard;
use crate::limit::Limits;
use crate::routes::{Api, router};
use crate::{Metrics, Operator, OperatorError};
use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use tokio::net::TcpListener;

/// How an instance may be asked.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Its tokens.
    pub access: Access,
    /// Requests a second, all askers together; twice as many at once.
    pub requests_per_second: NonZeroU32,
}

impl ServerOptions {
    /// By default 200 requests a second.
    pub const REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(200).expect("invariant: not zero");

    /// Without tokens, at the default rate.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, access: Access::default(), requests_per_second: Self::REQUESTS_PER_SECOND }
    }
}

/// A bound port; nothing is answered yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
    metrics: Option<Arc<dyn Metrics>>,
}

/// Takes the port. Beyond the loopback interface only with an admin token: whoever reaches the port could order everything.
pub async fn bind(options: ServerOptions) -> Result<Bound, OperatorError> {
    let listen = options.listen;
    may_listen(listen, options.access.has_admin())?;
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        OperatorError::failed(format!(
            "the API can't listen on {listen}: {error}; end the program that uses the port, or choose another `api.listen` (port 0 takes any free one)"
        ))
    })?;
    let address =
        listener.local_addr().map_err(|error| OperatorError::failed(format!("the port of the API is unknown: {error}")))?;
    let guard = Guard {
        access: options.access,
        limits: Arc::new(Limits::new(options.requests_per_second)),
        port: address.port(),
        open: !address.ip().is_loopback(),
    };
    Ok(Bound { listener, address, guard, metrics: None })
}

/// Refuses an address that other machines could reach without a token.
pub fn may_listen(listen: SocketAddr, has_token: bool) -> Result<(), OperatorError> {
    if listen.ip().is_loopback() || has_token {
        return Ok(());
    }
    Err(OperatorError::invalid(format!(
        "{listen} can be reached from other machines: set `api.admin_token = {{ env = \"NAME\" }}` (or a file), or listen on 127.0.0.1 or [::1]"
    )))
}

impl Bound {
    /// The real address, also where port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers `/metrics`, too.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<dyn Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Answers until `shutdown` ends; open requests are finished.
    pub async fn serve(
        self,
        operator: Arc<dyn Operator>,
        instance: impl Into<Arc<str>>,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let (ended, ending) = tokio::sync::watch::channel(false);
        let api = Api { operator, metrics: self.metrics, instance: instance.into(), ending };
        let shutdown = async move {
            shutdown.await;
            // Streams that wait for events end, so that the server can.
            ended.send_replace(true);
        };
        let samples = Arc::new(Samples::default());
        let looking = tokio::spawn(samples.clone().keep(api.operator.clone(), api.metrics.clone()));
        let served = axum::serve(self.listener, router(api, self.guard, samples)).with_graceful_shutdown(shutdown).await;
        looking.abort();
        served
    }
}
