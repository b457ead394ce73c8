//! The read model of deposits, kept in step with the state by the same commit.

use crate::deposit_index::index_keys;
use crate::heads::Head;
use crate::keys;
use crate::plan::EventPlan;
use crate::reader::{Reader, Rows};
use crate::rows::DepositRow;
use crate::smalls::Smalls;
use crate::watch::WatchLists;
use confirmd_core::{
    Asset, AssetId, Change, ChangeSet, DepositKey, DepositState, Event, KeyDigest, Position, Sequence, StoreError, Timestamp,
    Transfer, WatchEntry,
};
use std::collections::HashMap;
use std::sync::Arc;

/// What one change set says about one key. A deposit may be found, confirmed and settled in one commit; the last word counts.
#[derive(Default)]
struct Story<'a> {
    transfer: Option<&'a Transfer>,
    state: Option<DepositState>,
    sequence: Option<Sequence>,
    event: Option<(&'a Event, Position)>,
}

/// Deposits that a change set touches.
pub(crate) struct DepositPlan<'a> {
    reader: &'a Reader,
    lists: &'a WatchLists,
    head: &'a Head,
    set: &'a ChangeSet,
    smalls: &'a Smalls,
    now: Timestamp,
    stories: HashMap<&'a DepositKey, Story<'a>>,
    /// Addresses and assets that the change set itself puts.
    watched: HashMap<&'a [u8], &'a WatchEntry>,
    listed: HashMap<&'a AssetId, &'a Asset>,
}

impl<'a> DepositPlan<'a> {
    pub(crate) fn new(
        reader: &'a Reader,
        lists: &'a WatchLists,
        head: &'a Head,
        set: &'a ChangeSet,
        smalls: &'a Smalls,
        events: &EventPlan,
        now: Timestamp,
    ) -> Self {
        let mut stories: HashMap<&DepositKey, Story<'_>> = HashMap::new();
        for event in set.decisions() {
            let digest = KeyDigest::of(&set.chain, &event.transfer.key);
            let story = stories.entry(&event.transfer.key).or_default();
            story.event = events.position(&digest, event.sequence).map(|position| (event, position));
        }
        let (mut watched, mut listed) = (HashMap::new(), HashMap::new());
        for change in &set.changes {
            match change {
                Change::WatchPut(entry) => drop(watched.insert(entry.address.bytes(), entry)),
                Change::AssetPut(asset) => drop(listed.insert(&asset.asset.id, &asset.asset)),
                Change::SmallSeen(small) if smalls.knows(&small.transfer.key) => {}
                _ => tell(change, &mut stories),
            }
        }
        Self { reader, lists, head, set, smalls, now, stories, watched, listed }
    }

    pub(crate) fn write(&self, rows: &mut Rows) -> Result<(), StoreError> {
        for (key, story) in &self.stories {
            let digest = KeyDigest::of(&self.set.chain, key);
            let stored: Option<DepositRow> = self.reader.get(&keys::deposit(&digest))?;
            let Some(row) = self.row(key, story, stored.as_ref())? else { continue };
            put(rows, &digest, stored.as_ref(), &row)?;
        }
        for small in self.smalls.left.iter().filter(|small| !self.stories.contains_key(&small.key)) {
            let state = if small.sequence == Sequence::NONE { DepositState::Orphaned } else { DepositState::Reverted };
            let row = DepositRow { state, changed_at: self.now, ..small.clone() };
            put(rows, &KeyDigest::of(&self.set.chain, &small.key), Some(small), &row)?;
        }
        Ok(())
    }

    /// The record as the change set leaves it; `None` if history has forgotten the deposit and nothing here tells what it was.
    fn row(&self, key: &DepositKey, story: &Story<'_>, stored: Option<&DepositRow>) -> Result<Option<DepositRow>, StoreError> {
        let event = story.event.map(|(event, _)| event);
        let Some(mut row) = self.base(key, story, stored)? else { return Ok(None) };
        if let Some(transfer) = story.transfer.or(event.map(|event| &event.transfer)) {
            row.block = transfer.block.clone();
            row.address = transfer.payment.address.clone();
            row.amount = transfer.payment.amount;
        }
        if let Some((event, position)) = story.event {
            (row.asset, row.reference) = (event.asset.clone(), event.reference.clone());
            row.event = Some(position);
        }
        row.sequence = story.sequence.or(event.map(|event| event.sequence)).unwrap_or(row.sequence);
        row.state = story.state.unwrap_or(match event {
            Some(event) if event.sequence.stands() => DepositState::Confirmed,
            Some(_) => DepositState::Reverted,
            None => row.state,
        });
        row.changed_at = self.now;
        Ok(Some(row))
    }

    fn base(&self, key: &DepositKey, story: &Story<'_>, stored: Option<&DepositRow>) -> Result<Option<DepositRow>, StoreError> {
        let event = story.event.map(|(event, _)| event);
        let Some(transfer) = story.transfer.or(event.map(|event| &event.transfer)) else { return Ok(stored.cloned()) };
        let payment = &transfer.payment;
        if let Some(stored) = stored.filter(|stored| stored.asset.id == payment.asset && stored.address == payment.address) {
            return Ok(Some(stored.clone()));
        }
        let (asset, reference) = match event {
            Some(event) => (event.asset.clone(), event.reference.clone()),
            None => (self.asset(transfer), self.reference(transfer)?),
        };
        Ok(Some(DepositRow {
            chain: self.set.chain.clone(),
            key: key.clone(),
            address: payment.address.clone(),
            reference,
            asset,
            amount: payment.amount,
            block: transfer.block.clone(),
            state: DepositState::Pending,
            sequence: Sequence::NONE,
            event: stored.and_then(|stored| stored.event),
            seen_at: stored.map_or(self.now, |stored| stored.seen_at),
            changed_at: self.now,
        }))
    }

    fn asset(&self, transfer: &Transfer) -> Asset {
        let id = &transfer.payment.asset;
        let listed = self.listed.get(id).copied();
        let listed = listed.or_else(|| self.head.small.watch.asset(id).map(|listed| &listed.asset));
        // An unlisted asset never gets this far; if it does, people see its id and its base units.
        listed.cloned().unwrap_or_else(|| Asset { id: id.clone(), symbol: id.parts().1.to_owned(), decimals: 0 })
    }

    fn reference(&self, transfer: &Transfer) -> Result<Option<Arc<str>>, StoreError> {
        let address = &transfer.payment.address;
        if let Some(entry) = self.watched.get(address.bytes()) {
            return Ok(entry.reference.clone());
        }
        let entry = self.lists.get(self.head.number, address.bytes())?;
        Ok(entry.and_then(|entry| entry.reference))
    }
}

/// Writes a record and the entries it is found by, in place of the stored ones.
fn put(rows: &mut Rows, digest: &KeyDigest, stored: Option<&DepositRow>, row: &DepositRow) -> Result<(), StoreError> {
    let old = stored.map(|row| index_keys(digest, row)).unwrap_or_default();
    let new = index_keys(digest, row);
    old.iter().filter(|entry| !new.contains(entry)).for_each(|entry| rows.remove(entry.clone()));
    for entry in new.into_iter().filter(|entry| !old.contains(entry)) {
        rows.put(entry, &())?;
    }
    rows.put(keys::deposit(digest), row)
}

/// Adds one change to its key's story.
fn tell<'a>(change: &'a Change, stories: &mut HashMap<&'a DepositKey, Story<'a>>) {
    let (key, transfer, state, sequence) = match change {
        Change::PendingPut(held) => (&held.transfer.key, Some(&held.transfer), DepositState::Pending, Some(held.last_sequence)),
        Change::ReportedPut(held) => (&held.transfer.key, Some(&held.transfer), DepositState::Confirmed, Some(held.sequence)),
        Change::OrphanedPut(held) => {
            let told = stories.get(&held.transfer.key).and_then(|story| story.event);
            let reverted = told.is_some_and(|(event, _)| event.sequence == held.last_sequence);
            let state = if reverted { DepositState::Reverted } else { DepositState::Orphaned };
            (&held.transfer.key, Some(&held.transfer), state, Some(held.last_sequence))
        }
        Change::SmallSeen(small) => {
            (&small.transfer.key, Some(&small.transfer), DepositState::BelowMinimum, Some(small.last_sequence))
        }
        Change::Archived(key, archived) if archived.sequence.stands() => {
            (key, None, DepositState::Settled, Some(archived.sequence))
        }
        Change::Archived(key, archived) => {
            // An orphaned one that is forgotten stays what people knew it as.
            stories.entry(key).or_default().sequence = Some(archived.sequence);
            return;
        }
        Change::PendingDropped(key) => {
            // Confirmed or orphaned; if nothing else is said, its block is gone.
            let story = stories.entry(key).or_default();
            if story.state.is_none() && story.event.is_none() {
                story.state = Some(DepositState::Orphaned);
            }
            return;
        }
        _ => return,
    };
    let story = stories.entry(key).or_default();
    story.transfer = transfer.or(story.transfer);
    story.state = Some(state);
    story.sequence = sequence.or(story.sequence);
}
