//! The PostgreSQL server that a runner started, as far as measures need it.

use anyhow::{Context, Result};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// A server on this machine.
#[derive(Debug, Clone)]
pub struct Database {
    /// With the user, without the password.
    pub url: String,
    /// The user's.
    pub password: String,
}

impl Database {
    /// A connection.
    pub async fn connect(&self) -> Result<Client> {
        self.listening().await.map(|(client, _)| client)
    }

    /// A connection, and what is notified on it, with the time it came.
    pub async fn listening(&self) -> Result<(Client, Receiver<(String, Instant)>)> {
        let mut config: tokio_postgres::Config = self.url.parse()?;
        config.password(&self.password).application_name("bench");
        let (client, mut connection) = config.connect(NoTls).await.context("connecting to PostgreSQL")?;
        let (tell, told) = channel();
        tokio::spawn(async move {
            loop {
                match std::future::poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(message))) => {
                        // Nobody listens any more: the measure is over.
                        let _ = tell.send((message.payload().to_owned(), Instant::now()));
                    }
                    Some(Ok(_)) => {}
                    _ => break,
                }
            }
        });
        Ok((client, told))
    }

    /// A sink that writes into a schema of its own.
    pub fn sink(&self, name: &str, folder: &Path) -> Result<String> {
        let word = folder.join("postgres-password");
        std::fs::write(&word, &self.password)?;
        Ok(format!(
            "[sinks.{name}]\nkind = \"postgres\"\nurl = \"{}\"\npassword = {{ file = \"{}\" }}\nschema = \"{name}\"\ntimeout = \"120s\"\n\
             start = \"beginning\"\n",
            self.url,
            word.display()
        ))
    }
}
