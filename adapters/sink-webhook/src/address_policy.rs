//! Which addresses may be connected to.

use crate::Cidr;
use confirmd_core::ConfigError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where clouds answer their machines' credentials, outside of the link-local ranges: AWS over IPv6, Alibaba, Azure.
const METADATA: [IpAddr; 3] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Link-local or cloud metadata: always.
    Never,
    /// Private, loopback or reserved, and not listed.
    Private,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "link-local and metadata addresses are always refused",
            Self::Private => {
                "it is not public; if that is meant, list it in allow_private, as in allow_private = [\"127.0.0.0/8\"]"
            }
        })
    }
}

/// Refuses what a public receiver can't be, unless it is listed.
#[derive(Debug, Clone)]
pub(crate) struct AddressPolicy {
    allow_private: Vec<Cidr>,
}

impl AddressPolicy {
    /// Ranges inside what is always refused would have no effect and are a mistake.
    pub(crate) fn new(allow_private: Vec<Cidr>) -> Result<Self, ConfigError> {
        match allow_private.iter().position(|range| is_never(unwrapped(range.network()))) {
            Some(at) => Err(ConfigError::new(format!("allow_private[{at}]"), Refusal::Never.to_string())),
            None => Ok(Self { allow_private }),
        }
    }

    /// Whether this very address may be connected to.
    pub(crate) fn judge(&self, address: IpAddr) -> Result<(), Refusal> {
        let address = unwrapped(address);
        if is_never(address) {
            return Err(Refusal::Never);
        }
        if is_public(address) || self.allow_private.iter().any(|range| range.contains(address)) {
            return Ok(());
        }
        Err(Refusal::Private)
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, or reached through NAT64 (64:ff9b::/96).
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return v4.into();
    }
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)).into(),
        _ => address,
    }
}

fn is_never(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    link_local || METADATA.contains(&address)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            // "This network", shared address space, IETF assignments, benchmarking, class E.
            [0, ..] | [192, 0, 0, _] | [198, 18..=19, ..] | [240..=255, ..] => false,
            [100, 64..=127, ..] => false,
            _ => !(v4.is_private() || v4.is_loopback() || v4.is_multicast() || v4.is_documentation()),
        },
        IpAddr::V6(v6) => match v6.segments() {
            // Unspecified, loopback and IPv4-compatible addresses; documentation; 6to4 and Teredo hide an IPv4 address.
            [0, 0, 0, 0, 0, 0, ..] | [0x2001, 0x0db8 | 0, ..] | [0x2002, ..] => false,
            // Global unicast is all there is beside ULA, site-local and multicast.
            [first, ..] => (0x2000..=0x3fff).contains(&first),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn judge(allow: &[&str], address: &str) -> Result<(), Refusal> {
        let ranges = allow.iter().map(|range| range.parse().unwrap()).collect();
        AddressPolicy::new(ranges).unwrap().judge(address.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_taken() {
        for public in [
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.169.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
        ] {
            assert_eq!(judge(&[], public), Ok(()), "{public}");
        }
    }

    #[test]
    fn private_addresses_are_refused_unless_listed() {
        for private in [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "::1",
            "::",
            "fc00::1",
            "fdff::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::",
        ] {
            assert_eq!(judge(&[], private), Err(Refusal::Private), "{private}");
        }
        assert_eq!(judge(&["10.1.2.0/24"], "10.1.2.3"), Ok(()));
        assert_eq!(judge(&["10.1.2.0/24"], "10.1.3.3"), Err(Refusal::Private));
        assert_eq!(judge(&["10.1.2.0/24"], "::ffff:10.1.2.3"), Ok(()), "an IPv4 address in IPv6 clothes");
        assert_eq!(judge(&["127.0.0.0/8", "::1/128"], "::1"), Ok(()));
    }

    #[test]
    fn link_local_and_metadata_addresses_are_refused_whatever_is_listed() {
        for never in [
            "169.254.169.254",
            "169.254.0.1",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
        ] {
            assert_eq!(judge(&["0.0.0.0/0", "::/0"], never), Err(Refusal::Never), "{never}");
        }
        let error = AddressPolicy::new(vec!["10.0.0.0/8".parse().unwrap(), "169.254.0.0/16".parse().unwrap()]).unwrap_err();
        assert_eq!(error.key, "allow_private[1]");
    }
}
