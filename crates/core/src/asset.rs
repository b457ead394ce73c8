//! What was paid: a CAIP-19 asset, with the operator's symbol for it.

use crate::text_id::{is_token, text_id};
use crate::{Amount, ChainId, Requirement, TextIdError};
use serde::{Deserialize, Serialize};

text_id!(
    /// A CAIP-19 asset id, `eip155:1/erc20:0xa0b8…` or `bip122:…/slip44:0`. Tokens are matched by it, never by symbol.
    AssetId, "a CAIP-19 asset id", "chain id, '/', namespace ':' reference",
    |text| {
        is_token(text, 200) && text.split_once('/').is_some_and(|(chain, asset)| {
            ChainId::new(chain).is_ok() && asset.split_once(':').is_some_and(|(n, r)| !n.is_empty() && !r.is_empty())
        })
    }
);

impl AssetId {
    /// The chain's own coin: `<chain>/slip44:N` with N of SLIP-44.
    pub fn native(chain: &ChainId, slip44: u32) -> Result<Self, TextIdError> {
        Self::new(format!("{chain}/slip44:{slip44}"))
    }

    /// A token, `<chain>/<namespace>:<reference>` (`erc20` and the contract in lower case, say).
    pub fn token(chain: &ChainId, namespace: &str, reference: &str) -> Result<Self, TextIdError> {
        Self::new(format!("{chain}/{namespace}:{reference}"))
    }

    /// Namespace and reference behind the slash: `("erc20", "0xa0b8…")`.
    pub fn parts(&self) -> (&str, &str) {
        let behind = self.as_str().split_once('/').map_or("", |(_, asset)| asset);
        behind.split_once(':').unwrap_or(("", ""))
    }
}

/// An asset as events name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asset {
    /// CAIP-19; decides what is matched.
    pub id: AssetId,
    /// The operator's symbol; unique within a chain. Never matched against the chain.
    pub symbol: String,
    /// Base units per coin as a power of ten; given by the operator, never read from a contract.
    pub decimals: u8,
}

/// An asset the operator accepts, with what makes a payment in it deep enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedAsset {
    /// The asset.
    pub asset: Asset,
    /// When a payment in it is deep enough.
    pub requirement: Requirement,
    /// The least that is confirmed, in base units; what is below is written down and never reported. `None`: every amount is.
    pub minimum: Option<Amount>,
    /// No longer configured: no new key is taken, what is held for it still ends.
    pub delisted: bool,
}

impl ListedAsset {
    /// The minimum that an amount does not reach; `None` if it may be confirmed.
    pub fn minimum_above(&self, amount: Amount) -> Option<Amount> {
        self.minimum.filter(|minimum| amount < *minimum)
    }
}
