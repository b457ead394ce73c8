//! `confirmd state`

use super::args::StateCommand;
use super::{open, print, state_export, state_import};
use crate::config::{self, ConfigFile};
use crate::verify::{self, Report};
use anyhow::Context as _;
use confirmd_core::{Clock, Registry, SystemClock};
use confirmd_store_sled::OpenOptions;
use std::path::Path;
use std::process::ExitCode;

pub(super) async fn run(file: &Path, command: StateCommand, registry: &Registry) -> anyhow::Result<ExitCode> {
    let (against_nodes, json) = match command {
        StateCommand::Verify { against_nodes, json } => (against_nodes, json),
        StateCommand::Export { file: to, json } => {
            state_export::run(open::operator(file, registry).await?.as_ref(), &to, json.json).await?;
            return Ok(ExitCode::SUCCESS);
        }
        StateCommand::Import { file: from, restored, json } => {
            state_import::run(file, &from, restored, json.json, registry).await?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let file = ConfigFile::read(file)?;
    let stores = crate::run::open_state(&file.state, OpenOptions::default()).await?.stores();
    let kept_since = SystemClock.now().minus(file.state.history.0);
    let mut report = verify::verify(&stores, kept_since).await.context("read the state")?;
    if against_nodes {
        let (chains, errors) = config::build_chains(&file, registry);
        if !errors.is_empty() {
            return Err(file.faults(errors).into());
        }
        for chain in &chains {
            if let Some(state) = stores.state.load(chain.id()).await.context("read the state")? {
                verify::against_node(chain.source.as_ref(), &state, &mut report).await;
            }
        }
    }
    if json.json {
        print::json(&report)?
    } else {
        show(&report)
    }
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(report: &Report) {
    report.findings.iter().for_each(|finding| print::line(finding));
    print::line(&format!(
        "read {}, {}, {}, {}; compared {} with nodes: {}",
        print::counted(report.chains, "chain", "chains"),
        print::counted(report.held, "held deposit", "held deposits"),
        print::counted(report.events, "event", "events"),
        print::counted(report.deliveries, "open delivery", "open deliveries"),
        print::counted(report.blocks_compared, "block", "blocks"),
        match report.findings.len() {
            0 => "nothing is wrong".to_owned(),
            wrong => format!("{wrong} wrong"),
        }
    ));
}
