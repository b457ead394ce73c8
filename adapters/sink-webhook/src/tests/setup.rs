//! Sinks, secrets and deliveries for the tests.

use crate::{KIND, UrlSource, WebhookConfig, WebhookSink};
use confirmd_core::{
    Address, Amount, Asset, AssetId, BlockHash, BlockRef, ChainId, ChainName, Clock, ConfigError, ConsumerName, Delivery,
    DepositKey, Epoch, Event, EventId, Height, HumanDuration, Payment, Position, SecretSource, Sequence, Sink, SinkContext,
    SystemClock, Timestamp, Transfer, TxId,
};
use std::cell::RefCell;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The base64 of the bytes 0 to 31, and of 32 to 63.
pub(crate) const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub(crate) const SECRET_OLD: &str = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct Still(pub(crate) Timestamp);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.0
    }
}

thread_local! {
    /// The files of the test that runs on this thread.
    static FILES: RefCell<Vec<tempfile::TempPath>> = const { RefCell::new(Vec::new()) };
}

/// A file with this content, removed with the test's thread.
pub(crate) fn file(content: &str) -> PathBuf {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    let kept = file.into_temp_path();
    let path = kept.to_path_buf();
    FILES.with_borrow_mut(|files| files.push(kept));
    path
}

pub(crate) fn config(url: &str) -> WebhookConfig {
    WebhookConfig {
        url: UrlSource::Literal(url.into()),
        secret: SecretSource::File(file(SECRET)),
        secret_previous: None,
        timeout: HumanDuration(Duration::from_secs(15)),
        concurrency: NonZeroUsize::new(16).unwrap(),
        allow_private: vec!["127.0.0.0/8".parse().unwrap()],
        ca_file: None,
    }
}

/// A time-out that a test can afford to wait for.
pub(crate) fn hasty(url: &str) -> WebhookConfig {
    WebhookConfig { timeout: HumanDuration(Duration::from_millis(300)), ..config(url) }
}

pub(crate) fn sink(config: &WebhookConfig) -> WebhookSink {
    WebhookSink::new(&consumer(), config, Arc::new(SystemClock)).unwrap()
}

pub(crate) fn consumer() -> ConsumerName {
    ConsumerName::new("ledger").unwrap()
}

/// What the daemon does with a table, its common keys taken out.
pub(crate) fn build(text: &str) -> Result<Arc<dyn Sink>, ConfigError> {
    let mut table: toml::Table = text.parse().unwrap();
    table.remove("kind");
    (KIND.build)(SinkContext { consumer: consumer() }, table)
}

pub(crate) fn delivery(n: u32) -> Delivery {
    let chain = ChainId::new("eip155:1").unwrap();
    let key = DepositKey { tx_id: TxId::new(format!("0x{n:064x}")).unwrap(), output_index: n };
    let asset = Asset { id: AssetId::new("eip155:1/slip44:60").unwrap(), symbol: "ETH".into(), decimals: 18 };
    let event = Event {
        id: EventId::derive(&chain, &key, Epoch(1_790_000_000), Sequence(1)),
        chain,
        chain_name: ChainName::new("ethereum").unwrap(),
        epoch: Epoch(1_790_000_000),
        sequence: Sequence(1),
        transfer: Transfer {
            key,
            payment: Payment { address: Address::new([0xbb], "0xBB"), asset: asset.id.clone(), amount: Amount::MAX, memo: None },
            block: BlockRef { height: Height(7), hash: BlockHash::new("0xdd").unwrap() },
            block_time: None,
            position: 0,
            from: None,
            maturity: None,
        },
        asset,
        reference: Some("Zoë".into()),
        confirmations: 20,
        decided_at: Timestamp::from_seconds(1_767_225_600),
        notice: None,
    };
    let body = event.to_body().into();
    Delivery::new(Position(n.into()), event, body, 1)
}

#[test]
fn the_example_builds_once_its_secret_exists() {
    let own = KIND.example.strip_prefix("[sinks.ledger]").unwrap();
    let example = own.replace(r#"{ env = "LEDGER_WEBHOOK_SECRET" }"#, &format!("{{ file = {:?} }}", file(SECRET)));
    build(&example).unwrap();
}

#[test]
fn mistakes_are_refused_by_name_and_with_what_to_write() {
    let secret = format!("secret = {{ file = {:?} }}\n", file(SECRET));
    for (text, key, why) in [
        ("url = 'https://a.example'", "", "secret"),
        ("secret = 'whsec_hunter2'\nurl = 'https://a.example'", "secret", "env ="),
        ("url = 'https://a.example'\nsecret = { env = 'CONFIRMD_TEST_NOT_SET' }", "secret", "CONFIRMD_TEST_NOT_SET"),
        (&format!("{secret}url = 5"), "url", "env ="),
        (&format!("{secret}url = {{ evn = 'A' }}"), "url", "env ="),
        (&format!("{secret}url = 'https://a.example'\ntimeout = '0s'"), "timeout", "above zero"),
        (&format!("{secret}url = 'https://a.example'\ntimeout = '11m'"), "timeout", "at most"),
        (&format!("{secret}url = 'https://a.example'\ntimeout = 15"), "timeout", "string"),
        (&format!("{secret}url = 'https://a.example'\nconcurrency = 0"), "concurrency", "nonzero"),
        (&format!("{secret}url = 'https://a.example'\nconcurrency = 1025"), "concurrency", "at most"),
        (&format!("{secret}url = 'https://a.example'\nallow_private = ['10.0.0.1/8']"), "allow_private[0]", "first address"),
        (&format!("{secret}url = 'https://a.example'\nretries = 5"), "retries", "unknown"),
        (
            &format!("{secret}url = 'https://a.example'\nsecret_previous = {{ file = {:?} }}", file(SECRET)),
            "secret_previous",
            "same",
        ),
        (&format!("{secret}url = 'https://a.example'\nca_file = '/nowhere/ca.pem'"), "ca_file", "/nowhere/ca.pem"),
        (&format!("{secret}url = 'https://a.example'\nca_file = {:?}", file("no pem")), "ca_file", "no certificate"),
    ] {
        let error = build(text).unwrap_err();
        assert_eq!(error.key, key, "{text}: {error}");
        assert!(error.to_string().contains(why), "{text}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
