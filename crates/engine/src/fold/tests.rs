#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use confirmd_core::{
    Address, Amount, Asset, AssetId, BlockHash, EventKind, ListedAsset, Payment, Requirement, TxId, WatchEntry, WatchOrigin,
};
use std::num::NonZeroU32;

/// A state driven by folds alone.
struct Book {
    rules: Rules,
    state: ChainState,
    due: DueIndex,
    archived: BTreeMap<DepositKey, Archived>,
    events: Vec<(EventKind, String, u64)>,
    ids: BTreeSet<EventId>,
    notices: BTreeSet<Notice>,
    /// Seen below the minimum: transaction, amount, last sequence.
    small: Vec<(String, u64, u64)>,
}

fn chain_id() -> ChainId {
    ChainId::new("scripted:fold").unwrap()
}

fn block(height: u64, branch: &str) -> BlockRef {
    BlockRef { height: Height(height), hash: BlockHash::new(format!("{branch}{height}")).unwrap() }
}

fn pay(tx: &str, amount: u64, height: u64, branch: &str) -> Transfer {
    Transfer {
        key: DepositKey { tx_id: TxId::new(tx).unwrap(), output_index: 0 },
        payment: Payment {
            address: Address::new(*b"alice", "alice"),
            asset: AssetId::native(&chain_id(), 1).unwrap(),
            amount: Amount::from(amount),
            memo: None,
        },
        block: block(height, branch),
        block_time: None,
        position: 0,
        from: None,
        maturity: None,
    }
}

impl Book {
    fn new(confirmations: u32, tag: Option<FinalityTag>) -> Self {
        let rules = Rules {
            chain: chain_id(),
            chain_name: ChainName::new("fold").unwrap(),
            epoch: Epoch(1),
            reorg_depth: NonZeroU64::new(6).unwrap(),
        };
        let mut book = Self {
            rules,
            state: ChainState::default(),
            due: DueIndex::default(),
            archived: BTreeMap::new(),
            events: Vec::new(),
            ids: BTreeSet::new(),
            notices: BTreeSet::new(),
            small: Vec::new(),
        };
        book.list(confirmations, tag);
        let entry = WatchEntry {
            address: Address::new(*b"alice", "alice"),
            reference: Some("customer-1".into()),
            from: Height(1),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: None,
        };
        book.change(vec![Change::WatchPut(entry), Change::TrailPushed(block(0, "a"))]);
        book
    }

    fn list(&mut self, confirmations: u32, tag: Option<FinalityTag>) {
        let asset = Asset { id: AssetId::native(&chain_id(), 1).unwrap(), symbol: "COIN".into(), decimals: 0 };
        let requirement = Requirement { at_least: NonZeroU32::new(confirmations).unwrap(), tag };
        self.change(vec![Change::AssetPut(ListedAsset { asset, requirement, minimum: None, delisted: false })]);
    }

    /// From here on payments below it are not confirmed.
    fn minimum(&mut self, minimum: Option<u64>) {
        let id = AssetId::native(&chain_id(), 1).unwrap();
        let listed = self.state.watch.asset(&id).unwrap().clone();
        self.change(vec![Change::AssetPut(ListedAsset { minimum: minimum.map(Amount::from), ..listed })]);
    }

    fn change(&mut self, changes: Vec<Change>) {
        let mut set = ChangeSet::new(chain_id(), self.state.version);
        set.changes = changes;
        self.take(set);
    }

    fn take(&mut self, set: ChangeSet) {
        self.state.apply(&set);
        self.due = DueIndex::of(&self.state);
        for change in &set.changes {
            if let Change::Archived(key, archived) = change {
                self.archived.insert(key.clone(), *archived);
            }
            if let Change::SmallSeen(small) = change {
                let amount = small.transfer.payment.amount.to_string().parse().unwrap();
                self.small.push((small.transfer.key.tx_id.to_string(), amount, small.last_sequence.0));
            }
        }
        for (event, _) in set.events {
            let kind = event.decides().then(|| event.kind());
            assert!(kind.is_none() || kind == event.sequence.kind(), "G2: parity is the kind");
            assert!(self.ids.insert(event.id.clone()), "G7: an id came twice");
            self.events.push((event.kind(), event.transfer.key.tx_id.to_string(), event.sequence.0));
        }
    }

    fn try_see(&mut self, rollback_to: Option<u64>, blocks: Vec<BlockRef>, transfers: Vec<Transfer>) -> Result<(), Breach> {
        let archived = transfers.iter().filter_map(|t| Some((t.key.clone(), *self.archived.get(&t.key)?))).collect();
        let seen = Observation {
            rollback_to: rollback_to.map(Height),
            blocks: blocks.into_iter().map(SeenBlock::Linked).collect(),
            transfers,
            archived,
            notices: self.notices.clone(),
            ..Observation::default()
        };
        let set = fold(&self.state, &self.due, &seen, &self.rules)?;
        self.take(set);
        Ok(())
    }

    /// Blocks `from..=to` of a branch with these payments.
    fn see(&mut self, branch: &str, from: u64, to: u64, transfers: Vec<Transfer>) {
        self.try_see(None, (from..=to).map(|h| block(h, branch)).collect(), transfers).unwrap();
    }

    fn reorg(&mut self, ancestor: u64, branch: &str, to: u64, transfers: Vec<Transfer>) {
        self.try_see(Some(ancestor), (ancestor + 1..=to).map(|h| block(h, branch)).collect(), transfers).unwrap();
    }

    fn mark(&mut self, tag: FinalityTag, height: u64) {
        let seen = Observation { marks: vec![(tag, Height(height))], ..Observation::default() };
        let set = fold(&self.state, &self.due, &seen, &self.rules).unwrap();
        self.take(set);
    }

    fn small(&self) -> Vec<(&str, u64, u64)> {
        self.small.iter().map(|(tx, amount, last)| (tx.as_str(), *amount, *last)).collect()
    }

    fn events(&self) -> Vec<(EventKind, &str, u64)> {
        self.events.iter().map(|(kind, tx, sequence)| (*kind, tx.as_str(), *sequence)).collect()
    }
}

use EventKind::{Confirmed, Detected, Reverted, Settled};

#[test]
fn a_deposit_is_confirmed_when_it_is_exactly_deep_enough() {
    let mut book = Book::new(3, None);
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    book.see("a", 2, 2, vec![]);
    assert_eq!(book.events(), []);
    book.see("a", 3, 3, vec![]);
    assert_eq!(book.events(), [(Confirmed, "t", 1)]);
}

#[test]
fn g1_a_payment_read_again_is_decided_once() {
    let mut book = Book::new(1, None);
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    book.see("a", 2, 2, vec![pay("t", 5, 1, "a")]);
    book.see("a", 3, 20, vec![]);
    // Settled by now, and replayed from the start.
    book.see("a", 21, 21, vec![pay("t", 5, 1, "a")]);
    assert_eq!(book.events(), [(Confirmed, "t", 1)]);
    assert!(book.state.reported.is_empty() && book.archived[&pay("t", 5, 1, "a").key].sequence.stands());
}

#[test]
fn g2_a_reverted_event_precedes_the_next_confirmed_one_of_its_key_a04() {
    let mut book = Book::new(2, None);
    book.see("a", 1, 3, vec![pay("t", 5, 1, "a")]);
    // Re-mined two blocks higher and deep enough at once.
    book.reorg(0, "b", 4, vec![pay("t", 5, 3, "b")]);
    assert_eq!(book.events(), [(Confirmed, "t", 1), (Reverted, "t", 2), (Confirmed, "t", 3)]);
}

#[test]
fn a08_a_return_to_the_first_branch_confirms_again() {
    let mut book = Book::new(1, None);
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    book.reorg(0, "b", 2, vec![]);
    book.reorg(0, "a", 3, vec![pay("t", 5, 1, "a")]);
    assert_eq!(book.events(), [(Confirmed, "t", 1), (Reverted, "t", 2), (Confirmed, "t", 3)]);
}

#[test]
fn a_pending_deposit_that_is_orphaned_leaves_no_event() {
    let mut book = Book::new(3, None);
    book.see("a", 1, 2, vec![pay("t", 5, 2, "a")]);
    book.reorg(1, "b", 9, vec![]);
    assert_eq!(book.events(), []);
    assert!(book.state.pending.is_empty());
}

#[test]
fn g3_only_the_blocks_above_the_ancestor_are_undone() {
    let mut book = Book::new(1, None);
    book.see("a", 1, 3, vec![pay("t1", 5, 1, "a"), pay("t2", 5, 2, "a"), pay("t3", 5, 3, "a")]);
    book.reorg(1, "b", 4, vec![]);
    // Newest first.
    assert_eq!(book.events()[3..], [(Reverted, "t3", 2), (Reverted, "t2", 2)]);
    assert!(book.state.reported.get(&pay("t1", 5, 1, "a").key).is_some());
}

#[test]
fn a_key_with_another_payment_while_its_block_stands_breaks_the_contract() {
    let mut book = Book::new(3, None);
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    let breach = book.try_see(None, vec![block(2, "a")], vec![pay("t", 6, 2, "a")]).unwrap_err();
    assert_eq!(breach.rule, "S8");
    assert_eq!(book.events(), []);
}

#[test]
fn a_key_re_executed_with_another_amount_after_its_block_was_orphaned_starts_anew() {
    let mut book = Book::new(1, None);
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    book.reorg(0, "b", 2, vec![pay("t", 7, 1, "b")]);
    assert_eq!(book.events(), [(Confirmed, "t", 1), (Reverted, "t", 2), (Confirmed, "t", 3)]);
    assert_eq!(book.state.reported.get(&pay("t", 0, 1, "b").key).unwrap().transfer.payment.amount, Amount::from(7));
}

#[test]
fn a24_a_second_block_with_the_same_key_and_payment_changes_nothing_and_its_reorg_reverts_nothing() {
    let mut book = Book::new(1, None);
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    book.see("a", 2, 2, vec![pay("t", 5, 2, "a")]);
    book.reorg(1, "b", 3, vec![]);
    assert_eq!(book.events(), [(Confirmed, "t", 1)]);
}

#[test]
fn a10_a_coinbase_waits_for_its_maturity_even_past_the_floor_and_is_settled_with_its_report() {
    let mut book = Book::new(1, None);
    let coinbase = Transfer { maturity: NonZeroU32::new(100), ..pay("t", 5, 1, "a") };
    book.see("a", 1, 1, vec![coinbase]);
    book.see("a", 2, 99, vec![]);
    assert_eq!((book.events().len(), book.state.trail.floor()), (0, Height(93)));
    book.see("a", 100, 100, vec![]);
    assert_eq!(book.events(), [(Confirmed, "t", 1)]);
    assert!(book.state.reported.is_empty(), "settled in the same commit");
}

#[test]
fn deposits_are_settled_when_the_floor_reaches_their_block() {
    let mut book = Book::new(1, None);
    book.see("a", 1, 6, vec![pay("t", 5, 1, "a")]);
    assert_eq!(book.state.reported.len(), 1);
    book.see("a", 7, 7, vec![]);
    assert_eq!((book.state.reported.len(), book.archived.len(), book.state.trail.floor()), (0, 1, Height(1)));
}

#[test]
fn a_reverted_key_keeps_its_sequence_past_the_floor() {
    let mut book = Book::new(1, None);
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    book.reorg(0, "b", 30, vec![]);
    assert!(book.state.orphaned.is_empty());
    book.see("b", 31, 31, vec![pay("t", 5, 31, "b")]);
    assert_eq!(book.events(), [(Confirmed, "t", 1), (Reverted, "t", 2), (Confirmed, "t", 3)]);
}

#[test]
fn a_finality_tag_is_waited_for_and_its_absence_is_never_zero() {
    let mut book = Book::new(1, Some(FinalityTag::Finalized));
    book.see("a", 1, 20, vec![pay("t", 5, 2, "a")]);
    assert_eq!((book.events().len(), book.state.trail.floor()), (0, Height(0)));
    book.mark(FinalityTag::Finalized, 1);
    assert_eq!(book.events(), []);
    book.mark(FinalityTag::Finalized, 2);
    assert_eq!(book.events(), [(Confirmed, "t", 1)]);
    assert_eq!(book.state.trail.floor(), Height(2), "the floor never passes the finalized block");
}

#[test]
fn b39_a_finality_mark_never_goes_back() {
    let mut book = Book::new(1, Some(FinalityTag::Finalized));
    book.see("a", 1, 20, vec![]);
    book.mark(FinalityTag::Finalized, 9);
    book.mark(FinalityTag::Finalized, 5);
    assert_eq!(book.state.marks[&FinalityTag::Finalized], Height(9));
}

#[test]
fn a_number_and_a_tag_are_both_asked_for() {
    let mut book = Book::new(5, Some(FinalityTag::Safe));
    book.see("a", 1, 2, vec![pay("t", 5, 1, "a")]);
    book.mark(FinalityTag::Safe, 2);
    assert_eq!(book.events(), []);
    book.see("a", 3, 5, vec![]);
    assert_eq!(book.events(), [(Confirmed, "t", 1)]);
}

#[test]
fn e08_a_deeper_policy_never_takes_a_report_back_and_a_shallower_one_confirms_at_once() {
    let mut book = Book::new(3, None);
    book.see("a", 1, 4, vec![pay("old", 5, 1, "a"), pay("new", 5, 3, "a")]);
    assert_eq!(book.events(), [(Confirmed, "old", 1)]);
    book.list(6, None);
    book.see("a", 5, 5, vec![]);
    assert_eq!(book.events(), [(Confirmed, "old", 1)]);
    book.list(1, None);
    book.try_see(None, vec![], vec![]).unwrap();
    assert_eq!(book.events(), [(Confirmed, "old", 1), (Confirmed, "new", 1)]);
}

#[test]
fn a_removed_address_takes_no_new_key_but_what_is_held_finishes_and_then_it_is_forgotten() {
    let mut book = Book::new(2, None);
    book.see("a", 1, 1, vec![pay("held", 5, 1, "a")]);
    let entry = book.state.watch.get(b"alice").unwrap().clone();
    book.change(vec![Change::WatchPut(WatchEntry { state: WatchState::Removed, ..entry })]);
    // Orphaned and mined again: still the old key. A new one is not taken.
    book.reorg(0, "b", 2, vec![pay("held", 5, 1, "b"), pay("fresh", 5, 2, "b")]);
    assert_eq!(book.events(), [(Confirmed, "held", 1)]);
    assert!(book.state.watch.get(b"alice").is_some());
    book.see("b", 3, 20, vec![]);
    assert!(book.state.watch.get(b"alice").is_none(), "nothing is held for it any more");
}

#[test]
fn a_delisted_asset_takes_no_new_key_and_is_forgotten_when_nothing_is_held() {
    let mut book = Book::new(2, None);
    book.see("a", 1, 1, vec![pay("held", 5, 1, "a")]);
    let id = AssetId::native(&chain_id(), 1).unwrap();
    let listed = book.state.watch.asset(&id).unwrap().clone();
    book.change(vec![Change::AssetPut(ListedAsset { delisted: true, ..listed })]);
    book.see("a", 2, 2, vec![pay("fresh", 5, 2, "a")]);
    assert_eq!(book.events(), [(Confirmed, "held", 1)]);
    book.see("a", 3, 20, vec![]);
    assert!(book.state.watch.asset(&id).is_none());
}

#[test]
fn confirming_is_oldest_first_and_several_outputs_are_several_deposits_a14() {
    let mut book = Book::new(1, None);
    let mut second = pay("t", 5, 1, "a");
    second.key.output_index = 1;
    book.see("a", 1, 2, vec![pay("t", 5, 1, "a"), second, pay("u", 5, 2, "a")]);
    assert_eq!(book.events(), [(Confirmed, "t", 1), (Confirmed, "t", 1), (Confirmed, "u", 1)]);
}

#[test]
fn a_fold_over_nothing_changes_nothing() {
    let book = Book::new(1, None);
    let set = fold(&book.state, &book.due, &Observation::default(), &book.rules).unwrap();
    assert!(set.is_empty(), "{set:?}");
}

#[test]
fn what_is_below_the_minimum_is_written_down_alone_and_what_equals_it_is_confirmed() {
    let mut book = Book::new(1, None);
    book.minimum(Some(5));
    book.see("a", 1, 1, vec![pay("less", 4, 1, "a"), pay("equal", 5, 1, "a"), pay("more", 6, 1, "a")]);
    book.see("a", 2, 20, vec![]);
    assert_eq!(book.events(), [(Confirmed, "equal", 1), (Confirmed, "more", 1)]);
    assert_eq!(book.small(), [("less", 4, 0)]);
    assert!(book.state.pending.is_empty() && book.state.orphaned.is_empty(), "nothing holds it");
}

#[test]
fn a_reported_deposit_that_a_reorg_makes_small_is_reverted_and_stays_so_until_it_is_large_again() {
    let mut book = Book::new(1, None);
    book.minimum(Some(5));
    book.see("a", 1, 1, vec![pay("t", 9, 1, "a")]);
    book.reorg(0, "b", 2, vec![pay("t", 4, 1, "b")]);
    assert_eq!(book.events(), [(Confirmed, "t", 1), (Reverted, "t", 2)]);
    assert_eq!(book.small(), [("t", 4, 2)]);
    book.see("b", 3, 5, vec![]);
    assert_eq!(book.events().len(), 2);
    book.reorg(0, "c", 6, vec![pay("t", 9, 2, "c")]);
    assert_eq!(book.events()[2..], [(Confirmed, "t", 3)]);
}

#[test]
fn a_reverted_deposit_that_stays_small_keeps_its_sequence_past_the_floor() {
    let mut book = Book::new(1, None);
    book.minimum(Some(5));
    book.see("a", 1, 1, vec![pay("t", 9, 1, "a")]);
    book.reorg(0, "b", 30, vec![pay("t", 4, 1, "b")]);
    assert_eq!((book.events().len(), book.archived[&pay("t", 4, 1, "b").key].sequence), (2, Sequence(2)));
    book.minimum(None);
    // Read again by a rescan.
    book.try_see(None, vec![], vec![pay("t", 4, 1, "b")]).unwrap();
    assert_eq!(book.events()[2..], [(Confirmed, "t", 3)]);
}

#[test]
fn a_small_payment_that_a_reorg_makes_large_is_confirmed() {
    let mut book = Book::new(1, None);
    book.minimum(Some(5));
    book.see("a", 1, 1, vec![pay("t", 4, 1, "a")]);
    book.reorg(0, "b", 2, vec![pay("t", 5, 2, "b")]);
    assert_eq!(book.events(), [(Confirmed, "t", 1)]);
}

#[test]
fn a_raised_minimum_takes_no_report_back_and_lets_what_waits_go_with_its_sequence() {
    let mut book = Book::new(3, None);
    book.see("a", 1, 3, vec![pay("told", 4, 1, "a"), pay("waits", 4, 3, "a")]);
    book.reorg(2, "b", 3, vec![pay("waits", 4, 3, "b")]);
    book.minimum(Some(5));
    book.see("b", 4, 8, vec![]);
    assert_eq!((book.events(), book.small()), (vec![(Confirmed, "told", 1)], vec![("waits", 4, 0)]));
    assert!(book.state.pending.is_empty() && book.state.orphaned.is_empty());
    // One that was told before and waits again keeps what it was told.
    let mut book = Book::new(2, None);
    book.see("a", 1, 2, vec![pay("t", 4, 1, "a")]);
    book.reorg(0, "b", 3, vec![pay("t", 4, 3, "b")]);
    book.minimum(Some(5));
    book.see("b", 4, 5, vec![]);
    assert_eq!(book.events(), [(Confirmed, "t", 1), (Reverted, "t", 2)]);
    assert_eq!(book.small(), [("t", 4, 2)]);
    book.see("b", 6, 20, vec![]);
    assert_eq!(book.archived[&pay("t", 4, 3, "b").key].sequence, Sequence(2));
}

#[test]
fn a_lowered_minimum_confirms_what_was_small_only_when_it_is_read_again() {
    let mut book = Book::new(1, None);
    book.minimum(Some(5));
    book.see("a", 1, 1, vec![pay("t", 4, 1, "a")]);
    book.minimum(Some(4));
    book.see("a", 2, 3, vec![]);
    assert_eq!(book.events(), []);
    book.try_see(None, vec![], vec![pay("t", 4, 1, "a")]).unwrap();
    assert_eq!(book.events(), [(Confirmed, "t", 1)]);
}

#[test]
fn a_small_payment_to_a_removed_address_is_not_even_written_down() {
    let mut book = Book::new(1, None);
    book.minimum(Some(5));
    let entry = book.state.watch.get(b"alice").unwrap().clone();
    book.change(vec![Change::WatchPut(WatchEntry { state: WatchState::Removed, ..entry })]);
    book.see("a", 1, 1, vec![pay("t", 4, 1, "a")]);
    assert_eq!((book.events().len(), book.small().len()), (0, 0));
}

#[test]
fn what_waits_is_detected_and_what_can_not_be_taken_back_any_more_is_settled_where_somebody_asks() {
    let mut book = Book::new(2, None);
    book.notices = Notice::ALL.into();
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    assert_eq!(book.events(), [(Detected, "t", 0)]);
    book.see("a", 2, 6, vec![]);
    assert_eq!(book.events()[1..], [(Confirmed, "t", 1)]);
    book.see("a", 7, 20, vec![]);
    assert_eq!(book.events()[2..], [(Settled, "t", 1)]);
    // Read again: nothing of it.
    book.try_see(None, vec![], vec![pay("t", 5, 1, "a")]).unwrap();
    assert_eq!(book.events().len(), 3);
}

#[test]
fn each_block_that_carries_a_deposit_is_detected_by_itself_and_reverted_stands_before_it() {
    let mut book = Book::new(2, None);
    book.notices = Notice::ALL.into();
    book.see("a", 1, 1, vec![pay("t", 5, 1, "a")]);
    book.reorg(0, "b", 1, vec![pay("t", 5, 1, "b")]);
    // Back to where it was: told again, under another id.
    book.reorg(0, "a", 1, vec![pay("t", 5, 1, "a")]);
    assert_eq!(book.events(), [(Detected, "t", 0), (Detected, "t", 0), (Detected, "t", 0)]);
    book.see("a", 2, 2, vec![]);
    book.reorg(0, "b", 3, vec![pay("t", 5, 3, "b")]);
    assert_eq!(book.events()[3..], [(Confirmed, "t", 1), (Reverted, "t", 2), (Detected, "t", 2)]);
}

#[test]
fn a_deposit_that_is_deep_enough_at_first_sight_is_not_detected_and_is_settled_in_the_same_commit() {
    let mut book = Book::new(1, None);
    book.notices = Notice::ALL.into();
    book.see("a", 1, 20, vec![pay("t", 5, 1, "a"), pay("u", 5, 2, "a"), pay("v", 5, 20, "a")]);
    let decided = [(Confirmed, "t", 1), (Confirmed, "u", 1), (Confirmed, "v", 1)];
    assert_eq!(book.events(), [&decided[..], &[(Settled, "t", 1), (Settled, "u", 1)]].concat());
}

#[test]
fn informative_events_change_nothing_of_what_is_decided() {
    let story = |notices: BTreeSet<Notice>| {
        let mut book = Book::new(2, None);
        book.notices = notices;
        book.see("a", 1, 3, vec![pay("t", 5, 1, "a"), pay("u", 5, 3, "a")]);
        book.reorg(0, "b", 4, vec![pay("u", 5, 4, "b")]);
        book.see("b", 5, 30, vec![]);
        let decided = book.events().into_iter().filter(|(kind, ..)| matches!(kind, Confirmed | Reverted));
        (decided.map(|(kind, tx, sequence)| (kind, tx.to_owned(), sequence)).collect::<Vec<_>>(), book.state.clone())
    };
    assert_eq!(story(BTreeSet::new()), story(Notice::ALL.into()));
}
