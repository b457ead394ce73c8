//! Money: unsigned 256-bit base units, from the raw bytes to the JSON string (G12).

use ruint::aliases::U256;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Base units of an asset (satoshi, wei, token units); any value of 256 bits. In JSON a decimal string,
/// since JSON numbers lose precision above 2^53 in most readers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(U256);

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an amount: a decimal string of base units below 2^256, digits only")]
pub struct AmountError {
    /// The text that was refused.
    pub text: String,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(U256::ZERO);
    /// 2^256 - 1.
    pub const MAX: Self = Self(U256::MAX);

    /// From 32 big-endian bytes, as EVM logs carry it.
    pub fn from_be_bytes(bytes: [u8; 32]) -> Self {
        Self(U256::from_be_bytes(bytes))
    }

    /// As 32 big-endian bytes.
    pub fn to_be_bytes(self) -> [u8; 32] {
        self.0.to_be_bytes()
    }

    /// Whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// The sum; `None` above 2^256 - 1.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The product; `None` above 2^256 - 1 (Gwei withdrawals to wei).
    pub fn checked_mul(self, factor: u64) -> Option<Self> {
        self.0.checked_mul(U256::from(factor)).map(Self)
    }

    /// The 256-bit integer.
    pub fn as_u256(self) -> U256 {
        self.0
    }
}

impl From<u64> for Amount {
    fn from(value: u64) -> Self {
        Self(U256::from(value))
    }
}

impl From<U256> for Amount {
    fn from(value: U256) -> Self {
        Self(value)
    }
}

impl std::str::FromStr for Amount {
    type Err = AmountError;
    fn from_str(text: &str) -> Result<Self, AmountError> {
        let error = || AmountError { text: text.chars().take(120).collect() };
        // U256's own parser also takes 0x, 0b and underscores; an amount is decimal digits only.
        if text.is_empty() || text.len() > 78 || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        U256::from_str_radix(text, 10).map(Self).map_err(|_| error())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Amount({})", self.0)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { self.to_be_bytes().serialize(serializer) }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
            text.parse().map_err(serde::de::Error::custom)
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Self::from_be_bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn g12_every_256_bit_amount_survives_the_json_string(bytes in any::<[u8; 32]>()) {
            let amount = Amount::from_be_bytes(bytes);
            let json = serde_json::to_string(&amount).unwrap();
            prop_assert!(json.starts_with('"'));
            prop_assert_eq!(serde_json::from_str::<Amount>(&json).unwrap(), amount);
            prop_assert_eq!(amount.to_be_bytes(), bytes);
        }
    }

    #[test]
    fn g12_the_edges_of_double_precision_and_of_256_bits_are_exact() {
        for text in [
            "9007199254740993",
            "18446744073709551616",
            "115792089237316195423570985008687907853269984665640564039457584007913129639935",
        ] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "-1",
            "1.0",
            "1e8",
            "0x10",
            "1_000",
            " 1",
            "115792089237316195423570985008687907853269984665640564039457584007913129639936",
        ] {
            assert!(bad.parse::<Amount>().is_err(), "{bad:?} was accepted");
        }
    }
}
