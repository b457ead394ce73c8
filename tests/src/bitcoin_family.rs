//! litecoind and Bitcoin Knots on a regtest chain of their own: one driver, since they are of one family.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::Needs;
use crate::port::Port;
use crate::process::{Process, guarded};
use crate::rpc::{Rpc, RpcError};
use crate::scratch::scratch_dir;
use crate::{Block, Position};

const STOP_DEADLINE: Duration = Duration::from_secs(60);
/// The user of password authentication.
const USER: &str = "e2e";
const PASSWORD: &str = "correct-horse";
pub(crate) const WALLET: &str = "payer";
/// Coinbases mature after 100 blocks: so many more can be spent from the start.
const FUNDED_HEIGHT: u64 = 120;

/// How the node wants to be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Auth {
    /// A user and a password, the same after every start.
    #[default]
    Password,
    /// A cookie file, with another password after every start.
    Cookie,
}

/// How to start a node where the defaults don't fit.
#[derive(Debug, Clone, Default)]
pub struct FamilyOptions {
    /// Authentication.
    pub auth: Auth,
    /// Litecoin only: MWEB can activate (at height 432); otherwise it never does.
    pub mweb: bool,
    /// Keep an empty chain instead of mining spendable coins.
    pub empty: bool,
    /// Further command-line arguments, for example `-prune=550` (which needs `-txindex=0`).
    pub extra: Vec<String>,
}

/// litecoind.
#[derive(Debug)]
pub struct Litecoind;

impl Litecoind {
    /// A chain of 120 blocks and a wallet that can spend.
    pub async fn start(mweb: bool) -> Result<BitcoinFamily> {
        Self::start_with(FamilyOptions { mweb, ..FamilyOptions::default() }).await
    }

    /// As [`Litecoind::start`], with options.
    pub async fn start_with(options: FamilyOptions) -> Result<BitcoinFamily> {
        BitcoinFamily::start(Needs::Litecoind, options).await
    }
}

/// Bitcoin Knots, as the bitcoind it is.
#[derive(Debug)]
pub struct Knots;

impl Knots {
    /// A chain of 120 blocks and a wallet that can spend.
    pub async fn start() -> Result<BitcoinFamily> {
        Self::start_with(FamilyOptions::default()).await
    }

    /// As [`Knots::start`], with options.
    pub async fn start_with(options: FamilyOptions) -> Result<BitcoinFamily> {
        BitcoinFamily::start(Needs::Knots, options).await
    }
}

/// A node of the Bitcoin family. Amounts are in base units (satoshi, litoshi).
#[derive(Debug)]
pub struct BitcoinFamily {
    pub(crate) kind: Needs,
    pub(crate) options: FamilyOptions,
    dir: TempDir,
    port: Port,
    rpc: Rpc,
    process: Option<Process>,
    /// Wallets to load again after a start.
    pub(crate) wallets: Vec<String>,
}

impl BitcoinFamily {
    async fn start(kind: Needs, options: FamilyOptions) -> Result<Self> {
        let port = Port::free()?;
        let rpc = Rpc::new(&format!("http://127.0.0.1:{}", port.number()), None);
        let empty = options.empty;
        let mut node = Self { kind, options, dir: scratch_dir()?, port, rpc, process: None, wallets: Vec::new() };
        node.resume().await?;
        node.create_wallet(WALLET).await?;
        if !empty {
            node.mine(FUNDED_HEIGHT).await?;
        }
        Ok(node)
    }

    /// The endpoint. It stays the same when the node is stopped and started again.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// User and password under [`Auth::Password`].
    pub fn credentials(&self) -> (&'static str, &'static str) {
        (USER, PASSWORD)
    }

    /// The cookie file; it exists under [`Auth::Cookie`] while the node runs.
    pub fn cookie_file(&self) -> PathBuf {
        self.dir.path().join("regtest/.cookie")
    }

    /// A client for whatever has no method here.
    pub fn rpc(&self) -> &Rpc {
        &self.rpc
    }

    /// A client of a wallet.
    pub fn wallet(&self, name: &str) -> Rpc {
        self.rpc.at(&format!("/wallet/{name}"))
    }

    pub(crate) fn payer(&self) -> Rpc {
        self.wallet(WALLET)
    }

    /// The process, to signal (`STOP` makes a node that accepts connections and never answers).
    pub fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("the node is stopped")
    }

    /// Asks the node to stop and waits for its end.
    pub async fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the node is stopped already")?;
        self.rpc.call("stop", json!([])).await?;
        process.wait(STOP_DEADLINE).await?;
        Ok(())
    }

    /// Kills the node with SIGKILL. What it had not flushed is gone: it comes back with the chain of its last
    /// [`BitcoinFamily::stop`], so a reader of it sees a tip that is far behind.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().context("the node is stopped already")?.kill()?;
        Ok(())
    }

    /// Starts the node on the same folder and port, and loads its wallets.
    pub async fn resume(&mut self) -> Result<()> {
        if self.process.is_some() {
            bail!("the node is running already");
        }
        let mut process = self.spawn()?;
        self.rpc = self.client(&mut process).await?;
        let ready = self.rpc.wait_ready("getblockchaininfo", &mut process).await;
        ready.with_context(|| std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default())?;
        self.process = Some(process);
        for wallet in &self.wallets {
            self.rpc.call("loadwallet", json!([wallet])).await?;
        }
        Ok(())
    }

    /// A client with the credentials of this start; a cookie is there shortly after it.
    async fn client(&self, process: &mut Process) -> Result<Rpc> {
        let mut credentials = format!("{USER}:{PASSWORD}");
        if self.options.auth == Auth::Cookie {
            credentials = loop {
                if let Some(status) = process.exited()? {
                    bail!("the node ended while starting: {status}");
                }
                match std::fs::read_to_string(self.cookie_file()) {
                    Ok(cookie) if !cookie.is_empty() => break cookie,
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            };
        }
        Ok(Rpc::new(&self.url(), Some(&credentials)))
    }

    fn spawn(&self) -> Result<Process> {
        let program = self.kind.path().context("the node is not installed: run tests/nodes/install")?;
        // A cookie of a killed start would be read before the new one is written.
        let _ = std::fs::remove_file(self.cookie_file());
        let mut command = guarded(&program);
        command.args(["-regtest", "-server", "-listen=0", "-connect=0", "-dnsseed=0", "-discover=0"]);
        command.args(["-rpcbind=127.0.0.1", "-rpcallowip=127.0.0.1", "-rest", "-txindex=1"]);
        command.args(["-fallbackfee=0.0001", "-printtoconsole=0"]);
        command.arg(format!("-datadir={}", self.dir.path().display()));
        command.arg(format!("-rpcport={}", self.port.number()));
        if self.options.auth == Auth::Password {
            command.args([format!("-rpcuser={USER}"), format!("-rpcpassword={PASSWORD}")]);
        }
        match self.kind {
            // Litecoin's pool takes no replacement by default.
            Needs::Litecoind => command.args(["-upnp=0", "-mempoolreplacement=1"]),
            _ => command.args(["-natpmp=0", "-fixedseeds=0"]),
        };
        if self.kind == Needs::Litecoind && !self.options.mweb {
            command.arg("-vbparams=mweb:-2:0");
        }
        // Of an option given twice on the command line the node takes the last.
        command.args(&self.options.extra);
        Process::spawn_logged("node", &mut command, &self.dir.path().join("log"))
    }

    pub(crate) async fn create_wallet(&mut self, name: &str) -> Result<()> {
        self.rpc.call("createwallet", json!([name])).await?;
        self.wallets.push(name.to_owned());
        Ok(())
    }

    /// A new bech32 address of the node's own wallet.
    pub async fn new_address(&self) -> Result<String> {
        self.new_address_of("bech32").await
    }

    /// A new address of a type: `legacy`, `p2sh-segwit`, `bech32`, `bech32m` (not litecoind), `mweb` (only litecoind).
    pub async fn new_address_of(&self, kind: &str) -> Result<String> {
        self.payer().text("getnewaddress", json!(["", kind])).await
    }

    /// Mines `count` blocks, each call to a fresh address: after an invalidation the same address could give
    /// the very same block, which the node refuses.
    pub async fn mine(&self, count: u64) -> Result<Vec<String>> {
        let address = self.new_address().await?;
        self.mine_to(&address, count).await
    }

    /// Mines `count` blocks whose coinbases pay `address`; their hashes.
    pub async fn mine_to(&self, address: &str, count: u64) -> Result<Vec<String>> {
        let hashes = self.rpc.call("generatetoaddress", json!([count, address])).await?;
        serde_json::from_value(hashes).context("read the mined hashes")
    }

    /// Mines one block with exactly these transactions (ids of waiting ones, or raw hex), in this order; its hash.
    /// Without any, waiting transactions keep waiting. Not on a chain with MWEB active: the node fails there.
    pub async fn mine_block(&self, transactions: &[&str]) -> Result<String> {
        let address = self.new_address().await?;
        let made = self.rpc.call("generateblock", json!([address, transactions])).await?;
        let hash = made.get("hash").and_then(Value::as_str);
        Ok(hash.with_context(|| format!("generateblock answers {made}"))?.to_owned())
    }

    /// The newest block.
    pub async fn tip(&self) -> Result<Block> {
        let info = self.rpc.call("getblockchaininfo", json!([])).await?;
        let height = info.get("blocks").and_then(Value::as_u64).context("no height in getblockchaininfo")?;
        let hash = info.get("bestblockhash").and_then(Value::as_str).context("no hash in getblockchaininfo")?;
        Ok(Block { height, hash: hash.to_owned() })
    }

    /// The hash at a height of the best chain; `None` above the tip.
    pub async fn block_hash(&self, height: u64) -> Result<Option<String>> {
        match self.rpc.text("getblockhash", json!([height])).await {
            Ok(hash) => Ok(Some(hash)),
            Err(error) if error.downcast_ref::<RpcError>().is_some_and(|error| error.code == -8) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `getblock`: verbosity 0 is the raw block as a hex string, 1 and 2 are objects.
    pub async fn block(&self, hash: &str, verbosity: u8) -> Result<Value> {
        self.rpc.call("getblock", json!([hash, verbosity])).await
    }

    /// The transaction as an object; an error if the node does not know it (any more).
    pub async fn transaction(&self, txid: &str) -> Result<Value> {
        self.rpc.call("getrawtransaction", json!([txid, true])).await
    }

    /// The signed transaction, hex.
    pub async fn raw_transaction(&self, txid: &str) -> Result<String> {
        self.rpc.text("getrawtransaction", json!([txid, false])).await
    }

    /// The ids of waiting transactions.
    pub async fn pool(&self) -> Result<Vec<String>> {
        serde_json::from_value(self.rpc.call("getrawmempool", json!([])).await?).context("read the pool")
    }

    /// Where a transaction is on the best chain now; `None` if it waits, is orphaned or unknown.
    pub async fn position(&self, txid: &str) -> Result<Option<Position>> {
        let transaction = match self.transaction(txid).await {
            Ok(transaction) => transaction,
            Err(error) if error.downcast_ref::<RpcError>().is_some_and(|error| error.code == -5) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(hash) = transaction.get("blockhash").and_then(Value::as_str) else { return Ok(None) };
        let block = self.block(hash, 1).await?;
        if block.get("confirmations").and_then(Value::as_i64).unwrap_or(-1) < 1 {
            return Ok(None);
        }
        let height = block.get("height").and_then(Value::as_u64).context("no height in getblock")?;
        let ids = block.get("tx").and_then(Value::as_array).context("no transactions in getblock")?;
        let index = ids.iter().position(|id| id.as_str() == Some(txid)).context("the block lacks its transaction")?;
        let block = Block { height, hash: hash.to_owned() };
        Ok(Some(Position { block, index: u64::try_from(index)? }))
    }
}
