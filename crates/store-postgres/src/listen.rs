//! What instances tell each other: notifications where the server has them, and a look at the clock where it has not. Also
//! keeps what this instance has out its own.

use crate::error::Failed;
use crate::session::Session;
use crate::store::Inner;
use confirmd_core::ChainId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Without word from the others, pumps and watchers look again so often.
const LOOK_NOTIFIED: Duration = Duration::from_secs(15);
const LOOK_ALONE: Duration = Duration::from_secs(2);
/// Before listening is tried again on a new connection.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

const NOTIFY: &str = "select pg_notify($1, $2)";
const RENEW: &str = "update delivery set lease_until = clock_timestamp() + $2 * interval '1 millisecond' where owner = $1";

/// Says what a transaction did once it is committed.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    pub(crate) owner: Arc<str>,
    pub(crate) channel: Arc<str>,
    /// Whether the server knows notifications.
    pub(crate) works: bool,
}

impl Notice {
    /// What an instance says to listen. Its name in it tells the server's list of sessions whose it is.
    pub(crate) fn listening(&self, owner: &str) -> String {
        // The channel's name is the schema's with a word before it: it needs no quoting.
        format!("listen {} -- instance {owner}", self.channel)
    }

    /// A commit of a chain.
    pub(crate) async fn commit(&self, session: &Session, chain: &ChainId, events: bool) -> Result<(), Failed> {
        self.say(session, &format!("{} {chain} {}", self.owner, if events { "events" } else { "-" })).await
    }

    /// Something that may be delivered.
    pub(crate) async fn deliveries(&self, session: &Session) -> Result<(), Failed> {
        self.say(session, &format!("{} - events", self.owner)).await
    }

    async fn say(&self, session: &Session, text: &str) -> Result<(), Failed> {
        if self.works {
            session.query(NOTIFY, &[&&*self.channel, &text]).await?;
        }
        Ok(())
    }
}

/// Who waits for word.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    pumps: Mutex<Vec<Arc<Notify>>>,
    chains: Mutex<HashMap<ChainId, Arc<Notify>>>,
}

impl Ears {
    pub(crate) fn wake_on_events(&self, wake: Arc<Notify>) {
        self.pumps.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    pub(crate) fn of_chain(&self, chain: &ChainId) -> Arc<Notify> {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(chains.entry(chain.clone()).or_default())
    }

    fn events(&self) {
        self.pumps.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|wake| wake.notify_waiters());
    }

    fn everything(&self) {
        self.events();
        self.chains.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|chain| chain.notify_one());
    }

    /// `owner chain events`; of our own doings we know.
    fn hear(&self, ours: &str, payload: &str) {
        let mut words = payload.split(' ');
        let (owner, chain, events) = (words.next(), words.next(), words.next());
        if owner == Some(ours) {
            return;
        }
        if events == Some("events") {
            self.events();
        }
        // Also for a watcher that does not listen yet.
        if let Some(chain) = chain.and_then(|chain| ChainId::new(chain).ok()) {
            self.of_chain(&chain).notify_one();
        }
    }
}

/// Runs as long as the store is open.
pub(crate) async fn attend(inner: Weak<Inner>) {
    let Some(store) = inner.upgrade() else { return };
    let (worker, renew_every, notice) = (Arc::clone(&store.worker), store.lease / 3, store.notice.clone());
    drop(store);
    let mut heard: Option<Heard> = None;
    let mut listen_at = Instant::now();
    let mut renew_at = Instant::now() + renew_every;
    let mut look_at = Instant::now() + LOOK_ALONE;
    loop {
        if notice.works && heard.is_none() && Instant::now() >= listen_at {
            heard = Heard::start(&worker.pool, &notice).await;
            listen_at = Instant::now() + AGAIN_AFTER;
            // What was said meanwhile was not heard.
            look_at = Instant::now();
        }
        let until = renew_at.min(look_at).min(if notice.works && heard.is_none() { listen_at } else { look_at });
        let word = tokio::select! {
            biased;
            () = worker.ended() => return,
            word = next(&mut heard) => word,
            () = tokio::time::sleep_until(until) => Word::Nothing,
        };
        let Some(store) = inner.upgrade() else { return };
        match word {
            Word::Said(payload) => store.ears.hear(&store.notice.owner, &payload),
            Word::Ended => heard = None,
            Word::Nothing => {}
        }
        if Instant::now() >= look_at {
            store.ears.everything();
            let wait = if heard.is_some() { LOOK_NOTIFIED } else { LOOK_ALONE };
            // Not all instances at once.
            look_at = Instant::now() + wait / 2 + wait.mul_div(fastrand::u32(0..=1000), 1000);
        }
        if Instant::now() >= renew_at {
            renew(store).await;
            renew_at = Instant::now() + renew_every;
        }
    }
}

trait Share {
    fn mul_div(self, by: u32, of: u32) -> Self;
}

impl Share for Duration {
    fn mul_div(self, by: u32, of: u32) -> Self {
        self.saturating_mul(by) / of.max(1)
    }
}

enum Word {
    Said(String),
    Ended,
    Nothing,
}

async fn next(heard: &mut Option<Heard>) -> Word {
    match heard {
        Some(heard) => heard.said.recv().await.map_or(Word::Ended, Word::Said),
        None => std::future::pending().await,
    }
}

/// A connection that listens.
struct Heard {
    said: mpsc::Receiver<String>,
    _connection: confirmd_postgres::Connection,
}

impl Heard {
    async fn start(pool: &crate::session::Pool, notice: &Notice) -> Option<Self> {
        let (connection, said) = pool.server().connect_listening().await.ok()?;
        connection.batch_execute(&notice.listening(&notice.owner)).await.ok()?;
        Some(Self { said, _connection: connection })
    }
}

/// What is out stays ours as long as we are here to say so.
async fn renew(store: Arc<Inner>) {
    if store.claims.is_empty() {
        return;
    }
    let args = (Arc::clone(&store.notice.owner), store.lease_ms());
    // Its own limit is the lease: a late renewal is as good as none.
    let renewed = store.run("keeping deliveries that are out", crate::work::Mode::Write, args, |session, (owner, lease)| {
        Box::pin(async move { Ok(session.execute(RENEW, &[&&**owner, lease]).await?) })
    });
    match tokio::time::timeout(store.lease, renewed).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(error = %error, "deliveries that are out could not be kept; another instance may take them over")
        }
        Err(_) => tracing::warn!("deliveries that are out were not kept in time; another instance may take them over"),
    }
}
