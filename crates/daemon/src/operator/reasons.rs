//! Why a payment that a node shows is no deposit of ours. Pure.

use confirmd_api::view::{ExplainedPayment, PaymentReason};
use confirmd_core::{BlockRef, ChainState, DepositRecord, ShownPayment, ShownTransaction, WatchState};

/// Payments that are explained if none goes to whom it should.
const OTHERS_SHOWN: usize = 5;

/// The payments of a transaction that somebody may ask about, each with its reason: those to `wanted` (the bytes of an address; without
/// one those to watched addresses), else the first few.
pub(super) fn explained(
    shown: &ShownTransaction,
    wanted: Option<&[u8]>,
    records: &[DepositRecord],
    state: &ChainState,
) -> Vec<ExplainedPayment> {
    let asked_for = |payment: &&ShownPayment| {
        let to = payment.address.as_ref().map(confirmd_core::Address::bytes);
        to.is_some_and(|to| wanted.map_or_else(|| state.watch.get(to).is_some(), |wanted| wanted == to))
    };
    let explain = |payment: &ShownPayment| {
        let recorded = records.iter().any(|record| record.key.output_index == payment.output_index);
        let (reason, why) =
            if recorded { (PaymentReason::Recorded, "it is in our records".to_owned()) } else { why(shown, payment, state) };
        ExplainedPayment {
            output_index: payment.output_index,
            address: payment.address.as_ref().map(|address| address.as_str().to_owned()),
            asset: payment.asset.to_string(),
            amount: payment.amount,
            reason,
            why,
        }
    };
    let found: Vec<_> = shown.payments.iter().filter(asked_for).map(explain).collect();
    if found.is_empty() { shown.payments.iter().take(OTHERS_SHOWN).map(explain).collect() } else { found }
}

/// The first of all reasons that holds, as a word and in words.
fn why(shown: &ShownTransaction, payment: &ShownPayment, state: &ChainState) -> (PaymentReason, String) {
    if shown.failed {
        return (PaymentReason::Failed, "the transaction failed: nothing was paid".to_owned());
    }
    if let Some(remark) = &payment.remark {
        return (PaymentReason::NoPayment, remark.clone());
    }
    if payment.amount.is_zero() {
        return (PaymentReason::ZeroAmount, "its amount is zero: nothing is paid".to_owned());
    }
    let asset = &payment.asset;
    let Some(listed) = state.watch.asset(asset).filter(|listed| !listed.delisted) else {
        let text = format!(
            "{asset} is not listed: list it in [chains.NAME] (a token by its contract, never by its symbol); `confirmd rescan start` with --asset then reads its past"
        );
        return (PaymentReason::NotListed, text);
    };
    if let Some((reason, text)) = payment.address.as_ref().and_then(|to| not_watched(to, shown.block.as_ref(), state)) {
        return (reason, text);
    }
    if let Some(minimum) = listed.minimum_above(payment.amount) {
        let text = format!(
            "it is below minimum.{} = {minimum} base units: it is written down at most, never confirmed",
            listed.asset.symbol
        );
        return (PaymentReason::BelowMinimum, text);
    }
    let needed = listed.requirement.at_least;
    match (&shown.block, state.trail.tip()) {
        (None, _) => (PaymentReason::InNoBlock, format!("it is in no block yet: 0 of {needed} confirmations")),
        (Some(block), Some(tip)) if block.height > tip.height => {
            (PaymentReason::NotReadYet, format!("block {block} is not read yet: our tip is {tip}"))
        }
        (Some(_), None) => (PaymentReason::NotReadYet, "no block of this chain is read yet".to_owned()),
        (Some(block), Some(_)) => {
            let text = format!(
                "it should be in our records, unless block {block} is older than `state.history` or only now on the node's best chain"
            );
            (PaymentReason::Forgotten, text)
        }
    }
}

/// Whether payments to the address were taken at that block.
fn not_watched(to: &confirmd_core::Address, block: Option<&BlockRef>, state: &ChainState) -> Option<(PaymentReason, String)> {
    let Some(entry) = state.watch.get(to.bytes()) else {
        return Some((
            PaymentReason::NotWatched,
            format!("{to} is not watched: `confirmd watch add`, with --from-height to read the past too"),
        ));
    };
    if entry.state == WatchState::Removed {
        return Some((PaymentReason::NotWatched, format!("{to} was removed: no new payment to it is taken")));
    }
    let height = block.map(|block| block.height).filter(|height| *height < entry.from)?;
    if super::rescans::in_words(&entry, height, state).is_some() {
        return None;
    }
    let text = format!(
        "{to} was not watched until height {}, and this is at {height}: `confirmd watch add` with --from-height reads it",
        entry.from
    );
    Some((PaymentReason::NotWatchedYet, text))
}

/// A payment and its reason, in one line.
pub(super) fn line(payment: &ExplainedPayment) -> String {
    let to = payment.address.as_deref().unwrap_or("no address");
    format!("output {} pays {} base units of {} to {to}: {}", payment.output_index, payment.amount, payment.asset, payment.why)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use confirmd_core::{
        Address, Amount, Asset, AssetId, BlockHash, Change, ChangeSet, Height, ListedAsset, Requirement, WatchEntry, WatchOrigin,
    };
    use std::num::NonZeroU32;

    const COIN: &str = "eip155:1/slip44:60";

    fn block(height: u64) -> BlockRef {
        BlockRef { height: Height(height), hash: BlockHash::new(format!("b{height}")).unwrap() }
    }

    /// At block 50, with a coin of 3 confirmations and a minimum of 5, and with address 1 watched from 20 on and 2 removed.
    fn state() -> ChainState {
        let mut state = ChainState::default();
        let requirement = Requirement { at_least: NonZeroU32::new(3).unwrap(), tag: None };
        let asset = Asset { id: COIN.parse().unwrap(), symbol: "ETH".to_owned(), decimals: 18 };
        state.watch.put_asset(ListedAsset { asset, requirement, minimum: Some(Amount::from(5_u64)), delisted: false });
        for (byte, what) in [(1, WatchState::Watching), (2, WatchState::Removed)] {
            state.watch.put_address(WatchEntry {
                address: address(byte),
                reference: None,
                from: Height(20),
                origin: WatchOrigin::Command,
                state: what,
                history: None,
            });
        }
        let mut set = ChangeSet::new("eip155:1".parse().unwrap(), state.version);
        set.changes = vec![Change::TrailPushed(block(50))];
        state.apply(&set);
        state
    }

    fn address(byte: u8) -> Address {
        Address::new([byte], format!("address {byte}"))
    }

    fn payment(to: u8, amount: u64) -> ShownPayment {
        let asset = AssetId::new(COIN).unwrap();
        ShownPayment { output_index: 0, address: Some(address(to)), asset, amount: Amount::from(amount), remark: None }
    }

    fn of(payment: ShownPayment, height: Option<u64>, failed: bool) -> (PaymentReason, String) {
        let shown = ShownTransaction { block: height.map(block), failed, payments: vec![payment], left_out: None };
        let told = explained(&shown, None, &[], &state()).remove(0);
        (told.reason, told.why)
    }

    #[test]
    fn each_reason_is_told_from_every_other() {
        let unlisted = ShownPayment { asset: "eip155:1/erc20:0xaa".parse().unwrap(), ..payment(1, 9) };
        let odd = ShownPayment { remark: Some("it is no payment".to_owned()), ..payment(1, 9) };
        for (reason, text, (payment, height, failed)) in [
            (PaymentReason::Failed, "failed", (payment(1, 9), Some(30), true)),
            (PaymentReason::NoPayment, "no payment", (odd, Some(30), false)),
            (PaymentReason::ZeroAmount, "zero", (payment(1, 0), Some(30), false)),
            (PaymentReason::NotListed, "0xaa is not listed", (unlisted, Some(30), false)),
            (PaymentReason::NotWatched, "address 3 is not watched", (payment(3, 9), Some(30), false)),
            (PaymentReason::NotWatched, "was removed", (payment(2, 9), Some(30), false)),
            (PaymentReason::NotWatchedYet, "not watched until height 20", (payment(1, 9), Some(10), false)),
            (PaymentReason::BelowMinimum, "below minimum.ETH = 5", (payment(1, 4), Some(30), false)),
            (PaymentReason::InNoBlock, "0 of 3 confirmations", (payment(1, 9), None, false)),
            (PaymentReason::NotReadYet, "our tip is 50", (payment(1, 9), Some(51), false)),
            (PaymentReason::Forgotten, "state.history", (payment(1, 9), Some(30), false)),
        ] {
            let told = of(payment, height, failed);
            assert!(told.0 == reason && told.1.contains(text), "{reason:?}: {told:?}");
        }
    }

    #[test]
    fn payments_to_whom_it_is_about_are_explained_and_others_only_if_there_are_none() {
        let payments = vec![payment(3, 9), ShownPayment { output_index: 1, ..payment(1, 0) }];
        let shown = ShownTransaction { block: Some(block(30)), failed: false, payments, left_out: None };
        let outputs = |wanted: Option<&[u8]>| {
            let told = explained(&shown, wanted, &[], &state());
            told.iter().map(|one| one.output_index).collect::<Vec<_>>()
        };
        assert_eq!((outputs(None), outputs(Some(&[3])), outputs(Some(&[9]))), (vec![1], vec![0], vec![0, 1]));
    }
}
