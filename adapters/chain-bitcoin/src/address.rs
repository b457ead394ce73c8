//! From an address as people write it to the script that blocks carry.

use crate::destination::Destination;
use crate::network::{NETWORKS, Network};
use bitcoin::base58;
use bitcoin::bech32::primitives::decode::{SegwitHrpstring, UncheckedHrpstring};
use confirmd_core::{Address, AddressError};

/// More is no address of this family; MWEB's have about 120 characters.
const TEXT_BYTES_MAX: usize = 200;

/// The canonical form of an address of `network`: its bytes are the output script. Every accepted spelling of one script
/// gives one address: segwit in upper or lower case (never mixed), Litecoin's `3…` and `M…`.
/// Errors say what is wrong, and name the network that the text is an address of.
pub fn parse_address(text: &str, network: &Network) -> Result<Address, AddressError> {
    let refuse = |problem: String| AddressError { text: shortened(text), network: network.title.to_owned(), problem };
    match read(text, network) {
        Ok(destination) => Ok(Address::new(destination.script(), destination.text(network))),
        Err(problem) => Err(refuse(match others(text, network) {
            Some(others) => format!("it is an address of {others}; give the address of this network, or watch it on that one"),
            None => problem,
        })),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_BYTES_MAX).collect()
}

/// The networks besides `network` that take the text, for people.
fn others(text: &str, network: &Network) -> Option<String> {
    let mut titles: Vec<_> =
        NETWORKS.iter().filter(|other| *other != network && read(text, other).is_ok()).map(|other| other.title).collect();
    let last = titles.pop()?;
    Some(if titles.is_empty() { last.to_owned() } else { format!("{} or {last}", titles.join(", ")) })
}

fn read(text: &str, network: &Network) -> Result<Destination, String> {
    if text.is_empty() {
        return Err("it is empty".into());
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err("it is too long".into());
    }
    if let Some(odd) = text.chars().find(|c| !c.is_ascii_alphanumeric()) {
        return Err(format!("it contains {odd:?}; an address has letters and digits only"));
    }
    let lower = text.to_ascii_lowercase();
    let begins_with = |hrp: &str| lower.strip_prefix(hrp).is_some_and(|rest| rest.starts_with('1'));
    if network.mweb_hrp.is_some_and(begins_with) {
        return Err("payments within MWEB are hidden from everyone but their recipient, so they can't be watched; \
                    give an address outside it, which peg-outs reach, too"
            .into());
    }
    // A prefix of two segwit letters and `1` can't begin a base58 address of the table by its version bytes, except
    // by accident: the checksums decide then.
    if begins_with(network.hrp) { read_segwit(text, network) } else { read_base58(text, network) }
}

fn read_segwit(text: &str, network: &Network) -> Result<Destination, String> {
    let mixed = text.bytes().any(|b| b.is_ascii_uppercase()) && text.bytes().any(|b| b.is_ascii_lowercase());
    if mixed {
        return Err("it mixes upper and lower case, which makes it invalid; write it all in lower case".into());
    }
    let unchecked = UncheckedHrpstring::new(text).map_err(|error| format!("it is mistyped: {error}"))?;
    let segwit = SegwitHrpstring::new(text).map_err(|error| match wrong_checksum_kind(&unchecked) {
        Some(problem) => problem.to_owned(),
        None => format!("it is mistyped: {error}"),
    })?;
    // The prefix ends at the last `1`, which need not be the first.
    if segwit.hrp().to_lowercase() != network.hrp {
        return Err(format!("its prefix is {:?}, not {:?}", segwit.hrp().to_lowercase(), network.hrp));
    }
    let version = segwit.witness_version().to_u8();
    let program: Vec<u8> = segwit.byte_iter().collect();
    let destination = match (version, program.len()) {
        (0, 20) => program.try_into().ok().map(Destination::P2wpkh),
        (0, 32) => program.try_into().ok().map(Destination::P2wsh),
        (1, 32) => program.try_into().ok().map(Destination::P2tr),
        _ => None,
    };
    destination.ok_or_else(|| {
        format!(
            "witness version {version} with a program of this length has no rules yet: anybody could spend what is paid to it"
        )
    })
}

/// The text is right but for the kind of its checksum: bech32 where bech32m belongs, or the other way round.
fn wrong_checksum_kind(unchecked: &UncheckedHrpstring<'_>) -> Option<&'static str> {
    let bech32 = unchecked.has_valid_checksum::<bitcoin::bech32::Bech32>();
    let bech32m = unchecked.has_valid_checksum::<bitcoin::bech32::Bech32m>();
    if bech32 {
        Some(
            "it has the checksum of bech32, and its witness version wants that of bech32m: whoever made it has an error in their software",
        )
    } else if bech32m {
        Some(
            "it has the checksum of bech32m, and its witness version wants that of bech32: whoever made it has an error in their software",
        )
    } else {
        None
    }
}

fn read_base58(text: &str, network: &Network) -> Result<Destination, String> {
    let payload =
        base58::decode_check(text).map_err(|error| format!("it is mistyped, or of a kind that is not known here: {error}"))?;
    let (version, hash) = payload.split_first().ok_or("it holds nothing")?;
    let hash: [u8; 20] = hash.try_into().map_err(|_| format!("it holds {} bytes, where an address holds 21", payload.len()))?;
    let versions = network.base58;
    if *version == versions.p2pkh {
        Ok(Destination::P2pkh(hash))
    } else if *version == versions.p2sh || Some(*version) == versions.p2sh_legacy {
        Ok(Destination::P2sh(hash))
    } else {
        Err(format!("its first byte, {version}, is not one of this network"))
    }
}

#[cfg(test)]
mod tests;
