//! How a fake node pays, mines, forks and misbehaves.

use super::node::{self, TOKEN};
use super::spoil;
use alloy::primitives::{Address, U256};
use async_trait::async_trait;
use confirmd_chain_evm::KIND;
use confirmd_core::{Amount, BlockHash, BlockRef, ChainContext, ChainName, ChainSource, Height, Requirement, StartAt, TxId};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::source::{Ability, Act, Facts, Output, Refused, SourceHarness, SourceLab};
use confirmd_testkit::fake_evm::Finality;
use confirmd_testkit::faults::BatchFault;
use confirmd_testkit::json_rpc::RpcError;
use confirmd_testkit::{EvmOptions, FakeEvm};
use serde_json::json;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECRET: &str = "key-of-the-endpoint";
const ATTEMPTS: u32 = 2;
const MANY: u32 = 1_000;
const OWN: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// Methods that tell of headers, blocks or payments.
const TELLING: [&str; 6] = [
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getLogs",
    "eth_getBlockReceipts",
    "eth_getTransactionReceipt",
    "debug_traceBlockByHash",
];

/// In what the harness pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pays {
    /// A listed token; the coin is not watched.
    Tokens,
    /// The coin, internal payments included.
    CoinTraced,
    /// The coin, without traces.
    Coin,
}

impl Pays {
    fn keys(self) -> &'static str {
        match self {
            Self::Tokens => {
                "assets = [{ symbol = 'USDC', contract = '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48', decimals = 6 }]"
            }
            Self::CoinTraced => {
                "native = { symbol = 'ETH' }\nwithdrawals = true\ninternal_transfers = 'required'\n
                assets = [{ symbol = 'USDC', contract = '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48', decimals = 6 }]"
            }
            Self::Coin => "native = { symbol = 'ETH' }\ninternal_transfers = 'off'",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct EvmLab {
    pub(super) pays: Pays,
}

#[async_trait]
impl SourceLab for EvmLab {
    fn cannot(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SkipSlot => Some("every height has a block"),
            Ability::Locked => Some("this chain locks no payment"),
            Ability::ProvenRanges if self.pays == Pays::Tokens => {
                Some("far below the tip only logs are read, and only the end of their range is proven")
            }
            Ability::SeveralOutputs if self.pays == Pays::Coin => Some("only traces show them"),
            _ => None,
        }
    }

    async fn start(&self) -> Result<Box<dyn SourceHarness>, Broken> {
        let node = FakeEvm::start(EvmOptions::default()).await.map_err(Broken::tried("starting a fake node"))?;
        node.deploy_token(TOKEN, "USDC", 6);
        node.mine(2);
        let source = build(self.pays, &node.url());
        Ok(Box::new(EvmHarness { pays: self.pays, node, source, lost: Mutex::default() }))
    }
}

fn build(pays: Pays, url: &str) -> Arc<dyn ChainSource> {
    let context = ChainContext {
        name: ChainName::new("conform").unwrap(),
        default_requirement: Requirement::confirmations(NonZeroU32::new(2).unwrap()),
        requirements: Default::default(),
        minimums: Default::default(),
        reorg_depth: NonZeroU64::new(6).unwrap(),
        start: StartAt::Tip,
        poll_interval: None,
        fork_grace: Duration::ZERO,
        behind_alarm: Duration::ZERO,
        span_max: None,
        meter: confirmd_core::SourceMeter::default(),
    };
    let limits = format!("requests_per_second = 100000, attempts = {ATTEMPTS}, deadline = '3s', request_timeout = '1s'");
    let rpc = format!("[{{ url = '{url}/{SECRET}?key={SECRET}' }}]");
    let table = format!("chain_id = 31337\nrpc = {rpc}\nlimits = {{ {limits} }}\n{}", pays.keys());
    (KIND.build)(context, table.parse().unwrap()).unwrap()
}

struct EvmHarness {
    pays: Pays,
    node: FakeEvm,
    source: Arc<dyn ChainSource>,
    lost: Mutex<Vec<alloy::primitives::B256>>,
}

impl EvmHarness {
    fn account(&self, text: &str) -> Result<Address, Broken> {
        text.parse().map_err(Broken::tried("reading an address to pay"))
    }

    async fn reconnect(&self) -> Result<(), Broken> {
        self.node.stop().await.map_err(Broken::tried("stopping the node"))?;
        self.node.restart().await.map_err(Broken::tried("starting the node again"))
    }

    fn prune(&self) {
        let pruned = || Err(RpcError::new(4444, "pruned history unavailable"));
        for method in ["eth_getLogs", "eth_getBlockReceipts", "eth_getTransactionReceipt"] {
            self.node.faults().answer_next(method, MANY, pruned());
        }
        if self.pays != Pays::Tokens {
            self.node.faults().answer_next("eth_getBlockByNumber", MANY, pruned());
            self.node.faults().answer_next("eth_getBlockByHash", MANY, pruned());
        }
    }

    fn empty(&self, answers: u32) {
        self.node.empty_logs_next(answers);
        let faults = self.node.faults();
        for method in ["eth_getBlockReceipts", "eth_getTransactionReceipt"] {
            faults.answer_next(method, answers, Ok(json!(null)));
        }
        faults.answer_next("debug_traceBlockByHash", answers, Ok(json!([])));
        if self.pays == Pays::Coin {
            faults.answer_next("eth_getBlockByNumber", answers, Ok(json!(null)));
        }
    }
}

fn block(height: u64, hash: alloy::primitives::B256) -> BlockRef {
    BlockRef { height: Height(height), hash: BlockHash::new(hash.to_string()).unwrap() }
}

#[async_trait]
impl SourceHarness for EvmHarness {
    fn source(&self) -> Arc<dyn ChainSource> {
        self.source.clone()
    }

    async fn restarted(&self) -> Result<Arc<dyn ChainSource>, Broken> {
        Ok(build(self.pays, &self.node.url()))
    }

    fn facts(&self) -> Facts {
        let digits = OWN.trim_start_matches("0x");
        let refused = |text: &str, because| Refused { text: text.to_owned(), because };
        Facts {
            spellings: vec![
                vec![OWN.to_owned(), OWN.to_lowercase(), format!("0x{}", digits.to_uppercase())],
                vec![self.address(1)],
            ],
            refused: vec![
                refused("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "another network's"),
                refused("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", "of mixed case that is no checksum"),
                refused("0x6aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "mistyped"),
                refused("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe", "too short"),
                refused("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAedd", "too long"),
                refused(digits, "without its prefix"),
                refused("0x0000000000000000000000000000000000000000", "nobody's"),
            ],
            smallest: Amount::from(1),
            largest: Amount::MAX,
            maturity: None,
            finality: true,
            secret: SECRET.to_owned(),
            attempts: ATTEMPTS,
            deadline: Duration::from_secs(3),
        }
    }

    fn address(&self, number: usize) -> String {
        Address::repeat_byte(u8::try_from(number).unwrap() + 0x51).to_checksum(None)
    }

    async fn pay(&self, outputs: &[Output]) -> Result<TxId, Broken> {
        let sent = |output: &Output| Ok((self.account(&output.to)?, U256::from_be_bytes(output.amount.to_be_bytes())));
        let outputs = outputs.iter().map(sent).collect::<Result<Vec<_>, Broken>>()?;
        let hash = node::pay(&self.node, self.pays, &outputs);
        TxId::new(hash.to_string()).map_err(Broken::tried("naming a transaction"))
    }

    async fn mine(&self, blocks: u32) -> Result<(), Broken> {
        self.node.mine(blocks);
        Ok(())
    }

    async fn block_at(&self, height: Height) -> Result<Option<BlockRef>, Broken> {
        Ok(self.node.hash_at(height.0).map(|hash| block(height.0, hash)))
    }

    async fn tip(&self) -> Result<BlockRef, Broken> {
        let (height, hash) = self.node.tip();
        Ok(block(height, hash))
    }

    fn requests(&self) -> Option<u64> {
        Some(self.node.faults().requests())
    }

    async fn act(&self, act: Act) -> Result<(), Broken> {
        let faults = self.node.faults();
        match act {
            Act::Fork { depth, remine } => drop(self.node.fork(u64::from(depth), remine)),
            Act::PayDecoys { to } => node::pay_decoys(&self.node, self.pays, self.account(&to)?),
            Act::Finalize(height) => {
                self.node.set_safe(Finality::At(height.0));
                self.node.set_finalized(Finality::At(height.0));
            }
            Act::ForgetFinality => {
                self.node.set_safe(Finality::Null);
                self.node.set_finalized(Finality::NotFound);
            }
            Act::Lag(blocks) => self.node.lag(u64::from(blocks)),
            Act::Lose(height) => {
                let hash = self.node.hash_at(height.0).ok_or_else(|| Broken::new("no block to lose"))?;
                self.node.lose_block(hash);
                self.lost.lock().unwrap().push(hash);
            }
            Act::Prune(_) => self.prune(),
            Act::Sync => self.node.set_syncing(true),
            Act::ChangeNetwork => {
                self.reconnect().await?;
                faults.answer_next("eth_chainId", MANY, Ok(json!("0x5")));
            }
            Act::Reconnect => self.reconnect().await?,
            Act::Throttle { wish } => faults.rate_limit(MANY, &wish.as_secs().to_string()),
            Act::Hang { requests } => faults.hang_next(requests),
            Act::WarmUp => faults.fail_next(MANY, 503, "the node is starting"),
            Act::RefuseCredentials => faults.fail_next(MANY, 401, ""),
            Act::Garble { answers } => {
                TELLING.iter().for_each(|method| faults.answer_next(method, answers, Ok(json!("garbled"))));
            }
            Act::Empty { answers } => self.empty(answers),
            Act::Spoil { how, height } => spoil::answers(&self.node, self.pays, how, height.0).await?,
            Act::Reorder => faults.batch_fault_next(MANY, BatchFault::Reversed),
            Act::RepeatSecret => {
                for _ in 0..MANY / 2 {
                    faults.fail_next(1, 500, &format!("no project {SECRET}"));
                    faults.rpc_error_next(1, -32000, &format!("no project {SECRET}"));
                }
            }
            Act::SkipSlot | Act::PayLocked { .. } => act.impossible()?,
        }
        Ok(())
    }

    async fn repair(&self) -> Result<(), Broken> {
        self.node.faults().clear();
        self.node.lag(0);
        self.node.set_syncing(false);
        self.node.empty_logs_next(0);
        self.lost.lock().unwrap().drain(..).for_each(|hash| self.node.find_block_again(&hash));
        Ok(())
    }
}
