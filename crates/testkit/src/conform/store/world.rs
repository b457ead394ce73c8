//! Random but sound histories: change sets as an engine could make them, and what they add up to by definition.

use crate::conform::sample;
use confirmd_core::{
    Amount, Archived, ChainId, ChainName, ChainState, Change, ChangeSet, CommitReceipt, DepositKey, Event, EventId, FinalityTag,
    Halt, HaltReason, Height, Notice, NoticeName, Orphaned, Pending, Position, Reported, Sequence, Small, StateVersion,
    Timestamp, Transfer, WatchState,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Chains in the world.
const CHAINS: u64 = 2;

/// Numbers that follow from one number.
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u32) -> Self {
        Self(u64::from(seed))
    }

    /// A number below `end`; zero if there is none.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(end).unwrap_or(0)
    }

    /// One of these, if there are any.
    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(usize::try_from(self.below(u64::try_from(of.len()).unwrap_or(0))).unwrap_or(0))
    }
}

/// What was committed so far.
#[derive(Clone, Default)]
pub(super) struct World {
    /// The fold of every change set.
    pub(super) states: BTreeMap<ChainId, ChainState>,
    pub(super) archived: BTreeMap<(ChainId, DepositKey), Archived>,
    /// In outbox order.
    pub(super) events: Vec<(Position, Event, Arc<[u8]>)>,
    keys: u64,
    /// Whether histories hold informative events, too.
    pub(super) notices: bool,
}

impl World {
    /// A change set that follows from what is there and a number.
    pub(super) fn change_set(&mut self, dice: &mut Dice) -> ChangeSet {
        let chain = sample::chain(dice.below(CHAINS));
        let mut scratch = self.states.get(&chain).cloned().unwrap_or_default();
        let mut set = ChangeSet::new(chain, scratch.version);
        for _ in 0..=dice.below(4) {
            let mut part = ChangeSet::new(set.chain.clone(), scratch.version);
            self.step(dice, &scratch, &mut part);
            scratch.apply(&part);
            set.changes.extend(part.changes);
            set.events.extend(part.events);
        }
        set
    }

    /// A change set that finds and confirms `count` new deposits at a height: as many events.
    pub(super) fn confirm_new(&mut self, chain: &ChainId, count: u64, height: u64) -> ChangeSet {
        let mut set = ChangeSet::new(chain.clone(), self.version(chain));
        for _ in 0..count {
            let transfer = sample::transfer(chain, self.fresh_key(), sample::block(height, 0));
            set.changes.push(Change::ReportedPut(Reported { transfer: transfer.clone(), sequence: Sequence(1) }));
            set.push_event(sample::event(chain, transfer, Sequence(1)));
        }
        set
    }

    /// A change set that adds, replaces, removes and forgets some addresses of a chain.
    pub(super) fn watch_some(&self, chain: &ChainId, number: u64) -> ChangeSet {
        let mut set = ChangeSet::new(chain.clone(), self.version(chain));
        let added = (number..number + 4).map(|n| Change::WatchPut(sample::watch(n, WatchState::Watching)));
        set.changes.extend(added);
        set.changes.push(Change::WatchPut(sample::watch(number / 2, WatchState::Removed)));
        set.changes.push(Change::WatchForgotten(sample::address(number / 3).bytes().into()));
        set
    }

    /// A change set that takes every reported deposit of a chain back: as many events.
    pub(super) fn revert_all(&self, chain: &ChainId) -> ChangeSet {
        let mut set = ChangeSet::new(chain.clone(), self.version(chain));
        for reported in self.states.get(chain).into_iter().flat_map(|state| state.reported.iter()) {
            revert(chain, reported, &mut set);
        }
        set
    }

    /// A change set after which nothing of a chain is held any more: every key is archived.
    pub(super) fn archive_all(&self, chain: &ChainId) -> ChangeSet {
        let mut set = ChangeSet::new(chain.clone(), self.version(chain));
        let Some(state) = self.states.get(chain) else { return set };
        state.reported.iter().for_each(|reported| settle(reported, &mut set));
        state.orphaned.iter().for_each(|orphaned| forget(orphaned, &mut set));
        state.pending.iter().for_each(|pending| set.changes.push(Change::PendingDropped(pending.transfer.key.clone())));
        set
    }

    /// Takes a committed change set over.
    pub(super) fn take(&mut self, set: &ChangeSet, receipt: &CommitReceipt) {
        self.states.entry(set.chain.clone()).or_default().apply(set);
        for change in &set.changes {
            if let Change::Archived(key, archived) = change {
                self.archived.insert((set.chain.clone(), key.clone()), *archived);
            }
        }
        let mut position = receipt.first_event.unwrap_or_default();
        for (event, body) in &set.events {
            self.events.push((position, event.clone(), Arc::clone(body)));
            position = position.next();
        }
    }

    /// What a chain's next change set is made from.
    pub(super) fn version(&self, chain: &ChainId) -> StateVersion {
        self.states.get(chain).map(|state| state.version).unwrap_or_default()
    }

    /// Where the events are, in outbox order.
    pub(super) fn positions(&self) -> Vec<Position> {
        self.events.iter().map(|(position, ..)| *position).collect()
    }

    fn fresh_key(&mut self) -> u64 {
        self.keys += 1;
        self.keys
    }

    /// An informative event, where the history has any; it never comes twice under one id.
    fn notice(&mut self, transfer: &Transfer, sequence: Sequence, notice: Notice, set: &mut ChangeSet) {
        if self.notices {
            let base = StateVersion(self.fresh_key());
            let event = sample::event(&set.chain, transfer.clone(), sequence);
            let name = NoticeName { chain: &set.chain, key: &transfer.key, epoch: event.epoch, sequence, notice, base };
            let id = EventId::of_notice(name);
            set.push_event(Event { id, notice: Some(notice), ..event });
        }
    }

    fn step(&mut self, dice: &mut Dice, state: &ChainState, set: &mut ChangeSet) {
        let chain = set.chain.clone();
        let block = sample::block(dice.below(50) + 1, dice.below(3));
        let pending: Vec<_> = state.pending.iter().collect();
        let reported: Vec<_> = state.reported.iter().collect();
        let orphaned: Vec<_> = state.orphaned.iter().collect();
        match dice.below(14) {
            2 => {
                let transfer = sample::transfer(&chain, self.fresh_key(), block);
                set.changes.push(Change::SmallSeen(Small { transfer, minimum: Amount::MAX, last_sequence: Sequence::NONE }));
            }
            3..=5 if let Some(pending) = dice.pick(&pending) => confirm(&chain, pending, set),
            6 | 7 if let Some(reported) = dice.pick(&reported) => revert(&chain, reported, set),
            8 if let Some(reported) = dice.pick(&reported) => {
                settle(reported, set);
                self.notice(&reported.transfer, reported.sequence, Notice::Settled, set);
            }
            9 if let Some(orphaned) = dice.pick(&orphaned) => forget(orphaned, set),
            10 if let Some(orphaned) = dice.pick(&orphaned) => {
                let mut transfer = orphaned.transfer.clone();
                transfer.block = block;
                set.changes.push(Change::OrphanedDropped(transfer.key.clone()));
                self.notice(&transfer, orphaned.last_sequence, Notice::Detected, set);
                set.changes.push(Change::PendingPut(Pending { transfer, last_sequence: orphaned.last_sequence }));
            }
            11 if let Some(pending) = dice.pick(&pending) => {
                let (transfer, last_sequence) = (pending.transfer.clone(), pending.last_sequence);
                set.changes.push(Change::PendingDropped(transfer.key.clone()));
                set.changes.push(Change::OrphanedPut(Orphaned { transfer, last_sequence }));
            }
            12 => set.changes.push(trail_change(dice, state)),
            13 => set.changes.push(other_change(dice, &chain)),
            _ => {
                let transfer = sample::transfer(&chain, self.fresh_key(), block);
                self.notice(&transfer, Sequence::NONE, Notice::Detected, set);
                set.changes.push(Change::PendingPut(Pending { transfer, last_sequence: Sequence::NONE }));
            }
        }
    }
}

fn confirm(chain: &ChainId, pending: &Pending, set: &mut ChangeSet) {
    let (transfer, sequence) = (pending.transfer.clone(), pending.last_sequence.next());
    set.changes.push(Change::PendingDropped(transfer.key.clone()));
    set.changes.push(Change::ReportedPut(Reported { transfer: transfer.clone(), sequence }));
    set.push_event(sample::event(chain, transfer, sequence));
}

fn revert(chain: &ChainId, reported: &Reported, set: &mut ChangeSet) {
    let (transfer, sequence) = (reported.transfer.clone(), reported.sequence.next());
    set.changes.push(Change::ReportedDropped(transfer.key.clone()));
    set.changes.push(Change::OrphanedPut(Orphaned { transfer: transfer.clone(), last_sequence: sequence }));
    set.push_event(sample::event(chain, transfer, sequence));
}

fn settle(reported: &Reported, set: &mut ChangeSet) {
    let (key, height) = (reported.transfer.key.clone(), reported.transfer.block.height);
    set.changes.push(Change::ReportedDropped(key.clone()));
    set.changes.push(Change::Archived(key, Archived { height, sequence: reported.sequence }));
}

fn forget(orphaned: &Orphaned, set: &mut ChangeSet) {
    let (key, height) = (orphaned.transfer.key.clone(), orphaned.transfer.block.height);
    set.changes.push(Change::OrphanedDropped(key.clone()));
    if orphaned.last_sequence != Sequence::NONE {
        set.changes.push(Change::Archived(key, Archived { height, sequence: orphaned.last_sequence }));
    }
}

fn trail_change(dice: &mut Dice, state: &ChainState) -> Change {
    let tip = state.trail.tip().map_or(Height(0), |tip| tip.height);
    let branch = dice.below(3);
    match dice.below(9) {
        0 => Change::TrailCut(tip.minus(dice.below(3))),
        1 => Change::TrailJumped(sample::block(tip.0 + 100, branch)),
        2 => Change::TrailForgot(tip.minus(dice.below(5))),
        3 => Change::FloorRaised(tip.minus(dice.below(5))),
        4 => Change::MarkRaised(FinalityTag::Safe, tip),
        5 => Change::MarkRaised(FinalityTag::Finalized, tip.minus(2)),
        6 if tip > Height(3) => Change::Reanchored(sample::block(tip.0 - 3, branch)),
        _ => Change::TrailPushed(sample::block(tip.0 + 1, branch)),
    }
}

fn other_change(dice: &mut Dice, chain: &ChainId) -> Change {
    let number = dice.below(7);
    match dice.below(9) {
        0 => Change::Named(ChainName::new(format!("name-{number}")).expect("invariant: a word")),
        1 => Change::WatchForgotten(sample::address(number).bytes().into()),
        2 => Change::WatchPut(sample::watch(number, WatchState::Removed)),
        3 => Change::AssetPut(sample::listed(chain, number, number < 4)),
        4 => Change::AssetForgotten(sample::asset(chain, number).id),
        5 => Change::Halted(Halt {
            reason: HaltReason::BrokenContract { detail: format!("detail {number}") },
            at: Timestamp(number),
        }),
        6 => Change::Resumed,
        7 => Change::RescanPut(sample::rescan(number, dice.below(20))),
        _ => Change::WatchPut(sample::watch(number, WatchState::Watching)),
    }
}
