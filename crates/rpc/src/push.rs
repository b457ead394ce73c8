//! A subscription to new heads over WebSocket (`eth_subscribe`): a wake-up, never a fact.

use crate::endpoint_config::UrlSetting;
use crate::redact::{RedactedUrl, Scrubber};
use async_trait::async_trait;
use confirmd_core::{ConfigError, NewHeads, SecretSource, SourceError};
use jsonrpsee::core::client::{Subscription, SubscriptionClientT};
use jsonrpsee::ws_client::{PingConfig, WsClient, WsClientBuilder};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;
use std::time::Duration;
use tokio::sync::Mutex;
use url::Url;

/// Waiting longer for the connection or the first answer means that nobody is there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which nothing comes for this long, though it was pinged, is dead.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// A head is below 2 kB.
const MESSAGE_BYTES_MAX: u32 = 64 * 1024;
/// Heads that nobody has looked at yet; more of them say nothing new.
const UNSEEN_MAX: usize = 16;

/// `push` of a chain: a `ws://` or `wss://` URL, written down, or `{ env = "NAME" }` or `{ file = "path" }` where it carries a key.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Written")]
pub struct PushUrl(UrlSetting);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a URL such as \"ws://127.0.0.1:8546\", { env = \"NAME\" } or { file = \"path\" }")]
enum Written {
    Literal(String),
    Source(SecretSource),
}

impl TryFrom<Written> for PushUrl {
    type Error = String;
    fn try_from(written: Written) -> Result<Self, String> {
        Ok(Self(match written {
            Written::Literal(text) => UrlSetting::Literal(parse(&text)?),
            Written::Source(source) => UrlSetting::Source(source),
        }))
    }
}

/// The error does not repeat the text: it may hold a secret.
fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|error| format!("not a URL ({error}); write one like \"ws://127.0.0.1:8546\""))?;
    match url.scheme() {
        "ws" | "wss" if url.has_host() => Ok(url),
        scheme => Err(format!("\"{scheme}:\" can't push; write the ws:// or wss:// URL of the node's WebSocket")),
    }
}

/// New heads of one node, over a connection that is made when it is needed.
pub struct HeadSubscription {
    url: Url,
    shown: RedactedUrl,
    scrubber: Scrubber,
    live: Mutex<Option<Live>>,
}

/// The client is kept: a subscription ends with it.
struct Live {
    heads: Subscription<Box<RawValue>>,
    _client: WsClient,
}

impl HeadSubscription {
    /// Reads the secrets; contacts nobody.
    ///
    /// # Errors
    /// The secret can't be read, or is no WebSocket URL.
    pub fn new(url: &PushUrl) -> Result<Self, ConfigError> {
        let url = url.0.resolve(parse)?;
        let mut scrubber = Scrubber::default();
        scrubber.learn_url(&url);
        Ok(Self { shown: RedactedUrl::new(&url), url, scrubber, live: Mutex::default() })
    }

    async fn subscribe(&self) -> Result<Live, SourceError> {
        let client = WsClientBuilder::default()
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(CONNECT_TIMEOUT)
            .max_response_size(MESSAGE_BYTES_MAX)
            .max_buffer_capacity_per_subscription(UNSEEN_MAX)
            .enable_ws_ping(PingConfig::new().inactive_limit(SILENCE_MAX))
            .build(self.url.as_str())
            .await
            .map_err(|error| self.failed("connecting to", &error))?;
        let heads = client
            .subscribe("eth_subscribe", jsonrpsee::rpc_params!["newHeads"], "eth_unsubscribe")
            .await
            .map_err(|error| self.failed("subscribing to new heads at", &error))?;
        Ok(Live { heads, _client: client })
    }

    fn failed(&self, what: &str, error: &dyn fmt::Display) -> SourceError {
        let cause = self.scrubber.scrub(&error.to_string(), None);
        SourceError::transient(format!("{what} {} failed: {cause}", self.shown))
    }
}

impl fmt::Debug for HeadSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadSubscription").field("url", &self.shown).finish_non_exhaustive()
    }
}

#[async_trait]
impl NewHeads for HeadSubscription {
    async fn next(&self) -> Result<(), SourceError> {
        let mut live = self.live.lock().await;
        let Some(open) = live.as_mut() else {
            *live = Some(self.subscribe().await?);
            // Whatever came before it is not told.
            return Ok(());
        };
        match open.heads.next().await {
            // Not even read: truth is asked for.
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(self.failed("a message of", &error)),
            None => {
                *live = None;
                Err(self.failed("the subscription at", &"the connection was closed"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Keys {
        push: PushUrl,
    }

    fn read(text: &str) -> Result<Keys, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn a_url_that_is_no_websocket_is_refused_without_repeating_it() {
        let error = read("push = 'http://127.0.0.1:8545/SECRETKEY'").unwrap_err();
        assert!(error.contains("ws://") && !error.contains("SECRETKEY"), "{error}");
        assert!(read("push = 'not a url'").unwrap_err().contains("ws://127.0.0.1:8546"));
        assert!(read("push = true").unwrap_err().contains("{ env = "));
    }

    #[test]
    fn a_key_in_the_url_is_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "wss://node.example/v3/SECRETKEY\n").unwrap();
        let keys = read(&format!("push = {{ file = {:?} }}", file.path())).unwrap();
        let heads = HeadSubscription::new(&keys.push).unwrap();
        let error = heads.failed("asking", &"wss://node.example/v3/SECRETKEY hangs");
        let shown = format!("{keys:?} {heads:?} {error}");
        assert!(!shown.contains("SECRETKEY") && shown.contains("wss://node.example/…"), "{shown}");
    }

    #[tokio::test]
    async fn nobody_there_is_an_error_and_is_tried_anew() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let heads = HeadSubscription::new(&read(&format!("push = 'ws://127.0.0.1:{port}'")).unwrap().push).unwrap();
        for _ in 0..2 {
            let error = heads.next().await.unwrap_err().to_string();
            assert!(error.contains(&format!("ws://127.0.0.1:{port}")), "{error}");
        }
    }
}
