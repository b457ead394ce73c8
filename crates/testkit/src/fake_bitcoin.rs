//! A Bitcoin-family node over an in-memory regtest chain.
//!
//! Blocks are consensus-encoded `bitcoin::Block`s on the network's own genesis block: BIP 34
//! heights, merkle roots, witness commitments and (for Bitcoin) regtest proof of work hold.
//! Scripts and inputs are not validated: every payment spends an outpoint made up for it.

mod auth;
mod block;
mod chain;
mod filters;
mod handle;
mod json;
mod network;
mod rest;
mod rpc;
#[cfg(test)]
mod tests;

pub use auth::Auth;
pub use chain::{Branch, Loss, Payment, Place};
pub use handle::{BitcoinOptions, FakeBitcoin};
pub use network::FakeNetwork;

pub use crate::json_rpc::Dialect;
