//! Litecoin's extension block (MWEB), which follows the transactions since its activation.
//!
//! Amounts and recipients in it are hidden, so nothing in it can be a deposit here; what leaves it (a peg-out) is an
//! ordinary output of the block's HogEx transaction. It is still walked field by field, so that every byte of the block
//! is accounted for. The walk was checked against recorded blocks and against the format of Litecoin's own software.

use crate::cursor::Cursor;
use crate::decode_error::DecodeError;

const HASH: usize = 32;
const PUBLIC_KEY: usize = 33;
const COMMITMENT: usize = 33;
const SIGNATURE: usize = 64;
const RANGE_PROOF: usize = 675;

const INPUT_KEY: u8 = 0x01;
const INPUT_EXTRA: u8 = 0x02;
/// Features, output id, commitment, output key, signature.
const INPUT_BYTES_MIN: usize = 1 + HASH + COMMITMENT + PUBLIC_KEY + SIGNATURE;

const OUTPUT_STANDARD: u8 = 0x01;
const OUTPUT_EXTRA: u8 = 0x02;
/// Key exchange key, view tag, masked value, masked nonce.
const OUTPUT_STANDARD_BYTES: usize = PUBLIC_KEY + 1 + 8 + 16;
/// Commitment, two keys, features, proof, signature.
const OUTPUT_BYTES_MIN: usize = COMMITMENT + 2 * PUBLIC_KEY + 1 + RANGE_PROOF + SIGNATURE;

const KERNEL_FEE: u8 = 0x01;
const KERNEL_PEG_IN: u8 = 0x02;
const KERNEL_PEG_OUTS: u8 = 0x04;
const KERNEL_LOCK_HEIGHT: u8 = 0x08;
const KERNEL_STEALTH_EXCESS: u8 = 0x10;
const KERNEL_EXTRA: u8 = 0x20;
/// Features, excess, signature.
const KERNEL_BYTES_MIN: usize = 1 + COMMITMENT + SIGNATURE;
/// An amount of one digit and an empty script's length.
const PEG_OUT_BYTES_MIN: usize = 2;

/// What can be said of an extension block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionBlock {
    /// The height in its header, which is the block's.
    pub height: u64,
    /// How many hidden outputs it spends.
    pub inputs: usize,
    /// How many hidden outputs it makes.
    pub outputs: usize,
    /// How many kernels it has.
    pub kernels: usize,
    /// Amounts that enter it, in base units, in order.
    pub peg_ins: Vec<u64>,
    /// Amounts that leave it and the scripts they go to, in order.
    pub peg_outs: Vec<(u64, Vec<u8>)>,
}

impl ExtensionBlock {
    /// `peg_outs_max`: outputs of the HogEx behind its first one. It pays each peg-out, so there are no more; and what is kept of
    /// the block is bounded by what was kept already.
    pub(crate) fn read(cursor: &mut Cursor<'_>, peg_outs_max: usize) -> Result<Self, DecodeError> {
        let height = cursor.base128()?;
        // Output, kernel and leaf set roots, kernel and stealth offsets.
        cursor.take(5 * HASH)?;
        // The sizes of the output and kernel ranges.
        cursor.base128()?;
        cursor.base128()?;
        let inputs = cursor.count(INPUT_BYTES_MIN)?;
        (0..inputs).try_for_each(|_| read_input(cursor))?;
        let outputs = cursor.count(OUTPUT_BYTES_MIN)?;
        (0..outputs).try_for_each(|_| read_output(cursor))?;
        let kernels = cursor.count(KERNEL_BYTES_MIN)?;
        let mut block = Self { height, inputs, outputs, kernels, peg_ins: Vec::new(), peg_outs: Vec::new() };
        (0..kernels).try_for_each(|_| block.read_kernel(cursor, peg_outs_max))?;
        Ok(block)
    }

    fn read_kernel(&mut self, cursor: &mut Cursor<'_>, peg_outs_max: usize) -> Result<(), DecodeError> {
        let features = cursor.u8()?;
        known(
            features,
            KERNEL_FEE | KERNEL_PEG_IN | KERNEL_PEG_OUTS | KERNEL_LOCK_HEIGHT | KERNEL_STEALTH_EXCESS | KERNEL_EXTRA,
        )?;
        if features & KERNEL_FEE != 0 {
            cursor.base128()?;
        }
        if features & KERNEL_PEG_IN != 0 {
            self.peg_ins.push(cursor.base128()?);
        }
        if features & KERNEL_PEG_OUTS != 0 {
            for _ in 0..cursor.count(PEG_OUT_BYTES_MIN)? {
                if self.peg_outs.len() >= peg_outs_max {
                    return Err(DecodeError::Block("has an extension block that pegs out more than its HogEx pays"));
                }
                self.peg_outs.push((cursor.base128()?, cursor.field()?.to_vec()));
            }
        }
        if features & KERNEL_LOCK_HEIGHT != 0 {
            cursor.base128()?;
        }
        if features & KERNEL_STEALTH_EXCESS != 0 {
            cursor.take(PUBLIC_KEY)?;
        }
        if features & KERNEL_EXTRA != 0 {
            cursor.field()?;
        }
        cursor.take(COMMITMENT + SIGNATURE).map(drop)
    }
}

fn read_input(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    let features = cursor.u8()?;
    known(features, INPUT_KEY | INPUT_EXTRA)?;
    cursor.take(HASH + COMMITMENT + PUBLIC_KEY)?;
    if features & INPUT_KEY != 0 {
        cursor.take(PUBLIC_KEY)?;
    }
    if features & INPUT_EXTRA != 0 {
        cursor.field()?;
    }
    cursor.take(SIGNATURE).map(drop)
}

fn read_output(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    cursor.take(COMMITMENT + 2 * PUBLIC_KEY)?;
    let features = cursor.u8()?;
    known(features, OUTPUT_STANDARD | OUTPUT_EXTRA)?;
    if features & OUTPUT_STANDARD != 0 {
        cursor.take(OUTPUT_STANDARD_BYTES)?;
    }
    if features & OUTPUT_EXTRA != 0 {
        cursor.field()?;
    }
    cursor.take(RANGE_PROOF + SIGNATURE).map(drop)
}

fn known(features: u8, mask: u8) -> Result<(), DecodeError> {
    if features & !mask == 0 {
        Ok(())
    } else {
        Err(DecodeError::Block("has an extension block with features that are not known here"))
    }
}

#[cfg(test)]
mod tests;
