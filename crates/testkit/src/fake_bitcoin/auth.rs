//! Who may call the fake node.

use std::io;
use std::path::PathBuf;

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How the node authenticates its callers.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// Everybody may call.
    #[default]
    Open,
    /// A fixed user and password.
    Basic {
        /// The user's name.
        user: String,
        /// The password.
        password: String,
    },
    /// A cookie file at this path, written at the start and again by every rotation or restart.
    Cookie(PathBuf),
}

/// The expected header value, if any.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    expected: Option<String>,
    rotations: u64,
}

impl Credentials {
    pub(super) fn new(auth: &Auth) -> io::Result<Self> {
        let mut credentials = Self::default();
        credentials.renew(auth)?;
        Ok(credentials)
    }

    /// Writes a new cookie; changes nothing for the other kinds.
    pub(super) fn renew(&mut self, auth: &Auth) -> io::Result<()> {
        let pair = match auth {
            Auth::Open => return Ok(()),
            Auth::Basic { user, password } => format!("{user}:{password}"),
            Auth::Cookie(path) => {
                self.rotations += 1;
                let pair = format!("__cookie__:{:064x}", self.rotations);
                std::fs::write(path, &pair)?;
                pair
            }
        };
        self.expected = Some(format!("Basic {}", STANDARD.encode(pair)));
        Ok(())
    }

    pub(super) fn accept(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.expected.is_none() || self.expected.as_deref() == given
    }
}
