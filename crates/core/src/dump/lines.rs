//! The head and the end of a dump, and how its lines are written.

use super::order::Order;
use super::record::DumpRecord;
use crate::{StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The format that is written; earlier ones would be read, too.
pub const DUMP_FORMAT: u32 = 1;

/// What a dump says of itself. Nothing in it decides anything but whether it is a copy of a state that went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpHead {
    /// Of the lines.
    pub format: u32,
    /// The kind of store it is of.
    pub backend: String,
    /// Whether an instance ran on the store, which may have gone on from there.
    pub running: bool,
    /// When it was made.
    #[serde(with = "rfc3339")]
    pub exported_at: Timestamp,
    /// The version of confirmd that made it.
    pub written_by: String,
}

/// What a dump holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpSummary {
    /// Its head.
    pub head: DumpHead,
    /// How many records of each kind.
    pub records: BTreeMap<String, u64>,
    /// The checksum over their lines, as hex digits.
    pub sha256: String,
}

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeadLine {
    pub(super) confirmd_state: DumpHead,
    /// Over the head.
    pub(super) sha256: String,
}

/// The last line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndLine {
    pub(super) end: End,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    pub(super) records: BTreeMap<String, u64>,
    pub(super) sha256: String,
}

impl HeadLine {
    pub(super) fn of(head: &DumpHead) -> Self {
        let text = serde_json::to_vec(head).expect("invariant: text and numbers only");
        Self { confirmd_state: head.clone(), sha256: const_hex::encode(Sha256::digest(text)) }
    }

    pub(super) fn line(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("invariant: text and numbers only")
    }
}

/// What is counted and summed up over the records' lines, by who writes and by who reads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    order: Order,
    hasher: Sha256,
    records: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// One record and its line, without the line's end. Names what is wrong with it.
    pub(super) fn take(&mut self, record: &DumpRecord, line: &[u8]) -> Result<(), String> {
        self.order.take(record)?;
        self.hasher.update(line);
        self.hasher.update(b"\n");
        let count = self.records.entry(record.kind()).or_default();
        *count = count.saturating_add(1);
        Ok(())
    }

    pub(super) fn end(self) -> End {
        let records = self.records.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
        End { records, sha256: const_hex::encode(self.hasher.finalize()) }
    }
}

/// Writes a dump.
#[derive(Debug)]
pub struct DumpWriter {
    head: DumpHead,
    tally: Tally,
}

impl DumpWriter {
    /// Writes the head.
    pub fn begin(head: DumpHead, into: &mut Vec<u8>) -> Self {
        into.extend_from_slice(&HeadLine::of(&head).line());
        into.push(b'\n');
        Self { head, tally: Tally::default() }
    }

    /// Writes the next record. `Refused` if it can't come here: then the store is not what it should be.
    pub fn push(&mut self, record: &DumpRecord, into: &mut Vec<u8>) -> Result<(), StoreError> {
        let refused = |problem: String| {
            let context =
                format!("the state can't be written out, it contradicts itself: {problem}; `confirmd state verify` looks closer");
            StoreError::Refused { context, source: None }
        };
        let line = serde_json::to_vec(record).map_err(|error| refused(error.to_string()))?;
        self.tally.take(record, &line).map_err(refused)?;
        into.extend_from_slice(&line);
        into.push(b'\n');
        Ok(())
    }

    /// Writes the end.
    pub fn end(self, into: &mut Vec<u8>) -> DumpSummary {
        let end = EndLine { end: self.tally.end() };
        into.extend_from_slice(&serde_json::to_vec(&end).expect("invariant: text and numbers only"));
        into.push(b'\n');
        let End { records, sha256 } = end.end;
        DumpSummary { head: self.head, records, sha256 }
    }
}

mod rfc3339 {
    use crate::Timestamp;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&at.to_rfc3339())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(from)?;
        Timestamp::from_rfc3339(&text).ok_or_else(|| D::Error::custom("not a time"))
    }
}
