//! How a fake node pays, mines, forks and misbehaves.

use async_trait::async_trait;
use bitcoin::consensus::serialize;
use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_NOP, OP_PUSHNUM_1};
use bitcoin::script::Builder;
use bitcoin::{Block, ScriptBuf, base58};
use confirmd_chain_bitcoin::{Destination, KIND, Network};
use confirmd_core::{Amount, BlockHash, BlockRef, ChainContext, ChainName, ChainSource, Height, Requirement, StartAt, TxId};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::source::{Ability, Act, Facts, Output, Refused, SourceHarness, SourceLab, Spoil};
use confirmd_testkit::fake_bitcoin::{Dialect, FakeNetwork, Loss};
use confirmd_testkit::faults::BatchFault;
use confirmd_testkit::{BitcoinOptions, FakeBitcoin};
use serde_json::json;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECRET: &str = "key-of-the-endpoint";
const ATTEMPTS: u32 = 2;
const MANY: u32 = 1_000;
/// Every block of these methods' answers.
const TELLING: [&str; 4] = ["getblockhash", "getblockheader", "getblock", "getblockchaininfo"];

#[derive(Debug, Clone, Copy)]
pub(super) struct BitcoinLab {
    pub(super) serves: FakeNetwork,
    pub(super) dialect: Dialect,
    pub(super) network: &'static str,
}

#[async_trait]
impl SourceLab for BitcoinLab {
    fn cannot(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SkipSlot => Some("every height of this family has a block"),
            Ability::Finality => Some("chains of this family have no finality of their own"),
            _ => None,
        }
    }

    async fn start(&self) -> Result<Box<dyn SourceHarness>, Broken> {
        let options = BitcoinOptions { network: self.serves, dialect: self.dialect, ..BitcoinOptions::default() };
        let node = FakeBitcoin::start(options).await.map_err(Broken::tried("starting a fake node"))?;
        node.mine(2);
        let source = build(self.network, &node.url());
        Ok(Box::new(BitcoinHarness { network: self.network, node, source, locked: Mutex::default(), lost: Mutex::default() }))
    }
}

fn build(network: &str, url: &str) -> Arc<dyn ChainSource> {
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
    let table = format!("network = '{network}'\nrpc = {rpc}\nlimits = {{ {limits} }}");
    (KIND.build)(context, table.parse().unwrap()).unwrap()
}

struct BitcoinHarness {
    network: &'static str,
    node: FakeBitcoin,
    source: Arc<dyn ChainSource>,
    /// Whom the next coinbase pays.
    locked: Mutex<Option<ScriptBuf>>,
    lost: Mutex<Vec<bitcoin::BlockHash>>,
}

impl BitcoinHarness {
    fn network(&self) -> &'static Network {
        Network::by_name(self.network).unwrap()
    }

    fn script(&self, address: &str) -> Result<ScriptBuf, Broken> {
        let address = self.source.parse_address(address).map_err(Broken::tried("reading an address to pay"))?;
        Ok(ScriptBuf::from_bytes(address.bytes().to_vec()))
    }

    fn at(&self, height: Height) -> Option<Block> {
        let hash = self.node.hash_at(u32::try_from(height.0).ok()?)?;
        self.node.block(&hash).map(|block| Block::clone(&block))
    }

    fn pay_decoys(&self, to: &str) -> Result<(), Broken> {
        let script = self.script(to)?;
        self.node.pay(&script, 0);
        let longer = [script.as_bytes(), &[OP_NOP.to_u8()]].concat();
        let unspendable = ScriptBuf::new_op_return(bitcoin::script::PushBytesBuf::try_from(script.to_bytes()).unwrap());
        let key = [2u8; 33];
        let multisig = Builder::new()
            .push_opcode(OP_PUSHNUM_1)
            .push_slice(key)
            .push_slice(key)
            .push_int(2)
            .push_opcode(OP_CHECKMULTISIG)
            .into_script();
        self.node.pay_many(vec![(ScriptBuf::from_bytes(longer), 7), (unspendable, 7), (multisig, 7), (script, 0)]);
        Ok(())
    }

    fn spoilt(&self, how: Spoil, height: Height) -> Result<Vec<u8>, Broken> {
        let none = || Broken::new(format!("no block at {height}"));
        let mut block = self.at(height).ok_or_else(none)?;
        Ok(match how {
            Spoil::Cut => {
                // Decodes, and has one payment less.
                block.txdata.pop();
                serialize(&block)
            }
            Spoil::Padded => [serialize(&block), vec![0]].concat(),
            Spoil::Another => serialize(&self.at(height.minus(1)).ok_or_else(none)?),
        })
    }

    async fn reconnect(&self) -> Result<(), Broken> {
        self.node.stop().await.map_err(Broken::tried("stopping the node"))?;
        self.node.restart().await.map_err(Broken::tried("starting the node again"))
    }
}

#[async_trait]
impl SourceHarness for BitcoinHarness {
    fn source(&self) -> Arc<dyn ChainSource> {
        self.source.clone()
    }

    async fn restarted(&self) -> Result<Arc<dyn ChainSource>, Broken> {
        Ok(build(self.network, &self.node.url()))
    }

    fn facts(&self) -> Facts {
        let (network, hash) = (self.network(), [0x37; 20]);
        let on = |name: &str, destination: Destination| destination.text(Network::by_name(name).unwrap());
        let (segwit, script) = (Destination::P2wpkh(hash).text(network), Destination::P2sh(hash).text(network));
        let mistyped = |text: &str| text.replacen(text.chars().nth(12).unwrap(), "x", 1);
        let mut spellings = vec![vec![segwit.clone(), segwit.to_uppercase()], vec![Destination::P2pkh(hash).text(network)]];
        let once = network.base58.p2sh_legacy.map(|version| base58::encode_check(&[&[version], &hash[..]].concat()));
        spellings.push([script.clone()].into_iter().chain(once).collect());
        let refused = |text: String, because| Refused { text, because };
        let foreign = ["mainnet", "litecoin"].map(|name| refused(on(name, Destination::P2wpkh(hash)), "another network's"));
        let mut texts = vec![
            refused(on("mainnet", Destination::P2pkh(hash)), "another network's"),
            refused(mistyped(&segwit), "mistyped"),
            refused(mistyped(&script), "mistyped"),
            refused(segwit.replacen('q', "Q", 1), "of mixed case"),
        ];
        texts.extend(foreign);
        Facts {
            spellings,
            refused: texts,
            smallest: Amount::from(1),
            largest: Amount::from(if network.symbol == "LTC" { 8_400_000_000_000_000 } else { 2_100_000_000_000_000 }),
            maturity: NonZeroU32::new(100),
            finality: false,
            secret: SECRET.to_owned(),
            attempts: ATTEMPTS,
            deadline: Duration::from_secs(3),
        }
    }

    fn address(&self, number: usize) -> String {
        let byte = u8::try_from(number).unwrap() + 0x51;
        let destination = match number % 5 {
            0 => Destination::P2wpkh([byte; 20]),
            1 => Destination::P2pkh([byte; 20]),
            2 => Destination::P2sh([byte; 20]),
            3 => Destination::P2wsh([byte; 32]),
            _ => Destination::P2tr([byte; 32]),
        };
        destination.text(self.network())
    }

    async fn pay(&self, outputs: &[Output]) -> Result<TxId, Broken> {
        let sats = |output: &Output| u64::try_from(output.amount.as_u256()).map_err(Broken::tried("paying more than 64 bits"));
        let outputs =
            outputs.iter().map(|output| Ok((self.script(&output.to)?, sats(output)?))).collect::<Result<_, Broken>>()?;
        TxId::new(self.node.pay_many(outputs).to_string()).map_err(Broken::tried("naming a transaction"))
    }

    async fn mine(&self, blocks: u32) -> Result<(), Broken> {
        let locked = if blocks > 0 { self.locked.lock().unwrap().take() } else { None };
        let with_locked = u32::from(locked.is_some());
        locked.map(|script| self.node.mine_to(1, script));
        self.node.mine(blocks - with_locked);
        Ok(())
    }

    async fn block_at(&self, height: Height) -> Result<Option<BlockRef>, Broken> {
        let hash = u32::try_from(height.0).ok().and_then(|height| self.node.hash_at(height));
        Ok(hash.map(|hash| BlockRef { height, hash: BlockHash::new(hash.to_string()).unwrap() }))
    }

    async fn tip(&self) -> Result<BlockRef, Broken> {
        let (height, hash) = self.node.tip();
        Ok(BlockRef { height: Height(u64::from(height)), hash: BlockHash::new(hash.to_string()).unwrap() })
    }

    fn requests(&self) -> Option<u64> {
        Some(self.node.faults().requests())
    }

    async fn act(&self, act: Act) -> Result<(), Broken> {
        let faults = self.node.faults();
        match act {
            Act::Fork { depth, remine } => drop(self.node.fork(depth, remine)),
            Act::PayDecoys { to } => self.pay_decoys(&to)?,
            Act::PayLocked { to } => *self.locked.lock().unwrap() = Some(self.script(&to)?),
            Act::Lag(blocks) => self.node.lag(blocks),
            Act::Lose(height) => {
                let hash = self.at(height).ok_or_else(|| Broken::new("no block to lose"))?.block_hash();
                self.node.lose_block(hash, Loss::Unknown);
                self.lost.lock().unwrap().push(hash);
            }
            Act::Prune(below) => self.node.prune_below(u32::try_from(below.0).ok()),
            Act::Sync => self.node.set_initial_block_download(true),
            Act::ChangeNetwork => {
                self.reconnect().await?;
                let other = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
                faults.answer_next("getblockhash", MANY, Ok(json!(other)));
            }
            Act::Reconnect => self.reconnect().await?,
            Act::Throttle { wish } => faults.rate_limit(MANY, &wish.as_secs().to_string()),
            Act::Hang { requests } => faults.hang_next(requests),
            Act::WarmUp => self.node.warming_up(MANY),
            Act::RefuseCredentials => faults.fail_next(MANY, 401, ""),
            Act::Garble { answers } => {
                TELLING.iter().for_each(|method| faults.answer_next(method, answers, Ok(json!("garbled"))));
            }
            Act::Empty { answers } => {
                for (method, empty) in [("getblock", json!(null)), ("getblock", json!("")), ("getblockhash", json!(null))] {
                    faults.answer_next(method, answers, Ok(empty));
                }
            }
            Act::Spoil { how, height } => {
                let bytes = self.spoilt(how, height)?;
                faults.answer_next("getblock", MANY, Ok(json!(const_hex::encode(bytes))));
            }
            Act::Reorder => faults.batch_fault_next(MANY, BatchFault::Reversed),
            Act::RepeatSecret => {
                for _ in 0..MANY / 2 {
                    faults.fail_next(1, 500, &format!("no project {SECRET}"));
                    faults.rpc_error_next(1, -1, &format!("no project {SECRET}"));
                }
            }
            Act::SkipSlot | Act::Finalize(_) | Act::ForgetFinality => act.impossible()?,
        }
        Ok(())
    }

    async fn repair(&self) -> Result<(), Broken> {
        self.node.faults().clear();
        self.node.lag(0);
        self.node.prune_below(None);
        self.node.set_initial_block_download(false);
        self.lost.lock().unwrap().drain(..).for_each(|hash| self.node.find_block_again(&hash));
        Ok(())
    }
}
