//! `[chains.NAME]`: the keys that mean the same on every chain; the rest belongs to the adapter.

use super::value::shown;
use super::{confirmations, minimum};
use confirmd_core::{
    Address, ChainContext, ChainId, ChainName, ChainSource, ConfigError, Height, HumanDuration, NewHeads, Registry, Requirement,
    SourceMeter, StartAt, parse_table,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use toml::Value;

/// Taken out before the adapter sees its table.
const COMMON: &[&str] = &[
    "kind",
    "confirmations",
    "minimum",
    "reorg_depth",
    "start",
    "poll_interval",
    "fork_grace",
    "behind_alarm",
    "span_max",
    "rescan_share",
    "watch",
];
/// A node that switched to a shorter fork usually catches up within a few blocks.
const FORK_GRACE: Duration = Duration::from_secs(300);
/// Some blocks of a slow chain, many of a fast one.
const BEHIND_ALARM: Duration = Duration::from_secs(900);

/// History is read at most so much of the time, in percent; the rest is the live watch's alone.
const RESCAN_SHARE: u32 = 50;

/// A configured chain.
#[derive(Debug)]
pub struct ChainConfig {
    /// The operator's name.
    pub name: ChainName,
    /// The adapter.
    pub kind: &'static str,
    /// Built, nothing contacted.
    pub source: Arc<dyn ChainSource>,
    /// Tells of new blocks, where the operator asked for it. Nothing contacted.
    pub new_heads: Option<Arc<dyn NewHeads>>,
    /// Counts the requests to its nodes.
    pub meter: SourceMeter,
    /// `watch`, in order.
    pub watch: Vec<ConfiguredAddress>,
    /// Percent of the time that may be spent reading history.
    pub rescan_share: u32,
}

/// An address in the configuration.
#[derive(Debug, Clone)]
pub struct ConfiguredAddress {
    /// Checked by the chain.
    pub address: Address,
    /// The operator's label.
    pub reference: Option<Arc<str>>,
    /// Its history is read from this height on.
    pub from_height: Option<Height>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    kind: Option<String>,
    confirmations: Option<Value>,
    minimum: Option<Value>,
    reorg_depth: Option<Value>,
    start: Option<Value>,
    poll_interval: Option<HumanDuration>,
    fork_grace: Option<HumanDuration>,
    behind_alarm: Option<HumanDuration>,
    span_max: Option<Value>,
    rescan_share: Option<Value>,
    #[serde(default)]
    watch: Vec<Watch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Watch {
    address: String,
    reference: Option<Arc<str>>,
    from_height: Option<u64>,
}

impl ChainConfig {
    /// Reads one table. Errors name the key below `[chains.NAME]`.
    pub(super) fn build(name: &str, mut table: toml::Table, registry: &Registry) -> Result<Self, ConfigError> {
        let name = ChainName::new(name).map_err(|error| ConfigError::new("", error.to_string()))?;
        let common: Common = parse_table(take(&mut table, COMMON))?;
        let kind = common.kind.as_deref().ok_or_else(|| missing_kind(registry.chains().map(|kind| kind.name)))?;
        let kind = registry.chain(kind)?;
        let (default_requirement, requirements) = confirmations::read(common.confirmations)?;
        let meter = SourceMeter::default();
        let rescan_share = common.rescan_share.as_ref().map_or(Ok(RESCAN_SHARE), share)?;
        let context = ChainContext {
            name: name.clone(),
            reorg_depth: reorg_depth(common.reorg_depth, default_requirement, &requirements)?,
            default_requirement,
            requirements,
            minimums: minimum::read(common.minimum)?,
            start: start(common.start)?,
            poll_interval: span(common.poll_interval, "poll_interval")?,
            fork_grace: common.fork_grace.map_or(FORK_GRACE, |span| span.0),
            behind_alarm: span(common.behind_alarm, "behind_alarm")?.unwrap_or(BEHIND_ALARM),
            span_max: common.span_max.map(|value| positive(&value, "span_max")).transpose()?,
            meter: meter.clone(),
        };
        let deep: Vec<String> = context.requirements.keys().cloned().collect();
        let small: Vec<String> = context.minimums.keys().cloned().collect();
        let new_heads = match registry.new_heads(kind.name) {
            Some(build) => build(&context, table.clone()).map_err(with_common_keys)?,
            None => None,
        };
        let source = (kind.build)(context, table).map_err(with_common_keys)?;
        check_symbols("confirmations", &deep, "default, ", source.as_ref())?;
        check_symbols("minimum", &small, "", source.as_ref())?;
        let watch = addresses(common.watch, source.as_ref())?;
        Ok(Self { name, kind: kind.name, source, new_heads, meter, watch, rescan_share })
    }

    /// Its place in the configuration.
    pub(crate) fn key(&self) -> String {
        format!("chains.{}", self.name)
    }

    /// CAIP-2.
    pub fn id(&self) -> &ChainId {
        &self.source.profile().chain
    }
}

/// Moves the named keys into a table of their own.
pub(super) fn take(table: &mut toml::Table, keys: &[&str]) -> toml::Table {
    keys.iter().filter_map(|key| table.remove_entry(*key)).collect()
}

pub(super) fn missing_kind<'a>(known: impl Iterator<Item = &'a str>) -> ConfigError {
    ConfigError::new("kind", format!("it is missing; one of: {}", known.collect::<Vec<_>>().join(", ")))
}

/// An adapter knows only its own keys; an operator wants to see all of them.
fn with_common_keys(mut error: ConfigError) -> ConfigError {
    if error.problem.contains("unknown field") {
        error.problem = format!("{}; and on every chain {}", error.problem, COMMON.join(", "));
    }
    error
}

fn positive(value: &Value, key: &str) -> Result<NonZeroU64, ConfigError> {
    let wrong = || ConfigError::new(key, format!("{} is not a whole number of at least 1", shown(value)));
    value.as_integer().and_then(|number| u64::try_from(number).ok()).and_then(NonZeroU64::new).ok_or_else(wrong)
}

fn share(value: &Value) -> Result<u32, ConfigError> {
    let wrong = || ConfigError::new("rescan_share", format!("{} is not a whole number of percent from 1 to 100", shown(value)));
    value.as_integer().and_then(|number| u32::try_from(number).ok()).filter(|number| (1..=100).contains(number)).ok_or_else(wrong)
}

fn span(span: Option<HumanDuration>, key: &str) -> Result<Option<Duration>, ConfigError> {
    match span {
        Some(HumanDuration(span)) if span.is_zero() => Err(ConfigError::new(key, "0 is not a time to wait; write \"10s\", say")),
        span => Ok(span.map(|span| span.0)),
    }
}

fn reorg_depth(
    value: Option<Value>,
    default: Requirement,
    by_symbol: &BTreeMap<String, Requirement>,
) -> Result<NonZeroU64, ConfigError> {
    let value = value.ok_or_else(|| {
        ConfigError::new(
            "reorg_depth",
            "it is missing: how many blocks may still change? Deposits below are settled and never taken back; 24 suits Bitcoin, 96 Ethereum",
        )
    })?;
    let reorg_depth = positive(&value, "reorg_depth")?;
    let all = std::iter::once(("default", &default)).chain(by_symbol.iter().map(|(symbol, one)| (symbol.as_str(), one)));
    let (symbol, deepest) = all.max_by_key(|(_, one)| one.at_least).unwrap_or(("default", &default));
    if u64::from(deepest.at_least.get()) <= reorg_depth.get() {
        return Ok(reorg_depth);
    }
    let problem = format!(
        "{reorg_depth} is below confirmations.{symbol} = {}: such a deposit would be settled before it is confirmed; raise reorg_depth to at least {}",
        deepest.at_least, deepest.at_least
    );
    Err(ConfigError::new("reorg_depth", problem))
}

fn start(value: Option<Value>) -> Result<StartAt, ConfigError> {
    match &value {
        None => Ok(StartAt::Tip),
        Some(Value::String(text)) if text == "tip" => Ok(StartAt::Tip),
        Some(Value::Integer(height)) if *height >= 1 => u64::try_from(*height)
            .map(|height| StartAt::Height(Height(height)))
            .map_err(|e| ConfigError::new("start", e.to_string())),
        Some(other) => {
            let problem = format!("{} is not a start; write \"tip\" or the first height to read, at least 1", shown(other));
            Err(ConfigError::new("start", problem))
        }
    }
}

fn check_symbols(key: &str, symbols: &[String], also: &str, source: &dyn ChainSource) -> Result<(), ConfigError> {
    let known: Vec<&str> = source.profile().assets.iter().map(|listed| listed.asset.symbol.as_str()).collect();
    match symbols.iter().find(|symbol| !known.contains(&symbol.as_str())) {
        None => Ok(()),
        Some(symbol) => {
            let problem = format!("no asset of this chain has the symbol {symbol:?}; known: {also}{}", known.join(", "));
            Err(ConfigError::new(format!("{key}.{symbol}"), problem))
        }
    }
}

fn addresses(list: Vec<Watch>, source: &dyn ChainSource) -> Result<Vec<ConfiguredAddress>, ConfigError> {
    let mut seen: BTreeMap<Address, usize> = BTreeMap::new();
    let mut out = Vec::with_capacity(list.len());
    for (index, Watch { address, reference, from_height }) in list.into_iter().enumerate() {
        let key = || format!("watch[{index}].address");
        let address = source.parse_address(&address).map_err(|error| ConfigError::new(key(), error.to_string()))?;
        if let Some(first) = seen.insert(address.clone(), index) {
            let problem = format!("{address} is listed twice, here and in watch[{first}]; remove one");
            return Err(ConfigError::new(key(), problem));
        }
        out.push(ConfiguredAddress { address, reference, from_height: from_height.map(Height) });
    }
    Ok(out)
}
