//! The networks of the family: one row each.

use confirmd_core::{AssetId, ChainId};
use std::time::Duration;

/// First bytes of base58 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base58Versions {
    /// Of pay-to-public-key-hash.
    pub p2pkh: u8,
    /// Of pay-to-script-hash, as written today.
    pub p2sh: u8,
    /// Of pay-to-script-hash, as once written; still read.
    pub p2sh_legacy: Option<u8>,
}

/// A block that a network must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where.
    pub height: u64,
    /// Its hash, as nodes print it.
    pub hash: &'static str,
}

/// One network. What tells it from the others is data; there is no code per network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// `network = "..."` in the configuration.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// `chain` in the node's `getblockchaininfo`.
    pub node_name: &'static str,
    /// The hash of block 0, as nodes print it. Its first 32 digits are the CAIP-2 reference.
    pub genesis: &'static str,
    /// The first block that another chain with this genesis does not have.
    pub fork: Option<Checkpoint>,
    /// SLIP-44's number of the coin.
    pub slip44: u32,
    /// The coin's symbol.
    pub symbol: &'static str,
    /// First bytes of base58 addresses.
    pub base58: Base58Versions,
    /// What segwit addresses begin with.
    pub hrp: &'static str,
    /// What addresses within the extension block begin with.
    pub mweb_hrp: Option<&'static str>,
    /// Blocks may have a HogEx transaction and an extension block.
    pub mweb: bool,
    /// Blocks are mined on demand, long after one another: an old tip says nothing of the node's sync.
    pub on_demand: bool,
    /// How often to look for a block, where the operator doesn't say.
    pub poll_interval: Duration,
}

/// Decimals of the coin on every network of the family.
pub(crate) const DECIMALS: u8 = 8;

const BITCOIN: Base58Versions = Base58Versions { p2pkh: 0x00, p2sh: 0x05, p2sh_legacy: None };
const BITCOIN_TEST: Base58Versions = Base58Versions { p2pkh: 0x6f, p2sh: 0xc4, p2sh_legacy: None };
const LITECOIN: Base58Versions = Base58Versions { p2pkh: 0x30, p2sh: 0x32, p2sh_legacy: Some(0x05) };
const LITECOIN_TEST: Base58Versions = Base58Versions { p2pkh: 0x6f, p2sh: 0x3a, p2sh_legacy: Some(0xc4) };

/// Every known network.
pub const NETWORKS: &[Network] = &[
    Network {
        name: "mainnet",
        title: "Bitcoin mainnet",
        node_name: "main",
        genesis: "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
        // Bitcoin Cash and its offspring have another block here.
        fork: Some(Checkpoint { height: 478_559, hash: "00000000000000000019f112ec0a9982926f1258cdcc558dd7c3b7e5dc7fa148" }),
        slip44: 0,
        symbol: "BTC",
        base58: BITCOIN,
        hrp: "bc",
        mweb_hrp: None,
        mweb: false,
        on_demand: false,
        poll_interval: Duration::from_secs(10),
    },
    Network {
        name: "testnet4",
        title: "Bitcoin testnet4",
        node_name: "testnet4",
        genesis: "00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043",
        fork: None,
        slip44: 1,
        symbol: "BTC",
        base58: BITCOIN_TEST,
        hrp: "tb",
        mweb_hrp: None,
        mweb: false,
        on_demand: false,
        poll_interval: Duration::from_secs(10),
    },
    Network {
        name: "signet",
        title: "Bitcoin signet",
        node_name: "signet",
        genesis: "00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6",
        // Every signet has this genesis; this is the public one's next block.
        fork: Some(Checkpoint { height: 1, hash: "00000086d6b2636cb2a392d45edc4ec544a10024d30141c9adf4bfd9de533b53" }),
        slip44: 1,
        symbol: "BTC",
        base58: BITCOIN_TEST,
        hrp: "tb",
        mweb_hrp: None,
        mweb: false,
        on_demand: false,
        poll_interval: Duration::from_secs(10),
    },
    Network {
        name: "regtest",
        title: "Bitcoin regtest",
        node_name: "regtest",
        genesis: "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
        fork: None,
        slip44: 1,
        symbol: "BTC",
        base58: BITCOIN_TEST,
        hrp: "bcrt",
        mweb_hrp: None,
        mweb: false,
        on_demand: true,
        poll_interval: Duration::from_secs(1),
    },
    Network {
        name: "litecoin",
        title: "Litecoin mainnet",
        node_name: "main",
        genesis: "12a765e31ffd4059bada1e25190f6e98c99d9714d334efa41a195a7e7e04bfe2",
        fork: None,
        slip44: 2,
        symbol: "LTC",
        base58: LITECOIN,
        hrp: "ltc",
        mweb_hrp: Some("ltcmweb"),
        mweb: true,
        on_demand: false,
        poll_interval: Duration::from_secs(5),
    },
    Network {
        name: "litecoin-testnet",
        title: "Litecoin testnet",
        node_name: "test",
        genesis: "4966625a4b2851d9fdee139e56211a0d88575f59ed816ff5e6a63deb4e3e29a0",
        fork: None,
        slip44: 1,
        symbol: "LTC",
        base58: LITECOIN_TEST,
        hrp: "tltc",
        mweb_hrp: Some("tmweb"),
        mweb: true,
        on_demand: false,
        poll_interval: Duration::from_secs(5),
    },
    Network {
        name: "litecoin-regtest",
        title: "Litecoin regtest",
        node_name: "regtest",
        genesis: "530827f38f93b43ed12af0b3ad25a288dc02ed74d6d7857862df51fc56c416f9",
        fork: None,
        slip44: 1,
        symbol: "LTC",
        base58: LITECOIN_TEST,
        hrp: "rltc",
        mweb_hrp: Some("tmweb"),
        mweb: true,
        on_demand: true,
        poll_interval: Duration::from_secs(1),
    },
];

impl Network {
    /// The network of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        NETWORKS.iter().find(|network| network.name == name)
    }

    /// `bip122:` and the first half of the genesis hash.
    pub fn chain_id(&self) -> ChainId {
        chain_id_of(self.genesis).expect("invariant: the table's hashes are 64 hex digits, which a test reads")
    }

    /// The coin.
    pub fn coin(&self) -> AssetId {
        AssetId::native(&self.chain_id(), self.slip44).expect("invariant: a chain id with a number is an asset id")
    }
}

/// The CAIP-2 id that a block's hash gives a chain.
pub(crate) fn chain_id_of(hash: &str) -> Option<ChainId> {
    hash.get(..32).and_then(|reference| ChainId::new(format!("bip122:{reference}")).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_table_agrees_with_the_bitcoin_crate_where_that_knows_the_network() {
        for (name, known) in [
            ("mainnet", bitcoin::Network::Bitcoin),
            ("testnet4", bitcoin::Network::Testnet4),
            ("signet", bitcoin::Network::Signet),
            ("regtest", bitcoin::Network::Regtest),
        ] {
            let network = Network::by_name(name).unwrap();
            assert_eq!(network.genesis, bitcoin::constants::genesis_block(known).block_hash().to_string(), "{name}");
            assert_eq!(network.node_name, known.to_core_arg(), "{name}");
        }
    }

    #[test]
    fn every_network_has_an_id_and_a_name_of_its_own() {
        let ids: std::collections::HashSet<_> = NETWORKS.iter().map(Network::chain_id).collect();
        let names: std::collections::HashSet<_> = NETWORKS.iter().map(|network| network.name).collect();
        assert_eq!((ids.len(), names.len()), (NETWORKS.len(), NETWORKS.len()));
        let mainnet = Network::by_name("mainnet").unwrap();
        assert_eq!(mainnet.chain_id().as_str(), "bip122:000000000019d6689c085ae165831e93");
        assert_eq!(mainnet.coin().as_str(), "bip122:000000000019d6689c085ae165831e93/slip44:0");
        for network in NETWORKS {
            let hashes = [Some(network.genesis), network.fork.map(|fork| fork.hash)];
            assert!(hashes.into_iter().flatten().all(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())));
            assert!(network.coin().as_str().ends_with(&format!("/slip44:{}", network.slip44)));
        }
    }
}
