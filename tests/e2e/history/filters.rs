//! A rescan with the node's compact block filters: it reads few blocks, and finds what a rescan of every block finds.

use anyhow::{Context, Result, ensure};
use e2e::{
    BitcoinFamily, COINS, ChainSection, Config, FamilyOptions, FaultProxy, Needs, SOON, SinkSection, UtxoPlan, UtxoStage,
    utxo_node,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::done;

/// Blocks behind each payment of the past.
const QUIET: u64 = 60;
const PAYMENTS: u64 = 6;

/// Calls that went through the proxy, by method.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<String, u64>>>);

impl Calls {
    fn count_on(&self, proxy: &FaultProxy) {
        let calls = self.clone();
        proxy.before(move |call| {
            let method = call["method"].as_str().unwrap_or_default().to_owned();
            *calls.0.lock().unwrap_or_else(PoisonError::into_inner).entry(method).or_default() += 1;
        });
    }

    fn of(&self, method: &str) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(method).copied().unwrap_or_default()
    }
}

/// Blocks by RPC alone, which the proxy counts.
fn config(stage: &UtxoStage, proxy: &FaultProxy, watched: &str, filters: &str) -> Config {
    let endpoint = format!("{{ url = \"{}\" }}", proxy.url());
    let chain = ChainSection::bitcoin(COINS, UtxoStage::network(&stage.node), &endpoint);
    let chain =
        chain.confirmations("default = 2").reorg_depth(6).line("rest = \"off\"").line(&format!("filters = \"{filters}\""));
    let ledger = SinkSection::webhook("ledger", &stage.customer.url()).retry(&["100ms", "500ms", "1s", "5s"]);
    Config::new().chain(chain.watch(watched, "customer-0")).sink(ledger)
}

/// The node makes its index beside everything else: waits until it has caught up.
async fn indexed(node: &BitcoinFamily) -> Result<()> {
    let tip = node.tip().await?.height;
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let info = node.rpc().call("getindexinfo", json!([])).await?;
        if info["basic block filter index"]["best_block_height"] == tip {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < end, "the index is not at {tip}: {info}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn few_blocks(kind: Needs) -> Result<()> {
    let options = FamilyOptions { extra: vec!["-blockfilterindex=1".to_owned()], ..FamilyOptions::default() };
    let node = utxo_node(kind, options).await?;
    let (watched, old) = (node.new_address().await?, node.new_address().await?);
    let since = node.tip().await?.height + 1;
    for payment in 1..=PAYMENTS {
        node.pay(&old, payment * 100_000).await?;
        // The last one is so new that its block may still change.
        node.mine(if payment < PAYMENTS { QUIET } else { 2 }).await?;
    }
    indexed(&node).await?;
    let plan = UtxoPlan { confirmations: 2, reorg_depth: 6, watch: vec![watched.clone()], ..UtxoPlan::default() };
    let mut stage = UtxoStage::prepared(node, plan).await?;
    stage.expect_from(&old, since).await?;
    let (user, password) = stage.node.credentials();
    let proxy = FaultProxy::start(&stage.node.url(), Some(&format!("{user}:{password}"))).await?;
    let calls = Calls::default();
    calls.count_on(&proxy);
    stage.service.configure(&config(&stage, &proxy, &watched, "auto"))?;
    stage.service.run().await?;
    stage.told().await?;

    let (height, before) = (since.to_string(), calls.of("getblock"));
    let add = ["watch", "add", COINS, &old, "--reference", "late", "--from-height", &height, "--json"];
    let told = stage.service.json_lines(&add).await?;
    let read = done(&stage.service, COINS, told[0]["rescan"].as_u64().context("no rescan")?).await?;
    ensure!(read["found"] == PAYMENTS, "{read}");
    let blocks = calls.of("getblock") - before;
    let all = stage.node.tip().await?.height + 1 - since;
    match kind {
        // Steps become short on a busy machine, and what is short is read whole: the first one is long.
        Needs::Knots => ensure!(calls.of("scanblocks") > 0 && blocks < all, "{blocks} of {all} blocks were read"),
        // It has such an index, and no method to look through it.
        _ => ensure!(blocks >= all, "{blocks} of {all} blocks were read"),
    }
    println!("{kind:?}: a rescan of {all} heights read {blocks} blocks");
    stage.audit().await?;

    // Every block read again by nothing but blocks finds nothing more.
    stage.service.configure(&config(&stage, &proxy, &watched, "off"))?;
    stage.service.kill_and_run().await?;
    let (before, scans) = (calls.of("getblock"), calls.of("scanblocks"));
    let told = stage.service.json_lines(&["rescan", "start", COINS, "--from-height", &height, "--json"]).await?;
    let read = done(&stage.service, COINS, told[0]["id"].as_u64().context("no rescan")?).await?;
    ensure!(read["found"] == 0, "the filters left something out: {read}");
    ensure!(calls.of("getblock") - before >= all && calls.of("scanblocks") == scans, "not every block was read: {read}");
    ensure!(stage.audit().await? == usize::try_from(PAYMENTS)?, "{}", stage.customer.describe());
    stage.customer.ensure_once()?;
    stage.service.terminate().await
}
