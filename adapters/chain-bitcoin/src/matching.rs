//! From a decoded block to the payments in it that are watched for.

use crate::block::Block;
use crate::destination::SCRIPT_BYTES_MAX;
use confirmd_core::{Amount, AssetId, BlockHash, BlockRef, DepositKey, Height, Payment, Timestamp, Transfer, TxId, WatchSet};
use std::num::NonZeroU32;

/// Confirmations before a coinbase output can be spent, on every network of the family: the transaction that spends an
/// output of block `h` may stand in block `h + 100`, for which 100 confirmations must be there.
const COINBASE_MATURITY: NonZeroU32 = NonZeroU32::new(100).expect("invariant: 100 is not zero");
/// Confirmations before a peg-out can be spent, counted the same way.
const PEG_OUT_MATURITY: NonZeroU32 = NonZeroU32::new(6).expect("invariant: 6 is not zero");

/// The block's outputs that pay a watched script more than nothing in `coin`, in order of position and output index.
/// `height` is the block's. The cost beside decoding is one look-up an output.
pub fn transfers_in(block: &Block<'_>, height: Height, coin: &AssetId, watch: &WatchSet) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    let mut found_in = None;
    for output in &block.outputs {
        if output.value == 0 || output.script.len() > SCRIPT_BYTES_MAX {
            continue;
        }
        let Some(entry) = watch.get(output.script) else { continue };
        let Some(txid) = usize::try_from(output.position).ok().and_then(|position| block.txids.get(position)) else { continue };
        let found_in = found_in.get_or_insert_with(|| BlockRef { height, hash: block_hash(&block.hash) });
        transfers.push(Transfer {
            key: DepositKey { tx_id: tx_id(txid), output_index: output.vout },
            payment: Payment { address: entry.address, asset: coin.clone(), amount: Amount::from(output.value), memo: None },
            block: found_in.clone(),
            block_time: Some(Timestamp::from_seconds(u64::from(block.header.time))),
            position: output.position,
            from: None,
            maturity: maturity(block, output.position),
        });
    }
    transfers
}

fn maturity(block: &Block<'_>, position: u32) -> Option<NonZeroU32> {
    match position {
        0 => Some(COINBASE_MATURITY),
        _ if block.hogex == Some(position) => Some(PEG_OUT_MATURITY),
        _ => None,
    }
}

/// The hash as nodes print it.
pub(crate) fn block_hash(hash: &bitcoin::BlockHash) -> BlockHash {
    BlockHash::new(hash.to_string()).expect("invariant: 64 hex digits are a block hash")
}

fn tx_id(txid: &bitcoin::Txid) -> TxId {
    TxId::new(txid.to_string()).expect("invariant: 64 hex digits are a transaction id")
}

#[cfg(test)]
mod tests;
