//! A Bitcoin-family node, confirmd and a customer; and what the node says should be in the customer's ledger.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::config::{ChainSection, Config, SinkSection};
use super::customer::{Customer, SECRET, SECRET_ENV, Sequence};
use super::service::{SOON, Service};
use crate::bitcoin_family::{Auth, BitcoinFamily, FamilyOptions, Knots, Litecoind};
use crate::nodes::Needs;
use crate::payments::base_units;

/// The chain's name in the configuration.
pub const COINS: &str = "coins";
/// Holds the node's password in the environment of confirmd.
pub const NODE_PASSWORD_ENV: &str = "CONFIRMD_E2E_NODE_PASSWORD";
const COINBASE_MATURITY: u64 = 100;
const PEG_OUT_MATURITY: u64 = 6;

/// How confirmd watches the node.
#[derive(Debug, Clone)]
pub struct UtxoPlan {
    /// Deep enough.
    pub confirmations: u64,
    /// Blocks that may still change.
    pub reorg_depth: u64,
    /// The first height to read; `None` is the tip.
    pub start: Option<u64>,
    /// How long a shorter fork is waited for.
    pub fork_grace: &'static str,
    /// Addresses of the configuration file, as they are written there.
    pub watch: Vec<String>,
    /// The least that is confirmed, in base units.
    pub minimum: Option<u64>,
}

impl Default for UtxoPlan {
    fn default() -> Self {
        Self { confirmations: 1, reorg_depth: 24, start: None, fork_grace: "60s", watch: Vec::new(), minimum: None }
    }
}

/// What the best chain pays one watched address with one output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// As the node spells it.
    pub address: String,
    /// Base units.
    pub amount: u64,
    /// Of its block.
    pub height: u64,
}

/// Node, confirmd and customer. Every trial ends with [`UtxoStage::audit`].
#[derive(Debug)]
pub struct UtxoStage {
    /// The node.
    pub node: BitcoinFamily,
    /// The customer's side.
    pub customer: Customer,
    /// confirmd.
    pub service: Service,
    plan: UtxoPlan,
    chain: String,
    /// Script, address in the node's spelling, first covered height.
    watched: Vec<(String, String, u64)>,
}

/// Starts a node of the family.
pub async fn utxo_node(kind: Needs, options: FamilyOptions) -> Result<BitcoinFamily> {
    match kind {
        Needs::Knots => Knots::start_with(options).await,
        _ => Litecoind::start_with(options).await,
    }
}

impl UtxoStage {
    /// Starts confirmd on the node, and waits until it has read up to the tip.
    pub async fn set(node: BitcoinFamily, plan: UtxoPlan) -> Result<Self> {
        let mut stage = Self::prepared(node, plan).await?;
        stage.service.run().await?;
        stage.told().await?;
        Ok(stage)
    }

    /// As [`UtxoStage::set`], with confirmd configured and not started.
    pub async fn prepared(node: BitcoinFamily, plan: UtxoPlan) -> Result<Self> {
        let customer = Customer::start().await?;
        let chain = node.block_hash(0).await?.context("no genesis block")?;
        let chain = format!("bip122:{}", chain.get(..32).context("a short hash")?);
        let mut service = Service::new(&config(&node, &plan, &customer))?;
        service.instance().env(NODE_PASSWORD_ENV, node.credentials().1);
        let from = plan.start.unwrap_or(node.tip().await?.height + 1);
        let mut stage = Self { node, customer, service, plan, chain, watched: Vec::new() };
        for address in stage.plan.watch.clone() {
            stage.expect_from(&address, from).await?;
        }
        Ok(stage)
    }

    /// From here on the audit and the configuration go by another minimum.
    pub fn set_minimum(&mut self, minimum: Option<u64>) {
        self.plan.minimum = minimum;
    }

    /// The configuration; [`Service::configure`] writes another.
    pub fn config(&self) -> Config {
        config(&self.node, &self.plan, &self.customer)
    }

    /// As [`UtxoStage::config`], on another node of the same chain and credentials.
    pub fn config_on(&self, node: &BitcoinFamily) -> Config {
        config(node, &self.plan, &self.customer)
    }

    /// As [`UtxoStage::config`], with another consumer instead of ours.
    pub fn config_for(&self, name: &str, customer: &Customer) -> Config {
        Config::new().chain(section(&self.node, &self.plan)).sink(SinkSection::webhook(name, &customer.url()))
    }

    /// What confirmd needs in its environment to talk to both.
    pub fn environment(&self) -> [(&'static str, &'static str); 2] {
        [(SECRET_ENV, SECRET), (NODE_PASSWORD_ENV, self.node.credentials().1)]
    }

    /// The CAIP-2 id.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// The network's name in the configuration.
    pub fn network(node: &BitcoinFamily) -> &'static str {
        if node.kind == Needs::Litecoind { "litecoin-regtest" } else { "regtest" }
    }

    /// The endpoint as the configuration names it.
    pub fn endpoint(node: &BitcoinFamily) -> String {
        let url = node.url();
        match node.options.auth {
            Auth::Cookie => format!("{{ url = \"{url}\", cookie_file = {:?} }}", node.cookie_file()),
            Auth::Password => {
                let user = node.credentials().0;
                format!("{{ url = \"{url}\", user = \"{user}\", password = {{ env = \"{NODE_PASSWORD_ENV}\" }} }}")
            }
        }
    }

    /// Counts an address in for [`UtxoStage::audit`] that confirmd covers from a height on.
    pub async fn expect_from(&mut self, address: &str, from: u64) -> Result<()> {
        let script = self.node.script_of(address).await?;
        let answer = self.node.rpc().call("validateaddress", json!([address])).await?;
        let spelling = answer.get("address").and_then(Value::as_str).context("validateaddress names no address")?;
        self.watched.push((script, spelling.to_owned(), from));
        Ok(())
    }

    /// Waits until confirmd has read up to the node's tip and the customer has everything that is due.
    pub async fn told(&self) -> Result<()> {
        self.service.until_told(COINS, &self.node.tip().await?).await
    }

    /// Waits until the customer's row of a deposit is at this sequence and stands or not.
    pub async fn until_at(&self, tx_id: &str, output: u64, wanted: Sequence) -> Result<()> {
        self.customer.until_at(&self.chain, tx_id, output, wanted, SOON).await
    }

    /// The sequences that the customer accepted for a deposit, in their order.
    pub fn history(&self, tx_id: &str, output: u64) -> Vec<u64> {
        self.customer.history(&self.chain, tx_id, output)
    }

    /// As [`UtxoStage::history`], compared.
    pub fn ensure_history(&self, tx_id: &str, output: u64, wanted: &[u64]) -> Result<()> {
        let found = self.history(tx_id, output);
        let log = || format!("{}\nlog:\n{}", self.customer.describe(), self.service.log());
        ensure!(found == wanted, "{tx_id}:{output} has {found:?}, expected {wanted:?}\n{}", log());
        Ok(())
    }

    /// The height that the customer's row of a deposit was last told with.
    pub fn height_of(&self, tx_id: &str, output: u64) -> Option<u64> {
        self.customer.ledger().row(&self.chain, tx_id, output).map(|row| row.height)
    }

    /// The outputs of a transaction, mined or waiting, that pay an address, in order.
    pub async fn outputs_to(&self, tx_id: &str, address: &str) -> Result<Vec<u64>> {
        let script = self.node.script_of(address).await?;
        let transaction = self.node.transaction(tx_id).await?;
        let outputs = transaction.get("vout").and_then(Value::as_array).context("no outputs")?.iter();
        let ours = outputs.filter(|output| text(output, "/scriptPubKey/hex") == Some(script.as_str()));
        Ok(ours.filter_map(|output| output.get("n").and_then(Value::as_u64)).collect())
    }

    /// Pays a watched address; the transaction and the output.
    pub async fn pay(&self, address: &str, amount: u64) -> Result<(String, u64)> {
        let tx_id = self.node.pay(address, amount).await?;
        let outputs = self.outputs_to(&tx_id, address).await?;
        Ok((tx_id, *outputs.first().context("the payment has no output")?))
    }

    /// Hands a payment to the node again unless it waits there: one that spends a coin which was just mature when it
    /// was made is dropped by a reorg below that.
    pub async fn resend(&self, tx_id: &str, raw: &str) -> Result<()> {
        if !self.node.pool().await?.iter().any(|waiting| waiting == tx_id) {
            self.node.rpc().text("sendrawtransaction", json!([raw])).await?;
        }
        Ok(())
    }

    /// What the best chain pays the watched addresses deep enough, as the node itself reads its blocks.
    pub async fn due(&self) -> Result<BTreeMap<(String, u64), Due>> {
        let tip = self.node.tip().await?.height;
        let from = self.watched.iter().map(|(.., from)| *from).min().unwrap_or(tip);
        let mut due = BTreeMap::new();
        for height in from..=tip {
            let hash = self.node.block_hash(height).await?.with_context(|| format!("no block {height}"))?;
            let block = self.node.block(&hash, 2).await?;
            let transactions = block.get("tx").and_then(Value::as_array).context("no transactions")?;
            for (position, transaction) in transactions.iter().enumerate() {
                let hogex = block.get("mweb").is_some() && position + 1 == transactions.len();
                let own = match position {
                    0 => COINBASE_MATURITY,
                    _ if hogex => PEG_OUT_MATURITY,
                    _ => 1,
                };
                if tip - height + 1 >= self.plan.confirmations.max(own) {
                    self.collect(transaction, height, &mut due)?;
                }
            }
        }
        Ok(due)
    }

    fn collect(&self, transaction: &Value, height: u64, due: &mut BTreeMap<(String, u64), Due>) -> Result<()> {
        let tx_id = text(transaction, "/txid").context("no txid")?;
        for output in transaction.get("vout").and_then(Value::as_array).context("no outputs")? {
            let script = text(output, "/scriptPubKey/hex").context("no script")?;
            let amount = base_units(output.get("value").context("no value")?)?;
            let watched = self.watched.iter().find(|(watched, _, from)| watched == script && *from <= height);
            if let (Some((_, address, _)), true) = (watched, amount > 0 && self.plan.minimum.is_none_or(|least| amount >= least))
            {
                let index = output.get("n").and_then(Value::as_u64).context("no index")?;
                due.insert((tx_id.to_owned(), index), Due { address: address.clone(), amount, height });
            }
        }
        Ok(())
    }

    /// The customer's ledger holds exactly what the node's best chain pays deep enough, and every promise was kept.
    /// Returns how many deposits stand.
    pub async fn audit(&self) -> Result<usize> {
        self.told().await?;
        let due = self.due().await?;
        let mut told = BTreeMap::new();
        for (key, row) in self.customer.ledger().rows() {
            ensure!(key.chain == self.chain, "a row of another chain: {key:?}");
            if row.stands {
                let (address, amount) = (row.address.clone(), row.amount.to_string().parse()?);
                told.insert((key.tx_id.clone(), key.output_index), Due { address, amount, height: row.height });
            }
        }
        let log = || format!("{}\nlog:\n{}", self.customer.describe(), self.service.log());
        ensure!(told == due, "the ledger has {told:#?}, the chain {due:#?}\n{}", log());
        self.customer.ensure_sound()?;
        Ok(due.len())
    }
}

/// The configuration of a stage: one chain, one webhook.
fn config(node: &BitcoinFamily, plan: &UtxoPlan, customer: &Customer) -> Config {
    let ledger = SinkSection::webhook("ledger", &customer.url());
    Config::new().chain(section(node, plan)).sink(ledger.retry(&["100ms", "200ms", "500ms", "1s", "2s", "5s"]))
}

fn section(node: &BitcoinFamily, plan: &UtxoPlan) -> ChainSection {
    let mut chain = ChainSection::bitcoin(COINS, UtxoStage::network(node), &UtxoStage::endpoint(node))
        .confirmations(&format!("default = {}", plan.confirmations))
        .reorg_depth(plan.reorg_depth)
        .line(&format!("fork_grace = \"{}\"", plan.fork_grace));
    if let Some(height) = plan.start {
        chain = chain.line(&format!("start = {height}"));
    }
    if let Some(least) = plan.minimum {
        let symbol = if node.kind == Needs::Litecoind { "LTC" } else { "BTC" };
        chain = chain.line(&format!("minimum = {{ {symbol} = \"{least}\" }}"));
    }
    for (index, address) in plan.watch.iter().enumerate() {
        chain = chain.watch(address, &format!("customer-{index}"));
    }
    chain
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
