//! Errors over HTTP: `application/problem+json` (RFC 9457) with a stable type.

use crate::{ErrorKind, OperatorError};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every error.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct Problem {
    /// `urn:confirmd:` and one of `invalid`, `unauthorized`, `forbidden`, `not-found`, `method-not-allowed`, `conflict`, `expired`,
    /// `too-large`, `too-many-requests`, `unavailable`, `failed`. Stable.
    pub(crate) r#type: String,
    /// The status in words.
    pub(crate) title: String,
    /// What is wrong, for which value, and what to do. For people; may change.
    pub(crate) detail: String,
    /// The HTTP status.
    pub(crate) status: u16,
}

const PREFIX: &str = "urn:confirmd:";

/// The stable types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemType {
    Of(ErrorKind),
    MethodNotAllowed,
    TooLarge,
    TooManyRequests,
}

impl ProblemType {
    pub(crate) const ALL: [Self; 11] = [
        Self::Of(ErrorKind::Invalid),
        Self::Of(ErrorKind::Unauthorized),
        Self::Of(ErrorKind::Forbidden),
        Self::Of(ErrorKind::NotFound),
        Self::MethodNotAllowed,
        Self::Of(ErrorKind::Conflict),
        Self::Of(ErrorKind::Expired),
        Self::TooLarge,
        Self::TooManyRequests,
        Self::Of(ErrorKind::Failed),
        Self::Of(ErrorKind::Unavailable),
    ];

    /// Its name and the status it comes with.
    pub(crate) fn parts(self) -> (&'static str, StatusCode) {
        match self {
            Self::Of(ErrorKind::Invalid) => ("invalid", StatusCode::BAD_REQUEST),
            Self::Of(ErrorKind::Unauthorized) => ("unauthorized", StatusCode::UNAUTHORIZED),
            Self::Of(ErrorKind::Forbidden) => ("forbidden", StatusCode::FORBIDDEN),
            Self::Of(ErrorKind::NotFound) => ("not-found", StatusCode::NOT_FOUND),
            Self::Of(ErrorKind::Conflict) => ("conflict", StatusCode::CONFLICT),
            Self::Of(ErrorKind::Expired) => ("expired", StatusCode::GONE),
            Self::Of(ErrorKind::Unavailable) => ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
            Self::Of(ErrorKind::Failed) => ("failed", StatusCode::INTERNAL_SERVER_ERROR),
            Self::MethodNotAllowed => ("method-not-allowed", StatusCode::METHOD_NOT_ALLOWED),
            Self::TooLarge => ("too-large", StatusCode::PAYLOAD_TOO_LARGE),
            Self::TooManyRequests => ("too-many-requests", StatusCode::TOO_MANY_REQUESTS),
        }
    }
}

impl Problem {
    pub(crate) fn response(of: ProblemType, detail: &str) -> Response {
        let (name, status) = of.parts();
        let problem = Self {
            r#type: format!("{PREFIX}{name}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            detail: detail.to_owned(),
            status: status.as_u16(),
        };
        let body = serde_json::to_vec(&problem).expect("invariant: text and a number only");
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    }

    /// The error it was made from; what no kind stands for counts as `Invalid` below 500, else as `Failed`.
    pub(crate) fn into_error(self) -> OperatorError {
        let name = self.r#type.strip_prefix(PREFIX).unwrap_or("");
        let kind = ProblemType::ALL.into_iter().find(|known| known.parts().0 == name);
        let kind = match kind {
            Some(ProblemType::Of(kind)) => kind,
            Some(ProblemType::TooManyRequests) => ErrorKind::Unavailable,
            Some(ProblemType::MethodNotAllowed | ProblemType::TooLarge) => ErrorKind::Invalid,
            None => ErrorKind::Failed,
        };
        OperatorError::new(kind, self.detail)
    }
}

impl IntoResponse for OperatorError {
    fn into_response(self) -> Response {
        let mut response = Problem::response(ProblemType::Of(self.kind), &self.text);
        if self.kind == ErrorKind::Unauthorized {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
        }
        response
    }
}
