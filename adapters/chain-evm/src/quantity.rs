//! JSON-RPC's quantities: `0x` and hexadecimal digits. Some gateways write plain numbers; those are read, too.

use alloy::primitives::U256;
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

/// A number of at most 256 bits: amounts. An empty text is none, and neither is one in another base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wei(pub(crate) U256);

/// Hexadecimal digits of 256 bits.
const WEI_DIGITS_MAX: usize = 64;

impl<'de> Deserialize<'de> for Wei {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Wei;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of at most 256 bits such as \"0x1f\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Wei, E> {
                let digits = text.strip_prefix("0x").filter(|digits| {
                    (1..=WEI_DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit())
                });
                digits
                    .and_then(|digits| U256::from_str_radix(digits, 16).ok())
                    .map(Wei)
                    .ok_or_else(|| E::custom(format!("not an amount in hexadecimal digits, but {} other characters", text.len())))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Wei, E> {
                Ok(Wei(U256::from(value)))
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

    #[test]
    fn s16_an_amount_that_is_empty_or_in_another_base_is_none() {
        assert_eq!(serde_json::from_str::<Wei>("\"0x0\"").unwrap(), Wei(U256::ZERO));
        assert_eq!(serde_json::from_str::<Wei>("\"0x00fF\"").unwrap(), Wei(U256::from(255)));
        assert_eq!(serde_json::from_str::<Wei>("7").unwrap(), Wei(U256::from(7)));
        let most = format!("\"0x{}\"", "f".repeat(64));
        assert_eq!(serde_json::from_str::<Wei>(&most).unwrap(), Wei(U256::MAX));
        let more = format!("\"0x1{}\"", "0".repeat(64));
        for bad in ["\"\"", "\"0x\"", "\"10\"", "\"0b1\"", "\"0o7\"", "\"0x1_0\"", "\"0x+1\"", "\"0xg\"", "-1", "1.5", &more] {
            assert!(serde_json::from_str::<Wei>(bad).is_err(), "{bad} was accepted");
        }
    }
}
