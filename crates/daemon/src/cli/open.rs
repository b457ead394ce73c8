//! Finds who carries a command out: the running instance over its local port, or this process on the state itself.

use crate::config::{self, ConfigFile};
use crate::operator::{Chains, LocalOperator, Shared};
use crate::stop::Stop;
use anyhow::bail;
use confirmd_api::client::Found;
use confirmd_api::{Client, Operator};
use confirmd_core::{ConsumerName, Registry, SystemClock};
use confirmd_store_sled::OpenOptions;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;

/// The instance if one runs on the configured state, else the state itself.
pub(super) async fn operator(file: &Path, registry: &Registry) -> anyhow::Result<Box<dyn Operator>> {
    let file = ConfigFile::read(file)?;
    crate::run::until_free_or_answering(&file.state.path).await;
    match Client::find(&file.state.path).await {
        Found::Running(client) => {
            let token = file.api.token().map_err(|error| file.faults(vec![error]))?;
            Ok(Box::new(client.with_token(token)))
        }
        Found::Stuck(address) => {
            bail!("an instance runs on {} but does not answer at {address}; see its log", file.state.path.display())
        }
        Found::Nothing => Ok(Box::new(local(file, registry).await?)),
    }
}

async fn local(file: ConfigFile, registry: &Registry) -> anyhow::Result<LocalOperator> {
    // An instance that holds the state without an address is found by its lock; the store's error says so.
    let stores = crate::run::open_state(&file.state, OpenOptions::default()).await?.stores();
    let (chains, errors) = config::build_chains(&file, registry);
    let broken = file.faults(errors).to_string();
    let known_kind = |kind: &str| registry.sinks().find(|known| known.name == kind).map(|known| known.name);
    let kinds: BTreeMap<ConsumerName, &'static str> = file
        .sinks
        .iter()
        .filter_map(|(name, table)| Some((ConsumerName::new(name).ok()?, known_kind(table.get("kind")?.as_str()?)?)))
        .collect();
    Ok(LocalOperator {
        stores,
        chains: Chains::new(&chains).with_broken(file.chains.keys().cloned(), &broken),
        kinds: Shared::new(kinds),
        sinks: Shared::default(),
        reload: None,
        configuration: Shared::default(),
        clock: Arc::new(SystemClock),
        notices: Arc::default(),
        wake: Arc::new(Notify::new()),
        state_path: file.state.path,
        started_at: None,
        stop: Stop::new(),
    })
}
