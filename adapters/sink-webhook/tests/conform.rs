//! The sink contract, rule by rule, against the testkit's receiver over loopback HTTP.
#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use confirmd_core::{ConsumerName, EventId, HumanDuration, SecretSource, Sink, SystemClock};
use confirmd_sink_webhook::{UrlSource, WebhookConfig, WebhookSink};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::sink::{Arrival, Duplicates, PeerDoes, SinkHarness, SinkRig, sink_trials};
use confirmd_testkit::receiver::{Behaviour, Received, Receiver, ReceiverOptions};
use libtest_mimic::Arguments;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The base64 of the bytes 0 to 31.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// Parts of the URL that carry a key.
const PATH_KEY: &str = "T0KEN-of-the-path";
const QUERY_KEY: &str = "Q1-of-the-query";
const PASSWORD: &str = "hunter2-of-the-user";

fn main() -> ExitCode {
    let trials = sink_trials("sink_webhook", Arc::new(Webhook));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

struct Webhook;

struct Rig {
    receiver: Receiver,
    files: tempfile::TempDir,
}

#[async_trait]
impl SinkHarness for Webhook {
    async fn start(&self) -> Result<Box<dyn SinkRig>, Broken> {
        let options = ReceiverOptions { secrets: vec![SECRET.into()], now: None };
        let receiver = Receiver::start(options).await.map_err(Broken::tried("starting the receiver"))?;
        let files = tempfile::tempdir().map_err(Broken::tried("making a directory"))?;
        let authority = receiver.url().trim_start_matches("http://").trim_end_matches("/hooks").to_owned();
        let url = format!("http://user:{PASSWORD}@{authority}/{PATH_KEY}?key={QUERY_KEY}");
        std::fs::write(files.path().join("secret"), SECRET).map_err(Broken::tried("writing the secret"))?;
        std::fs::write(files.path().join("url"), url).map_err(Broken::tried("writing the URL"))?;
        Ok(Box::new(Rig { receiver, files }))
    }

    fn unable(&self, _: PeerDoes) -> Option<String> {
        None
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn secrets(&self) -> Vec<String> {
        let bare = SECRET.trim_start_matches("whsec_");
        [SECRET, bare, PATH_KEY, QUERY_KEY, PASSWORD].map(str::to_owned).to_vec()
    }

    fn poison(&self) -> Option<Vec<u8>> {
        None
    }

    fn duplicates(&self) -> Duplicates {
        Duplicates::ReceiverMust { documentation: include_str!("../src/lib.rs") }
    }
}

#[async_trait]
impl SinkRig for Rig {
    async fn sink(&mut self) -> Result<Arc<dyn Sink>, Broken> {
        let file = |name| SecretSource::File(self.files.path().join(name));
        let config = WebhookConfig {
            url: UrlSource::Kept(file("url")),
            secret: file("secret"),
            secret_previous: None,
            timeout: HumanDuration(Webhook.deadline()),
            concurrency: NonZeroUsize::new(4).unwrap(),
            allow_private: vec!["127.0.0.0/8".parse().unwrap()],
            ca_file: None,
        };
        let consumer = ConsumerName::new("ledger").unwrap();
        let sink = WebhookSink::new(&consumer, &config, Arc::new(SystemClock));
        Ok(Arc::new(sink.map_err(Broken::tried("building the sink"))?))
    }

    async fn peer(&mut self, does: PeerDoes) -> Result<(), Broken> {
        let receiver = &self.receiver;
        receiver.behave();
        if does == PeerDoes::Down {
            return receiver.down().await.map_err(Broken::tried("taking the receiver down"));
        }
        receiver.up().await.map_err(Broken::tried("bringing the receiver up"))?;
        let busy = |after: Duration| Some(("retry-after", after.as_secs().to_string()));
        let what_it_knows = format!("Cannot POST /{PATH_KEY}?key={QUERY_KEY} for user:{PASSWORD} with {SECRET}");
        receiver.always(match does {
            PeerDoes::Take | PeerDoes::Down => Behaviour::Apply,
            PeerDoes::TakeThenBreak(room) => {
                receiver.next(u32::try_from(room).unwrap(), Behaviour::Apply);
                Behaviour::Close
            }
            PeerDoes::Refuse => Behaviour::Answer { status: 404, header: None, body: what_it_knows.into_bytes() },
            PeerDoes::Throttle(after) => Behaviour::Answer { status: 429, header: busy(after), body: Vec::new() },
            PeerDoes::Gone => Behaviour::Status(410),
            PeerDoes::Close => Behaviour::Close,
            PeerDoes::Hang => Behaviour::Hang,
            PeerDoes::TakeAndFail => Behaviour::ApplyThen(500),
            PeerDoes::TakeAndHang => Behaviour::ApplyThenHang,
            PeerDoes::BreakOff => Behaviour::BreakOff,
            PeerDoes::AnswerWithoutEnd => Behaviour::ApplyThenFlood,
        });
        Ok(())
    }

    async fn arrived(&mut self) -> Result<Vec<Arrival>, Broken> {
        self.receiver.requests().iter().map(arrival).collect()
    }

    async fn effects(&mut self) -> Result<Vec<Arrival>, Broken> {
        self.receiver.requests().iter().filter(|request| request.applied).map(arrival).collect()
    }

    fn answered_bytes(&self) -> u64 {
        self.receiver.flooded()
    }
}

fn arrival(request: &Received) -> Result<Arrival, Broken> {
    let event = request.event.as_ref().map_err(Broken::tried("reading a request"))?;
    let id = EventId::new(event.id.clone()).map_err(Broken::tried("reading an event's id"))?;
    Ok(Arrival { id, body: request.body.clone() })
}
