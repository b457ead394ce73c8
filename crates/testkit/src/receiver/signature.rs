//! Both signatures of a webhook request.

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The decoded bytes of a `whsec_` secret.
pub(super) struct Key(Vec<u8>);

impl Key {
    pub(super) fn parse(secret: &str) -> Option<Self> {
        STANDARD.decode(secret.strip_prefix("whsec_")?).ok().map(Self)
    }

    fn hmac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut hmac = Hmac::<Sha256>::new_from_slice(&self.0).expect("invariant: HMAC takes keys of any size");
        parts.iter().for_each(|part| hmac.update(part));
        hmac
    }
}

/// The signed part of the headers.
pub(super) struct Signed {
    pub(super) id: String,
    /// Unix seconds.
    pub(super) timestamp: u64,
}

/// Checks both signatures; one of `keys` must have made each.
pub(super) fn verify(keys: &[Key], headers: &HeaderMap, body: &[u8]) -> Result<Signed, String> {
    let id = header(headers, "webhook-id")?;
    let timestamp = header(headers, "webhook-timestamp")?;
    let signed: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
    let standard = header(headers, "webhook-signature")?
        .split(' ')
        .filter_map(|entry| STANDARD.decode(entry.strip_prefix("v1,")?).ok())
        .any(|mac| keys.iter().any(|key| key.hmac(&signed).verify_slice(&mac).is_ok()));
    if !standard {
        return Err("webhook-signature does not match".to_owned());
    }
    let own = header(headers, "x-confirmd-signature")?
        .split([' ', ','])
        .filter_map(|entry| const_hex::decode(entry.strip_prefix("sha256=")?).ok())
        .any(|mac| keys.iter().any(|key| key.hmac(&[body]).verify_slice(&mac).is_ok()));
    if !own {
        return Err("x-confirmd-signature does not match".to_owned());
    }
    if header(headers, "x-confirmd-delivery")? != id {
        return Err("x-confirmd-delivery differs from webhook-id".to_owned());
    }
    let timestamp = timestamp.parse().map_err(|_| format!("webhook-timestamp {timestamp:?} is no number"))?;
    Ok(Signed { id: id.to_owned(), timestamp })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, String> {
    headers.get(name).and_then(|value| value.to_str().ok()).ok_or_else(|| format!("header {name} is missing or not text"))
}
