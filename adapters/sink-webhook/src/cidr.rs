//! A range of addresses.

use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network in CIDR notation, `10.1.2.0/24` or `fd00::/8`; a bare address is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The first address of the range.
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// Whether the address lies in the range. An IPv4 address never lies in an IPv6 range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((network, width), (address, address_width)) = (bits(self.network), bits(address));
        width == address_width && top(network, width, self.prefix) == top(address, width, self.prefix)
    }
}

/// The address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

/// The first `prefix` of `width` bits.
fn top(bits: u128, width: u8, prefix: u8) -> u128 {
    bits.checked_shr(u32::from(width.saturating_sub(prefix))).unwrap_or(0)
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a network: an address and a prefix length, as in \"10.1.2.0/24\"");
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let network: IpAddr = address.parse().map_err(|_| wrong())?;
        if let IpAddr::V6(v6) = network
            && let Some(v4) = v6.to_ipv4_mapped()
        {
            return Err(format!("{text:?}: write the IPv4 network itself, {v4}/..."));
        }
        let (bits, width) = bits(network);
        let prefix = match prefix {
            None => width,
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= width).ok_or_else(wrong)?,
        };
        let host_bits = width.saturating_sub(prefix);
        if top(bits, width, prefix).checked_shl(u32::from(host_bits)).unwrap_or(0) != bits {
            return Err(format!("{text:?} is an address inside a network of /{prefix}; write the network's first address"));
        }
        Ok(Self { network, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn contains(range: &str, address: &str) -> bool {
        range.parse::<Cidr>().unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_range_holds_its_first_and_last_address_and_nothing_beside_them() {
        assert!(contains("10.1.2.0/24", "10.1.2.0") && contains("10.1.2.0/24", "10.1.2.255"));
        assert!(!contains("10.1.2.0/24", "10.1.3.0") && !contains("10.1.2.0/24", "10.1.1.255"));
        assert!(contains("0.0.0.0/0", "203.0.113.9") && contains("::/0", "2001:db8::1"));
        assert!(contains("127.0.0.1", "127.0.0.1") && !contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("::1/128", "::1") && !contains("::1/128", "::2"));
        assert!(!contains("::/0", "10.0.0.1"), "families don't mix");
    }

    #[test]
    fn what_is_no_network_is_refused_with_what_to_write() {
        for bad in
            ["", "10.0.0.0/33", "10.0.0.1/8", "10.0.0/8", "fd00::1/8", "::/129", "::ffff:10.0.0.0/104", "host/8", "10.0.0.0/-1"]
        {
            assert!(bad.parse::<Cidr>().is_err(), "{bad:?} was accepted");
        }
    }
}
