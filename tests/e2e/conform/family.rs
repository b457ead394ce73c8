//! Nodes of the Bitcoin family: litecoind, and Bitcoin Knots as the bitcoind it is.

use super::faults::{self, MANY, method, replace};
use super::{ATTEMPTS, DEADLINE, SECRET, context, driven, endpoint};
use async_trait::async_trait;
use confirmd_chain_bitcoin::{Destination, Network};
use confirmd_core::{Amount, BlockHash, BlockRef, ChainSource, Height, TxId};
use confirmd_testkit::Remine;
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::source::{Ability, Act, Facts, Output, Refused, SourceHarness, SourceLab, Spoil};
use e2e::{BitcoinFamily, FamilyOptions, FaultProxy, Knots, Litecoind, with_error, with_result};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

const TELLING: [&str; 4] = ["getblockhash", "getblockheader", "getblock", "getblockchaininfo"];

/// Which node, and with it which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyLab {
    Litecoin,
    Bitcoin,
}

impl FamilyLab {
    fn network(self) -> &'static str {
        match self {
            Self::Litecoin => "litecoin-regtest",
            Self::Bitcoin => "regtest",
        }
    }

    /// Of the same form.
    fn another_network(self) -> &'static str {
        match self {
            Self::Litecoin => "regtest",
            Self::Bitcoin => "litecoin-regtest",
        }
    }
}

#[async_trait]
impl SourceLab for FamilyLab {
    fn cannot(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SkipSlot => Some("every height of this family has a block"),
            Ability::Finality => Some("chains of this family have no finality of their own"),
            _ => None,
        }
    }

    async fn start(&self) -> Result<Box<dyn SourceHarness>, Broken> {
        let node = driven(match self {
            Self::Litecoin => Litecoind::start(false).await,
            Self::Bitcoin => Knots::start_with(FamilyOptions::default()).await,
        })?;
        let (user, password) = node.credentials();
        let proxy = driven(FaultProxy::start(&node.url(), Some(&format!("{user}:{password}"))).await)?;
        let config = format!("network = '{}'\n{}", self.network(), endpoint(&proxy.url()));
        let source = build(&config);
        Ok(Box::new(FamilyHarness { lab: *self, node, proxy, config, source, locked: Mutex::default() }))
    }
}

fn build(config: &str) -> Arc<dyn ChainSource> {
    let kind = confirmd_chain_bitcoin::KIND;
    (kind.build)(context(), config.parse().unwrap()).unwrap()
}

struct FamilyHarness {
    lab: FamilyLab,
    node: BitcoinFamily,
    proxy: FaultProxy,
    config: String,
    source: Arc<dyn ChainSource>,
    /// Whom the next coinbase pays.
    locked: Mutex<Option<String>>,
}

impl FamilyHarness {
    /// Transactions of a block but its coinbase.
    async fn carried(&self, height: u64) -> anyhow::Result<Vec<String>> {
        let hash = self.node.block_hash(height).await?.unwrap_or_default();
        let block = self.node.block(&hash, 1).await?;
        let ids = block["tx"].as_array().into_iter().flatten().skip(1);
        Ok(ids.filter_map(|id| id.as_str().map(str::to_owned)).collect())
    }

    async fn spends_one_of(&self, id: &str, ids: &HashSet<String>) -> anyhow::Result<bool> {
        let transaction = self.node.transaction(id).await?;
        let mut inputs = transaction["vin"].as_array().into_iter().flatten();
        Ok(inputs.any(|input| input["txid"].as_str().is_some_and(|spent| ids.contains(spent))))
    }

    async fn fork(&self, depth: u32, remine: Remine) -> anyhow::Result<()> {
        let (tip, count) = (self.node.tip().await?.height, u64::from(depth));
        let mut replaced = Vec::new();
        for height in tip + 1 - count..=tip {
            replaced.push(self.carried(height).await?);
        }
        let mut blocks: Vec<Vec<String>> = vec![Vec::new(); replaced.len() + 1];
        let all: HashSet<String> = replaced.iter().flatten().cloned().collect();
        self.node.disconnect(count).await?;
        let shift = match remine {
            Remine::Later(more) => usize::try_from(more)?,
            _ => 0,
        };
        for (offset, mut ids) in replaced.into_iter().enumerate() {
            match remine {
                Remine::Drop => {
                    // Somebody else has spent the coins.
                    for id in &ids {
                        if self.spends_one_of(id, &all).await? {
                            // It goes with the transaction whose change it spends.
                            continue;
                        }
                        let to = self.node.new_address().await?;
                        blocks[0].push(self.node.conflicting(id, &to).await?);
                    }
                    continue;
                }
                Remine::Mempool => continue,
                Remine::AnotherPosition if !ids.is_empty() => {
                    ids.reverse();
                    let to = self.node.new_address().await?;
                    ids.insert(0, self.node.pay(&to, 1_000_000).await?);
                }
                _ => {}
            }
            if let Some(block) = blocks.get_mut(offset + shift) {
                block.extend(ids);
            }
        }
        for block in blocks {
            let ids: Vec<&str> = block.iter().map(String::as_str).collect();
            self.node.mine_block(&ids).await?;
        }
        Ok(())
    }

    async fn lag(&self, blocks: u32) -> anyhow::Result<()> {
        let tip = self.node.tip().await?.height;
        let shown = tip - u64::from(blocks);
        let best = self.node.block_hash(shown).await?.unwrap_or_default();
        let mut hidden = HashSet::new();
        for height in shown + 1..=tip {
            hidden.extend(self.node.block_hash(height).await?);
        }
        self.proxy.after(move |call, reply| match method(call) {
            "getblockchaininfo" => {
                let mut info = reply["result"].clone();
                info["blocks"] = json!(shown);
                info["headers"] = json!(shown);
                info["bestblockhash"] = json!(best);
                with_result(reply, info);
            }
            "getblockhash" if call["params"][0].as_u64().is_some_and(|height| height > shown) => {
                with_error(reply, -8, "Block height out of range");
            }
            _ => unknown(call, reply, &hidden),
        });
        Ok(())
    }

    async fn lose(&self, height: Height) -> anyhow::Result<()> {
        let lost: HashSet<String> = self.node.block_hash(height.0).await?.into_iter().collect();
        self.proxy.after(move |call, reply| unknown(call, reply, &lost));
        Ok(())
    }

    async fn prune(&self, below: Height) -> anyhow::Result<()> {
        let mut gone = HashSet::new();
        for height in 0..below.0 {
            gone.extend(self.node.block_hash(height).await?);
        }
        self.proxy.after(move |call, reply| {
            let asked = call["params"][0].as_str().unwrap_or_default();
            match method(call) {
                "getblock" if gone.contains(asked) => with_error(reply, -1, "Block not available (pruned data)"),
                "getblockchaininfo" => {
                    let mut info = reply["result"].clone();
                    info["pruned"] = json!(true);
                    info["pruneheight"] = json!(below.0);
                    with_result(reply, info);
                }
                _ => {}
            }
        });
        Ok(())
    }

    async fn spoil(&self, how: Spoil, height: Height) -> anyhow::Result<()> {
        let given = if how == Spoil::Another { height.0 - 1 } else { height.0 };
        let hash = self.node.block_hash(given).await?.unwrap_or_default();
        let mut text = self.node.block(&hash, 0).await?.as_str().unwrap_or_default().to_owned();
        match how {
            Spoil::Cut => text.truncate(text.len() - 200),
            Spoil::Padded => text.push_str("00"),
            Spoil::Another => {}
        }
        replace(&self.proxy, &["getblock"], MANY, &json!(text));
        Ok(())
    }

    async fn pay_decoys(&self, to: &str) -> anyhow::Result<()> {
        let script = self.node.script_of(to).await?;
        let key = format!("21{}", "02".repeat(33));
        let multisig = format!("51{key}{key}52ae");
        let unspendable = format!("6a{:02x}{script}", script.len() / 2);
        // Knots refuses an output script of bare keys by its own rules ("script-toolarge"), whatever it is told.
        let decoys: &[(&str, u64)] = match self.lab {
            FamilyLab::Litecoin => &[(&multisig, 100_000), (&unspendable, 0)],
            FamilyLab::Bitcoin => &[(&unspendable, 0)],
        };
        self.node.pay_scripts(decoys).await?;
        Ok(())
    }
}

fn unknown(call: &Value, reply: &mut Value, hashes: &HashSet<String>) {
    if call["params"][0].as_str().is_some_and(|hash| hashes.contains(hash)) {
        with_error(reply, -5, "Block not found");
    }
}

fn block(block: e2e::Block) -> BlockRef {
    BlockRef { height: Height(block.height), hash: BlockHash::new(block.hash).unwrap() }
}

#[async_trait]
impl SourceHarness for FamilyHarness {
    fn source(&self) -> Arc<dyn ChainSource> {
        self.source.clone()
    }

    async fn restarted(&self) -> Result<Arc<dyn ChainSource>, Broken> {
        Ok(build(&self.config))
    }

    fn facts(&self) -> Facts {
        let on = |name: &str| Destination::P2wpkh([0x37; 20]).text(Network::by_name(name).unwrap());
        let own = on(self.lab.network());
        let mistyped = own.replacen(own.chars().nth(12).unwrap(), "x", 1);
        Facts {
            spellings: vec![vec![own.clone(), own.to_uppercase()], vec![self.address(1)]],
            refused: vec![
                Refused { text: on("litecoin"), because: "another network's" },
                Refused { text: on("mainnet"), because: "another network's" },
                Refused { text: on(self.lab.another_network()), because: "another network's" },
                Refused { text: mistyped, because: "mistyped" },
            ],
            // Less is not passed on, and no more than a coinbase is spent at once.
            smallest: Amount::from(100_000),
            largest: Amount::from(4_900_000_000),
            maturity: NonZeroU32::new(100),
            finality: false,
            secret: SECRET.to_owned(),
            attempts: ATTEMPTS,
            deadline: DEADLINE,
        }
    }

    fn address(&self, number: usize) -> String {
        let byte = u8::try_from(number).unwrap() + 0x51;
        let destination = match number % 3 {
            0 => Destination::P2wpkh([byte; 20]),
            1 => Destination::P2pkh([byte; 20]),
            _ => Destination::P2sh([byte; 20]),
        };
        destination.text(Network::by_name(self.lab.network()).unwrap())
    }

    async fn pay(&self, outputs: &[Output]) -> Result<TxId, Broken> {
        let sats = |output: &Output| u64::try_from(output.amount.as_u256()).map_err(Broken::tried("paying more than 64 bits"));
        let outputs = outputs.iter().map(|output| Ok((output.to.as_str(), sats(output)?))).collect::<Result<Vec<_>, Broken>>()?;
        let id = driven(self.node.pay_many(&outputs).await)?;
        TxId::new(id).map_err(Broken::tried("naming a transaction"))
    }

    async fn mine(&self, blocks: u32) -> Result<(), Broken> {
        let locked = if blocks > 0 { self.locked.lock().unwrap().take() } else { None };
        let mut left = u64::from(blocks);
        if let Some(to) = locked {
            driven(self.node.mine_to(&to, 1).await)?;
            left -= 1;
        }
        if left > 0 {
            driven(self.node.mine(left).await)?;
        }
        Ok(())
    }

    async fn block_at(&self, height: Height) -> Result<Option<BlockRef>, Broken> {
        let hash = driven(self.node.block_hash(height.0).await)?;
        Ok(hash.map(|hash| BlockRef { height, hash: BlockHash::new(hash).unwrap() }))
    }

    async fn tip(&self) -> Result<BlockRef, Broken> {
        driven(self.node.tip().await).map(block)
    }

    fn requests(&self) -> Option<u64> {
        Some(self.proxy.requests())
    }

    async fn act(&self, act: Act) -> Result<(), Broken> {
        if faults::act(&self.proxy, &act, &TELLING) {
            return Ok(());
        }
        match act {
            Act::Fork { depth, remine } => driven(self.fork(depth, remine).await)?,
            Act::PayDecoys { to } => driven(self.pay_decoys(&to).await)?,
            Act::PayLocked { to } => *self.locked.lock().unwrap() = Some(to),
            Act::Lag(blocks) => driven(self.lag(blocks).await)?,
            Act::Lose(height) => driven(self.lose(height).await)?,
            Act::Prune(below) => driven(self.prune(below).await)?,
            Act::Sync => self.proxy.after(|call, reply| {
                if method(call) == "getblockchaininfo" {
                    let mut info = reply["result"].clone();
                    info["initialblockdownload"] = json!(true);
                    with_result(reply, info);
                }
            }),
            Act::ChangeNetwork => {
                driven(self.proxy.reconnect().await)?;
                let other = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
                replace(&self.proxy, &["getblockhash"], MANY, &json!(other));
            }
            Act::Reconnect => driven(self.proxy.reconnect().await)?,
            Act::Empty { answers } => replace(&self.proxy, &["getblock", "getblockhash"], answers, &Value::Null),
            Act::Spoil { how, height } => driven(self.spoil(how, height).await)?,
            _ => act.impossible()?,
        }
        Ok(())
    }

    async fn repair(&self) -> Result<(), Broken> {
        self.proxy.repair();
        Ok(())
    }
}
