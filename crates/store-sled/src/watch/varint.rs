//! Records in logs and segments: `len(key) · len(value) · key · value`, lengths in 7 bits a byte, low bits first.

/// Appends a record. An empty value says that the key is gone.
pub(super) fn put(key: &[u8], value: &[u8], into: &mut Vec<u8>) {
    put_length(key.len(), into);
    put_length(value.len(), into);
    into.extend_from_slice(key);
    into.extend_from_slice(value);
}

/// The record at the beginning; `None` if there is no whole one.
pub(super) fn take<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let key_len = take_length(rest)?;
    let value_len = take_length(rest)?;
    let (key, behind) = rest.split_at_checked(key_len)?;
    let (value, behind) = behind.split_at_checked(value_len)?;
    *rest = behind;
    Some((key, value))
}

fn put_length(length: usize, into: &mut Vec<u8>) {
    let mut left = length;
    while left >= 0x80 {
        into.push(low_seven(left) | 0x80);
        left >>= 7;
    }
    into.push(low_seven(left));
}

fn low_seven(number: usize) -> u8 {
    let [low, ..] = number.to_le_bytes();
    low & 0x7f
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let mut length = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(length);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_are_read_back_and_a_cut_one_is_none(
            key in prop::collection::vec(any::<u8>(), 0..300),
            value in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut written = Vec::new();
            put(&key, &value, &mut written);
            let mut rest = written.as_slice();
            prop_assert_eq!(take(&mut rest).unwrap(), (key.as_slice(), value.as_slice()));
            prop_assert!(rest.is_empty());
            for length in 0..written.len() {
                prop_assert!(take(&mut written.get(..length).unwrap()).is_none());
            }
        }
    }
}
