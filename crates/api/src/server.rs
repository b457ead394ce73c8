//! The listening side.

use crate::routes::{Api, router};
use crate::{Operator, OperatorError};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A bound port; nothing is answered yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Takes the port. Only loopback addresses: whoever reaches the port may order everything.
pub async fn bind(listen: SocketAddr) -> Result<Bound, OperatorError> {
    loopback_only(listen)?;
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        OperatorError::failed(format!(
            "the control API can't listen on {listen}: {error}; end the program that uses the port, or choose another `api.listen` (port 0 takes any free one)"
        ))
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| OperatorError::failed(format!("the port of the control API is unknown: {error}")))?;
    Ok(Bound { listener, address })
}

/// Refuses an address that other machines could reach.
pub fn loopback_only(listen: SocketAddr) -> Result<(), OperatorError> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    Err(OperatorError::invalid(format!(
        "{listen} can be reached from other machines, and this version has no access tokens yet (a later one will); listen on 127.0.0.1 or [::1] and reach it through a tunnel"
    )))
}

impl Bound {
    /// The real address, also where port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` ends; open requests are finished.
    pub async fn serve(
        self,
        operator: Arc<dyn Operator>,
        instance: impl Into<Arc<str>>,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let api = Api { operator, instance: instance.into(), port: self.address.port() };
        axum::serve(self.listener, router(api)).with_graceful_shutdown(shutdown).await
    }
}
