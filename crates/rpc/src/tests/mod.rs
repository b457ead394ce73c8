//! The client against small HTTP servers that speak every dialect we know: over loopback, and in memory where time matters.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod credentials;
mod dialects;
mod failover;
mod hostile;
mod node;
mod retries;
mod secrets;

use crate::{EndpointConfig, Limits};

/// Limits as a configuration would give them.
fn limits(text: &str) -> Limits {
    toml::from_str(text).unwrap()
}

/// An endpoint as a configuration would give it.
fn endpoint(text: &str) -> EndpointConfig {
    toml::from_str(text).unwrap()
}
