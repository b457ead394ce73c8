//! Sealing blocks: gas, receipts, blooms, roots and the hash.

use alloy::consensus::proofs::{calculate_receipt_root, calculate_transaction_root, calculate_withdrawals_root};
use alloy::consensus::{EMPTY_OMMER_ROOT_HASH, Eip658Value, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom, TxEnvelope};
use alloy::eips::eip4895::Withdrawal;
use alloy::primitives::{B256, Bloom, Bytes, Log, U256, keccak256};

use super::tx::{GAS_PRICE, Sent};

/// What a block carries.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Tx(Box<Sent>),
    Withdrawal(Withdrawal),
}

/// A sealed block.
#[derive(Debug)]
pub(super) struct Mined {
    pub(super) hash: B256,
    pub(super) header: Header,
    pub(super) transactions: Vec<Sent>,
    pub(super) withdrawals: Vec<Withdrawal>,
}

pub(super) struct Template {
    pub(super) parent: B256,
    pub(super) number: u64,
    pub(super) timestamp: u64,
    /// Makes the block unlike any other.
    pub(super) extra_data: Bytes,
    pub(super) items: Vec<Item>,
}

pub(super) fn seal(template: Template) -> Mined {
    let (mut transactions, mut withdrawals) = (Vec::new(), Vec::new());
    for item in template.items {
        match item {
            Item::Tx(sent) => transactions.push(*sent),
            Item::Withdrawal(withdrawal) => withdrawals.push(withdrawal),
        }
    }
    let envelopes: Vec<TxEnvelope> = transactions.iter().map(|tx| tx.envelope.clone()).collect();
    let receipts = receipts(&transactions);
    let gas_used = transactions.iter().map(|tx| tx.spec.gas_used).sum();
    let logs = transactions.iter().flat_map(|tx| tx.spec.receipt_logs());
    let header = Header {
        parent_hash: template.parent,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        state_root: keccak256(&template.extra_data),
        transactions_root: calculate_transaction_root(&envelopes),
        receipts_root: calculate_receipt_root(&receipts),
        logs_bloom: logs.collect::<Bloom>(),
        difficulty: U256::ZERO,
        number: template.number,
        gas_limit: 30_000_000,
        gas_used,
        timestamp: template.timestamp,
        mix_hash: keccak256(template.number.to_be_bytes()),
        extra_data: template.extra_data,
        base_fee_per_gas: Some(u64::try_from(GAS_PRICE / 2).unwrap_or(0)),
        withdrawals_root: Some(calculate_withdrawals_root(&withdrawals)),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        parent_beacon_block_root: Some(B256::ZERO),
        ..Header::default()
    };
    Mined { hash: header.hash_slow(), header, transactions, withdrawals }
}

/// The consensus receipts, with the gas accumulated over the block.
fn receipts(transactions: &[Sent]) -> Vec<ReceiptEnvelope<Log>> {
    let mut cumulative = 0;
    let mut receipts = Vec::with_capacity(transactions.len());
    for tx in transactions {
        cumulative += tx.spec.gas_used;
        let logs = tx.spec.receipt_logs().to_vec();
        receipts.push(envelope(tx, receipt(tx, cumulative, logs)));
    }
    receipts
}

pub(super) fn receipt<T>(tx: &Sent, cumulative_gas_used: u64, logs: Vec<T>) -> ReceiptWithBloom<Receipt<T>> {
    let status = Eip658Value::Eip658(tx.spec.succeeds);
    let logs_bloom = tx.spec.receipt_logs().iter().collect::<Bloom>();
    ReceiptWithBloom { receipt: Receipt { status, cumulative_gas_used, logs }, logs_bloom }
}

pub(super) fn envelope<T>(tx: &Sent, receipt: ReceiptWithBloom<Receipt<T>>) -> ReceiptEnvelope<T> {
    match tx.envelope {
        TxEnvelope::Legacy(_) => ReceiptEnvelope::Legacy(receipt),
        _ => ReceiptEnvelope::Eip1559(receipt),
    }
}
