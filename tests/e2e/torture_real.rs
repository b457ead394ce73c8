//! The torture run outside, a few rounds of it; and that it would notice.

use anyhow::{Result, ensure};
use e2e::torture::real::{RealOptions, Rule, run_with};
use e2e::{Needs, node_trial};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil, Needs::Litecoind];
    vec![
        node_trial("torture_real::five_rounds_against_real_nodes_lose_duplicate_and_misorder_nothing", needs, five),
        node_trial("torture_real::a_consumer_that_ignores_reverts_is_found_out", needs, wrong),
    ]
}

async fn five() -> Result<()> {
    let tally = run_with(RealOptions { rounds: 5, ..RealOptions::default() }).await?;
    ensure!(tally.holds(), "{tally}");
    let happened = [tally.ticks, tally.reorgs, tally.crashes, tally.deliveries];
    ensure!(happened.iter().all(|count| *count >= 5), "too little happened: {tally}");
    Ok(())
}

async fn wrong() -> Result<()> {
    let tally = run_with(RealOptions { rounds: 1, from: 1, rule: Rule::IgnoresReverts }).await?;
    ensure!(tally.unreverted > 0, "nothing was found: {tally}");
    Ok(())
}
