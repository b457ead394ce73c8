//! The REST interface: `/rest/block`, `/rest/headers`, `/rest/blockhashbyheight`,
//! `/rest/chaininfo`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bitcoin::BlockHash;
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;

use super::chain::Chain;
use super::{json, rpc};
use crate::json_rpc::Dialect;

/// The most headers that one request may ask for.
const HEADERS_MAX: usize = 2_000;

pub(super) fn get(chain: &Chain, dialect: Dialect, path: &str, query: Option<&str>) -> Option<Response> {
    let parts: Vec<&str> = path.strip_prefix("/rest/")?.split('/').collect();
    let (file, folders) = parts.split_last()?;
    let (name, format) = file.rsplit_once('.')?;
    match folders {
        ["block"] => Some(block(chain, name, format)),
        ["headers", count] => Some(headers(chain, name, count, format)),
        ["headers"] if dialect != Dialect::Legacy => {
            let count = query.and_then(|query| query.strip_prefix("count=")).unwrap_or("5");
            Some(headers(chain, name, count, format))
        }
        ["blockhashbyheight"] => Some(hash_at(chain, name, format)),
        [] if name == "chaininfo" && format == "json" => {
            let info = rpc::call(chain, dialect, "getblockchaininfo", &[]).ok()?;
            Some(text("application/json", info.get().to_owned()))
        }
        _ => None,
    }
}

fn block(chain: &Chain, name: &str, format: &str) -> Response {
    let Ok(hash) = name.parse::<BlockHash>() else { return bad(&format!("Invalid hash: {name}")) };
    let Some(stored) = chain.shown(&hash) else { return missing(&format!("{name} not found")) };
    if chain.is_pruned(&hash, stored.height) {
        return missing(&format!("{name} not available (pruned data)"));
    }
    if format == "json" {
        let body = serde_json::to_string(&json::block(chain, &hash, stored, true));
        return text("application/json", body.unwrap_or_default());
    }
    bytes(serialize(stored.block.as_ref()), format)
}

/// Headers of the best chain from `name` on; empty for a stale block, as Core answers.
fn headers(chain: &Chain, name: &str, count: &str, format: &str) -> Response {
    let Ok(hash) = name.parse::<BlockHash>() else { return bad(&format!("Invalid hash: {name}")) };
    let count = match count.parse::<usize>() {
        Ok(count) if (1..=HEADERS_MAX).contains(&count) => count,
        _ => return bad(&format!("Header count is invalid or out of acceptable range: {count}")),
    };
    let first = chain.shown(&hash).map(|stored| stored.height).filter(|height| chain.shown_hash_at(*height) == Some(hash));
    let mut body = Vec::new();
    if let Some(first) = first {
        let hashes = (first..).map_while(|height| chain.shown_hash_at(height)).take(count);
        for stored in hashes.filter_map(|hash| chain.stored(&hash)) {
            body.extend(serialize(&stored.block.header));
        }
    }
    bytes(body, format)
}

fn hash_at(chain: &Chain, name: &str, format: &str) -> Response {
    let Ok(height) = name.parse::<u32>() else { return bad(&format!("Invalid height: {name}")) };
    match (chain.shown_hash_at(height), format) {
        (None, _) => missing("Block height out of range"),
        (Some(hash), "json") => text("application/json", format!("{{\"blockhash\":\"{hash}\"}}\n")),
        (Some(hash), "hex") => text("text/plain", format!("{hash}\n")),
        (Some(hash), _) => bytes(hash.to_byte_array().to_vec(), format),
    }
}

fn bytes(body: Vec<u8>, format: &str) -> Response {
    match format {
        "bin" => ([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response(),
        "hex" => text("text/plain", format!("{}\n", const_hex::encode(body))),
        _ => missing("output format not found (available: .bin, .hex, .json)"),
    }
}

fn text(kind: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

fn bad(message: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{message}\r\n")).into_response()
}

fn missing(message: &str) -> Response {
    (StatusCode::NOT_FOUND, format!("{message}\r\n")).into_response()
}
