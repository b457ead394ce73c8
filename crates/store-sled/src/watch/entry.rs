//! What is written of a watched address beside its bytes, which are its key.

use confirmd_core::{Address, AskedHistory, Height, RescanId, WatchEntry, WatchOrigin, WatchState};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Row<'a> {
    spelling: &'a str,
    reference: Option<&'a str>,
    from: Height,
    origin: WatchOrigin,
    state: WatchState,
}

/// Stands behind the row of an address that was asked to be read again; `from`, then the rescan.
type HistoryRow = (u64, u64);

/// Never empty.
pub(super) fn encode(entry: &WatchEntry) -> Vec<u8> {
    let WatchEntry { address, reference, from, origin, state, history } = entry;
    let row = Row { spelling: address.as_str(), reference: reference.as_deref(), from: *from, origin: *origin, state: *state };
    let mut bytes = postcard::to_stdvec(&row).expect("invariant: plain data is always encoded");
    if let Some(AskedHistory { from, rescan }) = history {
        let history: HistoryRow = (from.0, rescan.0);
        bytes.extend(postcard::to_stdvec(&history).expect("invariant: plain data is always encoded"));
    }
    bytes
}

/// `None` if it is not what was written.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<WatchEntry> {
    let (row, rest) = postcard::take_from_bytes::<Row<'_>>(value).ok()?;
    let history = match rest {
        [] => None,
        asked => {
            let ((from, rescan), behind) = postcard::take_from_bytes::<HistoryRow>(asked).ok()?;
            behind.is_empty().then_some(())?;
            Some(AskedHistory { from: Height(from), rescan: RescanId(rescan) })
        }
    };
    Some(WatchEntry {
        address: Address::new(key, row.spelling),
        reference: row.reference.map(Into::into),
        from: row.from,
        origin: row.origin,
        state: row.state,
        history,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn t8_the_bytes_of_a_watched_address_are_pinned() {
        let entry = WatchEntry {
            address: Address::new([1, 2], "0xA"),
            reference: Some("c-1".into()),
            from: Height(300),
            origin: WatchOrigin::Command,
            state: WatchState::Removed,
            history: None,
        };
        let encoded = encode(&entry);
        assert_eq!(const_hex::encode(&encoded), "033078410103632d31ac020101");
        assert_eq!(decode(&[1, 2], &encoded), Some(entry.clone()));
        assert_eq!(decode(&[1, 2], &[encoded.as_slice(), &[0]].concat()), None);
        let asked = WatchEntry { history: Some(AskedHistory { from: Height(300), rescan: RescanId(5) }), ..entry };
        let encoded = encode(&asked);
        assert_eq!(const_hex::encode(&encoded), "033078410103632d31ac020101ac0205");
        assert_eq!(decode(&[1, 2], &encoded), Some(asked));
        assert_eq!(decode(&[1, 2], &[encoded.as_slice(), &[0]].concat()), None);
    }
}
