//! What was told and what is still to be told, in a small file beside the state's database.

use super::fact::Fact;
use confirmd_core::{ConsumerName, Epoch, EventId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file's name within the state's folder.
const FILE: &str = "operations.json";
const VERSION: u32 = 1;
/// More than anyone reads. Facts that still hold are taken up once there is room again.
const QUEUE_MAX: usize = 1_000;
/// A consumer's dead letters are told at most so often.
const DEAD_EVERY: Duration = Duration::from_secs(600);

/// One body on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub(super) id: EventId,
    pub(super) body: String,
    /// Failed attempts.
    pub(super) attempts: u32,
}

/// How far a consumer's dead letters were told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct DeadMark {
    /// When the newest of them died.
    newest: Timestamp,
    told_at: Timestamp,
}

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Book {
    version: u32,
    /// What happened before is not told.
    pub(super) since: Timestamp,
    /// Of what still holds: taken up.
    told: BTreeSet<EventId>,
    dead: BTreeMap<ConsumerName, DeadMark>,
    queue: VecDeque<Waiting>,
}

impl Book {
    fn new(since: Timestamp) -> Self {
        Self { version: VERSION, since, told: BTreeSet::new(), dead: BTreeMap::new(), queue: VecDeque::new() }
    }

    fn path(state: &Path) -> PathBuf {
        state.join(FILE)
    }

    /// Reads the file, or begins anew.
    pub(super) fn open(state: &Path, now: Timestamp) -> Self {
        let path = Self::path(state);
        let read = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<Self>(&bytes).map_err(|error| error.to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Self::new(now),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(book) if book.version == VERSION => book,
            Ok(Self { version, .. }) => Self::unreadable(&path, &format!("it has version {version}"), now),
            Err(error) => Self::unreadable(&path, &error, now),
        }
    }

    fn unreadable(path: &Path, error: &str, now: Timestamp) -> Self {
        tracing::error!(file = %path.display(), error,
            "what operational events were told can't be read: what still holds is told again, what waited is lost");
        Self::new(now)
    }

    /// Writes the file; durable when it returns.
    pub(super) fn write(&self, state: &Path) -> std::io::Result<()> {
        let path = Self::path(state);
        let new = path.with_extension("json.new");
        let mut file = std::fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        std::fs::File::open(state)?.sync_all()
    }

    /// Takes up what is new among everything that holds. `whole`: nothing was left out, so what is missing has ended.
    /// Returns whether anything changed.
    pub(super) fn take_up(&mut self, facts: &[Fact], whole: bool, epoch: Epoch) -> bool {
        let before = (self.told.len(), self.queue.len());
        let ids: BTreeSet<EventId> = facts.iter().map(|fact| fact.id(epoch)).collect();
        let mut changed = false;
        if whole {
            self.told.retain(|id| ids.contains(id));
            changed = before.0 != self.told.len();
        }
        for fact in facts {
            let id = fact.id(epoch);
            if !self.told.contains(&id) && self.queue.len() < QUEUE_MAX {
                self.queue.push_back(Waiting { id: id.clone(), body: fact.body(epoch), attempts: 0 });
                self.told.insert(id);
                changed = true;
            }
        }
        changed
    }

    /// Since when dead letters of a consumer are new; `None` while the last word about them is too recent.
    pub(super) fn dead_since(&self, consumer: &ConsumerName, now: Timestamp) -> Option<Timestamp> {
        match self.dead.get(consumer) {
            None => Some(Timestamp::default()),
            Some(mark) => (now.since(mark.told_at) >= DEAD_EVERY).then_some(mark.newest),
        }
    }

    /// A consumer's dead letters up to this one were taken up.
    pub(super) fn told_dead(&mut self, consumer: &ConsumerName, newest: Timestamp, now: Timestamp) {
        self.dead.insert(consumer.clone(), DeadMark { newest, told_at: now });
    }

    /// Whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < QUEUE_MAX
    }

    /// What is tried next.
    pub(super) fn next(&self) -> Option<&Waiting> {
        self.queue.front()
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> u64 {
        u64::try_from(self.queue.len()).unwrap_or(u64::MAX)
    }

    /// The next one was accepted.
    pub(super) fn delivered(&mut self) {
        self.queue.pop_front();
    }

    /// The next one failed; the others go first.
    pub(super) fn failed(&mut self) {
        if let Some(mut waiting) = self.queue.pop_front() {
            waiting.attempts = waiting.attempts.saturating_add(1);
            self.queue.push_back(waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::fact::{Kind, Subject};
    use super::*;
    use confirmd_core::{ChainId, ChainName};

    const EPOCH: Epoch = Epoch(1);

    fn halted(at: u64) -> Fact {
        Fact {
            kind: Kind::ChainHalted,
            subject: Subject::Chain(ChainName::new("base").unwrap(), ChainId::new("eip155:8453").unwrap()),
            at: Timestamp(at),
            mark: 0,
            text: "halted".to_owned(),
            remedy: "resume".to_owned(),
            details: serde_json::Value::Null,
        }
    }

    #[test]
    fn what_holds_is_told_once_and_again_only_when_it_begins_anew() {
        let mut book = Book::new(Timestamp(1));
        assert!(book.take_up(&[halted(5)], true, EPOCH));
        assert!(!book.take_up(&[halted(5)], true, EPOCH), "it is in the queue already");
        book.delivered();
        assert!(!book.take_up(&[halted(5)], true, EPOCH), "it was delivered");
        assert!(!book.take_up(&[], false, EPOCH), "not everything was looked at");
        assert!(!book.take_up(&[halted(5)], true, EPOCH));
        assert!(book.take_up(&[], true, EPOCH), "it has ended");
        assert!(book.take_up(&[halted(9)], true, EPOCH));
        assert_eq!((book.waiting(), book.next().map(|next| next.id.clone())), (1, Some(halted(9).id(EPOCH))));
    }

    #[test]
    fn what_waits_survives_a_restart_and_an_unreadable_file_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let mut book = Book::open(dir.path(), Timestamp(3));
        book.take_up(&[halted(5)], true, EPOCH);
        book.failed();
        book.write(dir.path()).unwrap();
        assert_eq!(Book::open(dir.path(), Timestamp(9)), book);
        assert_eq!(book.next().map(|next| next.attempts), Some(1));
        std::fs::write(dir.path().join(FILE), b"{").unwrap();
        assert_eq!(Book::open(dir.path(), Timestamp(9)), Book::new(Timestamp(9)));
    }

    #[test]
    fn dead_letters_are_told_at_most_every_ten_minutes_and_only_new_ones() {
        let (mut book, name) = (Book::new(Timestamp(1)), ConsumerName::new("ledger").unwrap());
        assert_eq!(book.dead_since(&name, Timestamp(10)), Some(Timestamp(0)));
        book.told_dead(&name, Timestamp(8), Timestamp(10));
        assert_eq!(book.dead_since(&name, Timestamp(11)), None);
        assert_eq!(book.dead_since(&name, Timestamp(10).plus(DEAD_EVERY)), Some(Timestamp(8)));
    }
}
