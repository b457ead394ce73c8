//! `[chains.NAME]` of an EVM network.

use crate::address::parse_account;
use crate::plan::TOKEN_NAMESPACE;
use alloy::primitives::{Address, B256, address};
use confirmd_core::{Asset, AssetId, ChainContext, ChainId, ConfigError, ListedAsset, parse_table};
use confirmd_rpc::{EndpointConfig, Limits, PushUrl};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::num::NonZeroU64;

/// EIP-7708: native payments show as `Transfer` logs of this account.
pub(crate) const SYSTEM_EMITTER: Address = address!("fffffffffffffffffffffffffffffffffffffffe");
/// Enough to be quick, small enough for most providers and for memory.
const LOG_RANGE_MAX: NonZeroU64 = NonZeroU64::new(500).expect("invariant: 500 is not zero");
/// 2^256 has 78 digits.
const DECIMALS_MAX: u8 = 77;

/// The keys below `[chains.NAME]` that are ours.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvmConfig {
    /// EIP-155 chain id; the node must serve it.
    pub(crate) chain_id: NonZeroU64,
    /// Endpoints, the first one preferred.
    pub(crate) rpc: Vec<EndpointConfig>,
    /// Bounds of every call, per endpoint.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// The chain's own coin. Left out: native payments are not watched, and no whole blocks are read.
    #[serde(default)]
    native: Option<NativeConfig>,
    /// Tokens that count. Nothing else does, whatever its symbol says.
    #[serde(default)]
    assets: Vec<TokenConfig>,
    /// Payments made by contracts, which only traces show.
    #[serde(default)]
    pub(crate) internal_transfers: InternalTransfers,
    /// Whether beacon withdrawals (EIP-4895) to watched addresses are deposits.
    #[serde(default)]
    pub(crate) withdrawals: bool,
    /// Further contracts that repeat native payments as `Transfer` logs, and so are no tokens.
    #[serde(default)]
    native_log_emitters: Vec<String>,
    /// Hash of block 0, where another network has the same chain id.
    #[serde(default)]
    pub(crate) genesis: Option<B256>,
    /// Blocks per `eth_getLogs` far below the tip; default 500.
    #[serde(default = "log_range_max")]
    pub(crate) log_range_max: NonZeroU64,
    /// The node's WebSocket, which tells of new heads.
    #[serde(default)]
    pub(crate) push: Option<PushUrl>,
}

/// `internal_transfers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InternalTransfers {
    /// Where the node offers traces; `check` says whether it does.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always; a node without traces halts the chain.
    Required,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct NativeConfig {
    symbol: String,
    #[serde(default = "ether_decimals")]
    decimals: u8,
    #[serde(default = "ether_slip44")]
    slip44: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenConfig {
    symbol: String,
    contract: String,
    decimals: u8,
}

fn log_range_max() -> NonZeroU64 {
    LOG_RANGE_MAX
}

fn ether_decimals() -> u8 {
    18
}

fn ether_slip44() -> u32 {
    60
}

/// What the checked configuration means.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: EvmConfig,
    pub(crate) chain: ChainId,
    pub(crate) assets: Vec<ListedAsset>,
    pub(crate) emitters: BTreeSet<Address>,
}

impl Settings {
    /// Errors name the key below `[chains.NAME]`.
    pub(crate) fn parse(context: &ChainContext, table: toml::Table) -> Result<Self, ConfigError> {
        let config: EvmConfig = parse_table(table)?;
        let chain = chain_id(config.chain_id.get());
        let emitters = emitters(&config)?;
        let assets = assets(&config, &chain, &emitters)?;
        if assets.is_empty() {
            let problem = "nothing to watch for; list tokens here, or the chain's coin: native = { symbol = \"ETH\" }";
            return Err(ConfigError::new("assets", problem));
        }
        let native_only = [
            ("withdrawals", config.withdrawals),
            ("internal_transfers", config.internal_transfers == InternalTransfers::Required),
        ];
        if let Some((key, _)) = native_only.iter().find(|(_, asked)| *asked && config.native.is_none()) {
            let problem = "these are payments in the chain's own coin, which is not watched; add native = { symbol = \"ETH\" }";
            return Err(ConfigError::new(*key, problem));
        }
        if let Some(symbol) = context.requirements.keys().find(|symbol| !assets.iter().any(|asset| asset.symbol == **symbol)) {
            let known: Vec<_> = assets.iter().map(|asset| asset.symbol.as_str()).collect();
            return Err(ConfigError::new(
                format!("confirmations.{symbol}"),
                format!("no such asset here; known: default, {}", known.join(", ")),
            ));
        }
        let assets = assets.into_iter().map(|asset| context.list(asset)).collect();
        Ok(Self { config, chain, assets, emitters })
    }
}

/// `eip155:N`.
pub(crate) fn chain_id(number: u64) -> ChainId {
    ChainId::new(format!("eip155:{number}")).expect("invariant: a namespace and at most 20 digits")
}

fn emitters(config: &EvmConfig) -> Result<BTreeSet<Address>, ConfigError> {
    let mut emitters = BTreeSet::from([SYSTEM_EMITTER]);
    for (n, text) in config.native_log_emitters.iter().enumerate() {
        let account = parse_account(text)
            .map_err(|problem| ConfigError::new(format!("native_log_emitters[{n}]"), refusal(text, &problem)))?;
        emitters.insert(account);
    }
    Ok(emitters)
}

fn assets(config: &EvmConfig, chain: &ChainId, emitters: &BTreeSet<Address>) -> Result<Vec<Asset>, ConfigError> {
    let mut assets: Vec<Asset> = Vec::new();
    if let Some(native) = &config.native {
        check(&native.symbol, native.decimals, &assets).map_err(|error| error.below("native"))?;
        let id = AssetId::native(chain, native.slip44).expect("invariant: a chain id and a number");
        assets.push(Asset { id, symbol: native.symbol.clone(), decimals: native.decimals });
    }
    for (n, token) in config.assets.iter().enumerate() {
        let asset = token_asset(token, chain, emitters, &assets).map_err(|error| error.below(&format!("assets[{n}]")))?;
        assets.push(asset);
    }
    Ok(assets)
}

fn token_asset(
    token: &TokenConfig,
    chain: &ChainId,
    emitters: &BTreeSet<Address>,
    others: &[Asset],
) -> Result<Asset, ConfigError> {
    check(&token.symbol, token.decimals, others)?;
    let contract =
        parse_account(&token.contract).map_err(|problem| ConfigError::new("contract", refusal(&token.contract, &problem)))?;
    if emitters.contains(&contract) {
        let problem = "its Transfer logs repeat native payments (native_log_emitters): listing it would count each of them twice; use native instead";
        return Err(ConfigError::new("contract", problem));
    }
    // Lower case, as CAIP-19 references are compared as text.
    let id = AssetId::token(chain, TOKEN_NAMESPACE, &format!("{contract:#x}")).expect("invariant: a chain id and 42 characters");
    if others.iter().any(|other| other.id == id) {
        return Err(ConfigError::new("contract", format!("{} is listed twice; keep one entry", token.contract)));
    }
    Ok(Asset { id, symbol: token.symbol.clone(), decimals: token.decimals })
}

fn check(symbol: &str, decimals: u8, others: &[Asset]) -> Result<(), ConfigError> {
    if symbol.is_empty() || symbol.len() > 32 || !symbol.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(ConfigError::new(
            "symbol",
            format!("{symbol:?} is not a symbol: 1 to 32 printable characters without spaces"),
        ));
    }
    if symbol == "default" || others.iter().any(|other| other.symbol == symbol) {
        return Err(ConfigError::new("symbol", format!("{symbol:?} is taken; symbols are unique within a chain")));
    }
    if decimals > DECIMALS_MAX {
        return Err(ConfigError::new(
            "decimals",
            format!("{decimals} is more than the {DECIMALS_MAX} that 256 bits have room for"),
        ));
    }
    Ok(())
}

fn refusal(text: &str, problem: &str) -> String {
    format!("{:?} is not an address: {problem}", text.chars().take(120).collect::<String>())
}

#[cfg(test)]
mod tests;
