//! Consumers whose other side keeps books: told who feeds them, and asked at the start whether they have seen more than this state.

use crate::config::{Config, SinkConfig};
use crate::operator::Stores;
use anyhow::Context as _;
use confirmd_core::{Clock, ConsumerName, Feed, Newest, SinkBooks, SinkError, StateStore, Told, with_causes};
use confirmd_engine::take_over;
use std::collections::BTreeSet;
use std::time::Duration;

/// Deposits asked for and taken over in one commit, as few as a tick's.
const PAGE: usize = 200;
/// Books that do not answer in time are asked again before anything is delivered to them.
const LIMIT: Duration = Duration::from_secs(15);

/// What a comparison of books and state found.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// The books of these consumers have seen events that the state does not know.
    pub(crate) ahead: Vec<(ConsumerName, Newest)>,
    /// These could not be asked: nothing may be delivered to them before they were.
    pub(crate) unasked: BTreeSet<ConsumerName>,
}

/// Tells every sink that keeps books who feeds it.
pub(crate) fn introduce(config: &Config, store: &dyn StateStore) {
    for books in config.sinks.iter().filter_map(|sink| sink.sink.books()) {
        books.fed_by(feed(store));
    }
}

/// This state as a consumer knows it.
pub(crate) fn feed(store: &dyn StateStore) -> Feed {
    Feed { store: store.identity(), epoch: store.epoch() }
}

/// Compares all books with the state.
pub(crate) async fn compare(config: &Config, stores: &Stores, clock: &dyn Clock) -> anyhow::Result<Compared> {
    let mut compared = Compared::default();
    for sink in &config.sinks {
        let Some(books) = sink.sink.books() else { continue };
        match ahead(books, stores, config.file.state.history.0, clock).await? {
            Ok(None) => {}
            Ok(Some(newest)) => compared.ahead.push((sink.name().clone(), newest)),
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(sink = %sink.name(), error, "its books can't be compared with the state now; nothing is delivered to it before they are");
                compared.unasked.insert(sink.name().clone());
            }
        }
    }
    Ok(compared)
}

/// The newest event of the books, if the state never decided it. An event older than history may have been forgotten here.
pub(crate) async fn ahead(
    books: &dyn SinkBooks,
    stores: &Stores,
    history: Duration,
    clock: &dyn Clock,
) -> anyhow::Result<Result<Option<Newest>, SinkError>> {
    let asked = tokio::time::timeout(LIMIT, books.newest()).await;
    let newest = match asked {
        Ok(Ok(newest)) => newest,
        Ok(Err(error)) => return Ok(Err(error)),
        Err(_) => {
            let kind = confirmd_core::SinkErrorKind::Transient { retry_after: None };
            return Ok(Err(SinkError::new(kind, format!("its books did not answer within {LIMIT:?}"))));
        }
    };
    let Some(newest) = newest else { return Ok(Ok(None)) };
    let known = stores.history.event(&newest.event).await.context("look a consumer's newest event up")?;
    let same = known.is_some_and(|record| record.position == newest.position);
    let forgotten = newest.at < clock.now().minus(history);
    Ok(Ok((!same && !forgotten).then_some(newest)))
}

/// Takes over what the books of these consumers know and the state does not.
pub(crate) async fn take_all_over(config: &Config, stores: &Stores, from: &[(ConsumerName, Newest)]) -> anyhow::Result<()> {
    for sink in config.sinks.iter().filter(|sink| from.iter().any(|(name, _)| name == sink.name())) {
        let Some(books) = sink.sink.books() else { continue };
        for chain in &config.chains {
            let taken = one_chain(sink, books, stores, chain.source.as_ref()).await;
            let (deposits, passed_over) = taken.with_context(|| format!("sinks.{}: taking its books over", sink.name()))?;
            tracing::warn!(sink = %sink.name(), chain = %chain.name, deposits, passed_over,
                "this state is an older copy: what the consumer was told since was taken over");
        }
    }
    Ok(())
}

async fn one_chain(
    sink: &SinkConfig,
    books: &dyn SinkBooks,
    stores: &Stores,
    source: &dyn confirmd_core::ChainSource,
) -> anyhow::Result<(u64, usize)> {
    let (mut after, mut deposits, mut passed_over) = (None, 0_u64, 0_usize);
    loop {
        let page = books.last_events(&source.profile().chain, after.as_ref(), PAGE).await?;
        let told: Vec<Told> = page.iter().map(|body| Told::read(body)).collect::<Result<_, _>>().map_err(anyhow::Error::msg)?;
        let Some(last) = told.last() else { return Ok((deposits, passed_over)) };
        after = Some(last.key.clone());
        let taken = take_over(stores.state.as_ref(), source, &told).await?;
        deposits = deposits.saturating_add(taken.deposits);
        passed_over = passed_over.saturating_add(taken.passed_over.len());
        for why in taken.passed_over {
            tracing::error!(sink = %sink.name(), why, "a deposit of the consumer's books can't be taken over: look at it by hand");
        }
    }
}
