//! Long answers in pages.

use crate::OperatorError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// Bytes of the checksum behind a place.
const CHECK: usize = 4;

/// A part of a long answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// In order.
    pub items: Vec<T>,
    /// Asks for what follows; `None` at the end.
    #[schema(value_type = Option<String>)]
    pub next: Option<Cursor>,
}

/// Where a page ended. Opaque: only for the next question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Remembers a place.
    pub fn of<T: Serialize>(place: &T) -> Self {
        let mut bytes = serde_json::to_vec(place).expect("invariant: places are plain data");
        bytes.extend_from_slice(&check(&bytes));
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// As it was printed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// For printing.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The place again. What was mistyped or cut is refused: a reader that went on at another place would miss events.
    pub fn place<T: DeserializeOwned>(&self) -> Result<T, OperatorError> {
        let wrong = || OperatorError::invalid("`after` is not a cursor of this list; use `next` of the page before unchanged");
        let bytes = URL_SAFE_NO_PAD.decode(&self.0).map_err(|_| wrong())?;
        let (json, found) = bytes.split_last_chunk::<CHECK>().ok_or_else(wrong)?;
        if *found != check(json) {
            return Err(wrong());
        }
        serde_json::from_slice(json).map_err(|_| wrong())
    }
}

/// No signature: whoever may ask may ask for any place.
fn check(json: &[u8]) -> [u8; CHECK] {
    let digest = Sha256::digest(json);
    std::array::from_fn(|at| digest.get(at).copied().unwrap_or_default())
}

/// The longest page.
pub const PAGE_MAX: u32 = 1_000;

/// The longest a question may wait for an answer, in seconds.
pub const WAIT_MAX: u32 = 60;

/// The page size that applies: what was asked for; 100 if nothing was. Refuses what is not within 1 to 1,000.
pub fn page_size(limit: Option<u32>) -> Result<usize, OperatorError> {
    match limit.unwrap_or(100) {
        limit @ 1..=PAGE_MAX => Ok(usize::try_from(limit).expect("invariant: a thousand fits")),
        other => Err(OperatorError::invalid(format!(
            "limit = {other} is not within 1 to {PAGE_MAX}; ask for the next page with `after`"
        ))),
    }
}
