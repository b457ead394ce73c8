//! The read model of deposits, kept in step with the state by the same commit.

use crate::chain::ChainNumber;
use crate::error::{Failed, from_json, int, text, to_json};
use crate::held::{Places, digest};
use crate::session::Session;
use crate::smalls::Smalls;
use confirmd_core::{
    Asset, AssetId, ChainState, Change, ChangeSet, DepositKey, DepositRecord, DepositState, Event, KeyDigest, Position, Sequence,
    StoreError, Timestamp, Transfer, WatchEntry,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// What one change set says about one key. A deposit may be found, confirmed and settled in one commit; the last word counts.
#[derive(Default)]
struct Story<'a> {
    transfer: Option<&'a Transfer>,
    state: Option<DepositState>,
    sequence: Option<Sequence>,
    event: Option<(&'a Event, Position)>,
}

/// What is known of the touched deposits before.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    deposits: HashMap<KeyDigest, DepositRecord>,
    references: HashMap<Vec<u8>, Option<Arc<str>>>,
    /// Below their minimum, in blocks that leave the best chain.
    left: Vec<DepositRecord>,
}

const STORED: &str = "select digest, record from deposit where digest = any($1)";
const LEFT: &str = "select record from deposit where chain = $1 and state = 6 and height > $2 order by height, digest";
const REFERENCES: &str = "select entry from watch where chain = $1 and address = any($2)";

impl Stored {
    pub(crate) async fn read(session: &Session, chain: ChainNumber, set: &ChangeSet) -> Result<Self, Failed> {
        let mut keys: BTreeSet<&DepositKey> = set.decisions().map(|event| &event.transfer.key).collect();
        let mut addresses = BTreeSet::new();
        for change in &set.changes {
            let transfer = match change {
                Change::PendingPut(held) => &held.transfer,
                Change::ReportedPut(held) => &held.transfer,
                Change::OrphanedPut(held) => &held.transfer,
                Change::SmallSeen(small) => &small.transfer,
                Change::Archived(key, _) | Change::PendingDropped(key) => {
                    keys.insert(key);
                    continue;
                }
                _ => continue,
            };
            keys.insert(&transfer.key);
            addresses.insert(transfer.payment.address.bytes());
        }
        let mut stored = Self::default();
        if !keys.is_empty() {
            let digests: Vec<_> = keys.into_iter().map(|key| KeyDigest::of(&set.chain, key).0.to_vec()).collect();
            for row in session.query(STORED, &[&digests]).await? {
                let record = from_json(row.get(1), "a deposit")?;
                stored.deposits.extend(digest(row.get(0)).map(|digest| (digest, record)));
            }
        }
        if !addresses.is_empty() {
            let addresses: Vec<_> = addresses.into_iter().collect();
            for row in session.query(REFERENCES, &[&chain, &addresses]).await? {
                let entry: WatchEntry = from_json(row.get(0), "a watched address")?;
                stored.references.insert(entry.address.bytes().to_vec(), entry.reference);
            }
        }
        if let Some(ancestor) = set.lowest_cut() {
            for row in session.query(LEFT, &[&set.chain.as_str(), &int(ancestor.0)]).await? {
                stored.left.push(from_json(row.get(0), "a deposit")?);
            }
        }
        Ok(stored)
    }

    /// One of the touched deposits.
    pub(crate) fn deposit(&self, digest: &KeyDigest) -> Option<&DepositRecord> {
        self.deposits.get(digest)
    }

    /// What the change set means for payments below their minimum.
    pub(crate) fn smalls(&mut self, set: &ChangeSet) -> Smalls {
        let left = std::mem::take(&mut self.left);
        Smalls::of(set, self, left)
    }
}

/// Deposits that a change set touches.
pub(crate) struct DepositPlan<'a> {
    stored: &'a Stored,
    small: &'a ChainState,
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
        stored: &'a Stored,
        small: &'a ChainState,
        set: &'a ChangeSet,
        smalls: &'a Smalls,
        places: &Places,
        now: Timestamp,
    ) -> Self {
        let mut stories: HashMap<&DepositKey, Story<'_>> = HashMap::new();
        for event in set.decisions() {
            let digest = KeyDigest::of(&set.chain, &event.transfer.key);
            let story = stories.entry(&event.transfer.key).or_default();
            story.event = places.position(&digest, event.sequence).map(|position| (event, position));
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
        Self { stored, small, set, smalls, now, stories, watched, listed }
    }

    /// The records as the change set leaves them.
    pub(crate) fn records(&self) -> Vec<(KeyDigest, DepositRecord)> {
        let record = |(key, story): (&&DepositKey, &Story<'_>)| {
            let digest = KeyDigest::of(&self.set.chain, key);
            Some((digest, self.row(key, story, self.stored.deposits.get(&digest))?))
        };
        let left = self.smalls.left.iter().filter(|row| !self.stories.contains_key(&row.key)).map(|row| {
            let state = if row.sequence == Sequence::NONE { DepositState::Orphaned } else { DepositState::Reverted };
            let record = DepositRecord { state, changed_at: self.now, ..row.clone() };
            (KeyDigest::of(&self.set.chain, &row.key), record)
        });
        self.stories.iter().filter_map(record).chain(left).collect()
    }

    /// The record as the change set leaves it; `None` if history has forgotten the deposit and nothing here tells what it was.
    fn row(&self, key: &DepositKey, story: &Story<'_>, stored: Option<&DepositRecord>) -> Option<DepositRecord> {
        let event = story.event.map(|(event, _)| event);
        let mut row = self.base(key, story, stored)?;
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
        Some(row)
    }

    fn base(&self, key: &DepositKey, story: &Story<'_>, stored: Option<&DepositRecord>) -> Option<DepositRecord> {
        let event = story.event.map(|(event, _)| event);
        let Some(transfer) = story.transfer.or(event.map(|event| &event.transfer)) else { return stored.cloned() };
        let payment = &transfer.payment;
        if let Some(stored) = stored.filter(|stored| stored.asset.id == payment.asset && stored.address == payment.address) {
            return Some(stored.clone());
        }
        let (asset, reference) = match event {
            Some(event) => (event.asset.clone(), event.reference.clone()),
            None => (self.asset(transfer), self.reference(transfer)),
        };
        Some(DepositRecord {
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
        })
    }

    fn asset(&self, transfer: &Transfer) -> Asset {
        let id = &transfer.payment.asset;
        let listed = self.listed.get(id).copied();
        let listed = listed.or_else(|| self.small.watch.asset(id).map(|listed| &listed.asset));
        // An unlisted asset never gets this far; if it does, people see its id and its base units.
        listed.cloned().unwrap_or_else(|| Asset { id: id.clone(), symbol: id.parts().1.to_owned(), decimals: 0 })
    }

    fn reference(&self, transfer: &Transfer) -> Option<Arc<str>> {
        let bytes = transfer.payment.address.bytes();
        match self.watched.get(bytes) {
            Some(entry) => entry.reference.clone(),
            None => self.stored.references.get(bytes).cloned().flatten(),
        }
    }
}

pub(crate) fn state_number(state: DepositState) -> i16 {
    match state {
        DepositState::Pending => 1,
        DepositState::Confirmed => 2,
        DepositState::Settled => 3,
        DepositState::Orphaned => 4,
        DepositState::Reverted => 5,
        DepositState::BelowMinimum => 6,
    }
}

const PUT: &str = "insert into deposit (digest, chain, address, reference, asset, symbol, tx_id, output_index, state, seen_at,
    changed_at, event, record, height)
select * from unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
    $9::smallint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[])
on conflict (digest) do update set chain = excluded.chain, address = excluded.address, reference = excluded.reference,
    asset = excluded.asset, symbol = excluded.symbol, tx_id = excluded.tx_id, output_index = excluded.output_index,
    state = excluded.state, seen_at = excluded.seen_at, changed_at = excluded.changed_at, event = excluded.event,
    record = excluded.record, height = excluded.height";

/// Writes records with the columns they are found by.
pub(crate) async fn write(session: &Session, records: &[(KeyDigest, DepositRecord)]) -> Result<(), Failed> {
    if records.is_empty() {
        return Ok(());
    }
    macro_rules! column {
        ($value:expr) => {
            records.iter().map($value).collect::<Vec<_>>()
        };
    }
    let digest = column!(|(digest, _)| digest.0.to_vec());
    let chain = column!(|(_, row)| row.chain.as_str());
    let address = column!(|(_, row)| text(row.address.as_str()));
    let reference = column!(|(_, row)| row.reference.as_deref().map(text));
    let asset = column!(|(_, row)| row.asset.id.as_str());
    let symbol = column!(|(_, row)| text(&row.asset.symbol));
    let tx_id = column!(|(_, row)| row.key.tx_id.as_str());
    let output_index = column!(|(_, row)| i64::from(row.key.output_index));
    let state = column!(|(_, row)| state_number(row.state));
    let seen_at = column!(|(_, row)| int(row.seen_at.0));
    let changed_at = column!(|(_, row)| int(row.changed_at.0));
    let event = column!(|(_, row)| row.event.map(|event| int(event.0)));
    let height = column!(|(_, row)| int(row.block.height.0));
    let record = records.iter().map(|(_, row)| to_json(row)).collect::<Result<Vec<_>, StoreError>>()?;
    session
        .execute(
            PUT,
            &[
                &digest,
                &chain,
                &address,
                &reference,
                &asset,
                &symbol,
                &tx_id,
                &output_index,
                &state,
                &seen_at,
                &changed_at,
                &event,
                &record,
                &height,
            ],
        )
        .await?;
    Ok(())
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
