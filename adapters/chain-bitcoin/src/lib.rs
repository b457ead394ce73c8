//! confirmd-chain-bitcoin: the Bitcoin family, read from a node's JSON-RPC.
//!
//! Blocks are fetched as raw bytes by hash and read by a walker of our own ([`Block`]), which checks the header's hash,
//! the merkle root and that every byte was used, and which also reads Litecoin's blocks as they are since MWEB. Payments
//! are matched by output script against the [`WatchSet`](confirmd_core::WatchSet); address texts of the node are never
//! looked at. One table ([`Network`]) tells the networks apart; a network is a row of it.
//!
//! What counts as a payment: each output with a value above zero whose script is watched, and only scripts that one key
//! or one script hash controls can be watched ([`Destination`]). Coinbase outputs carry a maturity of 100 confirmations,
//! the peg-outs of a Litecoin block 6, as the networks' own rules have it.
#![warn(missing_docs)]

mod address;
mod block;
mod chain_info;
mod config;
mod cursor;
mod decode_error;
mod destination;
mod extension;
mod filters;
mod inspect;
mod kind;
mod long_poll;
mod matching;
mod network;
mod node;
mod rest;
mod shown;
mod source;
mod transaction;

pub use address::parse_address;
pub use block::Block;
pub use decode_error::DecodeError;
pub use destination::Destination;
pub use extension::ExtensionBlock;
pub use kind::{KIND, build_over};
pub use long_poll::build_new_heads;
pub use matching::transfers_in;
pub use network::{Base58Versions, Checkpoint, NETWORKS, Network};
pub use source::BitcoinSource;
pub use transaction::Output;
