//! What is watched: a script or account, in the chain's own bytes and in its canonical spelling.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A watched script or account. Equal when its bytes are equal: every accepted spelling of one script or account
/// gives one address (S15). Made only by [`crate::ChainSource::parse_address`] and by sources that match.
#[derive(Clone, Serialize, Deserialize)]
pub struct Address {
    bytes: Arc<[u8]>,
    text: Arc<str>,
}

/// Why a text is not an address of this chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address of {network}: {problem}")]
pub struct AddressError {
    /// The text as given.
    pub text: String,
    /// The network it was read for.
    pub network: String,
    /// What is wrong: another network's prefix, a bad checksum, mixed case.
    pub problem: String,
}

impl Address {
    /// `bytes` is what the chain carries and what is matched (an output script, 20 account bytes);
    /// `text` is the one canonical spelling, for people and events.
    pub fn new(bytes: impl Into<Arc<[u8]>>, text: impl Into<Arc<str>>) -> Self {
        Self { bytes: bytes.into(), text: text.into() }
    }

    /// What is matched.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The canonical spelling.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}
impl Eq for Address {}
impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}
impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Address {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes.cmp(&other.bytes)
    }
}
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.text)
    }
}
