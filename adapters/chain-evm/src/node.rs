//! One node, asked in as few requests as it takes.

use crate::block::Block;
use crate::receipt::Receipt;
use alloy::primitives::B256;
use confirmd_core::{ConfigError, SourceError};
use confirmd_rpc::{CallError, EndpointConfig, Limits, RpcClient, RpcClientBuilder, RpcError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Providers cap batches at 1,000; half of it keeps answers small, too.
const BATCH_MAX: usize = 500;
/// A full block is 100 to 500 kB of JSON.
pub(crate) const FULL_BLOCKS_MAX: usize = 20;
/// A block's traces are 1 to 50 MB, and costly to make.
pub(crate) const TRACES_MAX: usize = 2;

pub(crate) const BY_NUMBER: &str = "eth_getBlockByNumber";
pub(crate) const BY_HASH: &str = "eth_getBlockByHash";
pub(crate) const GET_LOGS: &str = "eth_getLogs";
pub(crate) const TRACE_BLOCK: &str = "debug_traceBlockByHash";
const BLOCK_RECEIPTS: &str = "eth_getBlockReceipts";
pub(crate) const RECEIPT: &str = "eth_getTransactionReceipt";

/// A method and its parameters.
pub(crate) type Call = (&'static str, Value);
/// One answer of a batch.
pub(crate) type Answer<T> = Result<T, CallError>;

/// A call that goes first in every request of a series, and what its answer must say.
pub(crate) struct Guard<'a, T> {
    pub(crate) call: Call,
    pub(crate) check: &'a (dyn Fn(Answer<T>) -> Result<(), SourceError> + Send + Sync),
}

#[derive(Debug)]
pub(crate) struct Node {
    client: RpcClient,
    /// Calls in one request; shrinks when the node refuses more.
    batch_max: AtomicUsize,
}

impl Node {
    pub(crate) fn new(rpc: RpcClientBuilder, endpoints: &[EndpointConfig], limits: &Limits) -> Result<Self, ConfigError> {
        let client = rpc.build(endpoints, limits)?;
        // A request waits for all its permits within the deadline: a third of it leaves room for attempts.
        let rate = u64::from(client.limits().rate().get());
        let permits = u64::try_from(limits.deadline.0.as_millis()).unwrap_or(u64::MAX).saturating_mul(rate) / 3_000;
        let batch_max = usize::try_from(permits).unwrap_or(BATCH_MAX).clamp(1, BATCH_MAX);
        Ok(Self { client, batch_max: AtomicUsize::new(batch_max) })
    }

    pub(crate) fn client(&self) -> &RpcClient {
        &self.client
    }

    pub(crate) async fn call<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, RpcError> {
        self.client.call(method, params).await
    }

    /// One request.
    pub(crate) async fn batch<T: DeserializeOwned>(&self, calls: Vec<Call>) -> Result<Vec<Answer<T>>, RpcError> {
        self.client.batch(calls).await
    }

    /// One answer per call, in order, over as many requests as it takes; a request that is too large for the node is halved.
    /// At most `calls_max` calls a request, besides the guard's.
    pub(crate) async fn series<T: DeserializeOwned>(
        &self,
        calls: &[Call],
        calls_max: usize,
        guard: Option<Guard<'_, T>>,
    ) -> Result<Vec<Answer<T>>, SourceError> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut size = self.batch_max.load(Relaxed).min(calls_max).max(1);
        let mut rest = calls;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(size.min(rest.len()));
            let request = guard.iter().map(|guard| guard.call.clone()).chain(part.iter().cloned()).collect();
            match self.batch(request).await {
                Ok(part_answers) => {
                    let mut part_answers = part_answers.into_iter();
                    if let (Some(guard), Some(answer)) = (&guard, if guard.is_some() { part_answers.next() } else { None }) {
                        (guard.check)(answer)?;
                    }
                    answers.extend(part_answers);
                    rest = behind;
                }
                Err(error) if part.len() > 1 && too_much(&error) => {
                    tracing::debug!(calls = part.len(), error = %error, "halving a request");
                    size = part.len() / 2;
                    if calls_max >= BATCH_MAX {
                        self.batch_max.store(size, Relaxed);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(answers)
    }

    /// The best chain's block at a tag or height; none where the node says there is none.
    pub(crate) async fn block_at<T: DeserializeOwned>(&self, place: &str, full: bool) -> Result<Option<Block<T>>, RpcError> {
        match self.call(BY_NUMBER, json!([place, full])).await {
            Err(RpcError::Call(error)) if is_absent(&error) => Ok(None),
            answer => answer,
        }
    }

    /// Receipts of transactions that were seen in these blocks. A receipt that is missing or elsewhere: `Orphaned`.
    pub(crate) async fn receipts(&self, transactions: &[(B256, B256)]) -> Result<Vec<Receipt>, SourceError> {
        let calls: Vec<Call> = transactions.iter().map(|(tx, _)| (RECEIPT, json!([tx]))).collect();
        let answers = self.series::<Option<Receipt>>(&calls, BATCH_MAX, None).await?;
        let mut receipts = Vec::with_capacity(answers.len());
        for (answer, (tx, block)) in answers.into_iter().zip(transactions) {
            let receipt = match answer {
                Ok(Some(receipt)) => receipt,
                Ok(None) => return Err(SourceError::orphaned(format!("the node has no receipt of {tx}, seen in block {block}"))),
                Err(error) if is_absent(&error) => {
                    return Err(SourceError::orphaned(format!("looked for the receipt of {tx}: {error}")));
                }
                Err(error) => return Err(refused(error)),
            };
            if receipt.transaction_hash != *tx {
                return Err(SourceError::transient(format!(
                    "asked for the receipt of {tx}, got that of {}",
                    receipt.transaction_hash
                )));
            }
            if receipt.block_hash != *block {
                let text = format!("{tx} was seen in block {block}, its receipt is in {}", receipt.block_hash);
                return Err(SourceError::orphaned(text));
            }
            receipts.push(receipt);
        }
        Ok(receipts)
    }

    /// All receipts of a block, one per transaction, also from nodes without `eth_getBlockReceipts`.
    pub(crate) async fn block_receipts(&self, block: B256) -> Result<Vec<Receipt>, SourceError> {
        let orphaned = || SourceError::orphaned(format!("asked for the receipts of block {block}, which the node does not know"));
        let listed: Option<Block<B256>> = self.call(BY_HASH, json!([block, false])).await?;
        let listed = listed.ok_or_else(orphaned)?;
        let receipts = match self.call::<Option<Vec<Receipt>>>(BLOCK_RECEIPTS, json!([block])).await {
            Ok(receipts) => receipts.ok_or_else(orphaned)?,
            Err(RpcError::Call(error)) => {
                tracing::debug!(block = %block, error = %error, "reading a block's receipts one by one");
                let wanted: Vec<_> = listed.transactions.iter().map(|tx| (*tx, block)).collect();
                return self.receipts(&wanted).await;
            }
            Err(error) => return Err(error.into()),
        };
        let whole = receipts.len() == listed.transactions.len()
            && receipts
                .iter()
                .zip(&listed.transactions)
                .all(|(receipt, tx)| receipt.transaction_hash == *tx && receipt.block_hash == block);
        if !whole {
            let text =
                format!("the receipts of block {block} are not one for each of its {} transactions", listed.transactions.len());
            return Err(SourceError::transient(text));
        }
        Ok(receipts)
    }
}

/// The request as a whole was too much: fewer calls may work. A single error instead of a batch's answers counts, too.
/// Time-outs do not: they were repeated already.
pub(crate) fn too_much(error: &RpcError) -> bool {
    matches!(error, RpcError::Call(_)) || (matches!(error, RpcError::Malformed { .. }) && error.is_range_limit())
}

/// The node says that it does not know this block or transaction (some do so by an error instead of null).
pub(crate) fn is_absent(error: &CallError) -> bool {
    let text = error.message.to_lowercase();
    let said = ["not found", "unknown block", "cannot be found", "beyond current head", "outofrange", "out of range"];
    !error.is_method_missing() && !error.is_pruned() && said.iter().any(|piece| text.contains(piece))
}

/// A node's refusal of a call: `Fatal` where waiting can't help, with what to do.
pub(crate) fn refused(error: CallError) -> SourceError {
    if error.is_pruned() && !error.is_range_limit() {
        return SourceError::fatal(format!("{error}; the node no longer has this history: use an archive node or a later start"));
    }
    RpcError::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use confirmd_core::SourceErrorKind;

    fn error(code: i32, message: &str) -> CallError {
        CallError { method: GET_LOGS, code, message: message.into(), data: None }
    }

    #[test]
    fn b14_a_block_that_is_not_there_yet_is_absent_and_a_missing_method_is_not() {
        assert!(is_absent(&error(-32000, "header not found")));
        assert!(is_absent(&error(-32000, "unknown block")));
        assert!(is_absent(&error(-32602, "blockHash cannot be found")));
        assert!(is_absent(&error(
            -32000,
            "One of the blocks specified in filter (fromBlock, toBlock or blockHash) cannot be found."
        )));
        assert!(!is_absent(&error(-32601, "method not found")));
        assert!(!is_absent(&error(4444, "pruned history not found")));
        assert!(!is_absent(&error(-32005, "query returned more than 10000 results")));
    }

    #[test]
    fn b17_pruned_history_halts_loudly_with_what_to_do() {
        let fatal = refused(error(4444, "pruned history unavailable"));
        assert_eq!(fatal.kind, SourceErrorKind::Fatal);
        assert!(fatal.to_string().contains("archive node"), "{fatal}");
        assert!(matches!(refused(error(-32000, "boom")).kind, SourceErrorKind::Transient { .. }));
    }
}
