//! Both signatures, of every secret in use.

use crate::WebhookConfig;
use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use confirmd_core::{ConfigError, EventId, Secret, SecretSource};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;

/// What Standard Webhooks asks of a secret, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Base64 with or without its padding, as generators of secrets differ in it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One secret's decoded bytes, and its text for the places that must hide it.
#[derive(Clone)]
struct SigningKey {
    bytes: Vec<u8>,
    text: Secret,
}

/// The secrets that sign, newest first. Shows nothing of them.
#[derive(Clone)]
pub(crate) struct SigningKeys(Vec<SigningKey>);

/// The values of two headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signatures {
    /// `webhook-signature`: `v1,BASE64` per secret, separated by a space.
    pub(crate) standard: String,
    /// `x-confirmd-signature`: `sha256=HEX` per secret, separated by a comma.
    pub(crate) plain: String,
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKeys({})", self.0.len())
    }
}

impl SigningKeys {
    /// Reads `secret` and `secret_previous`. Errors name the key and what form is right, never the content.
    pub(crate) fn read(config: &WebhookConfig) -> Result<Self, ConfigError> {
        let mut keys = vec![read("secret", &config.secret)?];
        if let Some(previous) = &config.secret_previous {
            let previous = read("secret_previous", previous)?;
            if keys.iter().any(|key| key.bytes == previous.bytes) {
                return Err(ConfigError::new(
                    "secret_previous",
                    "is the same as secret; remove it, or put the new one into secret",
                ));
            }
            keys.push(previous);
        }
        Ok(Self(keys))
    }

    /// `timestamp_s`: Unix seconds of the attempt.
    pub(crate) fn sign(&self, id: &EventId, timestamp_s: u64, body: &[u8]) -> Signatures {
        let head = format!("{}.{timestamp_s}.", id.as_str());
        let standard: Vec<_> =
            self.0.iter().map(|key| format!("v1,{}", STANDARD.encode(key.mac(&[head.as_bytes(), body])))).collect();
        let plain: Vec<_> = self.0.iter().map(|key| format!("sha256={}", const_hex::encode(key.mac(&[body])))).collect();
        Signatures { standard: standard.join(" "), plain: plain.join(",") }
    }

    /// Keys that nobody configured, with the same texts to hide.
    pub(crate) fn falsified(self) -> Self {
        let falsify = |key: SigningKey| SigningKey { bytes: key.bytes.iter().map(|byte| !byte).collect(), ..key };
        Self(self.0.into_iter().map(falsify).collect())
    }

    /// What an answer might repeat and nobody may see.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|key| key.text.expose())
    }
}

impl SigningKey {
    fn mac(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.bytes).expect("invariant: HMAC takes keys of any length");
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().to_vec()
    }
}

fn read(name: &str, source: &SecretSource) -> Result<SigningKey, ConfigError> {
    let text = source.resolve().map_err(|error| error.below(name))?;
    let bytes = text.expose().strip_prefix("whsec_").and_then(|base64| LENIENT.decode(base64).ok());
    match bytes {
        Some(bytes) if SECRET_BYTES.contains(&bytes.len()) => Ok(SigningKey { bytes, text }),
        Some(bytes) => Err(ConfigError::new(
            name,
            format!(
                "the secret from {source} has {} bytes; 24 to 64 are right: whsec_ and `openssl rand -base64 32`",
                bytes.len()
            ),
        )),
        None => Err(ConfigError::new(
            name,
            format!(
                "the secret from {source} has not the right form: whsec_ and base64, as from `echo whsec_$(openssl rand -base64 32)`"
            ),
        )),
    }
}
