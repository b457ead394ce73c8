//! `confirmd demo`: the whole product in under a minute, with no node and nothing installed.
//!
//! Two nodes that speak the real JSON-RPC and a customer's ledger live in this process; confirmd itself is this very
//! program, started as `confirmd run` with a configuration file, so that it can be killed and started like a real one.

mod books;
mod instance;
mod stage;
mod voice;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use confirmd_testkit::Remine;
use stage::Stage;
use std::process::ExitCode;
use voice::Voice;

/// Options of `confirmd demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// One JSON object a line, for machines.
    #[arg(long)]
    pub json: bool,
    /// Keep the state's folder and say where it is.
    #[arg(long)]
    pub keep: bool,
}

/// Plays the demo. The exit code is 1 if the customer's ledger and the chains differ at the end.
pub async fn run(args: DemoArgs) -> Result<ExitCode> {
    let voice = Voice::new(args.json);
    let mut stage = Stage::set(voice, args.keep).await?;
    let played = play(&mut stage, voice).await;
    let equal = match played {
        Ok(()) => books::compare(&stage, voice),
        Err(error) => {
            stage.show_log_tail();
            return Err(error);
        }
    };
    stage.strike().await?;
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn play(stage: &mut Stage, voice: Voice) -> Result<()> {
    deposits(stage, voice).await?;
    reorg(stage, voice).await?;
    restart(stage, voice).await?;
    outage(stage, voice).await
}

/// Deposits on two chains, each confirmed at its own depth per asset.
async fn deposits(stage: &Stage, voice: Voice) -> Result<()> {
    voice.act("Deposits", "three customers pay; each asset is deep enough at its own number of confirmations");
    let btc = stage.pay_btc(50_000_000);
    let eth = stage.pay_eth("1250000000000000000")?;
    let usdx = stage.pay_usdx(250_000_000);
    let spread = stage.pay_btc_ten_times(1_000_000);
    for depth in 1..=stage::USDX_CONFIRMATIONS {
        stage.mine_both(1);
        let pending = stage.settle_down().await?;
        voice.chains(stage.heights());
        if depth == 1 {
            voice.did(&format!("{pending} deposits found, none deep enough yet"));
        }
        if depth == stage::BTC_CONFIRMATIONS {
            stage.credited("bitcoin", &btc, 1).await?;
            voice.told("alice's 0.5 BTC: 2 confirmations");
            stage.credited("bitcoin", &spread, 10).await?;
            voice.told("ten outputs to alice in one transaction: ten deposits of 0.01 BTC");
        }
        if depth == stage::ETH_CONFIRMATIONS {
            stage.credited("devnet", &eth, 1).await?;
            voice.told("bob's 1.25 ETH: 3 confirmations");
        }
    }
    stage.credited("devnet", &usdx, 1).await?;
    voice.told("carol's 250 USDX: 5 confirmations");
    Ok(())
}

/// A reorg takes a reported deposit back; later it is mined again.
async fn reorg(stage: &Stage, voice: Voice) -> Result<()> {
    voice.act("Reorg", "a payment is confirmed, the chain takes its block back, and mines it again later");
    let tx = stage.pay_btc(70_000_000);
    stage.bitcoin.mine(2);
    stage.credited("bitcoin", &tx, 1).await?;
    voice.told("alice's 0.7 BTC: confirmed (sequence 1)");
    stage.bitcoin.fork(2, Remine::Mempool);
    voice.did("the last 2 blocks are replaced by 3 others; the payment is back in the mempool");
    stage.sequence(&tx, 2).await?;
    voice.told("alice's 0.7 BTC: reverted (sequence 2); her balance is corrected");
    stage.bitcoin.mine(2);
    stage.sequence(&tx, 3).await?;
    voice.told("alice's 0.7 BTC: confirmed again in its new block (sequence 3)");
    Ok(())
}

/// Killed without warning, started again: nothing is repeated, nothing is missed.
async fn restart(stage: &mut Stage, voice: Voice) -> Result<()> {
    voice.act("Restart", "confirmd is killed (SIGKILL), chains go on without it, and it starts again");
    // A kill between the customer's answer and our record of it would deliver once more, under the same id.
    stage.settle_down().await?;
    let before = stage.accepted_ids();
    stage.confirmd.kill().await?;
    let tx = stage.pay_btc(30_000_000);
    stage.mine_both(4);
    voice.did("while it is away alice pays 0.3 BTC, and 4 blocks are mined on each chain");
    stage.start_confirmd().await?;
    stage.credited("bitcoin", &tx, 1).await?;
    voice.told("alice's 0.3 BTC, mined while nobody watched");
    stage.settle_down().await?;
    let after = stage.accepted_ids();
    let repeated: Vec<_> = before.iter().filter(|(id, count)| after.get(*id) != Some(count)).collect();
    if !repeated.is_empty() {
        bail!("events were delivered again after the restart: {repeated:?}");
    }
    voice.did(&format!("{} earlier events: none was repeated", before.len()));
    Ok(())
}

/// The customer's side is down; events wait on disk and arrive when it is back.
async fn outage(stage: &mut Stage, voice: Voice) -> Result<()> {
    voice.act("Outage", "the customer's endpoint is down; events wait on disk and are tried again");
    let failed_before = stage.confirmd.logged("delivery failed");
    stage.receiver.down().await.context("stop the receiver")?;
    let eth = stage.pay_eth("2000000000000000000")?;
    stage.mine_both(stage::ETH_CONFIRMATIONS);
    stage.confirmd.until_logged("delivery failed", failed_before + 2).await?;
    voice.did("bob's 2 ETH: confirmed, written down, and two attempts failed");
    stage.receiver.up().await.context("start the receiver again")?;
    stage.credited("devnet", &eth, 1).await?;
    voice.told("bob's 2 ETH: delivered by a retry under the same id");
    Ok(())
}
