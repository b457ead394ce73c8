//! Why an operation was not done.

use confirmd_core::{StoreError, with_causes};

/// What the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself is wrong.
    Invalid,
    /// What it names does not exist.
    NotFound,
    /// It can't be done as things are now.
    Conflict,
    /// No token, or not one that is known.
    Unauthorized,
    /// It was not allowed from where it came, or with this token.
    Forbidden,
    /// What it names has passed out of history.
    Expired,
    /// It may work later.
    Unavailable,
    /// Something broke on our side.
    Failed,
}

/// Why an operation was not done: text for people, with the value it is about and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct OperatorError {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// What is wrong and what to do.
    pub text: String,
}

impl OperatorError {
    /// Of a kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The request itself is wrong.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, text)
    }

    /// What it names does not exist.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, text)
    }

    /// It can't be done as things are now.
    pub fn conflict(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, text)
    }

    /// It may work later.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, text)
    }

    /// Something broke on our side.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, text)
    }
}

impl From<StoreError> for OperatorError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Invalid(text) => Self::invalid(text.clone()),
            StoreError::Conflict { .. } => Self::conflict(format!("{error}; try again")),
            StoreError::Unknown { .. } | StoreError::Refused { .. } => Self::failed(with_causes(&error)),
        }
    }
}
