//! What names a deposit: the payment's place in its transaction, never where it was mined or when we learned of it.

use crate::ChainId;
use crate::text_id::{is_token, text_id};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

text_id!(
    /// A transaction's id as the chain's own tools print it (txid, not wtxid; transaction hash; `withdrawal:` + index).
    TxId, "a transaction id", "1 to 128 printable characters", |text| is_token(text, 128)
);

/// A deposit within a chain: `(tx_id, output_index)`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DepositKey {
    /// The transaction.
    pub tx_id: TxId,
    /// A function of the transaction alone, unique within it (per chain family: the identity table in ARCHITECTURE.md).
    pub output_index: u32,
}

impl fmt::Display for DepositKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tx_id, self.output_index)
    }
}

/// 16 bytes that stand for (chain, deposit key) where keys are kept for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyDigest(pub [u8; 16]);

impl KeyDigest {
    /// The first half of SHA-256 over the length-prefixed chain id and transaction id, and the big-endian output index.
    pub fn of(chain: &ChainId, key: &DepositKey) -> Self {
        let mut hasher = Sha256::new();
        feed(&mut hasher, chain.as_str().as_bytes());
        feed(&mut hasher, key.tx_id.as_str().as_bytes());
        hasher.update(key.output_index.to_be_bytes());
        let mut digest = [0; 16];
        digest.iter_mut().zip(hasher.finalize()).for_each(|(to, from)| *to = from);
        Self(digest)
    }
}

/// One length-prefixed field of a hashed tuple, so that no two tuples give the same bytes.
pub(crate) fn feed(hasher: &mut Sha256, field: &[u8]) {
    hasher.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
    hasher.update(field);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_same_key_on_two_chains_has_two_digests() {
        let key = DepositKey { tx_id: TxId::new("0xab").unwrap(), output_index: 0 };
        let one = KeyDigest::of(&ChainId::new("eip155:1").unwrap(), &key);
        let two = KeyDigest::of(&ChainId::new("eip155:61").unwrap(), &key);
        assert_ne!(one, two);
    }

    #[test]
    fn the_digest_is_pinned_since_it_is_on_disk() {
        let key = DepositKey { tx_id: TxId::new("0xab").unwrap(), output_index: 7 };
        let digest = KeyDigest::of(&ChainId::new("eip155:1").unwrap(), &key);
        assert_eq!(const_hex::encode(digest.0), "44b7d70bc56bef7521c6627aeb458525");
    }
}
