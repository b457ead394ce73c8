//! One watched address as bytes, so that millions of them cost little more than what they say.
//!
//! `flags · len(bytes) · len(spelling) · [len(reference)] · from · [asked from · rescan] · bytes · spelling · [reference]`, lengths and height as
//! variable-length integers of 7 bits a byte, low bits first.

use super::{WatchEntry, WatchOrigin, WatchState, spelling};
use crate::{Address, AskedHistory, Height, RescanId};
use std::sync::Arc;

const OF_COMMAND: u8 = 1;
const REMOVED: u8 = 2;
const REFERENCED: u8 = 4;
const PACKED: u8 = 8;
const ASKED: u8 = 16;

/// Appends the record.
pub(super) fn write(entry: &WatchEntry, into: &mut Vec<u8>) {
    let mut spelled = Vec::new();
    let packed = spelling::pack(entry.address.as_str(), &mut spelled);
    if !packed {
        spelled.extend_from_slice(entry.address.as_str().as_bytes());
    }
    let mut flags = 0;
    flags |= if entry.origin == WatchOrigin::Command { OF_COMMAND } else { 0 };
    flags |= if entry.state == WatchState::Removed { REMOVED } else { 0 };
    flags |= if entry.reference.is_some() { REFERENCED } else { 0 };
    flags |= if packed { PACKED } else { 0 };
    flags |= if entry.history.is_some() { ASKED } else { 0 };
    into.push(flags);
    put_length(entry.address.bytes().len(), into);
    put_length(entry.address.as_str().len(), into);
    if let Some(reference) = &entry.reference {
        put_length(reference.len(), into);
    }
    put_number(entry.from.0, into);
    if let Some(history) = &entry.history {
        put_number(history.from.0, into);
        put_number(history.rescan.0, into);
    }
    into.extend_from_slice(entry.address.bytes());
    into.extend_from_slice(&spelled);
    into.extend_from_slice(entry.reference.as_deref().unwrap_or_default().as_bytes());
}

/// A record that `write` made, at the start of these bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    flags: u8,
    from: Height,
    history: Option<AskedHistory>,
    bytes: &'a [u8],
    spelled: &'a [u8],
    chars: usize,
    reference: &'a [u8],
    len: usize,
}

impl<'a> Record<'a> {
    /// Reads where the parts are; copies nothing.
    pub(super) fn read(memory: &'a [u8]) -> Option<Self> {
        let mut rest = memory;
        let flags = take(&mut rest, 1)?.first().copied()?;
        let bytes_len = take_length(&mut rest)?;
        let chars = take_length(&mut rest)?;
        let reference_len = if flags & REFERENCED != 0 { take_length(&mut rest)? } else { 0 };
        let from = Height(take_number(&mut rest)?);
        let history = match flags & ASKED {
            0 => None,
            _ => Some(AskedHistory { from: Height(take_number(&mut rest)?), rescan: RescanId(take_number(&mut rest)?) }),
        };
        let bytes = take(&mut rest, bytes_len)?;
        let spelled = take(&mut rest, if flags & PACKED != 0 { spelling::packed_len(chars) } else { chars })?;
        let reference = take(&mut rest, reference_len)?;
        Some(Self { flags, from, history, bytes, spelled, chars, reference, len: memory.len().saturating_sub(rest.len()) })
    }

    /// The address' bytes.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How long the record is.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The entry it was made from.
    pub(super) fn entry(&self) -> WatchEntry {
        let text = match self.flags & PACKED {
            0 => String::from_utf8_lossy(self.spelled).into_owned(),
            _ => spelling::unpack(self.spelled, self.chars),
        };
        let referenced = self.flags & REFERENCED != 0;
        WatchEntry {
            address: Address::new(self.bytes, text),
            reference: referenced.then(|| Arc::from(String::from_utf8_lossy(self.reference).as_ref())),
            from: self.from,
            origin: if self.flags & OF_COMMAND == 0 { WatchOrigin::Config } else { WatchOrigin::Command },
            state: if self.flags & REMOVED == 0 { WatchState::Watching } else { WatchState::Removed },
            history: self.history,
        }
    }
}

fn put_length(length: usize, into: &mut Vec<u8>) {
    put_number(u64::try_from(length).expect("invariant: a length has at most 64 bits"), into);
}

fn put_number(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(low_seven(number) | 0x80);
        number >>= 7;
    }
    into.push(low_seven(number));
}

fn low_seven(number: u64) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low & 0x7f
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(take_number(rest)?).ok()
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?.first().copied()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_is_read_back_as_it_was_written(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            text in "\\PC{0,70}|[0-9a-z]{0,70}",
            reference in prop::option::of("\\PC{0,200}"),
            from in any::<u64>(),
            of_command in any::<bool>(),
            removed in any::<bool>(),
            asked in prop::option::of(any::<(u64, u64)>()),
            behind in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let entry = WatchEntry {
                address: Address::new(bytes, text),
                reference: reference.map(Arc::from),
                from: Height(from),
                origin: if of_command { WatchOrigin::Command } else { WatchOrigin::Config },
                state: if removed { WatchState::Removed } else { WatchState::Watching },
                history: asked.map(|(from, rescan)| AskedHistory { from: Height(from), rescan: RescanId(rescan) }),
            };
            let mut memory = Vec::new();
            write(&entry, &mut memory);
            let len = memory.len();
            memory.extend(behind);
            let record = Record::read(&memory).expect("a record");
            prop_assert_eq!(record.len(), len);
            prop_assert_eq!(record.bytes(), entry.address.bytes());
            let read = record.entry();
            prop_assert_eq!(read.address.as_str(), entry.address.as_str());
            prop_assert_eq!(read, entry);
        }
    }
}
