//! JSON-RPC's quantities: `0x` and hexadecimal digits. Some gateways write plain numbers; those are read, too.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A number of at most 64 bits: heights, indexes, times, types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(pub(crate) u64);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity of at most 64 bits such as \"0x1f\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
                let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                digits
                    .and_then(|digits| u64::from_str_radix(digits, 16).ok())
                    .map(Quantity)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity(value))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// As a parameter.
pub(crate) fn hex(value: u64) -> String {
    format!("{value:#x}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn quantities_are_hexadecimal_text_and_tolerated_as_numbers() {
        assert_eq!(serde_json::from_str::<Quantity>("\"0x1f\"").unwrap(), Quantity(31));
        assert_eq!(serde_json::from_str::<Quantity>("31").unwrap(), Quantity(31));
        for bad in ["\"31\"", "\"0x\"", "\"0x+1\"", "\"0x10000000000000000\"", "-1", "null", "1.5"] {
            assert!(serde_json::from_str::<Quantity>(bad).is_err(), "{bad} was accepted");
        }
        assert_eq!(hex(0), "0x0");
    }
}
