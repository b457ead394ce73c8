//! `confirmd consumer adopt`: another store's books become this one's.

use super::{ask, print};
use crate::config::{Config, ConfigFile};
use anyhow::{Context as _, bail};
use confirmd_core::{ConsumerName, Registry};
use confirmd_store_sled::OpenOptions;
use std::path::Path;

pub(super) async fn run(file: &Path, consumer: &ConsumerName, yes: bool, json: bool, registry: &Registry) -> anyhow::Result<()> {
    let config = Config::build(ConfigFile::read(file)?, registry)?;
    let Some(sink) = config.sinks.iter().find(|sink| sink.name() == consumer) else {
        bail!("{}: no sink is called {consumer}", config.file.path.display());
    };
    let Some(books) = sink.sink.books() else {
        bail!("sinks.{consumer}: a {} sink keeps no books; there is nothing to adopt", sink.kind);
    };
    let store = crate::run::open_state(&config.file.state, OpenOptions::default()).await?;
    let feed = crate::run::feed(store.state());
    ask::confirm(
        &format!(
            "the books of {consumer} are going to belong to the store {}; whoever feeds them now is refused from then on, and must be stopped for good",
            feed.store
        ),
        yes,
    )?;
    let before = books.adopt(&feed).await.with_context(|| format!("sinks.{consumer}"))?;
    if json {
        let belongs = |feed: &confirmd_core::Feed| serde_json::json!({ "store": feed.store.to_string(), "epoch": feed.epoch.0 });
        let before = before.as_ref().map(belongs);
        return print::json(&serde_json::json!({ "consumer": consumer, "feed": belongs(&feed), "before": before }));
    }
    let line = match before {
        Some(before) if before == feed => format!("the books of {consumer} belonged to this state already"),
        Some(before) => format!("the books of {consumer} belong to {} now; before, to {}", feed.store, before.store),
        None => format!("the books of {consumer} belong to {} now; before, to nobody", feed.store),
    };
    print::line(&line);
    Ok(())
}
