//! `confirmd conform`: rules of the contracts, judged on what an operator really has: a node, a receiver.
//!
//! The conformance kit for authors makes nodes and receivers misbehave; this only looks, or sends what is flagged as a test.
//! What can't be judged so is listed as not observed, and never counts as holding.

mod event;
mod ledger;
mod report;
mod secrets;
mod sink;
mod source;

pub(crate) use ledger::LedgerUrl;
pub(crate) use report::{Line, show};
pub(crate) use secrets::secrets_of;
pub(crate) use sink::{Receiver, torture};
pub(crate) use source::{Node, look};
