//! What a seed's instance is like: drawn once, the same in every life.

use anyhow::Result;

use super::chain::Chain;
use super::dice::Dice;
use super::life::{bitcoin_keys, evm_keys};

/// One chain's part of the configuration.
#[derive(Debug)]
pub(super) struct PlannedChain {
    pub(super) endpoints: u64,
    pub(super) attempts: u64,
    pub(super) poll_ms: u64,
    pub(super) fork_grace_s: u64,
    /// The adapter's own keys.
    pub(super) keys: String,
}

/// The whole.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) chains: Vec<PlannedChain>,
    /// Waits between attempts, per webhook, as TOML.
    pub(super) retries: [&'static str; 2],
    pub(super) concurrency: u64,
    /// Whether one consumer hears of one chain only.
    pub(super) shop_hears_one: bool,
    /// Whether an operator who accepts a reorg below the floor has settled deposits taken back, too.
    pub(super) revert_settled: bool,
    /// What the world does before it calms down.
    pub(super) actions: u64,
    /// One in so many lives has a crash coming; 0: none.
    pub(super) crashes_percent: u64,
}

const RETRIES: [&str; 3] =
    [r#"["1s", "5s", "20s", "60s"]"#, r#"["500ms", "2s"]"#, r#"["1s", "1s", "2s", "4s", "8s", "16s", "32s", "64s"]"#];

/// Draws plan and chains.
pub(super) fn draw(dice: &Dice) -> Result<(Plan, Vec<Chain>)> {
    let depth = |dice: &Dice| dice.between(4, 9);
    let few = |dice: &Dice| dice.between(1, 4);
    let (bitcoin_confirmations, ethereum, base) = (few(dice), few(dice), few(dice));
    let bitcoin = Chain::bitcoin(depth(dice), bitcoin_confirmations)?;
    let coin_chain = Chain::evm("ethereum", 31_337, true, depth(dice), ethereum);
    let token_chain = Chain::evm("base", 8_453, false, depth(dice), base);
    token_chain.finality(dice.between(1, 4));
    let base_confirmations = match dice.below(3) {
        0 => format!("{{ default = {base} }}"),
        1 => format!("{{ default = {{ at_least = {base}, tag = \"finalized\" }} }}"),
        _ => format!("{{ default = {{ at_least = {base}, tag = \"safe\" }} }}"),
    };
    let keys = [
        bitcoin_keys(bitcoin_confirmations),
        evm_keys(31_337, true, &format!("{{ default = {ethereum} }}")),
        evm_keys(8_453, false, &base_confirmations),
    ];
    let chains = keys.map(|keys| PlannedChain {
        endpoints: if dice.percent(40) { 2 } else { 1 },
        attempts: dice.between(1, 4),
        poll_ms: dice.between(2_000, 8_000),
        fork_grace_s: dice.between(5, 120),
        keys,
    });
    let retry = |dice: &Dice| dice.pick(&RETRIES).copied().unwrap_or(r#"["1s"]"#);
    let plan = Plan {
        chains: chains.into(),
        retries: [retry(dice), retry(dice)],
        concurrency: dice.between(1, 6),
        shop_hears_one: dice.percent(40),
        revert_settled: dice.percent(75),
        actions: dice.between(20, 70),
        crashes_percent: dice.pick(&[0, 50, 80, 100]).copied().unwrap_or(80),
    };
    Ok((plan, vec![bitcoin, coin_chain, token_chain]))
}
