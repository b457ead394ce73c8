//! The read model of deposits, kept in step by the commit that changes the state.

use super::disk::Books;
use confirmd_core::{
    Asset, Change, ChangeSet, DepositKey, DepositRecord, DepositState, Position, Sequence, Small, Timestamp, Transfer, WatchEntry,
};
use std::sync::Arc;

/// Takes over what a change set says about deposits; its events begin at `first`.
pub(super) fn keep(books: &mut Books, set: &ChangeSet, first: Position) {
    let now = Timestamp(books.commits);
    for small in smalls_left(books, set) {
        let reported = small.sequence > Sequence::NONE;
        let state = if reported { DepositState::Reverted } else { DepositState::Orphaned };
        let place = (small.chain.clone(), small.key.clone());
        books.deposits.insert(place, DepositRecord { state, changed_at: now, ..small });
    }
    for change in &set.changes {
        match change {
            Change::SmallSeen(small) if !knows(books, set, small) => {
                put(books, set, &small.transfer, DepositState::BelowMinimum, small.last_sequence);
            }
            Change::PendingPut(held) => put(books, set, &held.transfer, DepositState::Pending, held.last_sequence),
            Change::ReportedPut(held) => put(books, set, &held.transfer, DepositState::Confirmed, held.sequence),
            Change::OrphanedPut(held) => {
                let reverts = |event: &confirmd_core::Event| {
                    event.transfer.key == held.transfer.key && event.sequence == held.last_sequence && !event.sequence.stands()
                };
                let reverted = set.decisions().any(reverts);
                let state = if reverted { DepositState::Reverted } else { DepositState::Orphaned };
                put(books, set, &held.transfer, state, held.last_sequence);
            }
            Change::Archived(key, archived) => {
                if let Some(record) = books.deposits.get_mut(&(set.chain.clone(), key.clone())) {
                    record.sequence = archived.sequence;
                    if archived.sequence.stands() {
                        (record.state, record.changed_at) = (DepositState::Settled, now);
                    }
                }
            }
            _ => {}
        }
    }
    let mut position = first;
    for (event, _) in &set.events {
        if event.decides()
            && let Some(record) = books.deposits.get_mut(&(set.chain.clone(), event.transfer.key.clone()))
        {
            (record.event, record.sequence) = (Some(position), event.sequence);
            (record.asset, record.reference) = (event.asset.clone(), event.reference.clone());
        }
        position = position.next();
    }
}

/// Payments below their minimum whose blocks leave the best chain.
pub(super) fn smalls_left(books: &Books, set: &ChangeSet) -> Vec<DepositRecord> {
    let Some(ancestor) = set.lowest_cut() else { return Vec::new() };
    let small = books.deposits.values().filter(|record| record.chain == set.chain && record.state == DepositState::BelowMinimum);
    small.filter(|record| record.block.height > ancestor).cloned().collect()
}

/// Whether a payment below its minimum is written down where it is seen now.
pub(super) fn knows(books: &Books, set: &ChangeSet, small: &Small) -> bool {
    let record = books.deposits.get(&(set.chain.clone(), small.transfer.key.clone()));
    record.is_some_and(|record| record.state == DepositState::BelowMinimum && record.block == small.transfer.block)
}

fn put(books: &mut Books, set: &ChangeSet, transfer: &Transfer, state: DepositState, sequence: Sequence) {
    let now = Timestamp(books.commits);
    let payment = &transfer.payment;
    let old = books.deposits.get(&(set.chain.clone(), transfer.key.clone()));
    let record = DepositRecord {
        chain: set.chain.clone(),
        key: transfer.key.clone(),
        address: payment.address.clone(),
        reference: reference(books, set, payment.address.bytes()),
        asset: asset(books, set, transfer),
        amount: payment.amount,
        block: transfer.block.clone(),
        state,
        sequence,
        event: old.and_then(|old| old.event),
        seen_at: old.map_or(now, |old| old.seen_at),
        changed_at: now,
    };
    let key: (_, DepositKey) = (set.chain.clone(), transfer.key.clone());
    books.deposits.insert(key, record);
}

fn reference(books: &Books, set: &ChangeSet, bytes: &[u8]) -> Option<Arc<str>> {
    let put = set.changes.iter().find_map(|change| match change {
        Change::WatchPut(entry) if entry.address.bytes() == bytes => Some(entry.clone()),
        _ => None,
    });
    let known = || books.chains.get(&set.chain).and_then(|chain| chain.state.watch.get(bytes));
    put.or_else(known).and_then(|entry: WatchEntry| entry.reference)
}

fn asset(books: &Books, set: &ChangeSet, transfer: &Transfer) -> Asset {
    let id = &transfer.payment.asset;
    let put = set.changes.iter().find_map(|change| match change {
        Change::AssetPut(listed) if listed.asset.id == *id => Some(listed),
        _ => None,
    });
    let known = || books.chains.get(&set.chain).and_then(|chain| chain.state.watch.asset(id));
    let unlisted = || Asset { id: id.clone(), symbol: id.parts().1.to_owned(), decimals: 0 };
    put.or_else(known).map_or_else(unlisted, |listed| listed.asset.clone())
}
