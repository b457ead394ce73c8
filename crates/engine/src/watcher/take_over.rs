//! Takes over what a consumer was told by the state that this one is an older copy of: sequences and what stands.

use super::WatchError;
use crate::Rules;
use crate::fold::ChangeDraft;
use confirmd_core::{
    Archived, ChainSource, ChainState, Change, DepositKey, Event, EventId, Height, Orphaned, Payment, Reported, Sequence,
    StateStore, Told, Transfer,
};
use std::collections::BTreeMap;

/// What was taken over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Deposits whose last event this state had not decided.
    pub deposits: u64,
    /// Why others could not be taken over.
    pub passed_over: Vec<String>,
}

/// Takes deposits of the source's chain over, on a state that no watcher runs on; at most some hundred at a time, in one commit.
///
/// A deposit of which the state knows less than the consumer gets the consumer's sequence and standing. It is told again under
/// this state's epoch, with that sequence, so that every other consumer hears of it too. The trail is cut back to where it
/// is final: the blocks above are read again, and whatever stands in another block than the chain has there is taken back.
pub async fn take_over(store: &dyn StateStore, source: &dyn ChainSource, told: &[Told]) -> Result<TakenOver, WatchError> {
    let profile = source.profile();
    let Some(state) = store.load(&profile.chain).await? else { return Ok(TakenOver::default()) };
    let rules = Rules {
        chain: profile.chain.clone(),
        chain_name: profile.name.clone(),
        epoch: store.epoch(),
        reorg_depth: profile.reorg_depth,
    };
    let keys: Vec<DepositKey> = told.iter().map(|told| told.key.clone()).collect();
    let archived = store.settled_among(&profile.chain, &keys).await?;
    let mut draft = ChangeDraft::new(&state, &rules);
    let mut taken = TakenOver::default();
    for told in told.iter().filter(|told| last_sequence(&state, &archived, &told.key) < told.sequence) {
        match transfer(&state, source, told) {
            Ok(transfer) => {
                take(&mut draft, &rules, told, transfer);
                taken.deposits += 1;
            }
            Err(why) => taken.passed_over.push(format!("deposit {}: {why}", told.key)),
        }
    }
    if taken.deposits > 0 {
        if let Some(anchor) = anchor(&state) {
            draft.change(Change::TrailCut(anchor));
        }
        store.commit(draft.finish()).await?;
    }
    Ok(taken)
}

/// The lowest block that a rollback may still reach.
fn anchor(state: &ChainState) -> Option<Height> {
    let dense_from = state.trail.dense_from();
    state.trail.newest_first().map(|block| block.height).take_while(|height| *height >= dense_from).last()
}

fn last_sequence(state: &ChainState, archived: &BTreeMap<DepositKey, Archived>, key: &DepositKey) -> Sequence {
    let held = [
        state.reported.get(key).map(|held| held.sequence),
        state.pending.get(key).map(|held| held.last_sequence),
        state.orphaned.get(key).map(|held| held.last_sequence),
        archived.get(key).map(|archived| archived.sequence),
    ];
    held.into_iter().flatten().max().unwrap_or(Sequence::NONE)
}

fn transfer(state: &ChainState, source: &dyn ChainSource, told: &Told) -> Result<Transfer, String> {
    if state.watch.asset(&told.asset.id).is_none() {
        return Err(format!("its asset {} is not listed in this state; list it, start once without `--restored`", told.asset.id));
    }
    let address = source.parse_address(&told.address).map_err(|error| format!("its address {}: {error}", told.address))?;
    Ok(Transfer {
        key: told.key.clone(),
        payment: Payment { address, asset: told.asset.id.clone(), amount: told.amount, memo: told.memo.clone() },
        block: told.block.clone(),
        block_time: told.block_time,
        position: 0,
        from: told.from.clone(),
        maturity: None,
    })
}

fn take(draft: &mut ChangeDraft<'_>, rules: &Rules, told: &Told, transfer: Transfer) {
    draft.pending.drop(&told.key);
    draft.reported.drop(&told.key);
    draft.orphaned.drop(&told.key);
    draft.push(Event {
        id: EventId::derive(&rules.chain, &told.key, rules.epoch, told.sequence),
        chain: rules.chain.clone(),
        chain_name: rules.chain_name.clone(),
        epoch: rules.epoch,
        sequence: told.sequence,
        transfer: transfer.clone(),
        asset: told.asset.clone(),
        reference: told.reference.as_deref().map(Into::into),
        confirmations: told.confirmations,
        decided_at: told.decided_at,
        notice: None,
    });
    if told.block.height <= draft.state.trail.floor() {
        draft.archive(&transfer, told.sequence);
    } else if told.sequence.stands() {
        draft.reported.put(Reported { transfer, sequence: told.sequence });
    } else {
        draft.orphaned.put(Orphaned { transfer, last_sequence: told.sequence });
    }
}
