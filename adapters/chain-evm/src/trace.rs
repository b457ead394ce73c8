//! A block's call traces: which internal payments each of its transactions made.

use crate::frame::{InternalPayment, internal_payments};
use alloy::primitives::B256;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// One transaction's entry in the answer of `debug_traceBlockByHash`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct TraceEntry {
    /// Older tracers leave it out.
    pub(crate) tx_hash: Option<B256>,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(default)]
    tx_hash: Option<B256>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Box<RawValue>>,
}

/// Keeps "absent" and "null" apart.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(deserializer).map(Some)
}

impl TryFrom<Written> for TraceEntry {
    type Error = &'static str;
    /// An entry that is no trace is refused while it is read: a list of many empty ones would take far more memory than it is long.
    fn try_from(written: Written) -> Result<Self, &'static str> {
        if written.result.is_none() && written.error.is_none() {
            return Err("a trace with neither a result nor an error");
        }
        let said = |written: Option<Box<RawValue>>| written.filter(|text| text.get() != "null");
        Ok(Self { tx_hash: written.tx_hash, result: said(written.result), error: said(written.error) })
    }
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
