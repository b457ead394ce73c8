//! One life of the instance: the daemon's own composition over connections in memory.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use confirmd::config::{Config, ConfigFile};
use confirmd::{Embedded, EmbeddedOptions};
use confirmd_core::{
    ChainContext, ChainKind, ChainSource, Clock, ConfigError, Registry, Sink, SinkContext, SinkKind, parse_table,
};
use confirmd_rpc::{RpcClient, RpcClientBuilder};
use confirmd_sink_file::FileSink;
use confirmd_sink_webhook::WebhookSink;
use confirmd_store_sled::{OpenOptions, Step, Steps, Threads};

use super::crash::STATE;
use super::payment::{ACCOUNTS, COIN_ADDRESSES, TOKEN};
use super::plan::Plan;
use super::shelf::Shelf;
use super::wire::Wires;
use super::world::{RECEIVERS, SECRET, World, node_host};

thread_local! {
    /// A kind's `build` is a plain function: this is how it finds the world it builds for. One run has one thread.
    static PRESENT: RefCell<Option<Wires>> = const { RefCell::new(None) };
}

/// Small: a run's state is.
const CACHE_BYTES: u64 = 4 << 20;

fn present() -> Result<Wires, ConfigError> {
    PRESENT.with_borrow(Clone::clone).ok_or_else(|| ConfigError::new("kind", "no simulation runs on this thread"))
}

fn rpc() -> Result<RpcClientBuilder, ConfigError> {
    let wires = present()?;
    let seed = wires.world.luck.below(u64::MAX);
    Ok(RpcClient::builder().connector(wires).jitter_seed(seed))
}

fn bitcoin(context: ChainContext, table: toml::Table) -> Result<Arc<dyn ChainSource>, ConfigError> {
    confirmd_chain_bitcoin::build_over(rpc()?, context, table)
}

fn evm(context: ChainContext, table: toml::Table) -> Result<Arc<dyn ChainSource>, ConfigError> {
    confirmd_chain_evm::build_over(rpc()?, context, table)
}

fn webhook(context: SinkContext, table: toml::Table) -> Result<Arc<dyn Sink>, ConfigError> {
    let wires = present()?;
    let clock: Arc<dyn Clock> = wires.world.clock.clone();
    Ok(Arc::new(WebhookSink::over(wires, &context.consumer, &parse_table(table)?, clock)?))
}

fn file(_: SinkContext, table: toml::Table) -> Result<Arc<dyn Sink>, ConfigError> {
    let Wires { world, life } = present()?;
    let file = FileSink::new(&parse_table(table)?)?.in_place();
    Ok(Arc::new(Shelf { file, world, life }))
}

/// The shipped kinds, over this run's wires.
fn registry() -> Registry {
    Registry::default()
        .with_chain(ChainKind { build: bitcoin, ..confirmd_chain_bitcoin::KIND })
        .with_chain(ChainKind { build: evm, ..confirmd_chain_evm::KIND })
        .with_sink(SinkKind { build: webhook, ..confirmd_sink_webhook::KIND })
        .with_sink(SinkKind { build: file, ..confirmd_sink_file::KIND })
}

/// Starts the instance on the present life's files.
pub(super) async fn start(world: &Arc<World>, plan: &Plan) -> Result<Embedded> {
    let life = world.lives.present();
    let folder = world.lives.folder();
    let path = folder.join("confirmd.toml");
    std::fs::write(folder.join("secret"), SECRET)?;
    std::fs::write(&path, configuration(world, plan)?)?;
    PRESENT.set(Some(Wires { world: world.clone(), life }));
    let built = ConfigFile::read(&path).map_err(anyhow::Error::from).and_then(|file| Ok(Config::build(file, &registry())?));
    PRESENT.set(None);
    let config = built.context("the run's configuration")?;
    let told = world.clone();
    let steps = Steps::to(move |step| {
        if told.lives.counts(life) {
            if step == Step::Synced {
                told.lives.synced();
            }
            // Between these two the database's own threads may be writing: a copy made then would not be the same every time. A crash
            // there is one of those that leave only what was synced.
            if step == Step::Applied && !told.lives.by_power_cut() {
                told.record.fact(&told.clock, "Applied", b"");
            } else {
                told.point(&format!("{step:?}"));
            }
        }
    });
    let store = OpenOptions {
        // A crash may come before the first start has made a state: nothing was promised then.
        init: true,
        restored: false,
        cache_bytes: CACHE_BYTES,
        watch_log_max: 2,
        clock: world.clock.clone(),
        threads: Threads::Callers,
        steps,
    };
    Embedded::start(&config, EmbeddedOptions { store, clock: world.clock.clone() }).await
}

fn configuration(world: &World, plan: &Plan) -> Result<String> {
    let folder = world.lives.folder();
    let mut text = format!("[state]\npath = {:?}\n", folder.join(STATE));
    for (chain, planned) in world.chains.iter().zip(&plan.chains) {
        let name = chain.name;
        let endpoints: Vec<_> =
            (0..planned.endpoints).map(|n| format!("{{ url = \"http://{}/\" }}", node_host(name, n))).collect();
        write!(
            text,
            "\n[chains.{name}]\nrpc = [{}]\nlimits = {{ requests_per_second = 1000, attempts = {}, deadline = \"15s\", request_timeout = \"4s\" }}\n\
             reorg_depth = {}\nstart = 1\npoll_interval = \"{}ms\"\nfork_grace = \"{}s\"\n{}\n",
            endpoints.join(", "),
            planned.attempts,
            chain.reorg_depth,
            planned.poll_ms,
            planned.fork_grace_s,
            planned.keys,
        )?;
    }
    for (name, retry) in RECEIVERS.iter().zip(&plan.retries) {
        let filter = if *name == "shop" && plan.shop_hears_one { "chains = [\"base\"]\n" } else { "" };
        write!(
            text,
            "\n[sinks.{name}]\nkind = \"webhook\"\nurl = \"http://{name}.test/hooks\"\nsecret = {{ file = {:?} }}\n\
             timeout = \"10s\"\nconcurrency = {}\nretry = {retry}\n{filter}",
            folder.join("secret"),
            plan.concurrency,
        )?;
    }
    write!(text, "\n[sinks.archive]\nkind = \"file\"\npath = {:?}\n", folder.join("events.jsonl"))?;
    Ok(text)
}

/// The keys of the Bitcoin chain that are its adapter's own, and whom it watches.
pub(super) fn bitcoin_keys(confirmations: u64) -> String {
    let watch: Vec<_> = COIN_ADDRESSES.iter().map(|(address, _)| format!("{{ address = \"{address}\" }}")).collect();
    format!(
        "kind = \"bitcoin\"\nnetwork = \"regtest\"\nconfirmations = {{ default = {confirmations} }}\nwatch = [{}]",
        watch.join(", ")
    )
}

/// The keys of an EVM chain.
pub(super) fn evm_keys(id: u64, coin: bool, confirmations: &str) -> String {
    let watch: Vec<_> =
        ACCOUNTS.iter().enumerate().map(|(n, a)| format!("{{ address = \"{a:#x}\", reference = \"customer-{n}\" }}")).collect();
    let own =
        "native = { symbol = \"ETH\", decimals = 18, slip44 = 60 }\ninternal_transfers = \"required\"\nwithdrawals = true\n";
    format!(
        "kind = \"evm\"\nchain_id = {id}\nconfirmations = {confirmations}\n{}assets = [{{ symbol = \"USDX\", contract = \"{TOKEN:#x}\", decimals = 6 }}]\nwatch = [{}]",
        if coin { own } else { "" },
        watch.join(", ")
    )
}
