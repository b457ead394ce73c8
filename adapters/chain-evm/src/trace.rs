//! A block's call traces: which internal payments each of its transactions made.

use crate::frame::{InternalPayment, internal_payments};
use alloy::primitives::B256;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One transaction's entry in the answer of `debug_traceBlockByHash`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TraceEntry {
    /// Older tracers leave it out.
    #[serde(default)]
    pub(crate) tx_hash: Option<B256>,
    #[serde(default)]
    pub(crate) result: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) error: Option<Box<RawValue>>,
}

/// The internal payments of one transaction.
#[derive(Debug, Clone)]
pub(crate) struct Traced {
    pub(crate) tx: B256,
    pub(crate) position: u32,
    pub(crate) payments: Vec<InternalPayment>,
}

/// Reads a whole block's traces against its list of transactions. Nothing is left out silently: an entry that is missing,
/// belongs elsewhere or reports an error is an error here. Transactions without internal payments have no entry in the result.
pub(crate) fn read_traces(transactions: &[B256], entries: &[TraceEntry]) -> Result<Vec<Traced>, String> {
    if entries.len() != transactions.len() {
        return Err(format!("{} traces for {} transactions", entries.len(), transactions.len()));
    }
    let mut found = Vec::new();
    for ((position, tx), entry) in (0u32..).zip(transactions).zip(entries) {
        if entry.tx_hash.is_some_and(|hash| hash != *tx) {
            return Err(format!("the trace at position {position} is not of {tx}"));
        }
        let Some(top) = &entry.result else {
            let why: String = entry.error.as_ref().map_or("no reason given", |error| error.get()).chars().take(200).collect();
            return Err(format!("no trace of {tx}: {why}"));
        };
        let payments = internal_payments(top).map_err(|error| format!("the trace of {tx} can't be read: {error}"))?;
        if !payments.is_empty() {
            found.push(Traced { tx: *tx, position, payments });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn entries(text: &str) -> Vec<TraceEntry> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_missing_foreign_or_failed_trace_is_an_error_never_no_payments() {
        let txs = [B256::repeat_byte(1)];
        assert!(read_traces(&txs, &[]).unwrap_err().contains("0 traces for 1"));
        let foreign = format!("[{{\"txHash\":\"{}\",\"result\":{{\"type\":\"CALL\"}}}}]", B256::repeat_byte(2));
        assert!(read_traces(&txs, &entries(&foreign)).unwrap_err().contains("is not of"));
        let failed = "[{\"error\":\"missing trie node\"}]";
        assert!(read_traces(&txs, &entries(failed)).unwrap_err().contains("missing trie node"));
        assert!(read_traces(&txs, &entries("[{\"result\":{\"type\":\"CALL\",\"calls\":[7]}}]")).is_err());
        assert!(read_traces(&txs, &entries("[{\"result\":{\"type\":\"CALL\"}}]")).unwrap().is_empty());
    }
}
