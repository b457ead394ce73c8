//! Checks of a source's answer before anything is decided on it. The source is code of others; money depends on its word.

use confirmd_core::{BlockRef, DepositKey, Height, Transfer, WatchSet};
use std::collections::HashSet;

/// A rule of the source contract that an answer breaks. The chain halts on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {detail}")]
pub struct Breach {
    /// The rule's id in `docs/contracts/source.md`.
    pub rule: &'static str,
    /// What was answered.
    pub detail: String,
}

impl Breach {
    pub(crate) fn new(rule: &'static str, detail: String) -> Self {
        Self { rule, detail }
    }
}

/// Checks an answer of `transfers(from, to, watch)`: range and branch (S5), order (S6), unique keys (S7), watched, listed,
/// an amount (S10). `recorded` gives the trail's hash at a height, where the trail holds one.
pub fn check_answer<'a>(
    transfers: &[Transfer],
    from: Height,
    to: &BlockRef,
    watch: &WatchSet,
    recorded: impl Fn(Height) -> Option<&'a BlockRef>,
) -> Result<(), Breach> {
    let mut keys: HashSet<&DepositKey> = HashSet::with_capacity(transfers.len());
    let mut last_place = None;
    for transfer in transfers {
        let (key, block, payment) = (&transfer.key, &transfer.block, &transfer.payment);
        if block.height < from || block.height > to.height {
            return Err(Breach::new("S5", format!("{key} in block {block} lies outside {from} to {}", to.height)));
        }
        if let Some(expected) = recorded(block.height).filter(|expected| expected.hash != block.hash) {
            return Err(Breach::new("S5", format!("{key} in block {block} is not on the branch, which has {expected}")));
        }
        let watched = watch.contains(payment.address.bytes());
        if !watched || watch.asset(&payment.asset).is_none() {
            return Err(Breach::new(
                "S5",
                format!("{key} pays {} in {}, which nobody asked for", payment.address, payment.asset),
            ));
        }
        if payment.amount.is_zero() {
            return Err(Breach::new("S10", format!("{key} pays nothing")));
        }
        if !keys.insert(key) {
            return Err(Breach::new("S7", format!("{key} stands twice in one answer")));
        }
        let place = (block.height, transfer.position, key.output_index);
        if last_place.is_some_and(|last| last > place) {
            return Err(Breach::new("S6", format!("{key} in block {block} is out of order")));
        }
        last_place = Some(place);
    }
    Ok(())
}
