//! One change to bytes.

use fastrand::Rng;

/// One change. Places beyond the end count from the beginning again, so that each fits any bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alteration {
    /// One bit turned.
    Flip {
        /// The byte.
        at: usize,
        /// The bit, 0 to 7.
        bit: u8,
    },
    /// One byte replaced.
    Set {
        /// The byte.
        at: usize,
        /// Its new value.
        to: u8,
    },
    /// One byte more.
    Insert {
        /// Before this byte.
        at: usize,
        /// The new one.
        byte: u8,
    },
    /// Bytes left out.
    Delete {
        /// The first one.
        at: usize,
        /// How many.
        count: usize,
    },
    /// Bytes twice, one behind the other.
    Repeat {
        /// The first one.
        at: usize,
        /// How many.
        count: usize,
    },
    /// The end cut off.
    Truncate {
        /// Bytes left.
        to: usize,
    },
    /// A length as large as nine bytes can say, written over what is there.
    Claim {
        /// The first byte.
        at: usize,
    },
}

/// The largest length in the formats that are read here.
const CLAIM: [u8; 9] = [0xff; 9];
/// Values that formats give a meaning to.
const NOTABLE: [u8; 12] = [0x00, 0x01, 0x08, 0x7f, 0x80, 0xfc, 0xfd, 0xfe, 0xff, b'"', b'{', b'\n'];

impl Alteration {
    /// Any change to `length` bytes.
    pub fn random(rng: &mut Rng, length: usize) -> Self {
        let at = rng.usize(..length.max(1));
        let byte = if rng.bool() { NOTABLE.get(rng.usize(..NOTABLE.len())).copied().unwrap_or(0) } else { rng.u8(..) };
        let count = if rng.bool() { 1 } else { rng.usize(1..=length.clamp(1, 64)) };
        match rng.u8(..16) {
            0..=4 => Self::Flip { at, bit: rng.u8(..8) },
            5..=7 => Self::Set { at, to: byte },
            8..=9 => Self::Insert { at, byte },
            10..=11 => Self::Delete { at, count },
            12..=13 => Self::Repeat { at, count },
            14 => Self::Truncate { to: at },
            _ => Self::Claim { at },
        }
    }

    /// The changed bytes. Some changes change nothing, such as a byte set to what it is.
    pub fn apply(self, bytes: &[u8]) -> Vec<u8> {
        let place = |at: usize| at.checked_rem(bytes.len()).unwrap_or(0);
        let mut changed = bytes.to_vec();
        match self {
            Self::Flip { at, bit } => {
                if let Some(byte) = changed.get_mut(place(at)) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Self::Set { at, to } => {
                if let Some(byte) = changed.get_mut(place(at)) {
                    *byte = to;
                }
            }
            Self::Insert { at, byte } => changed.insert(place(at), byte),
            Self::Delete { at, count } => {
                let at = place(at);
                changed.drain(at..at.saturating_add(count).min(bytes.len()));
            }
            Self::Repeat { at, count } => {
                let at = place(at);
                let end = at.saturating_add(count).min(bytes.len());
                let again = changed.get(at..end).unwrap_or_default().to_vec();
                changed.splice(end..end, again);
            }
            Self::Truncate { to } => changed.truncate(place(to)),
            Self::Claim { at } => {
                let room = changed.get_mut(place(at)..).unwrap_or_default();
                room.iter_mut().zip(CLAIM).for_each(|(byte, claim)| *byte = claim);
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_what_it_says_and_fits_any_bytes() {
        let abc = b"abc";
        for (change, wanted) in [
            (Alteration::Flip { at: 1, bit: 0 }, "acc"),
            (Alteration::Set { at: 4, to: b'x' }, "axc"),
            (Alteration::Insert { at: 0, byte: b'x' }, "xabc"),
            (Alteration::Delete { at: 1, count: 9 }, "a"),
            (Alteration::Repeat { at: 1, count: 2 }, "abcbc"),
            (Alteration::Truncate { to: 2 }, "ab"),
        ] {
            assert_eq!(change.apply(abc), wanted.as_bytes(), "{change:?}");
        }
        assert_eq!(Alteration::Claim { at: 1 }.apply(abc), [b'a', 0xff, 0xff]);
        let mut rng = Rng::with_seed(1);
        for _ in 0..200 {
            Alteration::random(&mut rng, 0).apply(b"");
        }
    }
}
