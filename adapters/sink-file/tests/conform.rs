//! The sink contract, rule by rule; the other side is a file on the disk.

use async_trait::async_trait;
use confirmd_core::{EventId, HumanDuration, Sink};
use confirmd_sink_file::{FileConfig, FileSink};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::full_disk::{files_can_be_limited, limit_files, run_with_full_disks};
use confirmd_testkit::conform::sink::{Arrival, Duplicates, PeerDoes, SinkHarness, SinkRig, sink_trials};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Shorter than any line of ours.
const LINE_BYTES_MIN: u64 = 300;
/// What an operator wrote below our lines.
const FOREIGN: &str = "notes by hand";

fn main() -> ExitCode {
    run_with_full_disks(|| sink_trials("sink_file", Arc::new(Lines)))
}

struct Lines;

struct Rig {
    root: tempfile::TempDir,
}

#[async_trait]
impl SinkHarness for Lines {
    async fn start(&self) -> Result<Box<dyn SinkRig>, Broken> {
        let root = tempfile::tempdir().map_err(Broken::tried("making a directory"))?;
        std::fs::create_dir(root.path().join("here")).map_err(Broken::tried("making a directory"))?;
        Ok(Box::new(Rig { root }))
    }

    fn unable(&self, does: PeerDoes) -> Option<String> {
        let why = match does {
            PeerDoes::Take | PeerDoes::Down | PeerDoes::Gone => return None,
            PeerDoes::TakeThenBreak(_) | PeerDoes::Close => return files_can_be_limited().err(),
            PeerDoes::TakeAndFail | PeerDoes::BreakOff => "a sync can't be made to fail from here",
            PeerDoes::Hang | PeerDoes::TakeAndHang => "a disk can't be made to hang from here",
            PeerDoes::Refuse => "a file refuses no event that it can carry",
            PeerDoes::Throttle(_) => "a file asks for no time",
            PeerDoes::AnswerWithoutEnd => "a file does not answer",
        };
        Some(why.to_owned())
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(5)
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

impl Drop for Rig {
    fn drop(&mut self) {
        drop(limit_files(None));
    }
}

impl Rig {
    fn path(&self) -> PathBuf {
        self.root.path().join("here/events.jsonl")
    }

    fn read(&self) -> Result<String, Broken> {
        match std::fs::read_to_string(self.path()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(Broken::tried("reading the file")),
        }
    }

    fn write(&self, content: &str) -> Result<(), Broken> {
        std::fs::write(self.path(), content).map_err(Broken::tried("writing to the file"))
    }
}

#[async_trait]
impl SinkRig for Rig {
    async fn sink(&mut self) -> Result<Arc<dyn Sink>, Broken> {
        let config = FileConfig { path: self.path(), timeout: HumanDuration(Lines.deadline()) };
        Ok(Arc::new(FileSink::new(&config).map_err(Broken::tried("building the sink"))?))
    }

    async fn peer(&mut self, does: PeerDoes) -> Result<(), Broken> {
        limit_files(None)?;
        let (here, away) = (self.root.path().join("here"), self.root.path().join("away"));
        if away.exists() {
            std::fs::rename(&away, &here).map_err(Broken::tried("bringing the directory back"))?;
        }
        let content = self.read()?;
        if let Some(ours) = content.strip_suffix(FOREIGN) {
            self.write(ours)?;
        }
        match does {
            PeerDoes::Down => std::fs::rename(&here, &away).map_err(Broken::tried("taking the directory away")),
            PeerDoes::TakeThenBreak(_) | PeerDoes::Close => {
                // The disk is full in the middle of a line.
                let room = if let PeerDoes::TakeThenBreak(room) = does { u64::try_from(room).unwrap_or(0) } else { 0 };
                let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
                limit_files(Some(length + (room + 1) * LINE_BYTES_MIN))
            }
            PeerDoes::Gone => self.write(&format!("{content}{FOREIGN}")),
            _ => Ok(()),
        }
    }

    async fn arrived(&mut self) -> Result<Vec<Arrival>, Broken> {
        self.effects().await
    }

    async fn effects(&mut self) -> Result<Vec<Arrival>, Broken> {
        let content = self.read()?;
        // A line without its line break is not there yet.
        let whole = content.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(arrival).collect()
    }

    fn answered_bytes(&self) -> u64 {
        0
    }
}

fn arrival(line: &str) -> Result<Arrival, Broken> {
    let event: serde_json::Value = serde_json::from_str(line).map_err(Broken::tried("reading a line"))?;
    let id = event.get("id").and_then(serde_json::Value::as_str).unwrap_or_default();
    let id = EventId::new(id).map_err(Broken::tried("reading an event's id"))?;
    Ok(Arrival { id, body: line.as_bytes().to_vec() })
}
