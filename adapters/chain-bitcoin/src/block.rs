//! A raw block, read whole and checked against its own header.

use crate::cursor::Cursor;
use crate::decode_error::DecodeError;
use crate::extension::ExtensionBlock;
use crate::network::Network;
use crate::transaction::{Output, Transaction};
use bitcoin::block::Header;
use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{BlockHash, Txid};

/// A block's header, in bytes.
pub(crate) const HEADER_BYTES: usize = 80;
/// Version, one input, no output, lock time.
const TRANSACTION_BYTES_MIN: usize = 10;
/// Outputs reserved for a transaction before they are read: most have two.
const OUTPUTS_GUESS: usize = 2;
/// `OP_8` and 32 bytes: where the HogEx keeps what is in the extension block.
const HOGADDR_PREFIX: [u8; 2] = [0x58, 0x20];

/// A decoded block: every byte was used, and the merkle root of the transactions is the header's. Outputs borrow from
/// the block's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block<'a> {
    /// SHA-256d of the header (on Litecoin, too).
    pub hash: BlockHash,
    /// The header.
    pub header: Header,
    /// The transactions' ids by position; 0 is the coinbase.
    pub txids: Vec<Txid>,
    /// Every output of every transaction, in order.
    pub outputs: Vec<Output<'a>>,
    /// The position of the HogEx transaction, on Litecoin since MWEB.
    pub hogex: Option<u32>,
    /// What follows the transactions, on Litecoin since MWEB.
    pub extension: Option<ExtensionBlock>,
}

impl<'a> Block<'a> {
    /// Reads the block with this hash. The bytes of another block are refused.
    pub fn decode_as(hash: &BlockHash, bytes: &'a [u8], network: &Network) -> Result<Self, DecodeError> {
        let found = read_header(&mut Cursor::new(bytes))?.block_hash();
        if found != *hash {
            return Err(DecodeError::OtherBlock { found });
        }
        Self::decode(bytes, network)
    }

    /// Reads a block of `network`. Allocates no more than a small multiple of the bytes' length, whatever they claim.
    pub fn decode(bytes: &'a [u8], network: &Network) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        let header = read_header(&mut cursor)?;
        let count = cursor.count(TRANSACTION_BYTES_MIN)?;
        if count == 0 {
            return Err(DecodeError::Block("has no transactions"));
        }
        let mut txids = Vec::with_capacity(count);
        let mut outputs = Vec::with_capacity(count.saturating_mul(OUTPUTS_GUESS));
        let (mut hogex, mut hogex_outputs) = (None, 0);
        for index in 0..count {
            let position = u32::try_from(index).map_err(|_| DecodeError::Block("is larger than 32 bits can count"))?;
            let transaction = Transaction::read(&mut cursor, position, network.mweb, &mut outputs)?;
            if transaction.is_coinbase != (position == 0) {
                return Err(DecodeError::Transaction {
                    position,
                    problem: "is a coinbase in the wrong place, or is none at the first",
                });
            }
            if transaction.is_hogex {
                check_hogex(position, count, &outputs)?;
                (hogex, hogex_outputs) = (Some(position), of_position(&outputs, position).count());
            }
            txids.push(transaction.txid);
        }
        check_merkle_root(&txids, &header)?;
        if network.mweb && hogex.is_none() {
            refuse_unmarked_hogex(&txids, &outputs)?;
        }
        let extension = if hogex.is_some() { Some(read_extension(&mut cursor, hogex_outputs)?) } else { None };
        cursor.finish()?;
        Ok(Self { hash: header.block_hash(), header, txids, outputs, hogex, extension })
    }
}

pub(crate) fn read_header(cursor: &mut Cursor<'_>) -> Result<Header, DecodeError> {
    let bytes = cursor.take(HEADER_BYTES)?;
    Ok(deserialize(bytes).expect("invariant: any 80 bytes are a header"))
}

/// The HogEx is the last of at least two transactions, and its first output holds the extension block's coins.
fn check_hogex(position: u32, count: usize, outputs: &[Output<'_>]) -> Result<(), DecodeError> {
    let refuse = |problem| Err(DecodeError::Transaction { position, problem });
    if position == 0 || usize::try_from(position).map(|position| position.saturating_add(1)) != Ok(count) {
        return refuse("is a HogEx that is not the block's last transaction");
    }
    if holds_extension_coins(outputs, position) {
        Ok(())
    } else {
        refuse("is a HogEx whose first output does not hold the extension block's coins")
    }
}

/// The flag that marks a HogEx is not under the merkle root, and peg-outs mature by it. The last transaction of a block holds
/// the extension block's coins only if it is one: since MWEB every block ends in its HogEx.
fn refuse_unmarked_hogex(txids: &[Txid], outputs: &[Output<'_>]) -> Result<(), DecodeError> {
    match u32::try_from(txids.len()).ok().and_then(|count| count.checked_sub(1)).filter(|last| *last > 0) {
        Some(last) if holds_extension_coins(outputs, last) => {
            Err(DecodeError::Transaction { position: last, problem: "is a HogEx that is not marked as one" })
        }
        _ => Ok(()),
    }
}

fn holds_extension_coins(outputs: &[Output<'_>], position: u32) -> bool {
    let first = of_position(outputs, position).next();
    first.is_some_and(|output| output.script.len() == 34 && output.script.starts_with(&HOGADDR_PREFIX))
}

fn of_position<'o, 'a>(outputs: &'o [Output<'a>], position: u32) -> impl Iterator<Item = &'o Output<'a>> {
    let from = outputs.partition_point(|output| output.position < position);
    outputs.get(from..).unwrap_or_default().iter().take_while(move |output| output.position == position)
}

fn read_extension(cursor: &mut Cursor<'_>, hogex_outputs: usize) -> Result<ExtensionBlock, DecodeError> {
    match cursor.u8()? {
        1 => ExtensionBlock::read(cursor, hogex_outputs.saturating_sub(1)),
        _ => Err(DecodeError::Block("has a HogEx and no extension block")),
    }
}

/// Computes the root level by level. A list that repeats its own end has the same root as the list without it: two equal
/// neighbours in a pair give that away.
fn check_merkle_root(txids: &[Txid], header: &Header) -> Result<(), DecodeError> {
    let mut level: Vec<[u8; 32]> = txids.iter().map(|txid| txid.to_byte_array()).collect();
    while level.len() > 1 {
        let mut above = Vec::with_capacity(level.len().div_ceil(2));
        for pair in level.chunks(2) {
            let (left, right) = match pair {
                [left, right] if left == right => return Err(DecodeError::Repeated),
                [left, right] => (left, right),
                [last] => (last, last),
                _ => continue,
            };
            let mut both = [0u8; 64];
            let (first, second) = both.split_at_mut(32);
            first.copy_from_slice(left);
            second.copy_from_slice(right);
            above.push(sha256d::Hash::hash(&both).to_byte_array());
        }
        level = above;
    }
    if level.first() == Some(&header.merkle_root.to_byte_array()) { Ok(()) } else { Err(DecodeError::MerkleRoot) }
}

#[cfg(test)]
mod tests;
