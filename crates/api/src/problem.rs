//! Errors over HTTP: `application/problem+json` (RFC 9457).

use crate::{ErrorKind, OperatorError};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};

/// The body of an error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Problem {
    /// `urn:confirmd:` and the kind.
    pub(crate) r#type: String,
    /// The status in words.
    pub(crate) title: String,
    /// What is wrong and what to do.
    pub(crate) detail: String,
    /// The HTTP status.
    pub(crate) status: u16,
}

const PREFIX: &str = "urn:confirmd:";

impl ErrorKind {
    fn parts(self) -> (&'static str, StatusCode) {
        match self {
            Self::Invalid => ("invalid", StatusCode::BAD_REQUEST),
            Self::NotFound => ("not-found", StatusCode::NOT_FOUND),
            Self::Conflict => ("conflict", StatusCode::CONFLICT),
            Self::Forbidden => ("forbidden", StatusCode::FORBIDDEN),
            Self::Unavailable => ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
            Self::Failed => ("failed", StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

impl Problem {
    pub(crate) fn response(kind: &str, status: StatusCode, detail: &str) -> Response {
        let problem = Self {
            r#type: format!("{PREFIX}{kind}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            detail: detail.to_owned(),
            status: status.as_u16(),
        };
        let body = serde_json::to_vec(&problem).expect("invariant: text and a number only");
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    }

    /// The error it was made from; an unknown type counts as `Failed`.
    pub(crate) fn into_error(self) -> OperatorError {
        use ErrorKind::{Conflict, Failed, Forbidden, Invalid, NotFound, Unavailable};
        let name = self.r#type.strip_prefix(PREFIX).unwrap_or("");
        let known = [Invalid, NotFound, Conflict, Forbidden, Unavailable, Failed];
        let kind = known.into_iter().find(|kind| kind.parts().0 == name).unwrap_or(Failed);
        OperatorError::new(kind, self.detail)
    }
}

impl IntoResponse for OperatorError {
    fn into_response(self) -> Response {
        let (name, status) = self.kind.parts();
        Problem::response(name, status, &self.text)
    }
}
