//! anvil, an EVM node whose chain the test mines, reorganises and takes down at will.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::abi::Arg;
use crate::contracts::{Contract, Deployed};
use crate::nodes::Needs;
use crate::port::Port;
use crate::process::{Process, guarded};
use crate::rpc::Rpc;
use crate::scratch::scratch_dir;
use crate::{Block, Position};

/// A stopping anvil writes its whole chain, with the state of every block, to a file first.
const STOP_DEADLINE: Duration = Duration::from_secs(60);
const GAS: u64 = 500_000;

/// How to start anvil where the defaults don't fit.
#[derive(Debug, Clone)]
pub struct AnvilOptions {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Further command-line arguments.
    pub extra: Vec<String>,
}

impl Default for AnvilOptions {
    fn default() -> Self {
        Self { chain_id: 31_337, extra: Vec::new() }
    }
}

/// A transaction to send. Numbers are in wei and gas units.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Which of the ten funded accounts sends it.
    pub from: usize,
    /// The called address; `None` creates a contract.
    pub to: Option<&'a str>,
    /// Hex with `0x`.
    pub data: &'a str,
    /// Wei.
    pub value: u128,
    /// Gas limit; a fixed one, so that a transaction that will fail is sent too.
    pub gas: u64,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self { from: 0, to: None, data: "0x", value: 0, gas: GAS }
    }
}

/// An anvil. Blocks come only by [`Anvil::mine`]; `safe` is the tip's parent and `finalized` the parent of that.
#[derive(Debug)]
pub struct Anvil {
    options: AnvilOptions,
    dir: TempDir,
    port: Port,
    rpc: Rpc,
    process: Option<Process>,
    accounts: Vec<String>,
}

impl Anvil {
    /// A new chain with nothing but its genesis block.
    pub async fn start() -> Result<Self> {
        Self::start_with(AnvilOptions::default()).await
    }

    /// As [`Anvil::start`], with options.
    pub async fn start_with(options: AnvilOptions) -> Result<Self> {
        let port = Port::free()?;
        let rpc = Rpc::new(&format!("http://127.0.0.1:{}", port.number()), None);
        let dir = scratch_dir()?;
        let mut anvil = Self { options, dir, port, rpc, process: None, accounts: Vec::new() };
        anvil.resume().await?;
        let accounts = anvil.rpc.call("eth_accounts", json!([])).await?;
        anvil.accounts = serde_json::from_value(accounts).context("read the accounts")?;
        Ok(anvil)
    }

    /// The endpoint. It stays the same when the node is stopped and started again.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// A client for whatever has no method here.
    pub fn rpc(&self) -> &Rpc {
        &self.rpc
    }

    /// The address of one of the ten accounts of 10,000 ETH each.
    pub fn account(&self, index: usize) -> Result<&str> {
        self.accounts.get(index).map(String::as_str).with_context(|| format!("no account {index}"))
    }

    /// The process, to signal (`STOP` makes a node that accepts connections and never answers).
    pub fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("anvil is stopped")
    }

    /// Takes the node down; the chain is kept, the pool is not.
    pub async fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("anvil is stopped already")?;
        process.terminate(STOP_DEADLINE).await?;
        Ok(())
    }

    /// Starts the node on the same port, with the chain it had when it was stopped.
    pub async fn resume(&mut self) -> Result<()> {
        if self.process.is_some() {
            bail!("anvil is running already");
        }
        let program = Needs::Anvil.path().context("anvil is not installed: run tests/nodes/install")?;
        let mut process = self.spawn(&program)?;
        self.rpc.wait_ready("eth_chainId", &mut process).await.with_context(|| self.log())?;
        self.process = Some(process);
        Ok(())
    }

    fn spawn(&self, program: &Path) -> Result<Process> {
        let mut command = guarded(program);
        command
            // Spilled states go to the home folder by default, and stay there.
            .env("HOME", self.dir.path())
            .args(["--host", "127.0.0.1", "--port", &self.port.number().to_string()])
            .args(["--chain-id", &self.options.chain_id.to_string()])
            .args(["--slots-in-an-epoch", "1", "--no-mining", "--silent", "--max-persisted-states", "0"])
            .arg("--state")
            .arg(self.dir.path().join("state.json"))
            // Without it a restarted node has no traces and no reorgs of what it mined before.
            .arg("--preserve-historical-states")
            .args(&self.options.extra);
        Process::spawn_logged("anvil", &mut command, &self.dir.path().join("log"))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Mines `count` blocks; waiting transactions go into the first.
    pub async fn mine(&self, count: u64) -> Result<()> {
        self.rpc.call("anvil_mine", json!([format!("{count:#x}")])).await?;
        Ok(())
    }

    /// Sends wei from the first account; the hash of the waiting transaction.
    pub async fn pay(&self, to: &str, wei: u128) -> Result<String> {
        self.send(Call { to: Some(to), value: wei, ..Call::default() }).await
    }

    /// Sends any transaction; the hash of the waiting transaction.
    pub async fn send(&self, call: Call<'_>) -> Result<String> {
        let mut request = json!({
            "from": self.account(call.from)?, "data": call.data,
            "value": format!("{:#x}", call.value), "gas": format!("{:#x}", call.gas),
        });
        if let (Some(to), Some(fields)) = (call.to, request.as_object_mut()) {
            fields.insert("to".to_owned(), json!(to));
        }
        self.rpc.text("eth_sendTransaction", json!([request])).await
    }

    /// Creates a contract of `fixtures/contracts` by name, and mines a block with it.
    pub async fn deploy(&self, name: &str) -> Result<Deployed> {
        let contract = Contract::named(name)?;
        let hash = self.send(Call { data: &contract.bytecode, gas: 3_000_000, ..Call::default() }).await?;
        self.mine(1).await?;
        let receipt = self.receipt(&hash).await?.with_context(|| format!("the creation of {name} was not mined"))?;
        let address = receipt.get("contractAddress").and_then(Value::as_str);
        let address = address.with_context(|| format!("{name} was not created: {receipt}"))?.to_owned();
        Ok(Deployed { address, contract })
    }

    /// Sends a call of a contract's function from the first account, with `value` wei.
    pub async fn invoke(&self, on: &Deployed, signature: &str, args: &[Arg<'_>], value: u128) -> Result<String> {
        let data = on.contract.data(signature, args)?;
        self.send(Call { to: Some(&on.address), data: &data, value, gas: 3_000_000, ..Call::default() }).await
    }

    /// Mints tokens of a deployed `MiniToken` to an address.
    pub async fn mint(&self, token: &Deployed, to: &str, amount: u128) -> Result<String> {
        self.invoke(token, "mint(address,uint256)", &[Arg::Address(to), Arg::Uint(amount)], 0).await
    }

    /// Transfers tokens of a deployed `MiniToken` from the first account, which must hold them.
    pub async fn transfer(&self, token: &Deployed, to: &str, amount: u128) -> Result<String> {
        self.invoke(token, "transfer(address,uint256)", &[Arg::Address(to), Arg::Uint(amount)], 0).await
    }

    /// The signed transaction, hex.
    pub async fn raw_transaction(&self, hash: &str) -> Result<String> {
        self.rpc.text("eth_getRawTransactionByHash", json!([hash])).await
    }

    /// The receipt, if the transaction is in a block now.
    pub async fn receipt(&self, hash: &str) -> Result<Option<Value>> {
        let receipt = self.rpc.call("eth_getTransactionReceipt", json!([hash])).await?;
        Ok(Some(receipt).filter(|receipt| !receipt.is_null()))
    }

    /// Where a transaction is now, if it is in a block.
    pub async fn position(&self, hash: &str) -> Result<Option<Position>> {
        let Some(receipt) = self.receipt(hash).await? else { return Ok(None) };
        let block = Block { height: number(&receipt, "blockNumber")?, hash: text(&receipt, "blockHash")? };
        Ok(Some(Position { block, index: number(&receipt, "transactionIndex")? }))
    }

    /// The block at a height, or under a tag (`latest`, `safe`, `finalized`), with its transactions' hashes.
    pub async fn block(&self, at: impl Into<BlockAt>) -> Result<Option<Value>> {
        let block = self.rpc.call("eth_getBlockByNumber", json!([at.into().0, false])).await?;
        Ok(Some(block).filter(|block| !block.is_null()))
    }

    /// Height and hash at a height or under a tag.
    pub async fn block_ref(&self, at: impl Into<BlockAt>) -> Result<Option<Block>> {
        let Some(block) = self.block(at).await? else { return Ok(None) };
        Ok(Some(Block { height: number(&block, "number")?, hash: text(&block, "hash")? }))
    }

    /// The newest block.
    pub async fn tip(&self) -> Result<Block> {
        self.block_ref("latest").await?.context("there is no latest block")
    }

    /// Replaces the last `depth` blocks by as many new ones. Each transaction of `keep` is mined again in the
    /// new block of the given index (0 = the lowest), in this order; the others are gone, from the pool too.
    pub async fn reorg(&self, depth: u64, keep: &[(&str, u64)]) -> Result<()> {
        let mut mined = Vec::new();
        for (hash, index) in keep {
            mined.push(json!([self.raw_transaction(hash).await?, index]));
        }
        self.rpc.call("anvil_reorg", json!([depth, mined])).await?;
        Ok(())
    }

    /// As other nodes do it: the transactions of the replaced blocks wait in the pool again. Returns their hashes.
    pub async fn reorg_to_pool(&self, depth: u64) -> Result<Vec<String>> {
        let tip = self.tip().await?.height;
        let mut orphaned = Vec::new();
        for height in (tip + 1).saturating_sub(depth)..=tip {
            let block = self.block(height).await?.with_context(|| format!("no block {height}"))?;
            let hashes = block.get("transactions").and_then(Value::as_array).cloned().unwrap_or_default();
            for hash in hashes.iter().filter_map(Value::as_str) {
                orphaned.push((hash.to_owned(), self.raw_transaction(hash).await?));
            }
        }
        self.reorg(depth, &[]).await?;
        for (_, raw) in &orphaned {
            self.rpc.text("eth_sendRawTransaction", json!([raw])).await?;
        }
        Ok(orphaned.into_iter().map(|(hash, _)| hash).collect())
    }

    /// Replaces the last `depth` blocks and mines, in one more block, another transaction of the same sender and
    /// nonce as the mined transaction `spent`: it can never come back. Returns the new one's hash.
    pub async fn double_spend(&self, depth: u64, spent: &str, to: &str, wei: u128) -> Result<String> {
        let original = self.rpc.call("eth_getTransactionByHash", json!([spent])).await?;
        let (from, nonce) = (text(&original, "from")?, text(&original, "nonce")?);
        self.reorg(depth, &[]).await?;
        let request = json!({"from": from, "nonce": nonce, "to": to, "value": format!("{wei:#x}"), "gas": "0x186a0"});
        let hash = self.rpc.text("eth_sendTransaction", json!([request])).await?;
        self.mine(1).await?;
        Ok(hash)
    }

    /// Takes the last `count` blocks off: the chain is shorter then, and their transactions are gone.
    pub async fn rollback(&self, count: u64) -> Result<()> {
        self.rpc.call("anvil_rollback", json!([count])).await?;
        Ok(())
    }
}

/// A height or a tag, as the node wants it.
#[derive(Debug, Clone)]
pub struct BlockAt(String);

impl From<u64> for BlockAt {
    fn from(height: u64) -> Self {
        Self(format!("{height:#x}"))
    }
}

impl From<&str> for BlockAt {
    fn from(tag: &str) -> Self {
        Self(tag.to_owned())
    }
}

fn text(object: &Value, key: &str) -> Result<String> {
    let text = object.get(key).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no text {key} in {object}"))?.to_owned())
}

fn number(object: &Value, key: &str) -> Result<u64> {
    let text = text(object, key)?;
    u64::from_str_radix(text.trim_start_matches("0x"), 16).with_context(|| format!("{key} is no number: {text}"))
}
