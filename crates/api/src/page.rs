//! Long answers in pages.

use crate::OperatorError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
        let json = serde_json::to_vec(place).expect("invariant: places are plain data");
        Self(URL_SAFE_NO_PAD.encode(json))
    }

    /// As it was printed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// For printing.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The place again.
    pub fn place<T: DeserializeOwned>(&self) -> Result<T, OperatorError> {
        let wrong = || OperatorError::invalid("`after` is not a cursor of this list; use `next` of the page before unchanged");
        let json = URL_SAFE_NO_PAD.decode(&self.0).map_err(|_| wrong())?;
        serde_json::from_slice(&json).map_err(|_| wrong())
    }
}

/// The page size that applies: what was asked for, within 1 to 1,000; 100 if nothing was.
pub fn page_size(limit: Option<u32>) -> usize {
    usize::try_from(limit.unwrap_or(100).clamp(1, 1_000)).unwrap_or(1_000)
}
