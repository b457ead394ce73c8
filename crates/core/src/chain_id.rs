//! Which chain: the CAIP-2 id that keys and state use, and the operator's name for it.

use crate::text_id::{is_name, text_id};

text_id!(
    /// A CAIP-2 chain id, `eip155:1` or `bip122:000000000019d6689c085ae165831e93`. Part of every key:
    /// one transaction hash can exist on two chains.
    ChainId, "a CAIP-2 chain id", "namespace:reference, the namespace 3 to 8 of [-a-z0-9], the reference 1 to 32 of [-_a-zA-Z0-9]",
    |text| {
        text.split_once(':').is_some_and(|(namespace, reference)| {
            (3..=8).contains(&namespace.len())
                && namespace.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && (1..=32).contains(&reference.len())
                && reference.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
    }
);

text_id!(
    /// The operator's name for a configured chain: `bitcoin`, `base`. For people and logs; keys use [`ChainId`].
    ChainName, "a chain name", "1 to 64 of [-_a-z0-9], starting with a letter or digit", is_name
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_id_has_a_namespace_and_a_reference() {
        assert!(ChainId::new("eip155:1").is_ok());
        assert!(ChainId::new("bip122:000000000019d6689c085ae165831e93").is_ok());
        for bad in ["", "eip155", "e:1", "EIP155:1", "eip155:", "eip155:a b", "toolongnamespace:1"] {
            assert!(ChainId::new(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
