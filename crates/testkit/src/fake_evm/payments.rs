//! What the best chain pays, told from what its transactions were made to do: the truth that a
//! ledger is compared with.

use alloy::primitives::{Address, B256, U256};

use super::block::Mined;
use super::tx::{Call, Sent, transfer_topic};

/// Internal transfers are numbered from here on.
const INTERNAL_BASE: u64 = 1_000_000_000;

/// One payment of the best chain, named as confirmd names its deposits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvmPayment {
    /// The transaction hash in hex, or `withdrawal:` and the global index.
    pub tx_id: String,
    /// 0 for the transaction's value or a withdrawal; 1 + n for the n-th log of its receipt;
    /// 1,000,000,000 + n for its n-th internal transfer.
    pub output_index: u64,
    /// Who is paid.
    pub to: Address,
    /// The ERC-20 contract; None for the native asset.
    pub token: Option<Address>,
    /// Base units, above zero.
    pub amount: U256,
    /// Height of its block.
    pub height: u64,
    /// Hash of its block.
    pub block: B256,
}

pub(super) fn of_block(mined: &Mined, payments: &mut Vec<EvmPayment>) {
    let mut add = |tx_id: &str, output_index, to, token, amount: U256| {
        if !amount.is_zero() {
            let (height, block) = (mined.header.number, mined.hash);
            let tx_id = tx_id.to_owned();
            payments.push(EvmPayment { tx_id, output_index, to, token, amount, height, block });
        }
    };
    for sent in mined.transactions.iter().filter(|sent| sent.spec.succeeds) {
        of_transaction(sent, &mut add);
    }
    for withdrawal in &mined.withdrawals {
        let amount = U256::from(withdrawal.amount) * U256::from(1_000_000_000u64);
        add(&format!("withdrawal:{}", withdrawal.index), 0, withdrawal.address, None, amount);
    }
}

fn of_transaction(sent: &Sent, add: &mut impl FnMut(&str, u64, Address, Option<Address>, U256)) {
    let tx_id = sent.hash.to_string();
    if let Some(to) = sent.spec.to.or(sent.created()) {
        add(&tx_id, 0, to, None, sent.spec.value);
    }
    for (n, log) in (0u64..).zip(&sent.spec.logs) {
        if let ([topic, _, to], data) = (log.data.topics(), &log.data.data)
            && *topic == transfer_topic()
            && data.len() == 32
        {
            let amount = U256::from_be_slice(data);
            add(&tx_id, 1 + n, Address::from_word(*to), Some(log.address), amount);
        }
    }
    let mut internal = Vec::new();
    flatten(&sent.spec.calls, &mut internal);
    for (n, call) in (0u64..).zip(internal) {
        add(&tx_id, INTERNAL_BASE + n, call.to, None, call.value);
    }
}

/// The frames that moved value, depth first in call order.
fn flatten<'a>(calls: &'a [Call], moved: &mut Vec<&'a Call>) {
    for call in calls.iter().filter(|call| call.error.is_none()) {
        if call.kind.moves_value() && !call.value.is_zero() {
            moved.push(call);
        }
        flatten(&call.calls, moved);
    }
}
