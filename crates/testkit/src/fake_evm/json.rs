//! Blocks, transactions, receipts and logs in the forms of the RPC.

use alloy::consensus::TxEnvelope;
use alloy::consensus::transaction::Recovered;
use alloy::eips::eip4895::Withdrawals;
use alloy::primitives::U256;
use alloy::rpc::types::{Block, BlockTransactions, Header, Log, Transaction, TransactionReceipt};

use super::block::{self, Mined};
use super::tx::{GAS_PRICE, Sent};

pub(super) fn block(mined: &Mined, full: bool) -> Block<Transaction<TxEnvelope>> {
    let transactions = if full {
        let all = (0u64..).zip(&mined.transactions);
        BlockTransactions::Full(all.map(|(n, sent)| transaction(sent, Some((mined, n)))).collect())
    } else {
        BlockTransactions::Hashes(mined.transactions.iter().map(|sent| sent.hash).collect())
    };
    Block {
        header: Header {
            hash: mined.hash,
            inner: mined.header.clone(),
            total_difficulty: None,
            size: Some(U256::from(mined.header.size())),
        },
        uncles: Vec::new(),
        transactions,
        withdrawals: Some(Withdrawals::new(mined.withdrawals.clone())),
    }
}

/// `place` is the block and the transaction's index in it; None while it waits in the pool.
pub(super) fn transaction(sent: &Sent, place: Option<(&Mined, u64)>) -> Transaction<TxEnvelope> {
    Transaction {
        inner: Recovered::new_unchecked(sent.envelope.clone(), sent.spec.from),
        block_hash: place.map(|(mined, _)| mined.hash),
        block_number: place.map(|(mined, _)| mined.header.number),
        transaction_index: place.map(|(_, n)| n),
        effective_gas_price: Some(GAS_PRICE),
        block_timestamp: None,
    }
}

/// The receipts of a block, in order.
pub(super) fn receipts(mined: &Mined) -> Vec<TransactionReceipt> {
    let mut cumulative = 0;
    let mut logs = logs(mined).into_iter();
    let mut receipts = Vec::with_capacity(mined.transactions.len());
    for (n, sent) in (0u64..).zip(&mined.transactions) {
        cumulative += sent.spec.gas_used;
        let own = logs.by_ref().take(sent.spec.receipt_logs().len()).collect();
        receipts.push(TransactionReceipt {
            inner: block::envelope(sent, block::receipt(sent, cumulative, own)),
            transaction_hash: sent.hash,
            transaction_index: Some(n),
            block_hash: Some(mined.hash),
            block_number: Some(mined.header.number),
            gas_used: sent.spec.gas_used,
            effective_gas_price: GAS_PRICE,
            blob_gas_used: None,
            blob_gas_price: None,
            from: sent.spec.from,
            to: sent.spec.to,
            contract_address: sent.created(),
        });
    }
    receipts
}

/// All logs of a block; `logIndex` counts over the block.
pub(super) fn logs(mined: &Mined) -> Vec<Log> {
    let emitted =
        (0u64..).zip(&mined.transactions).flat_map(|(n, sent)| sent.spec.receipt_logs().iter().map(move |log| (n, sent, log)));
    (0u64..)
        .zip(emitted)
        .map(|(log_index, (n, sent, log))| Log {
            inner: log.clone(),
            block_hash: Some(mined.hash),
            block_number: Some(mined.header.number),
            block_timestamp: Some(mined.header.timestamp),
            transaction_hash: Some(sent.hash),
            transaction_index: Some(n),
            log_index: Some(log_index),
            removed: false,
        })
        .collect()
}
