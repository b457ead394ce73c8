//! anvil.

use super::faults::{self, MANY, method, replace};
use super::{ATTEMPTS, DEADLINE, SECRET, context, driven, endpoint};
use async_trait::async_trait;
use confirmd_core::{Amount, BlockHash, BlockRef, ChainSource, Height, TxId};
use confirmd_testkit::Remine;
use confirmd_testkit::alloy::primitives::{Address, U256};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::source::{Ability, Act, Facts, Output, Refused, SourceHarness, SourceLab, Spoil};
use e2e::{Anvil, Arg, Call, Deployed, FaultProxy, with_error, with_result};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const OWN: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// `mint(address,uint256)`.
const MINT: [u8; 4] = [0x40, 0xc1, 0x0f, 0x19];
const TELLING: [&str; 6] = [
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getLogs",
    "eth_getBlockReceipts",
    "eth_getTransactionReceipt",
    "debug_traceBlockByHash",
];

/// In what is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pays {
    Tokens,
    Coin,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct AnvilLab {
    pub(super) pays: Pays,
}

#[async_trait]
impl SourceLab for AnvilLab {
    fn cannot(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SkipSlot => Some("every height has a block"),
            Ability::Locked => Some("this chain locks no payment"),
            Ability::ProvenRanges if self.pays == Pays::Tokens => {
                Some("far below the tip only logs are read, and only the end of their range is proven")
            }
            _ => None,
        }
    }

    async fn start(&self) -> Result<Box<dyn SourceHarness>, Broken> {
        let anvil = driven(Anvil::start().await)?;
        let token = driven(anvil.deploy("MiniToken").await)?;
        let other = driven(anvil.deploy("MiniToken").await)?;
        let alike = driven(anvil.deploy("Lookalike").await)?;
        let proxy = driven(FaultProxy::start(&anvil.url(), None).await)?;
        let assets = format!(
            "assets = [{{ symbol = 'MINI', contract = '{}', decimals = 6 }}, {{ symbol = 'ALIKE', contract = '{}', decimals = 6 }}]",
            token.address, alike.address
        );
        let keys = match self.pays {
            Pays::Tokens => assets,
            Pays::Coin => format!("native = {{ symbol = 'ETH' }}\ninternal_transfers = 'required'\n{assets}"),
        };
        let config = format!("chain_id = 31337\n{}{keys}", endpoint(&proxy.url()));
        let source = build(&config);
        Ok(Box::new(AnvilHarness {
            pays: self.pays,
            anvil,
            token,
            other,
            alike,
            proxy,
            config,
            source,
            sent: AtomicUsize::new(0),
        }))
    }
}

fn build(config: &str) -> Arc<dyn ChainSource> {
    (confirmd_chain_evm::KIND.build)(context(), config.parse().unwrap()).unwrap()
}

struct AnvilHarness {
    pays: Pays,
    anvil: Anvil,
    token: Deployed,
    /// Not listed.
    other: Deployed,
    /// Listed, and emits what only looks like a transfer.
    alike: Deployed,
    proxy: FaultProxy,
    config: String,
    source: Arc<dyn ChainSource>,
    sent: AtomicUsize,
}

fn word(amount: Amount) -> String {
    amount.to_be_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl AnvilHarness {
    /// Senders take turns, so that the transactions of a block can be mined in any order.
    fn sender(&self) -> usize {
        self.sent.fetch_add(1, Relaxed) % 10
    }

    fn mint_data(output: &Output) -> Result<String, Broken> {
        let to: Address = output.to.parse().map_err(Broken::tried("reading an address to pay"))?;
        let selector: String = MINT.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("0x{selector}{}{}", to.into_word().to_string().trim_start_matches("0x"), word(output.amount)))
    }

    /// Creation code that makes each payment by a call of its own, and leaves no code.
    fn init_code(&self, outputs: &[Output]) -> Result<String, Broken> {
        let mut code = String::from("0x");
        for output in outputs {
            let (to, value, input) = match self.pays {
                Pays::Coin => (output.to.as_str(), word(output.amount), 0),
                Pays::Tokens => {
                    let data = Self::mint_data(output)?;
                    let padded = format!("{:0<192}", data.trim_start_matches("0x"));
                    for (n, chunk) in [&padded[..64], &padded[64..128], &padded[128..]].iter().enumerate() {
                        // PUSH32 chunk PUSH1 place MSTORE
                        code.push_str(&format!("7f{chunk}60{:02x}52", n * 32));
                    }
                    (self.token.address.as_str(), word(Amount::ZERO), 68)
                }
            };
            // Length and place of the answer, length and place of the input, value, callee, gas; CALL POP
            let to = to.trim_start_matches("0x").to_lowercase();
            code.push_str(&format!("6000600060{input:02x}60007f{value}73{to}5af150"));
        }
        code.push_str("00");
        Ok(code)
    }

    async fn send(&self, to: Option<&str>, data: &str, value: u128) -> Result<String, Broken> {
        let call = Call { from: self.sender(), to, data, value, gas: 1_000_000 };
        driven(self.anvil.send(call).await)
    }

    async fn pay_decoys(&self, to: &str) -> Result<(), Broken> {
        let from = Arg::Address("0x00000000000000000000000000000000c0ffee03");
        let (recipient, five) = (Arg::Address(to), Arg::Uint(5));
        for name in ["fourTopics", "oneTopic", "longData", "shortData", "noData"] {
            let signature = format!("{name}(address,address,uint256)");
            let data = driven(self.alike.contract.data(&signature, &[from, recipient, five]))?;
            self.send(Some(&self.alike.address), &data, 0).await?;
        }
        let mint = |amount: u64| Self::mint_data(&Output { to: to.to_owned(), amount: Amount::from(amount) });
        // Nothing of a listed token, something of an unlisted one, and a call that fails for the value it carries.
        self.send(Some(&self.token.address), &mint(0)?, 0).await?;
        self.send(Some(&self.other.address), &mint(5)?, 0).await?;
        self.send(Some(&self.token.address), &mint(5)?, 1).await?;
        self.send(Some(to), "0x", 0).await?;
        // Pays, and takes it back: PUSH1 0 PUSH1 0 REVERT behind the calls.
        let paying = self.init_code(&[Output { to: to.to_owned(), amount: Amount::from(5) }])?;
        self.send(None, &format!("{}60006000fd", paying.trim_end_matches("00")), 5).await?;
        if self.pays == Pays::Tokens {
            self.send(Some(to), "0x", 5).await?;
        }
        Ok(())
    }

    async fn fork(&self, depth: u32, remine: Remine) -> anyhow::Result<()> {
        let depth = u64::from(depth);
        let (tip, mut mined) = (self.anvil.tip().await?.height, Vec::new());
        for offset in 0..depth {
            let block = self.anvil.block(tip + 1 - depth + offset).await?.unwrap_or_default();
            let mut hashes: Vec<String> = block["transactions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|hash| hash.as_str().map(str::to_owned))
                .collect();
            let place = match remine {
                Remine::Drop | Remine::Mempool => continue,
                Remine::Keep => offset,
                Remine::Later(more) => offset + u64::from(more),
                Remine::AnotherPosition => {
                    hashes.reverse();
                    if !hashes.is_empty() {
                        let from = self.anvil.account(self.sender())?;
                        // Dearer than the others, so that it comes first.
                        let filler = json!({ "from": from, "to": "0x00000000000000000000000000000000c0ffee03", "value": "0x5",
                            "gas": "0x5208", "gasPrice": "0x174876e800" });
                        mined.push(json!([filler, offset]));
                    }
                    offset
                }
            };
            for hash in hashes {
                if place < depth {
                    mined.push(json!([self.anvil.raw_transaction(&hash).await?, place]));
                }
            }
        }
        self.anvil.rpc().call("anvil_reorg", json!([depth, mined])).await?;
        self.anvil.mine(1).await
    }

    fn lag(&self, shown: u64) {
        self.proxy.before(move |call| {
            let latest = call["params"][0] == json!("latest");
            if method(call) == "eth_getBlockByNumber" && latest {
                call["params"][0] = json!(format!("{shown:#x}"));
            }
        });
        self.proxy.after(move |call, reply| {
            if method(call) == "eth_blockNumber" {
                with_result(reply, json!(format!("{shown:#x}")));
            }
            hide(call, reply, |height| height > shown);
        });
    }

    async fn spoil(&self, how: Spoil, height: Height) -> anyhow::Result<()> {
        let given = if how == Spoil::Another { height.0 - 1 } else { height.0 };
        let at = format!("{given:#x}");
        let rpc = self.anvil.rpc();
        let (methods, mut answer): (&[&'static str], Value) = match self.pays {
            Pays::Tokens => {
                replace(&self.proxy, &["eth_getLogs"], MANY, &json!([]));
                (&["eth_getBlockReceipts"], rpc.call("eth_getBlockReceipts", json!([at])).await?)
            }
            Pays::Coin => {
                (&["eth_getBlockByNumber", "eth_getBlockByHash"], rpc.call("eth_getBlockByNumber", json!([at, true])).await?)
            }
        };
        let items = if self.pays == Pays::Tokens { answer.as_array_mut() } else { answer["transactions"].as_array_mut() };
        if let Some(items) = items {
            match how {
                Spoil::Cut => drop(items.pop()),
                Spoil::Padded => items.extend(items.last().cloned()),
                Spoil::Another => {}
            }
        }
        replace(&self.proxy, methods, MANY, &answer);
        Ok(())
    }

    fn prune(&self) {
        let coin = self.pays == Pays::Coin;
        self.proxy.after(move |call, reply| {
            let gone = ["eth_getLogs", "eth_getBlockReceipts", "eth_getTransactionReceipt"].contains(&method(call));
            if gone || (coin && method(call).starts_with("eth_getBlockBy")) {
                with_error(reply, 4444, "pruned history unavailable");
            }
        });
    }
}

/// Nothing that is at such a height is in the reply.
fn hide(call: &Value, reply: &mut Value, hidden: impl Fn(u64) -> bool) {
    let number = |item: &Value| {
        let field = item.get("blockNumber").or_else(|| item.get("number"))?.as_str()?;
        u64::from_str_radix(field.trim_start_matches("0x"), 16).ok()
    };
    let hides = |item: &Value| number(item).is_some_and(&hidden);
    let by_hash = call["params"][0].get("blockHash").is_some();
    match reply.get_mut("result") {
        Some(Value::Array(items)) if items.iter().any(hides) => {
            if method(call) == "eth_getLogs" && by_hash {
                with_error(reply, -32000, "unknown block");
            } else if method(call) == "eth_getLogs" {
                items.retain(|item| !hides(item));
            } else {
                with_result(reply, Value::Null);
            }
        }
        Some(item) if hides(item) => with_result(reply, Value::Null),
        _ => {}
    }
}

fn block(block: e2e::Block) -> BlockRef {
    BlockRef { height: Height(block.height), hash: BlockHash::new(block.hash).unwrap() }
}

#[async_trait]
impl SourceHarness for AnvilHarness {
    fn source(&self) -> Arc<dyn ChainSource> {
        self.source.clone()
    }

    async fn restarted(&self) -> Result<Arc<dyn ChainSource>, Broken> {
        Ok(build(&self.config))
    }

    fn facts(&self) -> Facts {
        let refused = |text: &str, because| Refused { text: text.to_owned(), because };
        Facts {
            spellings: vec![vec![OWN.to_owned(), OWN.to_lowercase()], vec![self.address(1)]],
            refused: vec![
                refused("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "another network's"),
                refused("0x6aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "mistyped"),
            ],
            smallest: Amount::from(1),
            largest: match self.pays {
                Pays::Tokens => Amount::MAX,
                // 5,000 ETH, half of what an account has.
                Pays::Coin => Amount::from(U256::from(5_000u64) * U256::from(1_000_000_000_000_000_000u64)),
            },
            maturity: None,
            finality: true,
            secret: SECRET.to_owned(),
            attempts: ATTEMPTS,
            deadline: DEADLINE,
        }
    }

    fn address(&self, number: usize) -> String {
        Address::repeat_byte(u8::try_from(number).unwrap() + 0x51).to_checksum(None)
    }

    async fn pay(&self, outputs: &[Output]) -> Result<TxId, Broken> {
        let value = |output: &Output| u128::try_from(output.amount.as_u256()).map_err(Broken::tried("paying more than 128 bits"));
        let hash = match (self.pays, outputs) {
            (Pays::Tokens, [one]) => self.send(Some(&self.token.address), &Self::mint_data(one)?, 0).await?,
            (Pays::Coin, [one]) => self.send(Some(&one.to), "0x", value(one)?).await?,
            (Pays::Tokens, _) => self.send(None, &self.init_code(outputs)?, 0).await?,
            (Pays::Coin, _) => {
                let sum = outputs.iter().try_fold(0, |sum, output| Ok::<_, Broken>(sum + value(output)?))?;
                self.send(None, &self.init_code(outputs)?, sum).await?
            }
        };
        TxId::new(hash).map_err(Broken::tried("naming a transaction"))
    }

    async fn mine(&self, blocks: u32) -> Result<(), Broken> {
        if blocks > 0 { driven(self.anvil.mine(u64::from(blocks)).await) } else { Ok(()) }
    }

    async fn block_at(&self, height: Height) -> Result<Option<BlockRef>, Broken> {
        Ok(driven(self.anvil.block_ref(height.0).await)?.map(block))
    }

    async fn tip(&self) -> Result<BlockRef, Broken> {
        driven(self.anvil.tip().await).map(block)
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
            Act::PayDecoys { to } => self.pay_decoys(&to).await?,
            Act::Finalize(height) => {
                // The newest one counts.
                self.proxy.repair();
                self.proxy.before(move |call| {
                    if ["safe", "finalized"].iter().any(|tag| call["params"][0] == json!(tag)) {
                        call["params"][0] = json!(format!("{:#x}", height.0));
                    }
                });
            }
            Act::ForgetFinality => self.proxy.after(|call, reply| {
                if call["params"][0] == json!("safe") {
                    with_result(reply, Value::Null);
                } else if call["params"][0] == json!("finalized") {
                    with_error(reply, -39001, "finalized block not found");
                }
            }),
            Act::Lag(blocks) => self.lag(self.tip().await?.height.0 - u64::from(blocks)),
            Act::Lose(lost) => {
                // Receipts and traces, too: of them only the block's hash tells.
                let hash = self.block_at(lost).await?.map(|block| block.hash.to_string()).unwrap_or_default();
                let hashes: HashSet<String> = [hash].into();
                self.proxy.after(move |call, reply| {
                    let named = call["params"][0].as_str().is_some_and(|text| hashes.contains(text));
                    if named { with_result(reply, Value::Null) } else { hide(call, reply, |height| height == lost.0) }
                });
            }
            Act::Prune(_) => self.prune(),
            Act::Sync => self.proxy.after(|call, reply| {
                if method(call) == "eth_syncing" {
                    with_result(reply, json!({ "startingBlock": "0x0", "currentBlock": "0x1", "highestBlock": "0xffff" }));
                }
            }),
            Act::ChangeNetwork => {
                driven(self.proxy.reconnect().await)?;
                replace(&self.proxy, &["eth_chainId"], MANY, &json!("0x5"));
            }
            Act::Reconnect => driven(self.proxy.reconnect().await)?,
            Act::Empty { answers } => {
                replace(&self.proxy, &["eth_getLogs", "debug_traceBlockByHash"], answers, &json!([]));
                replace(&self.proxy, &["eth_getBlockReceipts", "eth_getTransactionReceipt"], answers, &Value::Null);
            }
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
