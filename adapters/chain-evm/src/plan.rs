//! What to look for: the listed assets of a watch set, in the chain's own terms.

use alloy::primitives::Address;
use confirmd_core::{AssetId, WatchSet};
use std::collections::{BTreeMap, BTreeSet};

/// CAIP-19's namespace of a token.
pub(crate) const TOKEN_NAMESPACE: &str = "erc20";
/// CAIP-19's namespace of the chain's own coin.
pub(crate) const NATIVE_NAMESPACE: &str = "slip44";

/// Contracts to match and whether native payments count. Delisted assets are part of it while something is held for them.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) tokens: BTreeMap<Address, AssetId>,
    pub(crate) native: Option<AssetId>,
}

impl Plan {
    /// `emitters` are contracts that repeat native payments as `Transfer` logs: never a token.
    pub(crate) fn new(watch: &WatchSet, emitters: &BTreeSet<Address>) -> Self {
        let mut plan = Self { tokens: BTreeMap::new(), native: None };
        for id in watch.assets().map(|listed| &listed.asset.id) {
            match id.parts() {
                (NATIVE_NAMESPACE, _) => plan.native = Some(id.clone()),
                (TOKEN_NAMESPACE, contract) => {
                    if let Some(contract) = contract.parse().ok().filter(|contract| !emitters.contains(contract)) {
                        plan.tokens.insert(contract, id.clone());
                    }
                }
                _ => {}
            }
        }
        plan
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.native.is_none()
    }
}
