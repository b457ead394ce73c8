//! What happened to each deposit, and the reorgs that did it: written by the commit that did it, read by people.

use crate::heads::Head;
use crate::keys;
use crate::reader::Rows;
use crate::smalls::Smalls;
use confirmd_core::{
    AssetId, BlockRef, Change, ChangeSet, DepositKey, Event, EventKind, FinalityTag, Height, KeyDigest, LifeEvent, LifeStep,
    ListedAsset, REORG_BLOCKS_MAX, ReorgRecord, Rule, StoreError, Timestamp, Transfer,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One commit's part of the story.
pub(crate) struct LifePlan<'a> {
    /// As it was before.
    head: &'a Head,
    set: &'a ChangeSet,
    smalls: &'a Smalls,
    now: Timestamp,
    /// Keys whose reverted event is in this change set.
    reverted: HashSet<&'a DepositKey>,
    /// What is seen below its minimum.
    seen: HashMap<&'a DepositKey, &'a Transfer>,
}

impl<'a> LifePlan<'a> {
    pub(crate) fn new(head: &'a Head, set: &'a ChangeSet, smalls: &'a Smalls, now: Timestamp) -> Self {
        let reverted = events(set, EventKind::Reverted).map(|event| &event.transfer.key).collect();
        let seen = set.changes.iter().filter_map(|change| match change {
            Change::SmallSeen(small) => Some((&small.transfer.key, &small.transfer)),
            _ => None,
        });
        let seen = seen.collect();
        Self { head, set, smalls, now, reverted, seen }
    }

    /// Writes one record a step, and one for a reorg. `commit` grows with every commit of the store.
    pub(crate) fn write(&self, commit: u64, rows: &mut Rows) -> Result<(), StoreError> {
        let reorg = self.reorg();
        let mut told: HashMap<&DepositKey, u32> = HashMap::new();
        for (key, what) in self.steps(reorg.as_ref().map(|reorg| &reorg.ancestor)) {
            let index = told.entry(key).or_default();
            let place = keys::life_step(&KeyDigest::of(&self.set.chain, key), commit, *index);
            *index = index.saturating_add(1);
            rows.put(place, &LifeStep { at: self.now, what })?;
        }
        match reorg {
            Some(reorg) => rows.put(keys::reorg(self.head.number, commit), &reorg),
            None => Ok(()),
        }
    }

    /// In the order of a decision: undo, add, confirm, settle.
    fn steps(&self, ancestor: Option<&BlockRef>) -> Vec<(&'a DepositKey, LifeEvent)> {
        let mut steps = Vec::new();
        for event in events(self.set, EventKind::Reverted) {
            let (block, ancestor) = (event.transfer.block.clone(), ancestor.cloned());
            let what = LifeEvent::Reverted { event: event.id.clone(), sequence: event.sequence, block, ancestor };
            steps.push((&event.transfer.key, what));
        }
        for held in self.left() {
            steps.push((&held.transfer.key, LifeEvent::Left { block: held.transfer.block.clone(), ancestor: ancestor.cloned() }));
        }
        for small in &self.smalls.left {
            steps.push((&small.key, LifeEvent::Left { block: small.block.clone(), ancestor: ancestor.cloned() }));
        }
        for change in &self.set.changes {
            match change {
                Change::PendingPut(held) => steps.push((&held.transfer.key, LifeEvent::Seen(held.transfer.block.clone()))),
                Change::SmallSeen(small) if !self.smalls.knows(&small.transfer.key) => {
                    let (block, minimum) = (small.transfer.block.clone(), small.minimum);
                    steps.push((&small.transfer.key, LifeEvent::BelowMinimum { block, minimum }));
                }
                _ => {}
            }
        }
        let context = Context::of(self.head, self.set);
        for event in events(self.set, EventKind::Confirmed) {
            let what = LifeEvent::Confirmed {
                event: event.id.clone(),
                sequence: event.sequence,
                block: event.transfer.block.clone(),
                confirmations: event.confirmations,
                rule: context.rule(event),
            };
            steps.push((&event.transfer.key, what));
        }
        for change in &self.set.changes {
            if let Change::Archived(key, archived) = change
                && archived.sequence.stands()
            {
                steps.push((key, LifeEvent::Settled(context.floor)));
            }
        }
        steps
    }

    /// Those that were pending in a block that left.
    fn left(&self) -> impl Iterator<Item = &'a confirmd_core::Orphaned> {
        self.set.changes.iter().filter_map(|change| match change {
            Change::OrphanedPut(held) if !self.reverted.contains(&held.transfer.key) && !self.stands(&held.transfer) => {
                Some(held)
            }
            _ => None,
        })
    }

    /// A pending one that does not reach a raised minimum: what was told of its key is kept, its block stands.
    fn stands(&self, transfer: &Transfer) -> bool {
        self.seen.get(&transfer.key).is_some_and(|seen| seen.block == transfer.block)
    }

    fn reorg(&self) -> Option<ReorgRecord> {
        let trail = &self.head.small.trail;
        let (ancestor, accepted) = self.set.rollback(trail)?;
        let mut orphaned: Vec<BlockRef> = trail.above(ancestor.height).collect();
        let depth = number(orphaned.len());
        orphaned.truncate(REORG_BLOCKS_MAX);
        let (reverted, dropped) = (number(events(self.set, EventKind::Reverted).count()), number(self.left().count()));
        (depth > 0).then_some(ReorgRecord { at: self.now, ancestor, depth, orphaned, reverted, dropped, accepted })
    }
}

/// What decisions are measured by, as the change set leaves it.
struct Context<'a> {
    head: &'a Head,
    listed: HashMap<&'a AssetId, &'a ListedAsset>,
    marks: BTreeMap<FinalityTag, Height>,
    floor: Height,
}

impl<'a> Context<'a> {
    fn of(head: &'a Head, set: &'a ChangeSet) -> Self {
        let mut context = Self { head, listed: HashMap::new(), marks: head.small.marks.clone(), floor: head.small.trail.floor() };
        for change in &set.changes {
            match change {
                Change::AssetPut(listed) => drop(context.listed.insert(&listed.asset.id, listed)),
                Change::FloorRaised(floor) => context.floor = context.floor.max(*floor),
                Change::MarkRaised(tag, height) => {
                    let mark = context.marks.entry(*tag).or_default();
                    *mark = (*mark).max(*height);
                }
                _ => {}
            }
        }
        context
    }

    fn rule(&self, event: &Event) -> Option<Rule> {
        let requirement = match self.listed.get(&event.asset.id) {
            Some(listed) => listed.requirement,
            None => self.head.small.watch.asset(&event.asset.id)?.requirement,
        };
        Some(Rule {
            at_least: requirement.at_least.get(),
            maturity: event.transfer.maturity.map(std::num::NonZeroU32::get),
            tag: requirement.tag.map(|tag| (tag, self.marks.get(&tag).copied())),
        })
    }
}

fn events(set: &ChangeSet, kind: EventKind) -> impl Iterator<Item = &Event> {
    set.decisions().filter(move |event| event.kind() == kind)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
