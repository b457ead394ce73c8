//! The compiled contracts of `fixtures/contracts`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::abi::{self, Arg};

const COMPILED: &str = include_str!("../../fixtures/contracts/contracts.json");

#[derive(Deserialize)]
struct Compiled {
    contracts: BTreeMap<String, Contract>,
}

/// A contract's creation code and the selectors of its functions.
#[derive(Debug, Clone, Deserialize)]
pub struct Contract {
    /// Hex with `0x`.
    pub bytecode: String,
    selectors: BTreeMap<String, String>,
}

impl Contract {
    /// One of `MiniToken`, `Spammer`, `Splitter`, `Lookalike`.
    pub fn named(name: &str) -> Result<Self> {
        let mut compiled: Compiled = serde_json::from_str(COMPILED).context("read contracts.json")?;
        compiled.contracts.remove(name).with_context(|| format!("no contract {name} in contracts.json"))
    }

    /// Call data for a function by its signature, for example `mint(address,uint256)`.
    pub fn data(&self, signature: &str, args: &[Arg<'_>]) -> Result<String> {
        let selector = self.selectors.get(signature).with_context(|| format!("the contract has no {signature}"))?;
        abi::encode(selector, args)
    }
}

/// A contract on a chain.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// Hex with `0x`, lower case.
    pub address: String,
    /// What was deployed.
    pub contract: Contract,
}
