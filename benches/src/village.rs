//! Two long chains with some thousand deposits, and the confirmd configuration that watches them.

use alloy::primitives::{Address as Account, U256};
use anyhow::Result;
use bitcoin::ScriptBuf;
use confirmd_chain_bitcoin::{Destination, NETWORKS};
use confirmd_testkit::{BitcoinOptions, EvmOptions, FakeBitcoin, FakeEvm};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;

/// Blocks of each chain.
pub const BLOCKS: u32 = 10_000;
/// Watched addresses of each chain.
pub const ADDRESSES: u32 = 500;
/// One block of this many pays a watched address.
const PAID_EVERY: u32 = 2;
/// Payments to others in each block.
const FOREIGN: u32 = 8;
/// The last block whose payments must be confirmed when confirmd has read everything.
const CONFIRMATIONS: u32 = 3;
const TOKEN: Account = Account::repeat_byte(0x70);
const STRANGER: Account = Account::repeat_byte(0x5a);

/// What the process with the nodes tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Village {
    /// Of the EVM node.
    pub evm_url: String,
    /// Of the Bitcoin node.
    pub bitcoin_url: String,
    /// Deposits that must be confirmed once both chains were read to their ends.
    pub deposits: u64,
}

/// Nodes that serve the village as long as they are kept.
#[derive(Debug)]
pub struct Nodes {
    evm: FakeEvm,
    bitcoin: FakeBitcoin,
    deposits: u64,
}

impl Nodes {
    /// Starts both nodes and mines their chains.
    pub async fn start() -> Result<Self> {
        let (evm, bitcoin) = (FakeEvm::start(EvmOptions::default()).await?, FakeBitcoin::start(BitcoinOptions::default()).await?);
        evm.deploy_token(TOKEN, "USDC", 6);
        let mut nodes = Self { evm, bitcoin, deposits: 0 };
        for height in 1..=BLOCKS {
            nodes.mine(height);
        }
        Ok(nodes)
    }

    /// What to tell.
    pub fn village(&self) -> Village {
        Village { evm_url: self.evm.url(), bitcoin_url: self.bitcoin.url(), deposits: self.deposits }
    }

    fn mine(&mut self, height: u32) {
        let foreign = ScriptBuf::from_bytes(Destination::P2wpkh([0x5a; 20]).script());
        for n in 0..FOREIGN {
            self.evm.erc20_transfer(TOKEN, STRANGER, Account::repeat_byte(0x60), U256::from(n + 1));
            self.bitcoin.pay_many(vec![(foreign.clone(), 1_000), (foreign.clone(), 2_000)]);
        }
        // The last one is confirmed only when the tip itself was read.
        let last = BLOCKS - CONFIRMATIONS + 1;
        if height == last || (height < last && height.is_multiple_of(PAID_EVERY)) {
            let n = height % ADDRESSES;
            match height % 4 {
                0 => self.evm.transfer_native(STRANGER, account(n), U256::from(height)),
                _ => self.evm.erc20_transfer(TOKEN, STRANGER, account(n), U256::from(height)),
            };
            self.bitcoin.pay(&ScriptBuf::from_bytes(destination(n).script()), u64::from(height));
            self.deposits += 2;
        }
        self.evm.mine(1);
        self.bitcoin.mine(1);
    }
}

/// A configuration that reads both chains from their first block into a file of JSON lines.
pub fn configuration(village: &Village, folder: &Path) -> Result<String> {
    let regtest = NETWORKS.iter().find(|network| network.name == "regtest");
    let regtest = regtest.ok_or_else(|| anyhow::anyhow!("no regtest in the table"))?;
    let mut text = format!(
        r#"[state]
path = "{folder}/state"
[api]
listen = "127.0.0.1:0"
[chains.evm]
kind = "evm"
chain_id = 31337
rpc = [{{ url = "{evm}" }}]
confirmations = {{ default = {CONFIRMATIONS} }}
reorg_depth = 64
start = 1
native = {{ symbol = "ETH", decimals = 18, slip44 = 60 }}
assets = [{{ symbol = "USDC", contract = "{TOKEN:#x}", decimals = 6 }}]
internal_transfers = "off"
limits = {{ requests_per_second = 100000 }}
[chains.bitcoin]
kind = "bitcoin"
network = "regtest"
rpc = [{{ url = "{bitcoin}" }}]
confirmations = {{ default = {CONFIRMATIONS} }}
reorg_depth = 24
start = 1
limits = {{ requests_per_second = 100000 }}
[sinks.file]
kind = "file"
path = "{folder}/deposits.jsonl"
"#,
        folder = folder.display(),
        evm = village.evm_url,
        bitcoin = village.bitcoin_url,
    );
    for n in 0..ADDRESSES {
        writeln!(text, "[[chains.evm.watch]]\naddress = \"{:#x}\"\nreference = \"customer-{n}\"", account(n))?;
        let address = destination(n).text(regtest);
        writeln!(text, "[[chains.bitcoin.watch]]\naddress = \"{address}\"\nreference = \"customer-{n}\"")?;
    }
    Ok(text)
}

fn account(n: u32) -> Account {
    Account::from(hash(n))
}

fn destination(n: u32) -> Destination {
    Destination::P2wpkh(hash(n))
}

fn hash(n: u32) -> [u8; 20] {
    let mut hash = [0x77; 20];
    hash.iter_mut().zip(n.to_be_bytes()).for_each(|(to, from)| *to = from);
    hash
}
