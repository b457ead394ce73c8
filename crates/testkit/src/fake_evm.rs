//! An EVM node over an in-memory chain.
//!
//! Headers hash to their block's hash, transactions to theirs, and the roots and blooms are those
//! of the block's contents, so that a reader may check them. Nothing is executed: a transaction
//! says what it does ([`TxSpec`]), and its signature is a fixed one that names no real key.

mod block;
mod chain;
mod handle;
mod json;
mod logs;
mod payments;
mod rpc;
#[cfg(test)]
mod tests;
mod trace;
mod tx;

pub use chain::{EvmBranch, EvmPlace, Finality};
pub use handle::{EvmOptions, FakeEvm};
pub use payments::EvmPayment;
pub use tx::{Call, CallKind, TxSpec, three_in_data_log, transfer_log, transfer_topic};
