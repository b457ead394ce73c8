//! Chains in the writer's memory: what a commit is checked against. Held deposits and addresses are not here.

use crate::damage::{REMEDY, refused_by};
use crate::keys::{self, ChainNumber};
use crate::reader::{Reader, Rows};
use crate::record::Kind;
use crate::rows::HeadRow;
use confirmd_core::{
    BlockHash, BlockRef, ChainId, ChainState, Change, ChangeSet, Halt, Height, Rescan, StateVersion, StoreError, Trail,
};
use std::collections::{BTreeMap, BTreeSet};

/// One chain: its number and the small parts of its state (trail, floor, marks, halt, listed assets, rescans).
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) number: ChainNumber,
    pub(crate) small: ChainState,
}

/// Every chain of the store.
#[derive(Debug, Default)]
pub(crate) struct Heads(BTreeMap<ChainId, Head>);

impl Heads {
    /// Reads every chain's small parts.
    pub(crate) fn load(reader: &Reader) -> Result<Self, StoreError> {
        let mut heads = BTreeMap::new();
        for row in reader.scan::<HeadRow>(&keys::all(Kind::Head)) {
            let (key, row) = row?;
            let number = keys::number_of(&key).unwrap_or_default();
            let chain = row.chain.clone();
            heads.insert(chain, Head { number, small: load_small(reader, number, row)? });
        }
        Ok(Self(heads))
    }

    pub(crate) fn get(&self, chain: &ChainId) -> Option<&Head> {
        self.0.get(chain)
    }

    /// The chains that have taken a change set.
    pub(crate) fn ids(&self) -> Vec<ChainId> {
        self.0.iter().filter(|(_, head)| head.small.version > StateVersion(0)).map(|(chain, _)| chain.clone()).collect()
    }

    /// The chain's version; of a chain without a state, the first.
    pub(crate) fn version(&self, chain: &ChainId) -> StateVersion {
        self.get(chain).map(|head| head.small.version).unwrap_or_default()
    }

    /// The chain's head, made with the next number if it is new.
    pub(crate) fn entry(&mut self, chain: &ChainId, next: &mut ChainNumber) -> &mut Head {
        self.0.entry(chain.clone()).or_insert_with(|| {
            let number = *next;
            *next = next.saturating_add(1);
            Head { number, small: ChainState::default() }
        })
    }
}

impl Head {
    /// Takes the small parts of a change set over and writes what changed in them.
    pub(crate) fn take(&mut self, set: &ChangeSet, rows: &mut Rows) -> Result<(), StoreError> {
        let touched = self.touched(set);
        let mut small = ChangeSet::new(set.chain.clone(), set.base);
        small.changes = set.changes.iter().filter(|change| is_small(change)).cloned().collect();
        self.small.apply(&small);
        for height in touched {
            let key = keys::trail(self.number, height);
            match self.small.trail.hash_at(height) {
                Some(hash) => rows.put(key, hash)?,
                None => rows.remove(key),
            }
        }
        for change in &small.changes {
            match change {
                Change::AssetPut(asset) => rows.put(keys::asset(self.number, &asset.asset.id), asset)?,
                Change::AssetForgotten(id) => rows.remove(keys::asset(self.number, id)),
                Change::RescanPut(rescan) => rows.put(keys::rescan(self.number, rescan.id), rescan)?,
                _ => {}
            }
        }
        rows.put(keys::head(self.number), &self.row(&set.chain)?)
    }

    /// Heights of the trail that the change set may have changed.
    fn touched(&self, set: &ChangeSet) -> BTreeSet<Height> {
        let mut touched = BTreeSet::new();
        for change in &set.changes {
            match change {
                Change::TrailCut(above) => touched.extend(self.small.trail.above(*above).map(|block| block.height)),
                Change::Reanchored(block) => {
                    touched.extend(self.small.trail.above(block.height).map(|block| block.height));
                    touched.insert(block.height);
                }
                Change::TrailPushed(block) | Change::TrailJumped(block) => drop(touched.insert(block.height)),
                Change::TrailForgot(height) => drop(touched.insert(*height)),
                _ => {}
            }
        }
        touched
    }

    fn row(&self, chain: &ChainId) -> Result<HeadRow, StoreError> {
        let halt = self.small.halt.as_ref().map(serde_json::to_string).transpose();
        Ok(HeadRow {
            chain: chain.clone(),
            version: self.small.version.0,
            name: self.small.name.clone(),
            floor: self.small.trail.floor(),
            linked_from: self.small.trail.linked_from(),
            marks: self.small.marks.iter().map(|(tag, height)| (*tag, *height)).collect(),
            halt: halt.map_err(|error| refused_by("writing down a halt failed before anything was written", error))?,
        })
    }
}

fn is_small(change: &Change) -> bool {
    match change {
        Change::Named(_)
        | Change::TrailCut(_)
        | Change::TrailPushed(_)
        | Change::TrailJumped(_)
        | Change::TrailForgot(_)
        | Change::FloorRaised(_)
        | Change::Reanchored(_)
        | Change::MarkRaised(..)
        | Change::AssetPut(_)
        | Change::AssetForgotten(_)
        | Change::RescanPut(_)
        | Change::Halted(_)
        | Change::Resumed => true,
        Change::PendingPut(_)
        | Change::SmallSeen(_)
        | Change::PendingDropped(_)
        | Change::ReportedPut(_)
        | Change::ReportedDropped(_)
        | Change::OrphanedPut(_)
        | Change::OrphanedDropped(_)
        | Change::Archived(..)
        | Change::WatchPut(_)
        | Change::WatchForgotten(_) => false,
    }
}

fn load_small(reader: &Reader, number: ChainNumber, row: HeadRow) -> Result<ChainState, StoreError> {
    let mut refs = Vec::new();
    for entry in reader.scan::<BlockHash>(&keys::of_chain(Kind::Trail, number)) {
        let (key, hash) = entry?;
        refs.push(BlockRef { height: keys::height_of(&key).unwrap_or_default(), hash });
    }
    let halt = row.halt.as_deref().map(serde_json::from_str::<Halt>).transpose();
    let halt = halt.map_err(|error| refused_by(format!("the halt of {} can't be read; {REMEDY}", row.chain), error))?;
    let mut small = ChainState {
        version: StateVersion(row.version),
        name: row.name,
        trail: Trail::restore(refs, row.floor, row.linked_from),
        marks: row.marks.into_iter().collect(),
        halt,
        ..ChainState::default()
    };
    for asset in reader.scan(&keys::of_chain(Kind::Asset, number)) {
        small.watch.put_asset(asset?.1);
    }
    for rescan in reader.scan::<Rescan>(&keys::of_chain(Kind::Rescan, number)) {
        let rescan = rescan?.1;
        small.rescans.insert(rescan.id, rescan);
    }
    Ok(small)
}
