//! Opens the state, and checks that it belongs to this configuration.

use crate::config::{Backend, Config, SharedKeys, StateSection};
use crate::operator::Stores;
use anyhow::{Context as _, bail};
use confirmd_api::Client;
use confirmd_api::client::Found;
use confirmd_core::{StateStore, StoreError, StoreImport};
use confirmd_store_postgres::{PgOptions, PgStore};
use confirmd_store_sled::{OpenOptions, SledStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long a process that holds the state without an API may take to end or to offer one.
const HELD_FOR: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Waits while somebody holds the state and no instance answers: a command that looks at it, an instance that starts or stops.
pub(crate) async fn until_free_or_answering(path: &Path) {
    let waited = async {
        while SledStore::is_in_use(path) && !matches!(Client::find(path).await, Found::Running(_)) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let _ = tokio::time::timeout(HELD_FOR, waited).await;
}

/// An open state, wherever it is.
#[derive(Debug, Clone)]
pub(crate) enum OpenState {
    /// In a folder, ours alone.
    Sled(Arc<SledStore>),
    /// In PostgreSQL, shared.
    Postgres(Arc<PgStore>),
}

impl OpenState {
    /// Its contracts.
    pub(crate) fn stores(&self) -> Stores {
        match self {
            Self::Sled(store) => Stores::of(store.clone()),
            Self::Postgres(store) => Stores { sharing: Some(store.clone()), ..Stores::of(store.clone()) },
        }
    }

    /// What a chain's watcher sees of it.
    pub(crate) fn state(&self) -> &dyn StateStore {
        match self {
            Self::Sled(store) => store.as_ref(),
            Self::Postgres(store) => store.as_ref(),
        }
    }

    /// Other instances' decisions wake the pumps, too.
    pub(crate) fn wake_on_events(&self, wake: &Arc<Notify>) {
        if let Self::Postgres(store) = self {
            store.wake_on_events(wake.clone());
        }
    }

    /// Lets the state go in order.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        match self {
            Self::Sled(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}

/// Opens the state. Errors say what to do.
pub(crate) async fn open(section: &StateSection, options: OpenOptions) -> anyhow::Result<OpenState> {
    let path = &section.path;
    until_free_or_answering(path).await;
    match section.backend {
        Backend::Sled => {
            let store = SledStore::open(path, options).await;
            Ok(OpenState::Sled(Arc::new(store.context("the state can't be opened (state.path)")?)))
        }
        Backend::Postgres => {
            std::fs::create_dir_all(path)
                .with_context(|| format!("make the instance's folder {} (state.path)", path.display()))?;
            let (server, shared) = SharedKeys::server(section)?;
            let shared = PgOptions { init: options.init, restored: options.restored, clock: options.clock, ..shared };
            let store = PgStore::open(server, shared).await;
            Ok(OpenState::Postgres(Arc::new(store.context("the state can't be opened (state.url)")?)))
        }
    }
}

/// Begins to make the configured state from a dump, where there is none. `restored`: it takes a new epoch.
pub(crate) async fn import(section: &StateSection, restored: bool) -> anyhow::Result<Box<dyn StoreImport>> {
    Ok(match section.backend {
        Backend::Sled => SledStore::import(&section.path, OpenOptions { restored, ..OpenOptions::default() }).await?,
        Backend::Postgres => {
            let (server, options) = SharedKeys::server(section)?;
            PgStore::import(server, PgOptions { restored, ..options }).await?
        }
    })
}

/// Refuses a state that knows a configured chain's name as another network; warns of chains that are not configured.
pub(super) async fn belongs_to(config: &Config, stores: &Stores) -> anyhow::Result<()> {
    for id in stores.state.chains().await.context("read the chains of the state")? {
        if config.chains.iter().any(|chain| *chain.id() == id) {
            continue;
        }
        let state = stores.state.load(&id).await.with_context(|| format!("read the state of {id}"))?;
        let Some(name) = state.and_then(|state| state.name) else { continue };
        if let Some(chain) = config.chains.iter().find(|chain| chain.name == name) {
            bail!(
                "chains.{name} is {} now, but the state in {} was made for {id} under this name; set the network back, give the entry another name, or use another `state.path`",
                chain.id(),
                config.file.state.path.display()
            );
        }
        tracing::warn!(chain = %name, id = %id, "the state has a chain that is not configured: it is not watched");
    }
    Ok(())
}
