//! Frames of a call trace, in call order.

use crate::quantity::Wei;
use alloy::primitives::{Address, U256};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Internal payments of one transaction are numbered from here.
pub(crate) const FIRST_INTERNAL_INDEX: u32 = 1_000_000_000;

/// Frames within one another: the EVM refuses the 1,025th call, which tracers show all the same. Each level is read once more
/// than the one above it, so what nests without end would take time without end.
const DEPTH_MAX: usize = 1_100;

#[derive(Debug, Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    from: Option<Address>,
    #[serde(default)]
    to: Option<Address>,
    #[serde(default)]
    value: Option<Wei>,
    #[serde(default, borrow)]
    error: Option<Cow<'a, str>>,
    /// Kept as text: calls nest up to 1024 deep, more than a recursive parser may.
    #[serde(default, borrow)]
    calls: Vec<Call<'a>>,
}

/// `{"type":"A"}`: shorter is no frame, and a list of such would take far more memory than it is long.
const FRAME_BYTES_MIN: usize = 12;

/// A frame's text.
#[derive(Debug, Clone, Copy)]
struct Call<'a>(&'a RawValue);

impl<'de: 'a, 'a> Deserialize<'de> for Call<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?;
        if text.get().len() < FRAME_BYTES_MIN { Err(D::Error::custom("a call is no frame")) } else { Ok(Self(text)) }
    }
}

impl Frame<'_> {
    fn failed(&self) -> bool {
        self.error.as_ref().is_some_and(|error| !error.is_empty())
    }

    /// DELEGATECALL, CALLCODE and STATICCALL only repeat a value. Of another kind nothing is known: `None`.
    fn moves_value(&self) -> Option<bool> {
        match self.kind.as_ref() {
            "CALL" | "CREATE" | "CREATE2" | "SELFDESTRUCT" => Some(true),
            "DELEGATECALL" | "CALLCODE" | "STATICCALL" => Some(false),
            _ => None,
        }
    }
}

/// A frame below the top one that moved value for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InternalPayment {
    /// Which one of its transaction, depth first in call order, whoever is paid.
    pub(crate) index: u32,
    pub(crate) from: Option<Address>,
    /// Missing only where a tracer leaves it out.
    pub(crate) to: Option<Address>,
    pub(crate) wei: U256,
}

/// All internal payments of a transaction, from the JSON text of its top frame.
pub(crate) fn internal_payments(top: &RawValue) -> Result<Vec<InternalPayment>, serde_json::Error> {
    let top: Frame<'_> = serde_json::from_str(top.get())?;
    let mut payments = Vec::new();
    if top.failed() {
        return Ok(payments);
    }
    let mut waiting: Vec<(usize, Call<'_>)> = top.calls.into_iter().rev().map(|call| (1, call)).collect();
    while let Some((depth, text)) = waiting.pop() {
        if depth > DEPTH_MAX {
            return Err(Error::custom("calls nest deeper than the EVM allows"));
        }
        let frame: Frame<'_> = serde_json::from_str(text.0.get())?;
        if frame.failed() {
            continue;
        }
        let wei = frame.value.unwrap_or_default().0;
        let moves_value = wei.is_zero().then_some(false).or_else(|| frame.moves_value());
        let moves_value = moves_value.ok_or_else(|| Error::custom("a call of a kind that is not known here carries value"))?;
        if moves_value {
            let count = u32::try_from(payments.len()).ok().and_then(|n| FIRST_INTERNAL_INDEX.checked_add(n));
            let index = count.ok_or_else(|| Error::custom("more internal payments than a block has gas for"))?;
            payments.push(InternalPayment { index, from: frame.from, to: frame.to, wei });
        }
        waiting.extend(frame.calls.into_iter().rev().map(|call| (depth.saturating_add(1), call)));
    }
    Ok(payments)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use serde_json::{Value, json, value::to_raw_value};

    fn frame(kind: &str, to: u8, wei: u64, calls: Vec<Value>) -> Value {
        json!({ "type": kind, "from": Address::repeat_byte(1), "to": Address::repeat_byte(to), "value": format!("{wei:#x}"), "calls": calls })
    }

    fn read(top: &Value) -> Vec<(u32, u64)> {
        let payments = internal_payments(&to_raw_value(top).unwrap()).unwrap();
        payments.iter().map(|p| (p.index - FIRST_INTERNAL_INDEX, p.wei.to::<u64>())).collect()
    }

    #[test]
    fn b27_internal_payments_are_counted_depth_first_in_call_order() {
        let mut reverted = frame("CALL", 3, 5, vec![frame("CALL", 3, 6, vec![])]);
        reverted["error"] = json!("execution reverted");
        let top = frame(
            "CALL",
            2,
            100,
            vec![
                frame(
                    "CALL",
                    3,
                    1,
                    vec![frame("CREATE", 4, 2, vec![]), frame("STATICCALL", 4, 9, vec![frame("CALL", 5, 3, vec![])])],
                ),
                reverted,
                frame("CALL", 3, 0, vec![frame("CREATE2", 3, 4, vec![])]),
                frame("DELEGATECALL", 3, 7, vec![frame("CALLCODE", 3, 7, vec![])]),
                frame("SELFDESTRUCT", 3, 8, vec![]),
            ],
        );
        assert_eq!(read(&top), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 8)]);
    }

    #[test]
    fn b29_a_failed_transaction_has_no_internal_payments() {
        let mut top = frame("CALL", 2, 100, vec![frame("CALL", 3, 1, vec![])]);
        top["error"] = json!("out of gas");
        assert_eq!(read(&top), []);
    }

    #[test]
    fn frames_nested_as_deep_as_the_evm_allows_are_read() {
        let deepest = r#"{"type":"CALL","from":null,"to":null,"value":"0x1"}"#;
        let open = r#"{"type":"CALL","value":"0x0","calls":["#;
        let text = format!("{}{deepest}{}", open.repeat(1024), "]}".repeat(1024));
        let raw = RawValue::from_string(text).unwrap();
        assert_eq!(internal_payments(&raw).unwrap().len(), 1);
    }

    #[test]
    fn frames_nested_deeper_than_the_evm_allows_are_refused() {
        let text = format!("{}{}", r#"{"type":"CALL","calls":["#.repeat(100_000), "]}".repeat(100_000));
        let raw = RawValue::from_string(text).unwrap();
        assert!(internal_payments(&raw).unwrap_err().to_string().contains("deeper"));
    }
}
