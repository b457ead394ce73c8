//! The sink contract, rule by rule; the other side is a pipe that takes lines, breaks, or is not read.
#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use confirmd_core::{EventId, HumanDuration, Sink};
use confirmd_sink_stdout::{LineSink, StdoutConfig};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::sink::{Arrival, Duplicates, PeerDoes, SinkHarness, SinkRig, sink_trials};
use libtest_mimic::Arguments;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite;

/// Of the line that breaks, so many bytes still go through.
const TORN_BYTES: usize = 7;

fn main() -> ExitCode {
    let trials = sink_trials("sink_stdout", Arc::new(Stdout));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

struct Stdout;

/// The pipe, and what was read from it.
#[derive(Clone)]
struct Pipe(Arc<Mutex<Inside>>);

struct Inside {
    does: PeerDoes,
    content: Vec<u8>,
    torn: usize,
}

impl Pipe {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    fn arrivals(&self) -> Result<Vec<Arrival>, Broken> {
        let content = String::from_utf8(self.inside().content.clone()).map_err(Broken::tried("reading the pipe"))?;
        let whole = content.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let arrival = |line: &str| {
            // A torn line is no JSON; its reader passes it over, as the sink's document says.
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            let id = EventId::new(event.get("id")?.as_str()?).ok()?;
            Some(Arrival { id, body: line.as_bytes().to_vec() })
        };
        Ok(whole.lines().filter_map(arrival).collect())
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut inside = self.inside();
        let line_end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let broken = || Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        let taken = match inside.does {
            PeerDoes::Down => return broken(),
            PeerDoes::Hang => return Poll::Pending,
            PeerDoes::Close | PeerDoes::TakeThenBreak(0) if inside.torn == TORN_BYTES => return broken(),
            PeerDoes::Close | PeerDoes::TakeThenBreak(0) => {
                let part = bytes.len().min(TORN_BYTES - inside.torn);
                inside.torn += part;
                part
            }
            PeerDoes::TakeThenBreak(room) => {
                inside.does = PeerDoes::TakeThenBreak(room - 1);
                line_end
            }
            _ => bytes.len(),
        };
        inside.content.extend_from_slice(bytes.get(..taken).unwrap_or(bytes));
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.inside().does {
            PeerDoes::TakeAndFail => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            PeerDoes::TakeAndHang => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[async_trait]
impl SinkHarness for Stdout {
    async fn start(&self) -> Result<Box<dyn SinkRig>, Broken> {
        Ok(Box::new(Pipe(Arc::new(Mutex::new(Inside { does: PeerDoes::Take, content: Vec::new(), torn: 0 })))))
    }

    fn unable(&self, does: PeerDoes) -> Option<String> {
        let answers = matches!(
            does,
            PeerDoes::Refuse | PeerDoes::Throttle(_) | PeerDoes::Gone | PeerDoes::BreakOff | PeerDoes::AnswerWithoutEnd
        );
        answers.then(|| "a pipe does not answer".to_owned())
    }

    fn deadline(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    fn poison(&self) -> Option<Vec<u8>> {
        Some(b"{\"id\":\n\"evt_\"}".to_vec())
    }

    fn duplicates(&self) -> Duplicates {
        Duplicates::ReceiverMust { documentation: include_str!("../src/lib.rs") }
    }
}

#[async_trait]
impl SinkRig for Pipe {
    async fn sink(&mut self) -> Result<Arc<dyn Sink>, Broken> {
        let config = StdoutConfig { timeout: HumanDuration(Stdout.deadline()) };
        Ok(Arc::new(LineSink::new(self.clone(), &config).map_err(Broken::tried("building the sink"))?))
    }

    async fn peer(&mut self, does: PeerDoes) -> Result<(), Broken> {
        let mut inside = self.inside();
        (inside.does, inside.torn) = (does, 0);
        Ok(())
    }

    async fn arrived(&mut self) -> Result<Vec<Arrival>, Broken> {
        self.arrivals()
    }

    async fn effects(&mut self) -> Result<Vec<Arrival>, Broken> {
        self.arrivals()
    }

    fn answered_bytes(&self) -> u64 {
        0
    }
}
