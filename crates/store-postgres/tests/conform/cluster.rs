//! One cluster for all trials of a process: it lives on a thread of its own, since it ends with the thread that started it.

use crate::postgres::Postgres;
use anyhow::{Context, Result, anyhow};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio_postgres::{Client, NoTls};

/// A running cluster; dropped, it is gone.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) port: u16,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Waits until it answers; from outside of any runtime's own thread or within one.
    pub(super) fn start() -> Result<Self> {
        let (say, said) = mpsc::channel();
        let (end, ended) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let cluster = Postgres::start_with(&["max_connections=120"]).await;
                let _ = say.send(cluster.as_ref().map(Postgres::port).map_err(|error| anyhow!("{error:#}")));
                let _ = ended.await;
                drop(cluster);
            });
        });
        let port = said.recv().context("the cluster's thread ended")??;
        Ok(Self { port, end: Some(end), thread: Some(thread) })
    }

    /// A connection of the superuser.
    pub(super) async fn admin(&self) -> Result<Client> {
        admin(self.port).await
    }
}

/// A connection of the superuser.
pub(super) async fn admin(port: u16) -> Result<Client> {
    let (user, password) = Postgres::SUPERUSER;
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user(user).password(password).dbname("postgres").application_name("trial");
    let (client, driver) = config.connect(NoTls).await.context("connect to the cluster")?;
    tokio::spawn(driver);
    Ok(client)
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
