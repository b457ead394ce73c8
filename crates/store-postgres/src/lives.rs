//! What happened to each deposit, and the reorgs that did it: written by the commit that did it, read by people.

use crate::chain::ChainNumber;
use crate::error::{Failed, int, to_json};
use crate::session::Session;
use crate::smalls::Smalls;
use confirmd_core::{
    AssetId, BlockRef, ChainState, Change, ChangeSet, DepositKey, Event, EventKind, FinalityTag, Height, KeyDigest, LifeEvent,
    LifeStep, ListedAsset, REORG_BLOCKS_MAX, ReorgRecord, Rule, StoreError, Timestamp, Transfer,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One commit's part of the story.
pub(crate) struct LifePlan<'a> {
    /// As it was before.
    small: &'a ChainState,
    set: &'a ChangeSet,
    smalls: &'a Smalls,
    now: Timestamp,
    /// Keys whose reverted event is in this change set.
    reverted: HashSet<&'a DepositKey>,
    /// What is seen below its minimum.
    seen: HashMap<&'a DepositKey, &'a Transfer>,
}

impl<'a> LifePlan<'a> {
    pub(crate) fn new(small: &'a ChainState, set: &'a ChangeSet, smalls: &'a Smalls, now: Timestamp) -> Self {
        let reverted = events(set, EventKind::Reverted).map(|event| &event.transfer.key).collect();
        let seen = set.changes.iter().filter_map(|change| match change {
            Change::SmallSeen(small) => Some((&small.transfer.key, &small.transfer)),
            _ => None,
        });
        let seen = seen.collect();
        Self { small, set, smalls, now, reverted, seen }
    }

    /// One row a step, and one for a reorg.
    pub(crate) fn rows(&self) -> Result<LifeRows, StoreError> {
        let reorg = self.reorg();
        let mut rows = LifeRows::default();
        let mut told: HashMap<&DepositKey, i32> = HashMap::new();
        for (key, what) in self.steps(reorg.as_ref().map(|reorg| &reorg.ancestor)) {
            let number = told.entry(key).or_default();
            rows.digests.push(KeyDigest::of(&self.set.chain, key).0.to_vec());
            rows.numbers.push(*number);
            rows.steps.push(to_json(&LifeStep { at: self.now, what })?);
            *number = number.saturating_add(1);
        }
        rows.reorg = reorg.map(|reorg| Ok::<_, StoreError>((int(reorg.at.0), to_json(&reorg)?))).transpose()?;
        Ok(rows)
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
        let context = Context::of(self.small, self.set);
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
        let trail = &self.small.trail;
        let (ancestor, accepted) = self.set.rollback(trail)?;
        let mut orphaned: Vec<BlockRef> = trail.above(ancestor.height).collect();
        let depth = number(orphaned.len());
        orphaned.truncate(REORG_BLOCKS_MAX);
        let (reverted, dropped) = (number(events(self.set, EventKind::Reverted).count()), number(self.left().count()));
        (depth > 0).then_some(ReorgRecord { at: self.now, ancestor, depth, orphaned, reverted, dropped, accepted })
    }
}

/// What is written down of it.
#[derive(Debug, Default)]
pub(crate) struct LifeRows {
    digests: Vec<Vec<u8>>,
    numbers: Vec<i32>,
    steps: Vec<String>,
    reorg: Option<(i64, String)>,
}

const LIFE: &str = "insert into life (digest, version, number, step)
select digest, $1, number, step from unnest($2::bytea[], $3::integer[], $4::text[]) as i (digest, number, step)";
pub(crate) const REORG: &str = "insert into reorg (chain, version, at, record) values ($1, $2, $3, $4)";

impl LifeRows {
    /// `version` is the state's after the commit.
    pub(crate) async fn write(&self, session: &Session, chain: ChainNumber, version: i64) -> Result<(), Failed> {
        if !self.steps.is_empty() {
            session.execute(LIFE, &[&version, &self.digests, &self.numbers, &self.steps]).await?;
        }
        if let Some((at, record)) = &self.reorg {
            session.execute(REORG, &[&chain, &version, at, record]).await?;
        }
        Ok(())
    }
}

/// What decisions are measured by, as the change set leaves it.
struct Context<'a> {
    small: &'a ChainState,
    listed: HashMap<&'a AssetId, &'a ListedAsset>,
    marks: BTreeMap<FinalityTag, Height>,
    floor: Height,
}

impl<'a> Context<'a> {
    fn of(small: &'a ChainState, set: &'a ChangeSet) -> Self {
        let mut context = Self { small, listed: HashMap::new(), marks: small.marks.clone(), floor: small.trail.floor() };
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
            None => self.small.watch.asset(&event.asset.id)?.requirement,
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
