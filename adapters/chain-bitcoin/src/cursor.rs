//! Reading bytes in order, never beyond their end.

use crate::decode_error::DecodeError;

/// A place in a block's bytes. Lists and fields are bounded by what is left: a corrupt length allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// What was read between two places.
    pub(crate) fn between(&self, from: usize, to: usize) -> &'a [u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// The next byte, which stays unread.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(n);
        let field = end.and_then(|end| self.bytes.get(self.at..end));
        let field = field.ok_or(DecodeError::Truncated { at: self.at, wanted: n, length: self.bytes.len() })?;
        self.at = self.at.saturating_add(n);
        Ok(field)
    }

    /// The next `N` bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let field = self.take(N)?;
        Ok(field.try_into().expect("invariant: take gives the length asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length in one, three, five or nine bytes; only the shortest form is one.
    pub(crate) fn compact_size(&mut self) -> Result<u64, DecodeError> {
        let at = self.at;
        let (value, least) = match self.u8()? {
            0xfd => (u64::from(u16::from_le_bytes(self.array()?)), 0xfd),
            0xfe => (u64::from(u32::from_le_bytes(self.array()?)), 0x1_0000),
            0xff => (self.u64()?, 0x1_0000_0000),
            small => (u64::from(small), 0),
        };
        if value < least { Err(DecodeError::NotShortest { at }) } else { Ok(value) }
    }

    /// A list's length, whose items have at least `item_bytes` bytes each.
    pub(crate) fn count(&mut self, item_bytes: usize) -> Result<usize, DecodeError> {
        let at = self.at;
        let count = self.compact_size()?;
        let left = self.left();
        let most = left / item_bytes.max(1);
        usize::try_from(count).ok().filter(|count| *count <= most).ok_or(DecodeError::Count { at, count, left })
    }

    /// A field with its length before it.
    pub(crate) fn field(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.count(1)?;
        self.take(length)
    }

    /// A number in base 128, most significant digit first, each digit but the last counting from one (as Core's own
    /// databases and Litecoin's extension blocks have it).
    pub(crate) fn base128(&mut self) -> Result<u64, DecodeError> {
        let at = self.at;
        let mut value = 0u64;
        loop {
            let byte = self.u8()?;
            value = value.checked_mul(128).map(|value| value | u64::from(byte & 0x7f)).ok_or(DecodeError::NotShortest { at })?;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            value = value.checked_add(1).ok_or(DecodeError::NotShortest { at })?;
        }
    }

    /// Every byte must have been read.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.left() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lengths_are_read_in_their_shortest_form_only() {
        let read = |bytes: &[u8]| Cursor::new(bytes).compact_size();
        assert_eq!(read(&[0xfc]), Ok(0xfc));
        assert_eq!(read(&[0xfd, 0xfd, 0]), Ok(0xfd));
        assert_eq!(read(&[0xfe, 0, 0, 1, 0]), Ok(0x1_0000));
        assert_eq!(read(&[0xff, 0, 0, 0, 0, 1, 0, 0, 0]), Ok(0x1_0000_0000));
        for long in [&[0xfd, 0xfc, 0][..], &[0xfe, 0xff, 0xff, 0, 0], &[0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]] {
            assert_eq!(read(long), Err(DecodeError::NotShortest { at: 0 }));
        }
    }

    #[test]
    fn a37_a_corrupt_length_is_refused_before_anything_is_allocated() {
        let mut cursor = Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00]);
        assert_eq!(cursor.count(41), Err(DecodeError::Count { at: 0, count: u64::MAX, left: 1 }));
        assert!(Cursor::new(&[2, 0]).field().is_err());
        assert!(Cursor::new(&[]).take(usize::MAX).is_err());
    }

    #[test]
    fn base_128_numbers_count_their_upper_digits_from_one() {
        let read = |bytes: &[u8]| Cursor::new(bytes).base128();
        assert_eq!(read(&[0x7f]), Ok(127));
        assert_eq!(read(&[0x80, 0x00]), Ok(128));
        assert_eq!(read(&[0x80, 0x86, 0x9c, 0x20]), Ok(2_215_584));
        assert!(read(&[0xff; 20]).is_err());
        assert!(read(&[0x80]).is_err());
    }
}
