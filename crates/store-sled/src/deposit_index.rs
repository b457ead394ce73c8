//! The indexes of the read model: each entry ends in the time a deposit was first seen and its digest.

use crate::keys::{self, Key};
use crate::record::Kind;
use crate::rows::DepositRow;
use confirmd_core::{ChainId, DepositFilter, DepositState, Height, KeyDigest};
use sha2::{Digest, Sha256};

/// Texts are indexed by the first half of their hash: short, and of one length.
fn short(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    out.iter_mut().zip(Sha256::digest(text.as_bytes())).for_each(|(to, from)| *to = from);
    out
}

fn state_byte(state: DepositState) -> u8 {
    match state {
        DepositState::Pending => 1,
        DepositState::Confirmed => 2,
        DepositState::Settled => 3,
        DepositState::Orphaned => 4,
        DepositState::Reverted => 5,
        DepositState::BelowMinimum => 6,
    }
}

/// Every index entry of a deposit.
pub(crate) fn index_keys(digest: &KeyDigest, row: &DepositRow) -> Vec<Key> {
    let entry = |kind, value: &[u8]| keys::index_entry(kind, value, row.seen_at, digest);
    let mut entries = vec![
        entry(Kind::ByTime, &[]),
        entry(Kind::ByChain, &short(row.chain.as_str())),
        entry(Kind::ByAddress, &short(row.address.as_str())),
        entry(Kind::ByTransaction, &short(row.key.tx_id.as_str())),
        entry(Kind::ByState, &[state_byte(row.state)]),
    ];
    entries.extend(row.reference.as_deref().map(|reference| entry(Kind::ByReference, &short(reference))));
    if row.state == DepositState::BelowMinimum {
        entries.push(entry(Kind::BelowMinimum, &place(&row.chain, row.block.height)));
    }
    entries
}

fn place(chain: &ChainId, height: Height) -> Vec<u8> {
    [short(chain.as_str()).as_slice(), &height.0.to_be_bytes()].concat()
}

/// From where to where the entries lie of a chain's payments below their minimum in blocks above a height.
pub(crate) fn below_minimum_above(chain: &ChainId, height: Height) -> (Key, Key) {
    let from = keys::index(Kind::BelowMinimum, &place(chain, height.next()));
    (from, keys::index(Kind::BelowMinimum, &short(chain.as_str())).end())
}

/// The index that narrows a filter most, and the value to look under.
pub(crate) fn index_for(filter: &DepositFilter) -> (Kind, Vec<u8>) {
    if let Some(tx_id) = &filter.tx_id {
        (Kind::ByTransaction, short(tx_id).to_vec())
    } else if let Some(address) = &filter.address {
        (Kind::ByAddress, short(address).to_vec())
    } else if let Some(reference) = &filter.reference {
        (Kind::ByReference, short(reference).to_vec())
    } else if let Some(state) = filter.state {
        (Kind::ByState, vec![state_byte(state)])
    } else if let Some(chain) = &filter.chain {
        (Kind::ByChain, short(chain.as_str()).to_vec())
    } else {
        (Kind::ByTime, Vec::new())
    }
}

/// Whether a deposit is one of those asked for.
pub(crate) fn matches(filter: &DepositFilter, row: &DepositRow) -> bool {
    filter.chain.as_ref().is_none_or(|chain| *chain == row.chain)
        && filter.address.as_ref().is_none_or(|address| *address == row.address.as_str())
        && filter.reference.as_deref().is_none_or(|reference| Some(reference) == row.reference.as_deref())
        && filter.state.is_none_or(|state| state == row.state)
        && filter.tx_id.as_ref().is_none_or(|tx_id| *tx_id == row.key.tx_id.as_str())
        && filter.output_index.is_none_or(|index| index == row.key.output_index)
        && filter.asset.as_deref().is_none_or(|asset| asset == row.asset.symbol || asset == row.asset.id.as_str())
}
