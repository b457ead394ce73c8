//! A server, and connections to it.

use crate::tls::Tls;
use crate::{Trouble, UrlSource};
use confirmd_core::{ConfigError, Secret, SecretSource};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls};

/// Notifications that wait to be read.
const NOTIFICATIONS_MAX: usize = 1_000;

/// The server notices a client whose machine is gone within half a minute, not after hours: its locks hold others up no longer. Servers
/// without these settings are left alone.
const NOTICED: &str = "select set_config(k.name, k.value, false) from (values ('tcp_keepalives_idle', '10'), \
    ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')) as k (name, value) join pg_settings s on s.name = k.name";

/// What names a server. The keys of a configuration that stand for it are its user's.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `postgres://user@host:port/database?sslmode=verify-full`; several hosts by commas.
    pub url: UrlSource,
    /// The password, if the URL has none.
    pub password: Option<SecretSource>,
    /// Certificates (PEM) to trust instead of the public roots.
    pub ca_file: Option<PathBuf>,
    /// How long one statement may take, and a session may idle within a transaction.
    pub statement_timeout: Duration,
    /// Shown in the server's list of sessions.
    pub application: String,
}

/// A server that can be connected to. Shows no secret.
#[derive(Clone)]
pub struct Server {
    config: Config,
    tls: Tls,
    label: String,
    setup: String,
    statement_timeout: Duration,
    secrets: Vec<Secret>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.label).finish()
    }
}

/// An open connection. Dropped, it is closed; the server then rolls an open transaction back.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    driver: JoinHandle<()>,
}

impl Deref for Connection {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Server {
    /// Reads the URL and the secrets. No I/O but for files. Errors name the key, never what it holds.
    pub fn new(config: &ServerConfig) -> Result<Self, ConfigError> {
        let url = config.url.resolve().map_err(|error| error.below("url"))?;
        let wrong = |problem: &str| ConfigError::new("url", problem);
        // These two verify what `require` verifies here as well; the driver knows only the latter's name.
        let strict = url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require");
        let parsed = strict.parse::<Config>();
        let mut driver = parsed
            .map_err(|_| wrong("is not postgres://user@host:port/database?sslmode=verify-full (its content is not shown)"))?;
        let mut secrets: Vec<Secret> =
            driver.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).map(Secret::new).into_iter().collect();
        if let Some(source) = &config.password {
            let password = source.resolve().map_err(|error| error.below("password"))?;
            driver.password(password.expose());
            secrets.push(password);
        }
        if matches!(&config.url, UrlSource::Kept(_)) && !secrets.is_empty() {
            secrets.push(Secret::new(url.clone()));
        }
        if driver.get_hosts().is_empty() {
            return Err(wrong("names no host"));
        }
        if driver.get_user().is_none() {
            return Err(wrong("names no user"));
        }
        let local = driver.get_hosts().iter().all(is_local);
        if !url.contains("sslmode=") {
            driver.ssl_mode(if local { SslMode::Disable } else { SslMode::Require });
        }
        driver.connect_timeout(config.statement_timeout.min(Duration::from_secs(10)));
        driver.keepalives_idle(Duration::from_secs(30)).keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
        driver.tcp_user_timeout(config.statement_timeout.max(Duration::from_secs(5))).application_name(&config.application);
        let limit = config.statement_timeout.as_millis();
        // An answer "committed" must mean the disk, whatever the server's default is; a stricter setting stays.
        let setup = format!(
            "set statement_timeout = {limit}; set idle_in_transaction_session_timeout = {limit}; \
             select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'; {NOTICED}"
        );
        let label = label(&driver);
        Ok(Self {
            tls: Tls::new(config.ca_file.as_deref())?,
            config: driver,
            label,
            setup,
            statement_timeout: config.statement_timeout,
            secrets,
        })
    }

    /// Hosts, ports and database, for people.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How long one statement may take.
    pub fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    /// A new connection, its limits set.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let connection = if self.config.get_ssl_mode() == SslMode::Disable {
            let (client, driver) = self.config.connect(NoTls).await?;
            Connection { client, driver: tokio::spawn(async move { drop(driver.await) }) }
        } else {
            let (client, driver) = self.config.connect(self.tls.clone()).await?;
            Connection { client, driver: tokio::spawn(async move { drop(driver.await) }) }
        };
        connection.batch_execute(&self.setup).await?;
        Ok(connection)
    }

    /// The same, with what the server notifies it of, as far as that is listened to: the payloads. The oldest are kept, up to 1,000;
    /// the end of the connection is the end of the channel.
    pub async fn connect_listening(&self) -> Result<(Connection, mpsc::Receiver<String>), Error> {
        let (said, heard) = mpsc::channel(NOTIFICATIONS_MAX);
        let connection = if self.config.get_ssl_mode() == SslMode::Disable {
            let (client, driver) = self.config.connect(NoTls).await?;
            Connection { client, driver: tokio::spawn(hear(driver, said)) }
        } else {
            let (client, driver) = self.config.connect(self.tls.clone()).await?;
            Connection { client, driver: tokio::spawn(hear(driver, said)) }
        };
        connection.batch_execute(&self.setup).await?;
        Ok((connection, heard))
    }

    /// What happened, without any secret: a server may repeat what it was sent.
    pub fn describe(&self, error: &Error) -> String {
        self.redact(Trouble::describe(error))
    }

    /// The text without the secrets of this server.
    pub fn redact(&self, text: String) -> String {
        self.secrets
            .iter()
            .filter(|secret| !secret.expose().is_empty())
            .fold(text, |text, secret| text.replace(secret.expose(), "…"))
    }
}

/// Drives a connection and passes on what it is notified of.
async fn hear<S, T>(mut driver: tokio_postgres::Connection<S, T>, said: mpsc::Sender<String>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = std::future::poll_fn(|context| driver.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            // A full channel is news enough.
            let _ = said.try_send(notification.payload().to_owned());
        }
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn label(config: &Config) -> String {
    let name = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    };
    let hosts: Vec<_> = config.get_hosts().iter().map(name).collect();
    let ports: Vec<_> = config.get_ports().iter().map(u16::to_string).collect();
    let ports = if ports.is_empty() { "5432".to_owned() } else { ports.join(",") };
    format!("{}:{ports}/{}", hosts.join(","), config.get_dbname().or(config.get_user()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn server(url: &str) -> Result<Server, ConfigError> {
        Server::new(&ServerConfig {
            url: UrlSource::Literal(url.to_owned()),
            password: None,
            ca_file: None,
            statement_timeout: Duration::from_secs(5),
            application: "confirmd".to_owned(),
        })
    }

    #[test]
    fn a_server_elsewhere_is_never_spoken_to_in_plain_unless_the_url_says_so() {
        let mode = |url| server(url).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://u@db.example/x"), SslMode::Require);
        assert_eq!(mode("postgres://u@10.0.0.1/x?sslmode=verify-full"), SslMode::Require);
        assert_eq!(mode("postgres://u@db.example/x?sslmode=verify-ca"), SslMode::Require);
        assert_eq!(mode("postgres://u@db.example/x?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://u@127.0.0.1/x?sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgres://u@127.0.0.1:5/x"), SslMode::Disable);
        assert_eq!(mode("postgres://u@127.0.0.1,db.example/x"), SslMode::Require);
        assert!(server("postgres://u@db.example/x?sslmode=sometimes").is_err());
    }

    #[test]
    fn k8_a_password_in_the_configuration_is_refused_and_one_kept_elsewhere_is_never_shown() {
        for url in ["postgres://u:hunter2@db.example/x", "postgres://u@db.example/x?password=hunter2"] {
            let error = server(url).unwrap_err().to_string();
            assert!(error.contains("env =") && !error.contains("hunter2"), "{error}");
        }
        let file = std::env::temp_dir().join(format!("confirmd-postgres-url-{}", std::process::id()));
        std::fs::write(&file, "postgres://u:hunter2@db.example/x\n").unwrap();
        let config = ServerConfig {
            url: UrlSource::Kept(SecretSource::File(file.clone())),
            password: None,
            ca_file: None,
            statement_timeout: Duration::from_secs(5),
            application: "confirmd".to_owned(),
        };
        let server = Server::new(&config).unwrap();
        std::fs::remove_file(file).unwrap();
        assert!(!format!("{server:?} {}", server.label()).contains("hunter2"));
        assert_eq!(server.redact("role u, word hunter2".to_owned()), "role u, word …");
        assert_eq!(server.label(), "db.example:5432/x");
    }
}
