//! anvil with an ERC-20: ten transfers a block, one of them to a watched account, a third of them behind foreign logs.

use super::driver::{Contract, account_word, free_port, node_program, number_word};
use super::figure::{Figure, measured};
use super::subject::Node;
use crate::http::Http;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;

/// Transfers in each block; as many accounts send one each.
const TRANSFERS: u64 = 10;
/// Watched accounts that are paid.
pub const WATCHED: u64 = 1_000;
/// Others that are paid: more of them make anvil's block production quadratic.
const OTHERS: u64 = 1_500;
/// Payments in each block of a crowd.
const CROWD: u64 = 1_000;
const TRANSFER: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
/// Blocks a range, and headers a batch.
const RANGE: u64 = 100;

/// A chain that is ready to be read.
#[derive(Debug)]
pub struct EvmChain {
    /// anvil.
    pub node: Node,
    /// The token's contract.
    pub token: String,
    /// The contract that pays many at once.
    spammer: String,
    /// The highest block.
    pub tip: u64,
}

impl EvmChain {
    /// Makes a chain of some `blocks` blocks.
    pub fn make(blocks: u64) -> Result<Self> {
        let port = free_port()?;
        let anvil = node_program("anvil")?;
        let folder = crate::process::scratch("anvil")?;
        let mut command = Command::new(anvil);
        command
            .env("HOME", folder.path())
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--chain-id", "31337"])
            .args(["--no-mining", "--silent", "--order", "fifo", "--timestamp", "1700000000", "--base-fee", "1000000000"])
            .args(["--prune-history", "5", "--slots-in-an-epoch", "1", "--gas-limit", "1000000000"]);
        let node = Node::start("anvil", command, folder, port, "")?;
        let mut chain = Self { node, token: String::new(), spammer: String::new(), tip: 0 };
        chain.fill(blocks)?;
        Ok(chain)
    }

    /// A chain with this many payments to watched accounts, a thousand in each block.
    pub fn crowd(deposits: u64) -> Result<Self> {
        let mut chain = Self::make(0)?;
        let mut http = chain.node.http()?;
        for _ in 0..deposits.div_ceil(CROWD) {
            chain.pay_many(&mut http, CROWD)?;
            chain.mine(&mut http)?;
        }
        Ok(chain)
    }

    /// Payments to so many watched accounts, to be mined: a hundred in a transaction.
    pub fn pay_many(&self, http: &mut Http, count: u64) -> Result<()> {
        let accounts: Vec<String> = serde_json::from_value(call(http, "eth_accounts", json!([]))?)?;
        let spammer = Contract::named("Spammer")?;
        let all: Vec<u64> = (0..count).collect();
        for (from, part) in accounts.iter().cycle().zip(all.chunks(100)) {
            let length = u64::try_from(part.len())?;
            let mut words =
                vec![account_word(&self.token), number_word(0), number_word(4 * 32), number_word(1), number_word(length)];
            words.extend(part.iter().map(|n| account_word(&watched(n % WATCHED))));
            let data = spammer.data("spam(address,uint256,address[],uint256)", &words)?;
            let request = json!([{ "from": from, "to": self.spammer, "data": data, "gas": "0x5f5e100" }]);
            call(http, "eth_sendTransaction", request)?;
        }
        Ok(())
    }

    /// A payment to a watched account, to be mined; its transaction's hash.
    pub fn pay(&self, http: &mut Http, account: u64) -> Result<String> {
        let data = Contract::named("MiniToken")?
            .data("transfer(address,uint256)", &[account_word(&watched(account)), number_word(account + 1)])?;
        let accounts = call(http, "eth_accounts", json!([]))?;
        let request = json!([{ "from": accounts.get(0), "to": self.token, "data": data, "gas": "0x30d40" }]);
        let hash = call(http, "eth_sendTransaction", request)?;
        Ok(hash.as_str().context("no hash")?.to_owned())
    }

    /// Mines what waits.
    pub fn mine(&mut self, http: &mut Http) -> Result<()> {
        call(http, "evm_mine", json!([]))?;
        self.tip += 1;
        Ok(())
    }

    /// Mines so many empty blocks at once.
    pub fn mine_many(&mut self, http: &mut Http, blocks: u64) -> Result<()> {
        call(http, "anvil_mine", json!([hex(blocks), "0xc"]))?;
        self.tip += blocks;
        Ok(())
    }

    /// Replaces the last `depth` blocks by others.
    pub fn reorg(&self, http: &mut Http, depth: u64) -> Result<()> {
        call(http, "anvil_reorg", json!([depth, []])).map(drop)
    }

    fn fill(&mut self, blocks: u64) -> Result<()> {
        let mut http = self.node.http()?;
        let accounts: Vec<String> = serde_json::from_value(call(&mut http, "eth_accounts", json!([]))?)?;
        call(&mut http, "anvil_setBlockTimestampInterval", json!([12]))?;
        let token = Contract::named("MiniToken")?;
        self.token = self.deploy(&mut http, &accounts, &token)?;
        let spammer = Contract::named("Spammer")?;
        let spam = self.deploy(&mut http, &accounts, &spammer)?;
        self.spammer.clone_from(&spam);
        for holder in accounts.iter().chain([&spam]) {
            let data = token.data("mint(address,uint256)", &[account_word(holder), number_word(1 << 60)])?;
            call(
                &mut http,
                "eth_sendTransaction",
                json!([{ "from": accounts.first(), "to": self.token, "data": data, "gas": "0x30d40" }]),
            )?;
            call(&mut http, "evm_mine", json!([]))?;
        }
        for block in 0..blocks {
            let mut batch = Vec::new();
            for (n, from) in (0u64..).zip(accounts.iter().take(usize::try_from(TRANSFERS)?)) {
                let payment = block * TRANSFERS + n;
                let to = if n == block % TRANSFERS { watched(block % WATCHED) } else { other(payment % OTHERS) };
                // A third of the payments stand behind one to three foreign logs.
                let (on, data) = match payment % 3 {
                    0 => {
                        // The list of recipients begins behind the four words before it.
                        let words = [
                            account_word(&self.token),
                            number_word(payment % 9 / 3 + 1),
                            number_word(4 * 32),
                            number_word(payment + 1),
                            number_word(1),
                            account_word(&to),
                        ];
                        (&spam, spammer.data("spam(address,uint256,address[],uint256)", &words)?)
                    }
                    _ => (&self.token, token.data("transfer(address,uint256)", &[account_word(&to), number_word(payment + 1)])?),
                };
                batch.push(json!({ "jsonrpc": "2.0", "id": n, "method": "eth_sendTransaction",
                    "params": [{ "from": from, "to": on, "data": data, "gas": "0x30d40" }] }));
            }
            http.post(&Value::from(batch).to_string())?;
            call(&mut http, "evm_mine", json!([]))?;
        }
        self.tip = number(&call(&mut http, "eth_blockNumber", json!([]))?)?;
        Ok(())
    }

    fn deploy(&self, http: &mut Http, accounts: &[String], contract: &Contract) -> Result<String> {
        let request = json!([{ "from": accounts.first(), "data": contract.bytecode()?, "gas": "0x2dc6c0" }]);
        let hash = call(http, "eth_sendTransaction", request)?;
        call(http, "evm_mine", json!([]))?;
        let receipt = call(http, "eth_getTransactionReceipt", json!([hash]))?;
        Ok(receipt.get("contractAddress").and_then(Value::as_str).context("nothing was deployed")?.to_owned())
    }

    /// The bare filtered logs of the watched accounts, in ranges; bodies are not decoded.
    pub fn floor_filtered(&self) -> Result<Figure> {
        let words: Vec<String> = (0..WATCHED).map(|n| word(&watched(n))).collect();
        self.floor(&json!([TRANSFER, null, words]), false)
    }

    /// The bare logs of every transfer and batched headers of every block.
    pub fn floor_all(&self) -> Result<Figure> {
        self.floor(&json!([TRANSFER]), true)
    }

    fn floor(&self, topics: &Value, headers: bool) -> Result<Figure> {
        measured(self.node.pid(), || {
            let mut http = self.node.http()?;
            let mut found = 0;
            let mut from = 1;
            while from <= self.tip {
                let to = self.tip.min(from + RANGE - 1);
                let filter = json!([{ "fromBlock": hex(from), "toBlock": hex(to), "address": self.token, "topics": topics }]);
                let body =
                    http.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": filter }).to_string())?;
                // Counting is no part of reading: only where there is little to count.
                if !headers {
                    found += u64::try_from(body.windows(10).filter(|text| *text == b"\"logIndex\"").count())?;
                } else {
                    let batch: Vec<Value> = (from..=to)
                        .map(|height| json!({ "jsonrpc": "2.0", "id": height, "method": "eth_getBlockByNumber", "params": [hex(height), false] }))
                        .collect();
                    http.post(&Value::from(batch).to_string())?;
                }
                from = to + 1;
            }
            Ok((http.requests, found))
        })
    }

    /// The keys of all payments to watched accounts, read from receipts alone: hash and one more than the log's place in its receipt.
    pub fn keys_by_receipts(&self) -> Result<BTreeSet<(String, u64)>> {
        let mut http = self.node.http()?;
        let words: BTreeSet<String> = (0..WATCHED).map(|n| word(&watched(n))).collect();
        let mut keys = BTreeSet::new();
        for height in 1..=self.tip {
            let receipts = call(&mut http, "eth_getBlockReceipts", json!([hex(height)]))?;
            for receipt in receipts.as_array().context("no receipts")? {
                let hash = receipt.get("transactionHash").and_then(Value::as_str).context("no hash")?;
                let logs = receipt.get("logs").and_then(Value::as_array).context("no logs")?;
                for (place, log) in (1u64..).zip(logs) {
                    let topic =
                        |n: usize| log.get("topics").and_then(|topics| topics.get(n)).and_then(Value::as_str).unwrap_or_default();
                    let of_token = log.get("address").and_then(Value::as_str) == Some(self.token.as_str());
                    if of_token && topic(0) == TRANSFER && words.contains(topic(2)) {
                        keys.insert((hash.to_owned(), place));
                    }
                }
            }
        }
        Ok(keys)
    }

    /// What a peer is told: which transfers to read.
    #[must_use]
    pub fn for_peers(&self, watched_only: bool) -> Vec<(&'static str, String)> {
        let accounts: Vec<String> = (0..if watched_only { WATCHED } else { 0 }).map(watched).collect();
        vec![("BENCH_TOKEN", self.token.clone()), ("BENCH_TIP", self.tip.to_string()), ("BENCH_WATCHED", accounts.join(","))]
    }

    /// A chain section for confirmd that watches `accounts` accounts; the first [`WATCHED`] are paid.
    #[must_use]
    pub fn section(&self, accounts: u64) -> String {
        self.section_with(accounts, 64, "")
    }

    /// The same with another `reorg_depth`, and further lines.
    #[must_use]
    pub fn section_with(&self, accounts: u64, reorg_depth: u64, lines: &str) -> String {
        let mut text = format!(
            "[chains.bench]\nkind = \"evm\"\nchain_id = 31337\nrpc = [{{ url = \"http://{}\" }}]\nconfirmations = {{ default = 1 }}\n\
             reorg_depth = {reorg_depth}\nstart = 1\ninternal_transfers = \"off\"\n\
             assets = [{{ symbol = \"MINI\", contract = \"{}\", decimals = 6 }}]\n{lines}",
            self.node.host, self.token
        );
        for n in 0..accounts {
            text.push_str(&format!("[[chains.bench.watch]]\naddress = \"{}\"\n", watched(n)));
        }
        text
    }
}

fn call(http: &mut Http, method: &str, params: Value) -> Result<Value> {
    let body = http.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string())?;
    let mut answer: Value = serde_json::from_slice(&body)?;
    let result = answer.get_mut("result").map(Value::take);
    result.with_context(|| format!("{method}: {answer}"))
}

fn watched(n: u64) -> String {
    format!("0x77{n:038x}")
}

fn other(n: u64) -> String {
    format!("0x60{n:038x}")
}

fn word(account: &str) -> String {
    format!("0x{}", account_word(account))
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

fn number(value: &Value) -> Result<u64> {
    let text = value.as_str().context("no number")?;
    Ok(u64::from_str_radix(text.trim_start_matches("0x"), 16)?)
}
