//! Six bits a character for the spellings of addresses, which are letters and digits on every known chain.

const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:_";
const BITS: u32 = 6;

/// How many bytes `chars` characters take.
pub(super) fn packed_len(chars: usize) -> usize {
    chars.saturating_mul(6).div_ceil(8)
}

/// Appends the packed text; `false`, with nothing appended, if a character is not of the alphabet.
pub(super) fn pack(text: &str, into: &mut Vec<u8>) -> bool {
    if !text.bytes().all(|byte| code(byte).is_some()) {
        return false;
    }
    let (mut bits, mut held) = (0_u32, 0_u32);
    for code in text.bytes().filter_map(code) {
        bits = (bits << BITS) | u32::from(code);
        held += BITS;
        if held >= 8 {
            held -= 8;
            into.push(low_byte(bits >> held));
            bits &= (1 << held) - 1;
        }
    }
    if held > 0 {
        into.push(low_byte(bits << (8 - held)));
    }
    true
}

/// The text of `chars` characters that was packed into these bytes.
pub(super) fn unpack(packed: &[u8], chars: usize) -> String {
    let mut text = String::with_capacity(chars);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in packed {
        bits = (bits << 8) | u32::from(*byte);
        held += 8;
        while held >= BITS && text.len() < chars {
            held -= BITS;
            text.push(char::from(ALPHABET.get(usize::from(low_byte(bits >> held) & 63)).copied().unwrap_or_default()));
            bits &= (1 << held) - 1;
        }
    }
    text
}

fn code(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'Z' => Some(byte - b'A' + 10),
        b'a'..=b'z' => Some(byte - b'a' + 36),
        b':' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

fn low_byte(bits: u32) -> u8 {
    let [.., low] = bits.to_be_bytes();
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_packed_spelling_is_read_back_in_three_quarters_of_its_length(text in "[0-9A-Za-z:_]{0,100}") {
            let mut packed = Vec::new();
            prop_assert!(pack(&text, &mut packed));
            prop_assert_eq!(packed.len(), packed_len(text.len()));
            prop_assert_eq!(unpack(&packed, text.len()), text);
        }

        #[test]
        fn a_spelling_with_any_other_character_is_left_alone(text in "[0-9a-z]{0,5}[ ./ä-][0-9a-z]{0,5}") {
            let mut packed = Vec::new();
            prop_assert!(!pack(&text, &mut packed));
            prop_assert!(packed.is_empty());
        }
    }
}
