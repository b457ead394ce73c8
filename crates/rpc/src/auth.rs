//! Credentials of one endpoint: none, fixed, or a node's cookie file that changes whenever the node restarts.

use crate::failure::Failure;
use base64::Engine;
use http::HeaderValue;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tokio::io::AsyncReadExt;

/// A cookie file holds `__cookie__:` and 64 hex digits; more than this is another file.
const COOKIE_BYTES_MAX: u64 = 4096;

/// Where an endpoint's `Authorization` header comes from.
pub(crate) enum Credentials {
    /// The node wants none, or gets them in a configured header.
    None,
    /// User and password from the configuration.
    Fixed(HeaderValue),
    /// `user:password` in a file written by the node at each start.
    Cookie(CookieFile),
}

/// A cookie file, read at first use and again after the node refused what it held.
pub(crate) struct CookieFile {
    path: PathBuf,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    version: u64,
    cookie: Option<(HeaderValue, String)>,
}

impl CookieFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, slot: Mutex::default() }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Slot> {
        // A panic while it was held can't leave it half written: the fields are set together.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn header(&self) -> Result<(HeaderValue, u64), Failure> {
        {
            let slot = self.slot();
            if let Some((header, _)) = &slot.cookie {
                return Ok((header.clone(), slot.version));
            }
        }
        let fail = |problem: String| Failure::Cookie { path: self.path.clone(), problem };
        let mut text = String::new();
        let file = tokio::fs::File::open(&self.path).await.map_err(|error| fail(error.to_string()))?;
        file.take(COOKIE_BYTES_MAX).read_to_string(&mut text).await.map_err(|error| fail(error.to_string()))?;
        let cookie = text.trim().to_owned();
        if !cookie.contains(':') {
            return Err(fail("it does not hold user:password".into()));
        }
        let header = basic(&cookie).ok_or_else(|| fail("it holds characters that no header can carry".into()))?;
        let mut slot = self.slot();
        slot.version += 1;
        slot.cookie = Some((header.clone(), cookie));
        Ok((header, slot.version))
    }
}

impl Credentials {
    /// The header to send, and the version of the credentials it stands for.
    pub(crate) async fn header(&self) -> Result<(Option<HeaderValue>, u64), Failure> {
        match self {
            Self::None => Ok((None, 0)),
            Self::Fixed(header) => Ok((Some(header.clone()), 0)),
            Self::Cookie(file) => file.header().await.map(|(header, version)| (Some(header), version)),
        }
    }

    /// The node refused this version. True if another attempt can have other credentials.
    pub(crate) fn forget(&self, version: u64) -> bool {
        let Self::Cookie(file) = self else { return false };
        let mut slot = file.slot();
        if slot.version == version {
            slot.cookie = None;
        }
        true
    }

    /// A secret that the scrubber can't know from the start.
    pub(crate) fn secret(&self) -> Option<String> {
        let Self::Cookie(file) = self else { return None };
        let slot = file.slot();
        slot.cookie.as_ref().and_then(|(_, text)| text.split_once(':')).map(|(_, password)| password.to_owned())
    }

    /// What to do when the node refuses them.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::None => {
                "it wants credentials or does not allow this address: set cookie_file, or user and password, or its allow list"
            }
            Self::Fixed(_) => "check user and password",
            Self::Cookie(_) => "the cookie file was read again and refused too: check that cookie_file belongs to this node",
        }
    }
}

/// `Authorization: Basic` for `user:password`, marked so that nothing prints it.
pub(crate) fn basic(user_and_password: &str) -> Option<HeaderValue> {
    let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user_and_password));
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}
