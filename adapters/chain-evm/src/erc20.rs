//! What is an ERC-20 payment, and what only looks like one.

use crate::log::Log;
use alloy::primitives::{Address, B256};
use alloy::sol_types::SolEvent;
use confirmd_core::Amount;

alloy::sol! {
    event Transfer(address indexed from, address indexed to, uint256 value);
}

/// The event's topic; ERC-721 and others share it.
pub(crate) const TRANSFER: B256 = Transfer::SIGNATURE_HASH;

/// A payment of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenPayment {
    pub(crate) token: Address,
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) amount: Amount,
}

/// What a log of the event says; the amount may be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenTransfer {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) amount: Amount,
}

impl TokenTransfer {
    /// Exactly three topics, accounts in clean words, 32 bytes of data; not taken back.
    pub(crate) fn read(log: &Log) -> Option<Self> {
        let [topic, from, to] = log.topics.as_slice() else { return None };
        let amount = Amount::from_be_bytes(<[u8; 32]>::try_from(log.data.as_ref()).ok()?);
        if *topic != TRANSFER || log.removed {
            return None;
        }
        Some(Self { from: account(from)?, to: account(to)?, amount })
    }
}

impl TokenPayment {
    /// A [`TokenTransfer`] of an amount above zero. Whether the token is listed is the caller's question.
    pub(crate) fn read(log: &Log) -> Option<Self> {
        let TokenTransfer { from, to, amount } = TokenTransfer::read(log)?;
        (!amount.is_zero()).then_some(Self { token: log.address, from, to, amount })
    }
}

/// The account in a topic; none if the upper twelve bytes hold something else.
fn account(word: &B256) -> Option<Address> {
    let (upper, lower) = word.split_at_checked(12)?;
    upper.iter().all(|byte| *byte == 0).then(|| Address::from_slice(lower))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use alloy::primitives::{Bytes, U256};

    fn log(amount: U256) -> Log {
        Log {
            address: Address::repeat_byte(9),
            topics: vec![TRANSFER, Address::repeat_byte(1).into_word(), Address::repeat_byte(2).into_word()],
            data: Bytes::from(amount.to_be_bytes::<32>()),
            block_number: None,
            block_hash: None,
            block_timestamp: None,
            transaction_hash: None,
            removed: false,
        }
    }

    #[test]
    fn b35_s16_amounts_of_256_bits_are_exact() {
        for amount in [U256::from(1), U256::from((1u64 << 53) + 1), U256::from(1) << 64, U256::from(1) << 255, U256::MAX] {
            assert_eq!(TokenPayment::read(&log(amount)).unwrap().amount.as_u256(), amount);
        }
    }

    #[test]
    fn b09_b10_s10_look_alikes_are_no_payments() {
        let mut erc721 = log(U256::from(7));
        erc721.topics.push(B256::with_last_byte(7));
        assert_eq!(TokenPayment::read(&erc721), None);
        erc721.data = Bytes::new();
        assert_eq!(TokenPayment::read(&erc721), None);

        let mut unindexed = log(U256::from(7));
        unindexed.topics.truncate(1);
        unindexed.data = Bytes::from(vec![1; 96]);
        assert_eq!(TokenPayment::read(&unindexed), None);

        let mut long = log(U256::from(7));
        long.data = Bytes::from(vec![1; 33]);
        assert_eq!(TokenPayment::read(&long), None);

        let mut dirty = log(U256::from(7));
        dirty.topics[2][0] = 1;
        assert_eq!(TokenPayment::read(&dirty), None);

        let mut approval = log(U256::from(7));
        approval.topics[0] = B256::repeat_byte(3);
        assert_eq!(TokenPayment::read(&approval), None);

        assert_eq!(TokenPayment::read(&log(U256::ZERO)), None, "zero amounts are ignored");
    }

    #[test]
    fn b36_a_removed_log_is_no_payment() {
        let removed = Log { removed: true, ..log(U256::from(7)) };
        assert_eq!(TokenPayment::read(&removed), None);
    }
}
