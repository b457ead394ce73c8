//! The envelope of every value: format version, checksum, payload.

use crate::damage::{REMEDY, refused};
use confirmd_core::StoreError;
use serde::{Serialize, de::DeserializeOwned};

/// The format of every value written by this version.
const VERSION: u8 = 1;
const HEADER: usize = 5;

/// What a key's first byte says about its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Meta,
    Progress,
    Head,
    Trail,
    Pending,
    Reported,
    Orphaned,
    Watch,
    Asset,
    Rescan,
    Archive,
    Event,
    EventId,
    Consumer,
    Open,
    Attempt,
    Skipped,
    Excerpt,
    Deposit,
    ByTime,
    ByChain,
    ByAddress,
    ByReference,
    ByTransaction,
    ByState,
    BelowMinimum,
    Life,
    Reorg,
    Cursor,
}

impl Kind {
    pub(crate) const ALL: [Self; 29] = [
        Self::Meta,
        Self::Progress,
        Self::Head,
        Self::Trail,
        Self::Pending,
        Self::Reported,
        Self::Orphaned,
        Self::Watch,
        Self::Asset,
        Self::Rescan,
        Self::Archive,
        Self::Event,
        Self::EventId,
        Self::Consumer,
        Self::Open,
        Self::Attempt,
        Self::Skipped,
        Self::Excerpt,
        Self::Deposit,
        Self::ByTime,
        Self::ByChain,
        Self::ByAddress,
        Self::ByReference,
        Self::ByTransaction,
        Self::ByState,
        Self::BelowMinimum,
        Self::Life,
        Self::Reorg,
        Self::Cursor,
    ];

    /// The prefix of its keys.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Meta => 0x00,
            Self::Progress => 0x01,
            Self::Head => 0x10,
            Self::Trail => 0x11,
            Self::Pending => 0x12,
            Self::Reported => 0x13,
            Self::Orphaned => 0x14,
            Self::Watch => 0x15,
            Self::Asset => 0x16,
            Self::Archive => 0x17,
            Self::Rescan => 0x18,
            Self::Event => 0x20,
            Self::EventId => 0x21,
            Self::Consumer => 0x30,
            Self::Open => 0x31,
            Self::Attempt => 0x32,
            Self::Skipped => 0x33,
            Self::Excerpt => 0x34,
            Self::Deposit => 0x40,
            Self::ByTime => 0x41,
            Self::ByChain => 0x42,
            Self::ByAddress => 0x43,
            Self::ByReference => 0x44,
            Self::ByTransaction => 0x45,
            Self::ByState => 0x46,
            Self::Life => 0x47,
            Self::Reorg => 0x48,
            Self::BelowMinimum => 0x49,
            Self::Cursor => 0x50,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Meta => "the store's own record",
            Self::Progress => "the commit counter",
            Self::Head => "a chain's head",
            Self::Trail => "a trail block",
            Self::Pending => "a pending deposit",
            Self::Reported => "a reported deposit",
            Self::Orphaned => "an orphaned deposit",
            Self::Watch => "a list of watched addresses",
            Self::Asset => "a listed asset",
            Self::Rescan => "a rescan",
            Self::Archive => "a settled key",
            Self::Event => "an event",
            Self::EventId => "an event's id",
            Self::Consumer => "a consumer",
            Self::Open => "an undelivered event",
            Self::Attempt => "a failed attempt",
            Self::Skipped => "a skipped event",
            Self::Excerpt => "an excerpt of an answer",
            Self::Life => "a step of a deposit's life",
            Self::Reorg => "a reorg of the history",
            Self::Cursor => "a reader's cursor",
            Self::Deposit => "a deposit of the history",
            Self::ByTime
            | Self::ByChain
            | Self::ByAddress
            | Self::ByReference
            | Self::ByTransaction
            | Self::ByState
            | Self::BelowMinimum => "an index entry of the history",
        }
    }

    pub(crate) fn of(key: &[u8]) -> Option<Self> {
        let byte = key.first()?;
        Self::ALL.into_iter().find(|kind| kind.byte() == *byte)
    }
}

fn describe(key: &[u8]) -> String {
    let label = Kind::of(key).map_or("a record of no known kind", Kind::label);
    let hex: String = key.iter().take(48).map(|byte| format!("{byte:02x}")).collect();
    format!("{label} (key {hex})")
}

/// The checksum also covers the key: a value under another's key is damage too.
fn checksum(key: &[u8], payload: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[VERSION]);
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize().to_le_bytes()
}

/// The checksum that a sealed record carries.
pub(crate) fn stored_checksum(sealed: &[u8]) -> u32 {
    sealed.get(1..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Whether a record is whole, without decoding it. A record of another format passes: whoever reads it refuses it.
pub(crate) fn check(key: &[u8], sealed: &[u8]) -> Result<(), StoreError> {
    match sealed.get(HEADER..) {
        Some(payload) if sealed.first() != Some(&VERSION) || stored_checksum(sealed).to_le_bytes() == checksum(key, payload) => {
            Ok(())
        }
        _ => Err(refused(format!("{} in the state is damaged: its checksum does not match; {REMEDY}", describe(key)))),
    }
}

/// Wraps a value for its key.
pub(crate) fn seal<T: Serialize>(key: &[u8], value: &T) -> Result<Vec<u8>, StoreError> {
    let payload = postcard::to_stdvec(value).map_err(|error| {
        crate::damage::refused_by(format!("writing down {} failed before anything was written", describe(key)), error)
    })?;
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.push(VERSION);
    bytes.extend_from_slice(&checksum(key, &payload));
    bytes.extend_from_slice(&payload);
    Ok(bytes)
}

/// Checks and unwraps a value. Anything but exactly what was written is `Refused`, never a guess.
pub(crate) fn unseal<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, StoreError> {
    let damaged = |problem: &str| refused(format!("{} in the state is damaged: {problem}; {REMEDY}", describe(key)));
    let (version, rest) = bytes.split_first().ok_or_else(|| damaged("it is empty"))?;
    if *version != VERSION {
        return Err(refused(format!(
            "{} in the state has format {version}, this confirmd reads format {VERSION}; run the version of confirmd that wrote it, or a newer one",
            describe(key)
        )));
    }
    let (sum, payload) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("it is cut short"))?;
    if *sum != checksum(key, payload) {
        return Err(damaged("its checksum does not match"));
    }
    match postcard::take_from_bytes(payload) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(damaged("it is longer than its content")),
        Err(_) => Err(damaged("its content can't be decoded")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn t8_any_flipped_bit_and_any_cut_is_refused() {
        let key = [0x12, 1, 2, 3];
        let sealed = seal(&key, &("text", 7u64)).unwrap();
        assert_eq!(unseal::<(String, u64)>(&key, &sealed).unwrap(), ("text".to_owned(), 7));
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = unseal::<(String, u64)>(&key, &damaged).unwrap_err();
            assert!(matches!(error, StoreError::Refused { .. }) && error.to_string().contains("a pending deposit"), "{error}");
        }
        for length in 0..sealed.len() {
            assert!(unseal::<(String, u64)>(&key, &sealed[..length]).is_err());
        }
        assert!(unseal::<(String, u64)>(&[0x12, 1, 2, 4], &sealed).is_err(), "a value under another key was taken");
    }

    #[test]
    fn t8_a_newer_format_is_refused_and_both_versions_are_named() {
        let mut sealed = seal(&[0x20, 0], &1u8).unwrap();
        sealed[0] = 9;
        let text = unseal::<u8>(&[0x20, 0], &sealed).unwrap_err().to_string();
        assert!(text.contains("format 9") && text.contains("format 1"), "{text}");
    }
}
