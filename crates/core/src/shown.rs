//! What a node shows of one transaction, for people: nothing is decided on it.

use crate::{Address, Amount, AssetId, BlockRef};

/// A transaction as a node shows it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownTransaction {
    /// The block of the best chain that carries it; `None` while it is in none.
    pub block: Option<BlockRef>,
    /// Whether it failed: it is in the block and moved nothing.
    pub failed: bool,
    /// Its payments in the order of their output indexes, whatever is watched or listed.
    pub payments: Vec<ShownPayment>,
    /// What these leave out, in words; `None` if they are all it makes.
    pub left_out: Option<String>,
}

/// A payment of a transaction, also one that is none for an indexer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPayment {
    /// As in the deposit's key.
    pub output_index: u32,
    /// Who is paid; `None` where no address says it.
    pub address: Option<Address>,
    /// In what; of a token that is not listed the id that it would be listed by.
    pub asset: AssetId,
    /// Base units; may be zero.
    pub amount: Amount,
    /// Why it is not taken, where asset, amount and address do not tell.
    pub remark: Option<String>,
}
