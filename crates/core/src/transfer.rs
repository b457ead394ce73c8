//! One payment to a watched address, as it sits in a block now.

use crate::{Address, Amount, AssetId, BlockRef, DepositKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// What a key stands for. Labels, symbols and decimals are not part of it, nor is the block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    /// Who was paid.
    pub address: Address,
    /// In what.
    pub asset: AssetId,
    /// How much, in base units; never zero.
    pub amount: Amount,
    /// The destination tag or memo, on chains that have one.
    pub memo: Option<String>,
}

/// A payment and where it sits. Order within an answer: height, position, output index (S6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Its name; a function of the transaction alone.
    pub key: DepositKey,
    /// What was paid.
    pub payment: Payment,
    /// The block that carries it.
    pub block: BlockRef,
    /// That block's time, where the chain has one.
    pub block_time: Option<Timestamp>,
    /// The transaction's index in the block.
    pub position: u32,
    /// The payer as the chain shows it, where it does.
    pub from: Option<String>,
    /// Confirmations the chain itself asks for before the payment can be spent (coinbase outputs).
    pub maturity: Option<NonZeroU32>,
}
