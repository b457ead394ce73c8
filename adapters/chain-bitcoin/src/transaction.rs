//! One transaction of a block: its id and its outputs.

use crate::cursor::Cursor;
use crate::decode_error::DecodeError;
use bitcoin::Txid;
use bitcoin::hashes::{Hash, HashEngine, sha256d};

/// BIP 144: witnesses follow the outputs.
const FLAG_WITNESS: u8 = 0x01;
/// Litecoin: an MWEB part follows the witnesses; within a block it is empty and marks the HogEx.
const FLAG_MWEB: u8 = 0x08;
/// An outpoint, an empty script's length and a sequence.
const INPUT_BYTES_MIN: usize = 41;
/// A value and an empty script's length.
const OUTPUT_BYTES_MIN: usize = 9;
const OUTPOINT_BYTES: usize = 36;
const SEQUENCE_BYTES: usize = 4;

/// One output as it stands in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output<'a> {
    /// The transaction's index in the block; 0 is the coinbase.
    pub position: u32,
    /// The output's index in the transaction.
    pub vout: u32,
    /// Base units (satoshi, litoshi).
    pub value: u64,
    /// The output script.
    pub script: &'a [u8],
}

/// What is kept of a transaction beside its outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// SHA-256d of its bytes without flag, witnesses and MWEB part.
    pub(crate) txid: Txid,
    /// Its first input spends nothing.
    pub(crate) is_coinbase: bool,
    /// Litecoin's integrating transaction, made by the block for its extension block.
    pub(crate) is_hogex: bool,
}

impl Transaction {
    /// Reads one transaction and adds its outputs to `outputs`. `mweb`: the network knows [`FLAG_MWEB`].
    pub(crate) fn read<'a>(
        cursor: &mut Cursor<'a>,
        position: u32,
        mweb: bool,
        outputs: &mut Vec<Output<'a>>,
    ) -> Result<Self, DecodeError> {
        let start = cursor.at();
        let version = cursor.take(4)?;
        let flags = read_flags(cursor, position, mweb)?;
        let body_start = cursor.at();
        let inputs = cursor.count(INPUT_BYTES_MIN)?;
        if inputs == 0 {
            return Err(DecodeError::Transaction { position, problem: "has no inputs" });
        }
        let first_input = cursor.at();
        let is_coinbase = inputs == 1 && cursor.between(first_input, first_input.saturating_add(OUTPOINT_BYTES)) == NO_OUTPOINT;
        for _ in 0..inputs {
            cursor.take(OUTPOINT_BYTES)?;
            cursor.field()?;
            cursor.take(SEQUENCE_BYTES)?;
        }
        let outputs_count = cursor.count(OUTPUT_BYTES_MIN)?;
        for vout in 0..outputs_count {
            let vout = u32::try_from(vout).map_err(|_| DecodeError::Block("is larger than 32 bits can count"))?;
            outputs.push(Output { position, vout, value: cursor.u64()?, script: cursor.field()? });
        }
        let body_end = cursor.at();
        if flags & FLAG_WITNESS != 0 {
            read_witnesses(cursor, position, inputs)?;
        }
        let is_hogex = flags & FLAG_MWEB != 0;
        if is_hogex && cursor.u8()? != 0 {
            return Err(DecodeError::Transaction {
                position,
                problem: "carries an MWEB part of its own, which belongs into the extension block",
            });
        }
        let lock_time = cursor.take(4)?;
        let txid = if flags == 0 {
            sha256d::Hash::hash(cursor.between(start, cursor.at()))
        } else {
            let mut engine = sha256d::Hash::engine();
            engine.input(version);
            engine.input(cursor.between(body_start, body_end));
            engine.input(lock_time);
            sha256d::Hash::from_engine(engine)
        };
        Ok(Self { txid: Txid::from_raw_hash(txid), is_coinbase, is_hogex })
    }
}

/// The outpoint of a coinbase's input.
const NO_OUTPOINT: [u8; OUTPOINT_BYTES] = {
    let mut bytes = [0; OUTPOINT_BYTES];
    let (_, index) = bytes.split_at_mut(32);
    index.copy_from_slice(&[0xff; 4]);
    bytes
};

/// The flag byte behind an empty list of inputs; zero without one.
fn read_flags(cursor: &mut Cursor<'_>, position: u32, mweb: bool) -> Result<u8, DecodeError> {
    if cursor.peek() != Some(0) {
        return Ok(0);
    }
    cursor.take(1)?;
    let flags = cursor.u8()?;
    let known = FLAG_WITNESS | if mweb { FLAG_MWEB } else { 0 };
    if flags == 0 || flags & !known != 0 {
        return Err(DecodeError::Flags { position, flags });
    }
    Ok(flags)
}

fn read_witnesses(cursor: &mut Cursor<'_>, position: u32, inputs: usize) -> Result<(), DecodeError> {
    let mut empty = true;
    for _ in 0..inputs {
        let items = cursor.count(1)?;
        empty &= items == 0;
        for _ in 0..items {
            cursor.field()?;
        }
    }
    if empty {
        return Err(DecodeError::Transaction { position, problem: "says that it has witnesses and has none" });
    }
    Ok(())
}
