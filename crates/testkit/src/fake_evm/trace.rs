//! callTracer's answers.

use alloy::primitives::{Address, U256};
use serde_json::{Value, json};

use super::block::Mined;
use super::tx::{Call, CallKind, Sent};

pub(super) fn of_block(mined: &Mined) -> Value {
    mined.transactions.iter().map(|sent| json!({ "txHash": sent.hash, "result": top(sent) })).collect()
}

pub(super) fn top(sent: &Sent) -> Value {
    let spec = &sent.spec;
    let kind = if spec.to.is_some() { CallKind::Call } else { CallKind::Create };
    let to = spec.to.or(sent.created()).unwrap_or(Address::ZERO);
    let mut frame = frame(kind, spec.from, to, spec.value, &spec.calls);
    if let Some(fields) = frame.as_object_mut() {
        fields.insert("gas".to_owned(), json!(hex(spec.gas_used * 2)));
        fields.insert("gasUsed".to_owned(), json!(hex(spec.gas_used)));
        fields.insert("input".to_owned(), json!(spec.input));
        if !spec.succeeds {
            fields.insert("error".to_owned(), json!("execution reverted"));
        }
    }
    frame
}

fn frame(kind: CallKind, from: Address, to: Address, value: U256, calls: &[Call]) -> Value {
    let mut frame = json!({
        "type": kind.name(),
        "from": from,
        "to": to,
        "gas": "0x5208",
        "gasUsed": "0x0",
        "input": "0x",
    });
    if let Some(fields) = frame.as_object_mut() {
        if kind != CallKind::StaticCall {
            fields.insert("value".to_owned(), json!(value));
        }
        if !calls.is_empty() {
            fields.insert("calls".to_owned(), calls.iter().map(below).collect());
        }
    }
    frame
}

fn below(call: &Call) -> Value {
    let mut frame = frame(call.kind, call.from, call.to, call.value, &call.calls);
    if let (Some(error), Some(fields)) = (&call.error, frame.as_object_mut()) {
        fields.insert("error".to_owned(), json!(error));
    }
    frame
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}
