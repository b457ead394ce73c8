//! confirmd-rpc: the one JSON-RPC reader.
//!
//! [`RpcClient`] reads from one endpoint at a time under a rate limit, with bounded attempts and one deadline per call.
//! What it returns names the caller's next step ([`RpcError`]); what it knows about the nodes' and providers' ways of
//! saying "not now" is in one file, `classify.rs`. It only reads: nothing here may be used for a call with an effect,
//! because every call may be repeated.
//!
//! Layers, from the outside in: [`RpcClient`] (endpoint, attempts, deadline) · `Endpoint` (one attempt: permit, time-out) ·
//! jsonrpsee (ids, batches) · `WireLayer` (older dialects become strict 2.0) · `Wire` (HTTP, credentials, response cap) ·
//! `Counted` (notices that a connection was made anew).
#![warn(missing_docs)]

mod auth;
mod classify;
mod client;
mod connect;
mod endpoint;
mod endpoint_config;
mod error;
mod failure;
mod health;
mod layer;
mod limits;
mod normalise;
mod permits;
mod prompt;
mod push;
mod redact;
mod retry_after;
mod wire;

#[cfg(test)]
mod tests;

pub use client::{RpcClient, RpcClientBuilder};
pub use endpoint_config::{EndpointConfig, UrlSetting};
pub use error::{CallError, Context, RpcError};
pub use failure::Failure;
pub use health::EndpointHealth;
pub use limits::Limits;
pub use push::{HeadSubscription, PushUrl};
pub use redact::RedactedUrl;
