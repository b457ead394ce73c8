//! What is due, as the nodes themselves read their blocks: over their RPC, with none of confirmd's code.

use anyhow::{Context, Result, ensure};
use confirmd_testkit::alloy::primitives::U256;
use confirmd_testkit::receiver::LedgerKey;
use serde_json::{Value, json};

use super::books::{Due, Truth};
use crate::{Anvil, BitcoinFamily, base_units};

/// keccak256("Transfer(address,address,uint256)").
pub(super) const TRANSFER: &str = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
const FIRST_INTERNAL: u64 = 1_000_000_000;
const COINBASE_MATURITY: u64 = 100;

/// What was watched on the EVM chain.
#[derive(Debug, Clone)]
pub(super) struct EvmWatch {
    /// CAIP-2 id.
    pub(super) chain: String,
    /// Lower case.
    pub(super) addresses: Vec<String>,
    /// Token contracts, lower case.
    pub(super) tokens: Vec<String>,
    /// The first height that counts.
    pub(super) from: u64,
}

/// What was watched on the chain of the Bitcoin family.
#[derive(Debug, Clone)]
pub(super) struct CoinWatch {
    /// CAIP-2 id.
    pub(super) chain: String,
    /// Script in hex, address in the node's spelling.
    pub(super) scripts: Vec<(String, String)>,
    /// The first height that counts.
    pub(super) from: u64,
    /// Deep enough.
    pub(super) confirmations: u64,
}

/// Everything in the blocks from `from` to the tip: the robot ends with enough blocks without payments.
pub(super) async fn of_evm(anvil: &Anvil, watch: &EvmWatch) -> Result<Truth> {
    let mut truth = Truth::new();
    for height in watch.from..=anvil.tip().await?.height {
        let at = format!("{height:#x}");
        let block = anvil.rpc().call("eth_getBlockByNumber", json!([at, true])).await?;
        for transaction in list(&block, "transactions")? {
            let hash = text(transaction, "hash")?;
            let receipt = anvil.rpc().call("eth_getTransactionReceipt", json!([hash])).await?;
            if text(&receipt, "status")? != "0x1" {
                continue;
            }
            let mut add = |output_index: u64, address: &str, asset: String, amount: U256| {
                if watch.addresses.iter().any(|watched| watched == address) && amount > U256::ZERO {
                    let key = LedgerKey { chain: watch.chain.clone(), tx_id: hash.clone(), output_index };
                    truth.insert(key, Due { address: address.to_owned(), asset: Some(asset), amount, height });
                }
            };
            let coin = format!("{}/slip44:60", watch.chain);
            if let Some(to) = transaction.get("to").and_then(Value::as_str) {
                add(0, &to.to_lowercase(), coin.clone(), quantity(&text(transaction, "value")?)?);
            }
            for (place, log) in (1..).zip(list(&receipt, "logs")?) {
                let contract = text(log, "address")?.to_lowercase();
                let topics: Vec<&str> = list(log, "topics")?.iter().filter_map(Value::as_str).collect();
                if let ([topic, _, to], true) = (topics.as_slice(), watch.tokens.contains(&contract))
                    && topic.trim_start_matches("0x") == TRANSFER
                {
                    let to = format!("0x{}", to.get(26..).context("a short topic")?.to_lowercase());
                    add(place, &to, format!("{}/erc20:{contract}", watch.chain), quantity(&text(log, "data")?)?);
                }
            }
            for (place, (to, value)) in (FIRST_INTERNAL..).zip(internal(anvil, &hash).await?) {
                add(place, &to, coin.clone(), value);
            }
        }
    }
    cross_check(anvil, watch, &truth).await?;
    Ok(truth)
}

/// Recipient and wei of every internal payment, in call order.
async fn internal(anvil: &Anvil, hash: &str) -> Result<Vec<(String, U256)>> {
    let trace = anvil.rpc().call("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}])).await?;
    let mut paid = Vec::new();
    frames(&trace, &mut paid)?;
    Ok(paid)
}

fn frames(frame: &Value, paid: &mut Vec<(String, U256)>) -> Result<()> {
    for inner in frame.get("calls").and_then(Value::as_array).into_iter().flatten() {
        if inner.get("error").is_some_and(|error| !error.is_null()) {
            continue;
        }
        let value = inner.get("value").and_then(Value::as_str).map_or(Ok(U256::ZERO), quantity)?;
        let moves = matches!(text(inner, "type")?.as_str(), "CALL" | "CREATE" | "CREATE2" | "SELFDESTRUCT");
        if moves && value > U256::ZERO {
            paid.push((text(inner, "to")?.to_lowercase(), value));
        }
        frames(inner, paid)?;
    }
    Ok(())
}

/// The scan above agrees with the balances that the node keeps; the watched addresses never spend.
async fn cross_check(anvil: &Anvil, watch: &EvmWatch, truth: &Truth) -> Result<()> {
    for address in &watch.addresses {
        let balance = quantity(&anvil.rpc().text("eth_getBalance", json!([address, "latest"])).await?)?;
        let coin = format!("{}/slip44:60", watch.chain);
        let ours = truth.values().filter(|due| due.address == *address && due.asset.as_ref() == Some(&coin));
        let sum = ours.fold(U256::ZERO, |sum, due| sum.saturating_add(due.amount));
        ensure!(sum == balance, "the scan of the node's blocks gives {address} {sum} wei, its balance is {balance}");
    }
    Ok(())
}

/// Every output of the best chain that is deep enough, coinbases by their own rule.
pub(super) async fn of_coins(node: &BitcoinFamily, watch: &CoinWatch) -> Result<Truth> {
    let mut truth = Truth::new();
    let tip = node.tip().await?.height;
    for height in watch.from..=tip {
        let hash = node.block_hash(height).await?.with_context(|| format!("no block {height}"))?;
        let block = node.block(&hash, 2).await?;
        for (place, transaction) in list(&block, "tx")?.iter().enumerate() {
            let own = if place == 0 { COINBASE_MATURITY } else { 1 };
            if tip - height + 1 < watch.confirmations.max(own) {
                continue;
            }
            for output in list(transaction, "vout")? {
                let script = output.pointer("/scriptPubKey/hex").and_then(Value::as_str).context("no script")?;
                let amount = base_units(output.get("value").context("no value")?)?;
                let watched = watch.scripts.iter().find(|(watched, _)| watched == script);
                if let (Some((_, address)), true) = (watched, amount > 0) {
                    let output_index = output.get("n").and_then(Value::as_u64).context("no index")?;
                    let key = LedgerKey { chain: watch.chain.clone(), tx_id: text(transaction, "txid")?, output_index };
                    truth.insert(key, Due { address: address.clone(), asset: None, amount: U256::from(amount), height });
                }
            }
        }
    }
    Ok(truth)
}

fn list<'a>(object: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    object.get(key).and_then(Value::as_array).with_context(|| format!("no list {key} in {object}"))
}

fn text(object: &Value, key: &str) -> Result<String> {
    let text = object.get(key).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no text {key} in {object}"))?.to_owned())
}

fn quantity(hex: &str) -> Result<U256> {
    let digits = hex.trim_start_matches("0x");
    U256::from_str_radix(if digits.is_empty() { "0" } else { digits }, 16).with_context(|| format!("{hex} is no number"))
}
