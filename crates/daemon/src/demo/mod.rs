//! `confirmd demo`

use std::process::ExitCode;

/// How the demo is shown.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// JSON: one object a line.
    #[arg(long)]
    pub json: bool,
}

/// Runs the demo. Exits with 1 if the receiver's ledger differs from the chain.
pub async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("this build has no demo (json: {})", args.json)
}
