//! confirmd-chain-evm: deposits on EVM networks, read from a node's JSON-RPC.
//!
//! * native payments (a transaction's own value, its receipt's status checked);
//! * ERC-20 `Transfer` events of listed contracts (three topics, 32 bytes of data, nothing else is a token payment);
//! * internal payments by `debug_traceBlockByHash`, where the node offers it;
//! * beacon withdrawals (EIP-4895), as an option.
//!
//! Keys are a function of the transaction alone: 0 is its own value, 1 + n the n-th log of its *receipt*, 1,000,000,000 + n
//! its n-th internal payment in call order. JSON-RPC's `logIndex` counts within the block and is never used.
//!
//! Near the tip everything is read by block hash along parent links that end in the block asked for; far below it, logs are
//! read by range, each range in one request with proof that the node knows the range's end. An empty answer without that
//! proof is never taken for "nothing".
#![warn(missing_docs)]

mod address;
mod block;
mod bloom;
mod branch;
mod config;
mod erc20;
mod evidence;
mod frame;
mod inspect;
mod kind;
mod log;
mod log_filter;
mod log_reader;
mod native;
mod node;
mod plan;
mod quantity;
mod reading;
mod receipt;
mod shown;
mod source;
mod span;
mod trace;

#[cfg(test)]
mod tests;

pub use evidence::{BlockEvidence, EvidenceError};
pub use kind::{KIND, build_new_heads, build_over};
pub use source::EvmSource;
