//! A transaction's own value, as a payment.

use crate::block::Transaction;
use alloy::primitives::Address;
use confirmd_core::Amount;

/// Arbitrum: coin bridged from the parent chain, made for the sender before it moves.
const ARBITRUM_DEPOSIT: u64 = 0x64;

/// Value moved by a transaction itself, if it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NativePayment {
    pub(crate) from: Option<Address>,
    pub(crate) to: Address,
    pub(crate) amount: Amount,
}

impl NativePayment {
    /// None for contract creations, zero values, and accounts that pay themselves: their balance does not grow.
    /// Coin bridged by an account to itself is new to the chain, and counts.
    pub(crate) fn read(tx: &Transaction) -> Option<Self> {
        let (amount, to) = (value_of(tx)?, tx.to?);
        (!amount.is_zero() && !to_itself(tx)).then_some(Self { from: tx.from, to, amount })
    }
}

/// What it moves, which may be nothing; none where the network's transactions of this type have no value.
pub(crate) fn value_of(tx: &Transaction) -> Option<Amount> {
    Some(Amount::from(tx.value?.0))
}

/// An account pays itself what it had already.
pub(crate) fn to_itself(tx: &Transaction) -> bool {
    let bridged = tx.mint.is_some_and(|mint| !mint.0.is_zero()) || tx.kind.is_some_and(|kind| kind.0 == ARBITRUM_DEPOSIT);
    tx.to.is_some() && tx.from == tx.to && !bridged
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::quantity::{Quantity, Wei};
    use alloy::primitives::{B256, U256};

    fn tx() -> Transaction {
        Transaction {
            hash: B256::ZERO,
            from: Some(Address::repeat_byte(1)),
            to: Some(Address::repeat_byte(2)),
            value: Some(Wei(U256::from(5))),
            block_hash: None,
            transaction_index: None,
            kind: Some(Quantity(2)),
            mint: None,
        }
    }

    #[test]
    fn creations_and_zero_values_pay_nobody() {
        assert!(NativePayment::read(&tx()).is_some());
        assert_eq!(NativePayment::read(&Transaction { to: None, ..tx() }), None);
        assert_eq!(NativePayment::read(&Transaction { value: Some(Wei(U256::ZERO)), ..tx() }), None);
        assert_eq!(NativePayment::read(&Transaction { value: None, ..tx() }), None);
    }

    #[test]
    fn b33_b40_paying_oneself_is_no_credit_but_bridging_to_oneself_is() {
        let own = Transaction { from: tx().to, ..tx() };
        assert_eq!(NativePayment::read(&own), None);
        assert!(
            NativePayment::read(&Transaction { mint: Some(Wei(U256::from(5))), kind: Some(Quantity(0x7e)), ..own.clone() })
                .is_some()
        );
        assert!(NativePayment::read(&Transaction { kind: Some(Quantity(0x64)), ..own }).is_some());
    }

    #[test]
    fn s16_native_amounts_of_256_bits_are_exact() {
        let most = NativePayment::read(&Transaction { value: Some(Wei(U256::MAX)), ..tx() }).unwrap();
        assert_eq!(most.amount, Amount::MAX);
    }
}
