//! A loopback port whose far end can be changed: a load balancer that turns to another node.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections to one address at a time. Ends when dropped.
#[derive(Debug)]
pub struct Switch {
    port: u16,
    target: Arc<Mutex<String>>,
    turned: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Switch {
    /// Listens, and forwards to `url` (`http://host:port`).
    pub async fn to(url: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen on loopback")?;
        let port = listener.local_addr()?.port();
        let target = Arc::new(Mutex::new(host(url)));
        let turned = watch::Sender::new(0);
        let task = tokio::spawn(forward(listener, Arc::clone(&target), turned.clone()));
        Ok(Self { port, target, turned, task })
    }

    /// The endpoint to configure.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Forwards to another node from now on; open connections are closed.
    pub fn turn_to(&self, url: &str) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = host(url);
        self.turned.send_modify(|turns| *turns += 1);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn host(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

async fn forward(listener: TcpListener, target: Arc<Mutex<String>>, turned: watch::Sender<u64>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let mut closed = turned.subscribe();
        let target = target.lock().unwrap_or_else(PoisonError::into_inner).clone();
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(&target).await else { return };
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                _ = closed.changed() => {}
            }
        });
    }
}
