//! Blocks as nodes give them: only what we need, so that unknown transaction types and fields of other networks don't matter.

use crate::quantity::{Quantity, Wei};
use alloy::primitives::{Address, B256, Bloom, b256};
use confirmd_core::{BlockHash, BlockHeader, BlockRef, Height, Timestamp};
use serde::de::{IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A block whose transactions are read as `T`: nothing, hashes, or whole.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Block<T> {
    /// Null only for a pending block.
    pub(crate) hash: B256,
    pub(crate) number: Quantity,
    pub(crate) parent_hash: B256,
    pub(crate) timestamp: Quantity,
    #[serde(default, deserialize_with = "bloom")]
    pub(crate) logs_bloom: Option<Bloom>,
    pub(crate) transactions: Vec<T>,
    #[serde(default)]
    pub(crate) transactions_root: Option<B256>,
    #[serde(default)]
    pub(crate) withdrawals: Option<Vec<Withdrawal>>,
}

/// A block of which only the header is looked at.
pub(crate) type Header = Block<IgnoredAny>;

/// A transaction of any type.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transaction {
    pub(crate) hash: B256,
    #[serde(default)]
    pub(crate) from: Option<Address>,
    #[serde(default)]
    pub(crate) to: Option<Address>,
    #[serde(default)]
    pub(crate) value: Option<Wei>,
    #[serde(default)]
    pub(crate) block_hash: Option<B256>,
    #[serde(default)]
    pub(crate) transaction_index: Option<Quantity>,
    #[serde(default, rename = "type")]
    pub(crate) kind: Option<Quantity>,
    /// OP stack: wei made for the sender before the value moves.
    #[serde(default)]
    pub(crate) mint: Option<Wei>,
}

/// EIP-4895. The amount is in Gwei.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Withdrawal {
    pub(crate) index: Quantity,
    pub(crate) address: Address,
    pub(crate) amount: Quantity,
}

/// The root of a block without transactions: keccak256 of the RLP of an empty string.
const EMPTY_ROOT: B256 = b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");

/// The highest type of Ethereum's own transactions, all of which have a value. Networks' own types may leave it out.
const ETHEREUM_TYPE_MAX: u64 = 4;

impl Block<Transaction> {
    /// What is wrong with its list of transactions, if anything is: it is empty although the block says that it has some,
    /// belongs elsewhere, stands in another order, or lacks what tells a payment.
    pub(crate) fn list_problem(&self) -> Option<String> {
        if self.lacks_its_transactions() {
            return Some("came without the transactions that its root is of".to_owned());
        }
        for (position, tx) in (0u64..).zip(&self.transactions) {
            let elsewhere = tx.block_hash.is_some_and(|hash| hash != self.hash);
            if elsewhere || tx.transaction_index.is_some_and(|index| index.0 != position) {
                return Some(format!("lists {} at position {position}, which says otherwise itself", tx.hash));
            }
            if tx.value.is_none() && tx.kind.is_none_or(|kind| kind.0 <= ETHEREUM_TYPE_MAX) {
                return Some(format!("lists {} at position {position} without a value", tx.hash));
            }
        }
        None
    }
}

impl<T> Block<T> {
    /// Whether the list of transactions is empty although the block says that it has some. A root of zeros says nothing:
    /// some networks have no root.
    pub(crate) fn lacks_its_transactions(&self) -> bool {
        let says_some = self.transactions_root.is_some_and(|root| root != EMPTY_ROOT && !root.is_zero());
        self.transactions.is_empty() && says_some
    }

    pub(crate) fn block_ref(&self) -> BlockRef {
        BlockRef { height: Height(self.number.0), hash: block_hash(self.hash) }
    }

    pub(crate) fn header(&self) -> BlockHeader {
        BlockHeader {
            block: self.block_ref(),
            parent: block_hash(self.parent_hash),
            time: Some(Timestamp::from_seconds(self.timestamp.0)),
        }
    }
}

/// A hash in our own spelling: `0x` and lower case.
pub(crate) fn block_hash(hash: B256) -> BlockHash {
    BlockHash::new(hash.to_string()).expect("invariant: 66 printable characters")
}

/// A bloom of the usual size, or nothing: some networks leave it out or shorten it.
fn bloom<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bloom>, D::Error> {
    struct Text;
    impl<'de> Visitor<'de> for Text {
        type Value = Option<Bloom>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a bloom filter")
        }
        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(text.parse().ok())
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_any(self)
        }
    }
    deserializer.deserialize_any(Text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use alloy::primitives::U256;
    use serde_json::json;

    #[test]
    fn b40_unknown_transaction_types_and_fields_are_read_leniently() {
        let hash = B256::repeat_byte(0xab);
        let block: Block<Transaction> = serde_json::from_value(json!({
            "hash": hash, "number": "0x10", "parentHash": B256::ZERO, "timestamp": "0x64", "logsBloom": "0x00",
            "l1BlockNumber": "0x1", "sendRoot": null, "withdrawals": null,
            "transactions": [
                { "hash": hash, "type": "0x7e", "from": "0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001", "to": null,
                  "sourceHash": hash, "mint": "0x5", "value": "0x5", "isSystemTx": false },
                { "hash": hash, "type": "0x6a", "from": "0x00000000000000000000000000000000000a4b05", "requestId": "0x1" },
            ],
        }))
        .unwrap();
        assert_eq!(block.block_ref().hash.as_str(), format!("0x{}", "ab".repeat(32)));
        assert_eq!(block.logs_bloom, None);
        assert_eq!(block.transactions[0].mint, Some(Wei(U256::from(5))));
        assert_eq!(block.transactions[1].value, None);
        assert_eq!(block.header().time, Some(Timestamp::from_seconds(100)));
    }
}
