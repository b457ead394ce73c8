//! Pays, forks and takes away an anvil, as a seed says.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::dice::Dice;
use super::journal::Journal;
use super::outage::Outage;
use super::truth::{EvmWatch, TRANSFER};
use super::{CONFIRMATIONS_MAX, Counts, FORK_DEPTH_MAX, Pace};
use crate::{Anvil, Arg, Call, Deployed, RpcError, Switch};

const WHO: &str = "evm";
/// Accounts that pay; each has its own nonces, so that a fork can take one's payments without the others'.
const PAYERS: usize = 9;

/// The node, what was put on it, and the limits that forks keep to.
#[derive(Debug)]
pub(super) struct EvmRobot {
    /// The node.
    pub(super) anvil: Anvil,
    /// What confirmd connects to.
    pub(super) way: Switch,
    /// What the audit looks for.
    pub(super) watch: EvmWatch,
    token: Deployed,
    spammer: Deployed,
    splitter: Deployed,
    /// A token whose payments are as large as the height of their block: executed again higher up, they pay more.
    shift: String,
    highest: u64,
}

impl EvmRobot {
    /// A new chain with its contracts; the addresses are the round's own.
    pub(super) async fn set(round: u64) -> Result<Self> {
        let anvil = Anvil::start().await?;
        let token = anvil.deploy("MiniToken").await?;
        let spammer = anvil.deploy("Spammer").await?;
        let splitter = anvil.deploy("Splitter").await?;
        anvil.mint(&token, &spammer.address, 1_000_000_000).await?;
        let shift = deploy_shift(&anvil).await?;
        let highest = anvil.tip().await?.height;
        let addresses = (0..4_u64).map(|index| format!("0x{:040x}", 0x00c0_ffee_0000_0000_u64 + round * 16 + index)).collect();
        let tokens = vec![token.address.to_lowercase(), shift.to_lowercase()];
        let watch = EvmWatch { chain: "eip155:31337".to_owned(), addresses, tokens, from: highest };
        let way = Switch::to(&anvil.url()).await?;
        Ok(Self { anvil, way, watch, token, spammer, splitter, shift, highest })
    }

    /// `assets` of the configuration.
    pub(super) fn assets(&self) -> String {
        let entry = |symbol, contract| format!("{{ symbol = \"{symbol}\", contract = \"{contract}\", decimals = 6 }}");
        format!("assets = [{}, {}]", entry("MINI", &self.token.address), entry("SHIFT", &self.shift))
    }

    /// So many acts; one that the node refuses is noted and passed over.
    pub(super) async fn run(
        &mut self,
        acts: u32,
        dice: &mut Dice,
        journal: &Journal,
        nobody: &str,
        pace: Pace,
    ) -> Result<Counts> {
        let mut counts = Counts::default();
        for _ in 0..acts {
            let act = self.act(dice, journal, nobody, &mut counts).await;
            match act {
                Err(error) if error.downcast_ref::<RpcError>().is_some() => {
                    journal.note(WHO, &format!("refused: {error:#}"));
                    counts.refused += 1;
                }
                other => other?,
            }
            self.highest = self.highest.max(self.anvil.tip().await?.height);
            pace.pause(dice).await;
        }
        Ok(counts)
    }

    async fn act(&mut self, dice: &mut Dice, journal: &Journal, nobody: &str, counts: &mut Counts) -> Result<()> {
        match dice.number(0, 99) {
            0..=54 => self.pay(dice, journal).await,
            55..=79 => {
                journal.note(WHO, "mine");
                self.anvil.mine(dice.number(1, 2)).await
            }
            80..=91 => {
                counts.reorgs += 1;
                self.fork(dice, journal).await
            }
            92..=94 => {
                counts.reorgs += 1;
                self.shorten(dice, journal).await
            }
            _ => {
                counts.outages += 1;
                self.go_away(dice, journal, nobody).await
            }
        }
    }

    /// One transaction, or several in the same block to be.
    async fn pay(&mut self, dice: &mut Dice, journal: &Journal) -> Result<()> {
        let addresses = self.watch.addresses.clone();
        let to = dice.pick(&addresses).as_str();
        let (other, amount) = (dice.pick(&addresses).as_str(), u128::from(dice.number(1, 1_000_000)));
        let from = 1 + usize::try_from(dice.number(0, 8))? % PAYERS;
        let call = Call { from, to: Some(to), value: amount, ..Call::default() };
        let (what, hash) = match dice.number(0, 5) {
            0 => ("coins", self.anvil.send(call).await?),
            1 => ("minted tokens", self.anvil.mint(&self.token, to, amount).await?),
            2 => {
                // Several payments of one transaction, two of them to one address.
                let args = [Arg::Address(&self.token.address), Arg::Uint(2), Arg::Addresses(&[to, other, to]), Arg::Uint(3)];
                ("tokens in bulk", self.anvil.invoke(&self.spammer, "spam(address,uint256,address[],uint256)", &args, 0).await?)
            }
            3 => {
                let args = [Arg::Addresses(&[to, to, other]), Arg::Uint(amount)];
                let data = self.splitter.contract.data("split(address[],uint256)", &args)?;
                let call = Call { from, to: Some(&self.splitter.address), data: &data, value: 3 * amount, gas: 3_000_000 };
                ("coins by a contract", self.anvil.send(call).await?)
            }
            _ => {
                let data = format!("0x{:0>64}", to.trim_start_matches("0x"));
                let call = Call { from, to: Some(&self.shift), data: &data, ..Call::default() };
                ("tokens by height", self.anvil.send(call).await?)
            }
        };
        journal.note(WHO, &format!("{what} {hash}"));
        if dice.chance(1, 2) {
            self.anvil.mine(1).await?;
        }
        Ok(())
    }

    /// The deepest fork allowed now: never below what confirmd may take for settled, nor below the start.
    async fn depth(&self, dice: &mut Dice) -> Result<u64> {
        let tip = self.anvil.tip().await?.height;
        let lowest = self.watch.from.max(self.highest.saturating_sub(FORK_DEPTH_MAX));
        Ok(dice.number(0, tip.saturating_sub(lowest).min(FORK_DEPTH_MAX)))
    }

    /// Other blocks in place of the last ones. A transaction is mined again, in whatever block and order, or waits
    /// again, or is gone for good.
    async fn fork(&mut self, dice: &mut Dice, journal: &Journal) -> Result<()> {
        let depth = self.depth(dice).await?;
        if depth == 0 {
            return self.anvil.mine(1).await;
        }
        let tip = self.anvil.tip().await?.height;
        let mut again = Vec::new();
        let mut waiting = Vec::new();
        // A sender's later transactions can't be mined without its earlier ones.
        let mut stopped: BTreeMap<String, bool> = BTreeMap::new();
        let mut lowest = 0;
        for height in (tip + 1 - depth)..=tip {
            let block = self.anvil.rpc().call("eth_getBlockByNumber", json!([format!("{height:#x}"), true])).await?;
            for transaction in block.get("transactions").and_then(Value::as_array).context("no transactions")? {
                let field = |key| transaction.get(key).and_then(Value::as_str).map(str::to_owned).context("a field lacks");
                let (hash, sender) = (field("hash")?, field("from")?);
                let raw = self.anvil.raw_transaction(&hash).await?;
                let fate = dice.number(0, 9);
                let stop = stopped.entry(sender).or_default();
                *stop |= fate > 4;
                match fate {
                    _ if !*stop => {
                        lowest = dice.number(lowest, depth - 1);
                        again.push(json!([raw, lowest]));
                    }
                    9 => {}
                    _ => waiting.push(raw),
                }
            }
        }
        journal.note(WHO, &format!("fork of {depth} at {tip}: {} mined again, {} wait", again.len(), waiting.len()));
        self.anvil.rpc().call("anvil_reorg", json!([depth, again])).await?;
        for raw in waiting {
            self.anvil.rpc().text("eth_sendRawTransaction", json!([raw])).await?;
        }
        Ok(())
    }

    /// The chain gets shorter, then grows again, not always beyond its old length.
    async fn shorten(&mut self, dice: &mut Dice, journal: &Journal) -> Result<()> {
        let depth = self.depth(dice).await?;
        journal.note(WHO, &format!("{depth} blocks taken off"));
        if depth > 0 {
            self.anvil.rollback(depth).await?;
        }
        dice.pause(0, 150).await;
        self.anvil.mine(dice.number(1, depth + 1)).await
    }

    async fn go_away(&mut self, dice: &mut Dice, journal: &Journal, nobody: &str) -> Result<()> {
        let outage = Outage::any(dice);
        journal.note(WHO, &format!("away: {outage:?}"));
        match outage {
            Outage::Cut => {
                self.way.turn_to(nobody);
                self.anvil.mine(1).await?;
                dice.pause(50, 400).await;
                self.way.turn_to(&self.anvil.url());
            }
            Outage::Silent => {
                self.anvil.process()?.signal("STOP")?;
                dice.pause(50, 400).await;
                self.anvil.process()?.signal("CONT")?;
            }
            Outage::Restart => {
                self.anvil.stop().await?;
                dice.pause(0, 200).await;
                self.anvil.resume().await?;
            }
        }
        journal.note(WHO, "back");
        Ok(())
    }

    /// A deposit that is confirmed and then orphaned for good, told step by step: no round without a revert.
    pub(super) async fn deposit(&self) -> Result<String> {
        let to = self.watch.addresses.first().context("no address is watched")?;
        let hash = self.anvil.send(Call { from: 9, to: Some(to), value: 77, ..Call::default() }).await?;
        self.anvil.mine(CONFIRMATIONS_MAX).await?;
        Ok(hash)
    }

    /// Takes back what [`EvmRobot::deposit`] mined.
    pub(super) async fn orphan(&self) -> Result<()> {
        self.anvil.reorg(CONFIRMATIONS_MAX, &[]).await
    }

    /// Blocks until everything that will ever be mined is deep enough, on a chain longer than any before.
    pub(super) async fn settle(&self) -> Result<()> {
        // The first block takes what still waits.
        let tip = self.anvil.tip().await?.height;
        self.anvil.mine(self.highest.saturating_sub(tip) + 1 + CONFIRMATIONS_MAX).await
    }
}

/// A contract that takes an address as its call data and logs an ERC-20 transfer of as many base units to it as its
/// block's height is. Made by hand: the compiled contracts have none that depends on its block.
async fn deploy_shift(anvil: &Anvil) -> Result<String> {
    // The amount to memory; recipient, sender, topic, 32 bytes at 0; log with three topics; return 6, as `decimals()`.
    let runtime = format!("43600052600035337f{TRANSFER}60206000a3600660005260206000f3");
    let length = runtime.len() / 2;
    let code = format!("0x60{length:02x}600c60003960{length:02x}6000f3{runtime}");
    let hash = anvil.send(Call { data: &code, gas: 3_000_000, ..Call::default() }).await?;
    anvil.mine(1).await?;
    let receipt = anvil.receipt(&hash).await?.context("the token by height was not mined")?;
    let address = receipt.get("contractAddress").and_then(Value::as_str);
    Ok(address.with_context(|| format!("the token by height was not created: {receipt}"))?.to_owned())
}
