//! `scanblocks`: which blocks may pay a script, by their compact filters.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::chain::Chain;
use crate::json_rpc::{RpcError, RpcResult, raw};

/// A filter also matches by chance, at 1 in 784,931 a script; here every block at a multiple of this height does.
const BY_CHANCE: u32 = 41;

/// Knows `start` with `raw(HEX)` descriptors, and `status` while no scan is under way.
pub(super) fn scan_blocks(chain: &Chain, params: &[Value]) -> RpcResult {
    match params.first().and_then(Value::as_str) {
        Some("status") => return raw(&Value::Null),
        Some("start") => {}
        other => return Err(RpcError::new(-8, &format!("Invalid action '{}'", other.unwrap_or_default()))),
    }
    if !chain.filters {
        return Err(RpcError::new(-1, "Index is not enabled for filtertype basic"));
    }
    let tip = chain.shown_tip().0;
    let height = |at: usize, default: u32| match params.get(at) {
        None | Some(Value::Null) => Some(default),
        Some(value) => value.as_u64().and_then(|height| u32::try_from(height).ok()),
    };
    let from = height(2, 0).filter(|from| *from <= tip).ok_or_else(|| RpcError::new(-1, "Invalid start_height"))?;
    let to = height(3, tip).filter(|to| *to <= tip && *to >= from).ok_or_else(|| RpcError::new(-1, "Invalid stop_height"))?;
    let descriptors = params.get(1).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let scripts: HashSet<Vec<u8>> = descriptors.iter().map(script).collect::<Result<_, _>>()?;
    let relevant: Vec<String> = (from..=to)
        .filter_map(|height| chain.shown_hash_at(height))
        .filter(|hash| {
            let Some(stored) = chain.stored(hash) else { return false };
            let mut outputs = stored.block.txdata.iter().flat_map(|transaction| &transaction.output);
            stored.height % BY_CHANCE == 0 || outputs.any(|output| scripts.contains(output.script_pubkey.as_bytes()))
        })
        .map(|hash| hash.to_string())
        .collect();
    raw(&json!({ "from_height": from, "to_height": to, "relevant_blocks": relevant, "completed": true }))
}

fn script(descriptor: &Value) -> Result<Vec<u8>, RpcError> {
    let hex = descriptor.as_str().and_then(|text| text.strip_prefix("raw(")?.strip_suffix(')'));
    let script = hex.and_then(|hex| const_hex::decode(hex).ok());
    script.ok_or_else(|| RpcError::new(-5, &format!("{descriptor} is not a valid descriptor function")))
}
