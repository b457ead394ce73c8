//! Nodes, ledger, configuration and process of the demo.

use super::instance::{Instance, PATIENCE};
use super::voice::Voice;
use anyhow::{Context as _, Result, anyhow};
use confirmd_testkit::alloy::primitives::{Address, B256, U256, address};
use confirmd_testkit::bitcoin::{ScriptBuf, Txid};
use confirmd_testkit::receiver::ReceiverOptions;
use confirmd_testkit::{BitcoinOptions, EvmOptions, FakeBitcoin, FakeEvm, Receiver};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(super) const BTC_CONFIRMATIONS: u32 = 2;
pub(super) const ETH_CONFIRMATIONS: u32 = 3;
pub(super) const USDX_CONFIRMATIONS: u32 = 5;

pub(super) const ALICE: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
const ALICE_SCRIPT: &str = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
pub(super) const BOB: Address = address!("00000000000000000000000000000000000b0b01");
pub(super) const CAROL: Address = address!("00000000000000000000000000000000ca401001");
pub(super) const TOKEN: Address = address!("00000000000000000000000000000000005d5e01");
const PAYER: Address = address!("000000000000000000000000000000000000fa9e");

/// Signs the demo's own requests on loopback; nothing else.
const SECRET: (&str, &str) = ("CONFIRMD_DEMO_SECRET", "whsec_ZGVtby1zZWNyZXQtb2YtY29uZmlybWQtZGVtby0wMDAx");

/// Everything the demo plays with.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) bitcoin: FakeBitcoin,
    pub(super) devnet: FakeEvm,
    pub(super) receiver: Receiver,
    pub(super) confirmd: Instance,
    folder: PathBuf,
    keep: bool,
    voice: Voice,
}

impl Stage {
    pub(super) async fn set(voice: Voice, keep: bool) -> Result<Self> {
        voice.act("Stage", "a Bitcoin node, an EVM node and a customer's ledger on loopback; confirmd between them");
        let bitcoin = FakeBitcoin::start(BitcoinOptions::default()).await.context("start the Bitcoin node")?;
        let devnet = FakeEvm::start(EvmOptions::default()).await.context("start the EVM node")?;
        devnet.deploy_token(TOKEN, "USDX", 6);
        bitcoin.mine(12);
        devnet.mine(12);
        let options = ReceiverOptions { secrets: vec![SECRET.1.to_owned()], now: None };
        let receiver = Receiver::start(options).await.context("start the receiver")?;
        let folder = std::env::temp_dir().join(format!("confirmd-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("make the folder {}", folder.display()))?;
        let config = config(&bitcoin.url(), &devnet.url(), &receiver.url(), &folder);
        std::fs::write(folder.join("confirmd.toml"), config).with_context(|| format!("write into {}", folder.display()))?;
        let confirmd = Instance::start(&folder.join("confirmd.toml"), SECRET).await?;
        let mut stage = Self { bitcoin, devnet, receiver, confirmd, folder, keep, voice };
        stage.confirmd.until_logged("watching begins", 2).await?;
        voice.did("both chains are watched from their tips on");
        Ok(stage)
    }

    pub(super) async fn start_confirmd(&mut self) -> Result<()> {
        self.confirmd = Instance::start(&self.folder.join("confirmd.toml"), SECRET).await?;
        Ok(())
    }

    pub(super) async fn strike(mut self) -> Result<()> {
        self.confirmd.kill().await?;
        if self.keep {
            self.voice.aside(&format!("kept: {}", self.folder.display()));
            return Ok(());
        }
        std::fs::remove_dir_all(&self.folder).with_context(|| format!("remove {}", self.folder.display()))
    }

    /// What confirmd last said, when something went wrong.
    pub(super) fn show_log_tail(&self) {
        self.voice.aside(&format!("the state and configuration stay in {}; the last log lines:", self.folder.display()));
        self.confirmd.tail().iter().for_each(|line| self.voice.aside(line));
    }

    pub(super) fn pay_btc(&self, sats: u64) -> String {
        self.bitcoin.pay(&alice(), sats).to_string()
    }

    pub(super) fn pay_btc_ten_times(&self, sats: u64) -> String {
        let txid: Txid = self.bitcoin.pay_many(vec![(alice(), sats); 10]);
        txid.to_string()
    }

    pub(super) fn pay_eth(&self, wei: &str) -> Result<String> {
        let hash: B256 = self.devnet.transfer_native(PAYER, BOB, wei.parse::<U256>()?);
        Ok(hash.to_string())
    }

    pub(super) fn pay_usdx(&self, units: u64) -> String {
        self.devnet.erc20_transfer(TOKEN, PAYER, CAROL, U256::from(units)).to_string()
    }

    pub(super) fn mine_both(&self, blocks: u32) {
        self.bitcoin.mine(blocks);
        self.devnet.mine(blocks);
    }

    pub(super) fn heights(&self) -> (u32, u64) {
        (self.bitcoin.tip().0, self.devnet.tip().0)
    }

    /// Waits until the customer has credited so many deposits of a transaction.
    pub(super) async fn credited(&self, chain: &str, tx: &str, deposits: usize) -> Result<()> {
        let wait = self
            .receiver
            .wait_for(|ledger, _| ledger.rows().iter().filter(|(key, row)| key.tx_id == tx && row.stands).count() == deposits);
        let what = || anyhow!("{deposits} deposits of {tx} on {chain} were not credited within {PATIENCE:?}");
        tokio::time::timeout(PATIENCE, wait).await.map_err(|_| what())
    }

    /// Waits until the customer's row of a transaction's only deposit has this sequence.
    pub(super) async fn sequence(&self, tx: &str, sequence: u64) -> Result<()> {
        let wait = self
            .receiver
            .wait_for(|ledger, _| ledger.rows().iter().any(|(key, row)| key.tx_id == tx && row.sequence == sequence));
        let what = || anyhow!("sequence {sequence} of {tx} did not arrive within {PATIENCE:?}");
        tokio::time::timeout(PATIENCE, wait).await.map_err(|_| what())
    }

    /// Waits until confirmd has read up to both tips and written down that everything is delivered.
    /// Returns how many deposits it has found that are not deep enough yet.
    pub(super) async fn settle_down(&self) -> Result<u64> {
        let state = self.folder.join("state");
        let (bitcoin, devnet) = self.heights();
        let at_tips = async {
            loop {
                if let confirmd_api::client::Found::Running(client) = confirmd_api::client::Client::find(&state).await {
                    let status = confirmd_api::Operator::status(client.as_ref()).await?;
                    let heights: BTreeMap<_, _> = status
                        .chains
                        .iter()
                        .map(|chain| (chain.name.to_string(), chain.tip.as_ref().map(|tip| tip.height.0)))
                        .collect();
                    let reached = |name: &str, height: u64| heights.get(name).copied().flatten() >= Some(height);
                    let delivered = status.consumers.iter().all(|consumer| consumer.waiting == 0);
                    if reached("bitcoin", bitcoin.into()) && reached("devnet", devnet) && delivered {
                        return Ok(status.chains.iter().map(|chain| chain.pending).sum());
                    }
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, at_tips)
            .await
            .map_err(|_| anyhow!("confirmd did not reach both tips within {PATIENCE:?}"))?
    }

    /// How often each event was accepted.
    pub(super) fn accepted_ids(&self) -> BTreeMap<String, usize> {
        let mut ids = BTreeMap::new();
        for request in self.receiver.requests() {
            if request.answered.is_some_and(|status| (200..300).contains(&status)) {
                *ids.entry(request.id).or_default() += 1;
            }
        }
        ids
    }
}

pub(super) fn alice() -> ScriptBuf {
    ScriptBuf::from_hex(ALICE_SCRIPT).expect("invariant: a constant")
}

fn config(bitcoin: &str, devnet: &str, receiver: &str, folder: &std::path::Path) -> String {
    format!(
        r#"[state]
path = {state:?}

[api]
listen = "127.0.0.1:0"

[chains.bitcoin]
kind = "bitcoin"
network = "regtest"
rpc = [{{ url = "{bitcoin}" }}]
limits = {{ requests_per_second = 1000 }}
confirmations = {{ default = {BTC_CONFIRMATIONS} }}
reorg_depth = 8
poll_interval = "100ms"
watch = [{{ address = "{ALICE}", reference = "alice" }}]

[chains.devnet]
kind = "evm"
chain_id = 31337
rpc = [{{ url = "{devnet}" }}]
limits = {{ requests_per_second = 1000 }}
native = {{ symbol = "ETH", decimals = 18, slip44 = 60 }}
assets = [{{ symbol = "USDX", contract = "{TOKEN:#x}", decimals = 6 }}]
confirmations = {{ default = {ETH_CONFIRMATIONS}, USDX = {USDX_CONFIRMATIONS} }}
reorg_depth = 8
poll_interval = "100ms"
watch = [
  {{ address = "{BOB:#x}", reference = "bob" }},
  {{ address = "{CAROL:#x}", reference = "carol" }},
]

[sinks.ledger]
kind = "webhook"
url = "{receiver}"
secret = {{ env = "{secret}" }}
allow_private = ["127.0.0.0/8"]
retry = ["1s", "1s", "2s", "4s", "8s", "16s"]
"#,
        state = folder.join("state"),
        secret = SECRET.0,
    )
}
