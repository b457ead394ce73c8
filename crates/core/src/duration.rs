//! Durations as people write them in a configuration: `30s`, `2m`, `10m`, `6h`, `90d`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A span of time written as a whole number and a unit: `ms`, `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(pub Duration);

impl std::str::FromStr for HumanDuration {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a duration: a whole number and ms, s, m, h or d, as in \"30s\"");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let millis = match unit.trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        number.checked_mul(millis).map(|ms| Self(Duration::from_millis(ms))).ok_or_else(wrong)
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
            if ms > 0 && ms.is_multiple_of(size) {
                return write!(f, "{}{unit}", ms / size);
            }
        }
        write!(f, "{ms}ms")
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn durations_are_read_and_printed_in_the_largest_whole_unit() {
        for text in ["250ms", "30s", "2m", "6h", "90d"] {
            assert_eq!(text.parse::<HumanDuration>().unwrap().to_string(), text);
        }
        assert_eq!("90s".parse::<HumanDuration>().unwrap().to_string(), "90s");
        for bad in ["", "30", "s", "1.5s", "-1s", "5 weeks", "99999999999999999d"] {
            assert!(bad.parse::<HumanDuration>().is_err(), "{bad:?} was accepted");
        }
    }
}
