//! What an operator can ask and order, carried out on the watchers and the store: of a running instance, or of a state
//! that no instance runs on.

mod chains;
mod deliveries;
mod deposits;
mod events;
mod explain;
mod export;
mod lives;
mod reasons;
mod rescans;
mod status;
mod watching;

pub(crate) use chains::{ChainSlot, Chains};

use crate::stop::Stop;
use async_trait::async_trait;
use confirmd_api::view::{
    ChainDetail, ConfigurationView, ConsumerView, Counted, Coverage, CoverageQuery, CursorView, DeadGroup, DeadQuery,
    DeliveryDetail, DeliveryQuery, DeliveryView, DepositLife, DepositQuery, DepositView, EventsPage, EventsQuery, ExplainQuery,
    Explanation, PutCursor, Reloaded, Replay, Requeue, RescanOrder, RescanRequest, RescanView, ResumeRequest, ResumeView,
    SettledView, Status, TestResult, WatchAdded, WatchQuery, WatchRequest, Watched,
};
use confirmd_api::{DumpStream, Operator, OperatorError, Page};
use confirmd_core::{
    ChainName, Clock, ConsumerName, CursorName, EventId, History, NoticesWanted, Outbox, Sharing, Sink, Snapshots, StateStore,
    StoreError, Timestamp, with_causes,
};
use confirmd_engine::{Resume, ResumeReport, WatchError, offline};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{Notify, mpsc, oneshot};

/// One store by its contracts.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    /// Watcher state.
    pub state: Arc<dyn StateStore>,
    /// Deliveries.
    pub outbox: Arc<dyn Outbox>,
    /// The read model.
    pub history: Arc<dyn History>,
    /// All of it at one moment.
    pub snapshots: Arc<dyn Snapshots>,
    /// Where several instances decide on one state.
    pub sharing: Option<Arc<dyn Sharing>>,
}

impl Stores {
    /// Of one value that keeps all of them.
    pub(crate) fn of<T: StateStore + Outbox + History + Snapshots + 'static>(store: Arc<T>) -> Self {
        Self { state: store.clone(), outbox: store.clone(), history: store.clone(), snapshots: store, sharing: None }
    }
}

/// A value that a reload replaces as a whole.
#[derive(Debug, Default)]
pub(crate) struct Shared<T>(RwLock<Arc<T>>);

impl<T> Shared<T> {
    /// With this value at first.
    pub(crate) fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    /// The value as of now.
    pub(crate) fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another value from now on.
    pub(crate) fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

/// Who takes the configuration file over again answers here.
pub(crate) type ReloadAnswer = oneshot::Sender<Result<Reloaded, OperatorError>>;
/// Orders to take the configuration file over again.
pub(crate) type ReloadOrders = mpsc::Sender<ReloadAnswer>;

/// Carries an operator's orders out in this process.
#[derive(Debug)]
pub(crate) struct LocalOperator {
    /// The store.
    pub stores: Stores,
    /// The chains.
    pub chains: Chains,
    /// The kind of each configured consumer's sink.
    pub kinds: Shared<BTreeMap<ConsumerName, &'static str>>,
    /// The sinks of a running instance, for test events.
    pub sinks: Shared<BTreeMap<ConsumerName, Arc<dyn Sink>>>,
    /// How the configuration file is taken over again; `None` where nothing can.
    pub reload: Option<ReloadOrders>,
    /// What of the configuration file is in effect.
    pub configuration: Shared<Option<ConfigurationView>>,
    /// For times in records.
    pub clock: Arc<dyn Clock>,
    /// The informative events that consumers ask for.
    pub notices: Arc<NoticesWanted>,
    /// Wakes the pumps.
    pub wake: Arc<Notify>,
    /// The state's folder, for people.
    pub state_path: PathBuf,
    /// When the instance started; `None` if none runs.
    pub started_at: Option<Timestamp>,
    /// Told when the store fails.
    pub stop: Stop,
}

impl LocalOperator {
    fn running(&self) -> bool {
        self.started_at.is_some()
    }

    /// Turns a store's error into an operator's, and stops the instance if the store can't be trusted any more.
    fn store<T>(&self, result: Result<T, StoreError>) -> Result<T, OperatorError> {
        result.map_err(|error| {
            self.stop.on(&error);
            OperatorError::from(error)
        })
    }

    fn watch<T>(&self, result: Result<T, WatchError>) -> Result<T, OperatorError> {
        result.map_err(|error| match error {
            WatchError::Store(error) => {
                self.stop.on(&error);
                OperatorError::from(error)
            }
            WatchError::Source(error) => OperatorError::unavailable(with_causes(&error)),
            WatchError::Refused(text) => OperatorError::conflict(text),
            WatchError::Stopped => OperatorError::unavailable(format!("{error}; try again in a moment, or see the log")),
        })
    }

    async fn known_consumer(&self, name: &ConsumerName) -> Result<(), OperatorError> {
        self.consumer(name).await.map(drop)
    }

    async fn consumer(&self, name: &ConsumerName) -> Result<ConsumerView, OperatorError> {
        let known = self.consumers().await?;
        if let Some(found) = known.iter().find(|consumer| consumer.name == *name) {
            return Ok(found.clone());
        }
        let names: Vec<&str> = known.iter().map(|consumer| consumer.name.as_str()).collect();
        Err(OperatorError::not_found(format!("no consumer is called {name}; known: {}", names.join(", "))))
    }

    fn must_be_stopped(&self, what: &str) -> Result<(), OperatorError> {
        if self.running() {
            return Err(OperatorError::conflict(format!("an instance runs on this state; stop it, then {what} again")));
        }
        Ok(())
    }
}

/// With the chain's name in the command it proposes.
fn named(mut error: OperatorError, chain: &ChainName) -> OperatorError {
    error.text = error.text.replace("CHAIN", chain.as_str());
    error
}

fn resume_view(report: ResumeReport) -> ResumeView {
    let settled = report.settled.into_iter().map(|one| SettledView {
        height: one.height,
        key: one.key,
        event: one.event,
        reverted: one.reverted,
    });
    ResumeView { ancestor: report.ancestor, reverted: report.reverted, dropped: report.dropped, settled: settled.collect() }
}

#[async_trait]
impl Operator for LocalOperator {
    async fn status(&self) -> Result<Status, OperatorError> {
        self.read_status().await
    }

    async fn chain(&self, chain: &ChainName) -> Result<ChainDetail, OperatorError> {
        self.look_at_chain(chain).await
    }

    async fn preview(&self, chain: &ChainName, request: ResumeRequest) -> Result<ResumeView, OperatorError> {
        let slot = self.chains.get(chain)?;
        let how = Resume { accept_reorg: request.accept_reorg, revert_settled: request.revert_settled };
        let report = match slot.running(self.running())? {
            Some(handle) => handle.preview(how).await,
            None => offline::preview(self.stores.state.as_ref(), slot.source.as_ref(), self.clock.as_ref(), how).await,
        };
        self.watch(report).map(resume_view).map_err(|error| named(error, chain))
    }

    async fn deposit(&self, chain: &ChainName, tx_id: &str, output_index: u32) -> Result<DepositLife, OperatorError> {
        self.show_deposit(chain, tx_id, output_index).await
    }

    async fn explain(&self, chain: &ChainName, tx_id: &str, query: &ExplainQuery) -> Result<Explanation, OperatorError> {
        self.explain_transaction(chain, tx_id, query).await
    }

    async fn events(&self, query: &EventsQuery) -> Result<EventsPage, OperatorError> {
        self.read_events(query).await
    }

    async fn cursors(&self) -> Result<Vec<CursorView>, OperatorError> {
        self.list_cursors().await
    }

    async fn put_cursor(&self, name: &CursorName, put: PutCursor) -> Result<CursorView, OperatorError> {
        self.set_cursor(name, put).await
    }

    async fn remove_cursor(&self, name: &CursorName) -> Result<(), OperatorError> {
        match self.store(self.stores.history.remove_cursor(name).await)? {
            true => Ok(()),
            false => Err(OperatorError::not_found(format!("there is no cursor {name}"))),
        }
    }

    async fn dead_letters(&self, query: &DeadQuery) -> Result<Vec<DeadGroup>, OperatorError> {
        self.group_dead(query).await
    }

    async fn replay(&self, consumer: &ConsumerName, request: Replay) -> Result<Counted, OperatorError> {
        self.replay_events(consumer, request).await
    }

    async fn test_event(&self, consumer: &ConsumerName) -> Result<TestResult, OperatorError> {
        self.send_test(consumer).await
    }

    async fn watched(&self, query: &WatchQuery) -> Result<Page<Watched>, OperatorError> {
        self.list_watched(query).await
    }

    async fn watch_add(&self, entries: Vec<WatchRequest>) -> Result<Vec<WatchAdded>, OperatorError> {
        self.add_watched(entries).await
    }

    async fn rescans(&self, chain: &ChainName) -> Result<Vec<RescanView>, OperatorError> {
        self.list_rescans(chain).await
    }

    async fn rescan(&self, chain: &ChainName, request: RescanRequest) -> Result<RescanView, OperatorError> {
        self.start_rescan(chain, request).await
    }

    async fn order_rescan(&self, chain: &ChainName, id: u64, order: RescanOrder) -> Result<RescanView, OperatorError> {
        self.tell_rescan(chain, id, order).await
    }

    async fn coverage(&self, chain: &ChainName, query: &CoverageQuery) -> Result<Coverage, OperatorError> {
        self.coverage_of(chain, query).await
    }

    async fn watch_remove(&self, chain: &ChainName, addresses: Vec<String>) -> Result<Counted, OperatorError> {
        self.remove_watched(chain, addresses).await
    }

    async fn deposits(&self, query: &DepositQuery) -> Result<Page<DepositView>, OperatorError> {
        self.list_deposits(query).await
    }

    async fn deliveries(&self, query: &DeliveryQuery) -> Result<Page<DeliveryView>, OperatorError> {
        self.list_deliveries(query).await
    }

    async fn delivery(&self, event: &EventId) -> Result<DeliveryDetail, OperatorError> {
        self.show_delivery(event).await
    }

    async fn requeue(&self, consumer: &ConsumerName, request: Requeue) -> Result<Counted, OperatorError> {
        self.requeue_events(consumer, request).await
    }

    async fn skip(&self, consumer: &ConsumerName, event: &EventId) -> Result<(), OperatorError> {
        self.skip_event(consumer, event).await
    }

    async fn consumers(&self) -> Result<Vec<ConsumerView>, OperatorError> {
        let known = self.store(self.stores.outbox.consumers().await)?;
        let kinds = self.kinds.get();
        let kind = |name: &ConsumerName| kinds.get(name).map(|kind| (*kind).to_owned());
        Ok(known.into_iter().map(|status| ConsumerView::new(status.clone(), kind(&status.name))).collect())
    }

    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<ConsumerView, OperatorError> {
        let before = self.consumer(consumer).await?;
        if before.paused.is_some() == why.is_some() {
            return Ok(before);
        }
        tracing::info!(sink = %consumer, why = why.as_deref(), "{}", if why.is_some() { "consumer paused" } else { "consumer resumed" });
        self.store(self.stores.outbox.pause(consumer, why).await)?;
        self.wake.notify_waiters();
        self.consumer(consumer).await
    }

    async fn rename(&self, from: &ConsumerName, to: &ConsumerName) -> Result<(), OperatorError> {
        self.must_be_stopped("rename")?;
        self.known_consumer(from).await?;
        self.store(self.stores.outbox.rename(from, to).await)
    }

    async fn purge(&self, consumer: &ConsumerName) -> Result<Counted, OperatorError> {
        self.must_be_stopped("purge")?;
        self.known_consumer(consumer).await?;
        let count = self.store(self.stores.outbox.purge(consumer).await)?;
        Ok(Counted { count })
    }

    async fn reload(&self) -> Result<Reloaded, OperatorError> {
        let Some(orders) = &self.reload else {
            return Err(OperatorError::conflict(
                "no instance runs here that could take the configuration over; it holds from the next start",
            ));
        };
        let ended = || OperatorError::unavailable("the instance is stopping; the configuration holds from the next start");
        let (answer, answered) = oneshot::channel();
        orders.send(answer).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    async fn export(&self) -> Result<DumpStream, OperatorError> {
        self.export_state().await
    }

    async fn resume(&self, chain: &ChainName, request: ResumeRequest) -> Result<ResumeView, OperatorError> {
        let slot = self.chains.get(chain)?;
        if request.accept_reorg {
            self.acknowledged(&slot, request.reorg.as_ref()).await?;
        }
        let how = Resume { accept_reorg: request.accept_reorg, revert_settled: request.revert_settled };
        let report = match slot.running(self.running())? {
            Some(handle) => handle.resume(how).await,
            None => offline::resume(self.stores.state.as_ref(), slot.source.as_ref(), self.clock.as_ref(), how).await,
        };
        let report = self.watch(report).map_err(|error| named(error, chain))?;
        tracing::info!(chain = %chain, accept_reorg = request.accept_reorg, revert_settled = request.revert_settled,
            reverted = report.reverted.len(), settled = report.settled.len(), "chain resumed by an operator");
        Ok(resume_view(report))
    }
}
