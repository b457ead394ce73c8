//! Bytes as hex digits in a dump.

use crate::{Address, AskedHistory, Height, KeyDigest, WatchEntry, WatchOrigin, WatchState};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// `#[serde(with = "hex::digest")]`
pub(super) mod digest {
    use super::*;

    pub(in crate::dump) fn serialize<S: Serializer>(digest: &KeyDigest, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&const_hex::encode(digest.0))
    }

    pub(in crate::dump) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<KeyDigest, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        const_hex::decode_to_array(text.as_bytes()).map(KeyDigest).map_err(|_| D::Error::custom("not 32 hex digits"))
    }
}

/// `#[serde(with = "hex::watched")]`
pub(super) mod watched {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row<'a> {
        bytes: String,
        address: std::borrow::Cow<'a, str>,
        reference: Option<Arc<str>>,
        from: Height,
        origin: WatchOrigin,
        state: WatchState,
        history: Option<AskedHistory>,
    }

    pub(in crate::dump) fn serialize<S: Serializer>(entry: &WatchEntry, to: S) -> Result<S::Ok, S::Error> {
        let WatchEntry { address, reference, from, origin, state, history } = entry;
        let row = Row {
            bytes: const_hex::encode(address.bytes()),
            address: address.as_str().into(),
            reference: reference.clone(),
            from: *from,
            origin: *origin,
            state: *state,
            history: *history,
        };
        row.serialize(to)
    }

    pub(in crate::dump) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<WatchEntry, D::Error> {
        let row = Row::deserialize(from)?;
        let bytes = const_hex::decode(&row.bytes).map_err(|_| D::Error::custom("bytes: not hex digits"))?;
        Ok(WatchEntry {
            address: Address::new(bytes, row.address.into_owned()),
            reference: row.reference,
            from: row.from,
            origin: row.origin,
            state: row.state,
            history: row.history,
        })
    }
}
