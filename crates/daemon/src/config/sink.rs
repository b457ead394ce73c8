//! `[sinks.NAME]`: the keys that mean the same for every sink; the rest belongs to the adapter.

use super::ChainConfig;
use super::chain::{missing_kind, take};
use confirmd_core::{
    AssetId, ChainId, ConfigError, ConsumerFilter, ConsumerName, ConsumerSpec, ConsumerStart, HumanDuration, Notice, Registry,
    Sink, SinkContext, parse_table,
};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const COMMON: &[&str] = &["kind", "chains", "assets", "events", "start", "retry"];
/// More attempts than anyone waits for.
const RETRIES_MAX: usize = 100;

/// A configured consumer.
#[derive(Debug)]
pub struct SinkConfig {
    /// Name, filter, start.
    pub spec: ConsumerSpec,
    /// The adapter.
    pub kind: &'static str,
    /// Built, nothing contacted.
    pub sink: Arc<dyn Sink>,
    /// `retry`: the waits between attempts, where the operator chose them.
    pub retry: Option<Vec<Duration>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    kind: Option<String>,
    chains: Option<Vec<String>>,
    assets: Option<Vec<String>>,
    events: Option<Vec<String>>,
    start: Option<String>,
    retry: Option<Vec<HumanDuration>>,
}

impl SinkConfig {
    /// Reads one table. Errors name the key below `[sinks.NAME]`.
    pub(super) fn build(
        name: &str,
        mut table: toml::Table,
        registry: &Registry,
        chains: &[ChainConfig],
    ) -> Result<Self, ConfigError> {
        let name = ConsumerName::new(name).map_err(|error| ConfigError::new("", error.to_string()))?;
        let common: Common = parse_table(take(&mut table, COMMON))?;
        let kind = common.kind.as_deref().ok_or_else(|| missing_kind(registry.sinks().map(|kind| kind.name)))?;
        let kind = registry.sink(kind)?;
        let filter = filter(common.chains.as_deref(), common.assets.as_deref(), chains)?;
        let filter = ConsumerFilter { notices: notices(common.events.as_deref().unwrap_or_default())?, ..filter };
        let start = common.start.as_deref().map(start).transpose()?;
        let retry = common.retry.map(retry).transpose()?;
        let sink = (kind.build)(SinkContext { consumer: name.clone() }, table).map_err(|mut error| {
            if error.problem.contains("unknown field") {
                error.problem = format!("{}; and for every sink {}", error.problem, COMMON.join(", "));
            }
            error
        })?;
        Ok(Self { spec: ConsumerSpec { name, filter, start }, kind: kind.name, sink, retry })
    }

    /// What of a sink's table is the adapter's own.
    pub(crate) fn adapter_keys(mut table: toml::Table) -> toml::Table {
        take(&mut table, COMMON);
        table
    }

    /// Its place in the configuration.
    pub(crate) fn key(&self) -> String {
        format!("sinks.{}", self.name())
    }

    /// The consumer's name.
    pub fn name(&self) -> &ConsumerName {
        &self.spec.name
    }
}

fn start(text: &str) -> Result<ConsumerStart, ConfigError> {
    match text {
        "now" => Ok(ConsumerStart::Now),
        "beginning" => Ok(ConsumerStart::Beginning),
        other => {
            let problem =
                format!("{other:?} is not a start; write \"now\" (only new events) or \"beginning\" (all that history holds)");
            Err(ConfigError::new("start", problem))
        }
    }
}

fn retry(list: Vec<HumanDuration>) -> Result<Vec<Duration>, ConfigError> {
    if let Some(index) = list.iter().position(|wait| wait.0.is_zero()) {
        return Err(ConfigError::new(format!("retry[{index}]"), "0 is not a time to wait; write \"30s\", say"));
    }
    if list.len() > RETRIES_MAX {
        return Err(ConfigError::new("retry", format!("{} waits are too many; at most {RETRIES_MAX}", list.len())));
    }
    Ok(list.into_iter().map(|wait| wait.0).collect())
}

fn filter(
    names: Option<&[String]>,
    symbols: Option<&[String]>,
    configured: &[ChainConfig],
) -> Result<ConsumerFilter, ConfigError> {
    let chains = match names {
        None => BTreeSet::new(),
        Some([]) => return Err(ConfigError::new("chains", "the list is empty; leave the key out for every chain")),
        Some(names) => chain_ids(names, configured)?,
    };
    let assets = match symbols {
        None => BTreeSet::new(),
        Some([]) => return Err(ConfigError::new("assets", "the list is empty; leave the key out for every asset")),
        Some(symbols) => asset_ids(symbols, &chains, configured)?,
    };
    Ok(ConsumerFilter { chains, assets, ..ConsumerFilter::default() })
}

/// Confirmed and reverted events are every consumer's; what is written here comes in addition.
fn notices(words: &[String]) -> Result<BTreeSet<Notice>, ConfigError> {
    let one = |(index, word): (usize, &String)| {
        Notice::of_word(word).ok_or_else(|| {
            let problem = match word.as_str() {
                "confirmed" | "reverted" => format!("every sink gets {word} events; write only what it gets beside them"),
                _ => format!("{word:?} is not an informative event"),
            };
            let known = Notice::ALL.map(Notice::word).join(", ");
            ConfigError::new(format!("events[{index}]"), format!("{problem}; known: {known}"))
        })
    };
    words.iter().enumerate().map(one).collect()
}

fn chain_ids(names: &[String], configured: &[ChainConfig]) -> Result<BTreeSet<ChainId>, ConfigError> {
    let mut ids = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let Some(chain) = configured.iter().find(|chain| chain.name.as_str() == name) else {
            let known: Vec<&str> = configured.iter().map(|chain| chain.name.as_str()).collect();
            let problem = format!("no chain is called {name:?}; known: {}", known.join(", "));
            return Err(ConfigError::new(format!("chains[{index}]"), problem));
        };
        ids.insert(chain.id().clone());
    }
    Ok(ids)
}

/// A symbol stands for the asset of that name on every chain the consumer gets.
fn asset_ids(
    symbols: &[String],
    chains: &BTreeSet<ChainId>,
    configured: &[ChainConfig],
) -> Result<BTreeSet<AssetId>, ConfigError> {
    let wanted = configured.iter().filter(|chain| chains.is_empty() || chains.contains(chain.id()));
    let listed: Vec<_> = wanted.flat_map(|chain| chain.source.profile().assets.iter().map(|listed| &listed.asset)).collect();
    let mut ids = BTreeSet::new();
    for (index, symbol) in symbols.iter().enumerate() {
        let before = ids.len();
        ids.extend(listed.iter().filter(|asset| asset.symbol == *symbol).map(|asset| asset.id.clone()));
        if ids.len() == before && !listed.iter().any(|asset| asset.symbol == *symbol) {
            let known: BTreeSet<&str> = listed.iter().map(|asset| asset.symbol.as_str()).collect();
            let known: Vec<&str> = known.into_iter().collect();
            let problem = format!("no asset of its chains has the symbol {symbol:?}; known: {}", known.join(", "));
            return Err(ConfigError::new(format!("assets[{index}]"), problem));
        }
    }
    Ok(ids)
}
