//! What a commit means for the lives of deposits, and the reorg that it follows: worked out here, written down by each store.

use crate::{
    AssetId, BlockRef, ChainState, Change, ChangeSet, DepositKey, Event, EventKind, FinalityTag, Height, LifeEvent, LifeStep,
    ListedAsset, Orphaned, REORG_BLOCKS_MAX, ReorgRecord, Rule, Timestamp, Transfer,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One commit's part of the story.
#[derive(Debug)]
pub struct LifePlan<'a> {
    /// Trail, marks and listed assets as they were before; nothing else of it is looked at.
    before: &'a ChainState,
    set: &'a ChangeSet,
    smalls: SmallsBefore<'a>,
    now: Timestamp,
    reorg: Option<ReorgRecord>,
    /// Keys whose reverted event is in this change set.
    reverted: HashSet<&'a DepositKey>,
    /// What is seen below its minimum.
    seen: HashMap<&'a DepositKey, &'a Transfer>,
}

/// Payments below their minimum as the read model has them before the commit.
#[derive(Debug)]
pub struct SmallsBefore<'a> {
    /// Those in blocks above [`ChangeSet::lowest_cut`].
    pub left: Vec<(&'a DepositKey, &'a BlockRef)>,
    /// Those that the change set sees again where they are, and which do not leave.
    pub known: &'a HashSet<DepositKey>,
}

impl<'a> LifePlan<'a> {
    /// Of a change set that is taken at `now`.
    pub fn new(before: &'a ChainState, set: &'a ChangeSet, smalls: SmallsBefore<'a>, now: Timestamp) -> Self {
        let reverted = events(set, EventKind::Reverted).map(|event| &event.transfer.key).collect();
        let seen = set.changes.iter().filter_map(|change| match change {
            Change::SmallSeen(small) => Some((&small.transfer.key, &small.transfer)),
            _ => None,
        });
        let seen = seen.collect();
        let mut plan = Self { before, set, smalls, now, reorg: None, reverted, seen };
        plan.reorg = plan.followed();
        plan
    }

    /// The reorg to write down, if the set follows one.
    pub fn reorg(&self) -> Option<&ReorgRecord> {
        self.reorg.as_ref()
    }

    /// The steps to write down, each with its number among those of its deposit.
    pub fn steps(&self) -> Vec<(&'a DepositKey, u32, LifeStep)> {
        let mut told: HashMap<&DepositKey, u32> = HashMap::new();
        let mut numbered = Vec::new();
        for (key, what) in self.told() {
            let number = told.entry(key).or_default();
            numbered.push((key, *number, LifeStep { at: self.now, what }));
            *number = number.saturating_add(1);
        }
        numbered
    }

    /// In the order of a decision: undo, add, confirm, settle.
    fn told(&self) -> Vec<(&'a DepositKey, LifeEvent)> {
        let ancestor = self.reorg.as_ref().map(|reorg| &reorg.ancestor);
        let mut steps = Vec::new();
        for event in events(self.set, EventKind::Reverted) {
            let (block, ancestor) = (event.transfer.block.clone(), ancestor.cloned());
            let what = LifeEvent::Reverted { event: event.id.clone(), sequence: event.sequence, block, ancestor };
            steps.push((&event.transfer.key, what));
        }
        for held in self.left() {
            steps.push((&held.transfer.key, LifeEvent::Left { block: held.transfer.block.clone(), ancestor: ancestor.cloned() }));
        }
        for (key, block) in &self.smalls.left {
            steps.push((*key, LifeEvent::Left { block: (*block).clone(), ancestor: ancestor.cloned() }));
        }
        for change in &self.set.changes {
            match change {
                Change::PendingPut(held) => steps.push((&held.transfer.key, LifeEvent::Seen(held.transfer.block.clone()))),
                Change::SmallSeen(small) if !self.smalls.known.contains(&small.transfer.key) => {
                    let (block, minimum) = (small.transfer.block.clone(), small.minimum);
                    steps.push((&small.transfer.key, LifeEvent::BelowMinimum { block, minimum }));
                }
                _ => {}
            }
        }
        let context = Context::of(self.before, self.set);
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
    fn left(&self) -> impl Iterator<Item = &'a Orphaned> {
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

    fn followed(&self) -> Option<ReorgRecord> {
        let trail = &self.before.trail;
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
    before: &'a ChainState,
    listed: HashMap<&'a AssetId, &'a ListedAsset>,
    marks: BTreeMap<FinalityTag, Height>,
    floor: Height,
}

impl<'a> Context<'a> {
    fn of(before: &'a ChainState, set: &'a ChangeSet) -> Self {
        let mut context = Self { before, listed: HashMap::new(), marks: before.marks.clone(), floor: before.trail.floor() };
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
            None => self.before.watch.asset(&event.asset.id)?.requirement,
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
