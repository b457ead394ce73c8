//! The one order of a dump's records, and what they must refer to.

use super::DumpRecord;
use crate::{ChainId, KeyDigest, Position};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// What came so far.
#[derive(Debug, Default)]
pub(super) struct Order {
    last: Option<(u8, Vec<u8>)>,
    chain: Option<ChainId>,
    consumer: Option<(String, Position)>,
    chains: BTreeSet<ChainId>,
    next_position: Position,
}

/// Where kinds stand; what is of a chain stands between it and the next chain, and so with consumers.
const STORE: u8 = 0;
const CHAIN: u8 = 1;
const REORG: u8 = 9;
const CONSUMER: u8 = 12;
const ATTEMPT: u8 = 15;
const STEP: u8 = 17;

impl Order {
    /// The next record; what is wrong with it, if anything is.
    pub(super) fn take(&mut self, record: &DumpRecord) -> Result<(), String> {
        let (rank, key) = place(record);
        let kind = record.kind();
        if let Some((last, last_key)) = &self.last {
            let again = |group: u8, end: u8| rank == group && (group..=end).contains(last);
            let grows = match rank.cmp(last) {
                // The next one of a group is measured by the group's own name, below.
                _ if again(CHAIN, REORG) || again(CONSUMER, ATTEMPT) => true,
                Ordering::Less => false,
                Ordering::Equal if rank == REORG => true,
                Ordering::Equal if rank == STEP => key >= *last_key,
                Ordering::Equal => key > *last_key,
                Ordering::Greater => true,
            };
            if !grows {
                return Err(format!("the record ({kind}) is not at its place in the order of a dump"));
            }
        } else if rank != STORE {
            return Err(format!("it begins with a record ({kind}) that is not the store's"));
        }
        self.refers(record)?;
        self.last = Some((rank, key));
        Ok(())
    }

    fn refers(&mut self, record: &DumpRecord) -> Result<(), String> {
        let misplaced = || Err(format!("the record ({}) is not at its place in the order of a dump", record.kind()));
        let decided = |position: Position| match position < self.next_position {
            true => Ok(()),
            false => Err(format!("it names the place {position}, where no event was decided yet")),
        };
        match record {
            DumpRecord::Store(store) => self.next_position = store.next_position,
            DumpRecord::Chain(chain) => {
                if self.chain.as_ref().is_some_and(|last| *last >= chain.id) {
                    return misplaced();
                }
                self.chain = Some(chain.id.clone());
                self.chains.insert(chain.id.clone());
            }
            DumpRecord::Consumer(consumer) => {
                if self.consumer.as_ref().is_some_and(|(last, _)| *last.as_str() >= *consumer.name.as_str()) {
                    return misplaced();
                }
                if consumer.cursor > self.next_position {
                    return Err(format!("the consumer {} has read events that were not decided yet", consumer.name));
                }
                self.consumer = Some((consumer.name.to_string(), consumer.cursor));
            }
            DumpRecord::Archived(archived) => {
                if !self.chains.contains(&archived.chain) {
                    return Err(format!("it names the chain {}, which has no record", archived.chain));
                }
                archived.event.map_or(Ok(()), decided)?;
            }
            DumpRecord::Event(event) => decided(event.position)?,
            DumpRecord::Open(open) => match &self.consumer {
                Some((_, cursor)) if open.position < *cursor => {}
                _ => return Err(format!("the undelivered event at {} has no consumer that has read it", open.position)),
            },
            DumpRecord::Skipped(skipped) if self.consumer.is_some() => decided(skipped.position)?,
            DumpRecord::Attempt(attempt) if self.consumer.is_some() => decided(attempt.position)?,
            DumpRecord::Skipped(_) | DumpRecord::Attempt(_) => return misplaced(),
            DumpRecord::Pending(held) => held.event.map_or(Ok(()), decided)?,
            DumpRecord::Reported(held) => held.event.map_or(Ok(()), decided)?,
            DumpRecord::Orphaned(held) => held.event.map_or(Ok(()), decided)?,
            DumpRecord::Block(_) | DumpRecord::Asset(_) | DumpRecord::Watched(_) => {}
            DumpRecord::Rescan(_) | DumpRecord::Reorg(_) => {}
            DumpRecord::Deposit(_) | DumpRecord::Step(_) | DumpRecord::Cursor(_) => {}
        }
        if (CHAIN..=REORG).contains(&place(record).0) && self.chain.is_none() { misplaced() } else { Ok(()) }
    }
}

/// The kind's place, and the record's within it.
fn place(record: &DumpRecord) -> (u8, Vec<u8>) {
    let number = |number: u64| number.to_be_bytes().to_vec();
    let digest = |digest: &KeyDigest| digest.0.to_vec();
    match record {
        DumpRecord::Store(_) => (STORE, Vec::new()),
        DumpRecord::Chain(_) => (CHAIN, Vec::new()),
        DumpRecord::Block(block) => (2, number(block.height.0)),
        DumpRecord::Asset(listed) => (3, listed.asset.id.as_str().as_bytes().to_vec()),
        DumpRecord::Watched(entry) => (4, entry.address.bytes().to_vec()),
        DumpRecord::Pending(held) => (5, digest(&held.digest)),
        DumpRecord::Reported(held) => (6, digest(&held.digest)),
        DumpRecord::Orphaned(held) => (7, digest(&held.digest)),
        DumpRecord::Rescan(rescan) => (8, number(rescan.id.0)),
        DumpRecord::Reorg(_) => (REORG, Vec::new()),
        DumpRecord::Archived(archived) => (10, digest(&archived.digest)),
        DumpRecord::Event(event) => (11, number(event.position.0)),
        DumpRecord::Consumer(_) => (CONSUMER, Vec::new()),
        DumpRecord::Open(open) => (13, number(open.position.0)),
        DumpRecord::Skipped(skipped) => (14, number(skipped.position.0)),
        DumpRecord::Attempt(attempt) => {
            (ATTEMPT, [&attempt.position.0.to_be_bytes()[..], &attempt.ever.to_be_bytes()[..]].concat())
        }
        DumpRecord::Deposit(deposit) => (16, digest(&KeyDigest::of(&deposit.chain, &deposit.key))),
        DumpRecord::Step(step) => (STEP, digest(&step.digest)),
        DumpRecord::Cursor(cursor) => (18, cursor.name.as_str().as_bytes().to_vec()),
    }
}
