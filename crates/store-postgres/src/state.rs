//! `StateStore`: what a chain's watcher holds.

use crate::chain;
use crate::commit::{Commit, commit};
use crate::error::{Failed, from_json, int, limit as rows, position, uint};
use crate::held::{ORPHANED, PENDING, REPORTED, digest};
use crate::outbox::work;
use crate::session::Session;
use crate::store::PgStore;
use crate::work::Mode;
use async_trait::async_trait;
use confirmd_core::{
    Archived, ChainId, ChainState, ChangeSet, CommitReceipt, DepositKey, Epoch, EventRecord, Height, KeyDigest, Rescan, Sequence,
    SettledDeposit, StateStore, StateVersion, StoreError, StoreId, WatchEntry,
};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

const CHAINS: &str = "select chain from chain where version > 0 order by chain collate \"C\"";
const HELD: &str = "select kind, deposit from held where chain = $1";
const WATCH: &str = "select entry from watch where chain = $1";
const WATCHED: &str = "select w.entry from watch w join chain c on c.id = w.chain
where c.chain = $1 and ($2::bytea is null or w.address > $2) order by w.address limit $3";
const SETTLED: &str = "select digest, height, sequence from archive where digest = any($1)";
const SETTLED_ABOVE: &str = "select a.digest, a.height, a.sequence, e.position, e.record, e.body
from archive a join chain c on c.id = a.chain left join event e on e.position = a.event
where c.chain = $1 and a.height > $2 and a.sequence % 2 = 1";

#[async_trait]
impl StateStore for PgStore {
    fn epoch(&self) -> Epoch {
        self.inner.epoch
    }

    fn identity(&self) -> StoreId {
        self.inner.identity.clone()
    }

    async fn chains(&self) -> Result<Vec<ChainId>, StoreError> {
        self.inner
            .run("reading the chains", Mode::Read, (), |session, ()| {
                Box::pin(async move {
                    let rows = session.query(CHAINS, &[]).await?;
                    let ids = rows.iter().map(|row| ChainId::new(row.get::<_, String>(0)));
                    ids.map(|id| {
                        id.map_err(|_| {
                            Failed::Told(crate::error::refused("a chain's id in the database is none; put a backup back"))
                        })
                    })
                    .collect()
                })
            })
            .await
    }

    async fn load(&self, chain: &ChainId) -> Result<Option<ChainState>, StoreError> {
        let hold = self.inner.chain_gate(chain).read_owned().await;
        self.inner.worker.run("reading a chain's state", Mode::Read, hold, chain.clone(), work!(load)).await
    }

    async fn settled_among(&self, chain: &ChainId, keys: &[DepositKey]) -> Result<BTreeMap<DepositKey, Archived>, StoreError> {
        let by_digest: BTreeMap<KeyDigest, DepositKey> =
            keys.iter().map(|key| (KeyDigest::of(chain, key), key.clone())).collect();
        let digests: Vec<Vec<u8>> = by_digest.keys().map(|digest| digest.0.to_vec()).collect();
        let found = self.inner.run("looking for settled keys", Mode::Read, digests, |session, digests| {
            Box::pin(async move {
                let rows = session.query(SETTLED, &[digests]).await?;
                let found = rows.iter().filter_map(|row| Some((digest(row.get(0))?, archived(row.get(1), row.get(2)))));
                Ok(found.collect::<Vec<_>>())
            })
        });
        let found = found.await?.into_iter();
        Ok(found.filter_map(|(digest, archived)| Some((by_digest.get(&digest)?.clone(), archived))).collect())
    }

    async fn settled_above(&self, chain: &ChainId, height: Height) -> Result<Vec<SettledDeposit>, StoreError> {
        let args = (chain.clone(), int(height.0));
        self.inner
            .run("reading settled deposits", Mode::Read, args, |session, (chain, height)| {
                Box::pin(async move {
                    let mut settled = Vec::new();
                    for row in session.query(SETTLED_ABOVE, &[&chain.as_str(), height]).await? {
                        let event = match row.get::<_, Option<i64>>(3) {
                            Some(at) => Some(EventRecord {
                                position: position(at),
                                event: from_json(row.get(4), "an event")?,
                                body: row.get::<_, &[u8]>(5).into(),
                            }),
                            None => None,
                        };
                        let archived = archived(row.get(1), row.get(2));
                        settled.extend(digest(row.get(0)).map(|digest| SettledDeposit { digest, archived, event }));
                    }
                    Ok(settled)
                })
            })
            .await
    }

    async fn watched(&self, chain: &ChainId, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        let args = (chain.clone(), after.map(<[u8]>::to_vec), rows(limit));
        self.inner
            .run("reading watched addresses", Mode::Read, args, |session, (chain, after, limit)| {
                Box::pin(async move {
                    let rows = session.query(WATCHED, &[&chain.as_str(), after, limit]).await?;
                    rows.iter().map(|row| Ok(from_json(row.get(0), "a watched address")?)).collect()
                })
            })
            .await
    }

    async fn rescans(&self, chain: &ChainId) -> Result<Vec<Rescan>, StoreError> {
        self.inner
            .run("reading rescans", Mode::Read, chain.clone(), |session, chain| {
                Box::pin(async move {
                    let Some(found) = chain::find(session, chain, false).await? else { return Ok(Vec::new()) };
                    let rescans = chain::rescans(session, found.number, &found.head()?).await?;
                    Ok(rescans.into_values().collect())
                })
            })
            .await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<CommitReceipt, StoreError> {
        let inner = &self.inner;
        let chain = changes.chain.clone();
        let hold = inner.chain_gate(&chain).write_owned().await;
        let args = Commit {
            set: changes,
            token: format!("{}-{:016x}", inner.notice.owner, fastrand::u64(..)),
            heads: Arc::clone(&inner.heads),
            now: inner.clock.now(),
            on_event: inner.on_event.clone(),
            notice: inner.notice.clone(),
        };
        let (receipt, small) = inner.worker.run("committing", Mode::Write, hold, args, work!(commit)).await?;
        if let Some(small) = small {
            inner.heads.put(chain, small);
        }
        Ok(receipt)
    }
}

fn archived(height: i64, sequence: i64) -> Archived {
    Archived { height: Height(uint(height)), sequence: Sequence(uint(sequence)) }
}

async fn load(session: &Session, chain: &ChainId) -> Result<Option<ChainState>, Failed> {
    let found = chain::find(session, chain, false).await?;
    let Some(found) = found.filter(|found| found.version > StateVersion(0)) else { return Ok(None) };
    let mut state = chain::small(session, chain, &found).await?;
    for row in session.query(HELD, &[&found.number]).await? {
        let text = row.get(1);
        match row.get::<_, i16>(0) {
            PENDING => state.pending.put(from_json(text, "a pending deposit")?),
            REPORTED => state.reported.put(from_json(text, "a reported deposit")?),
            ORPHANED => state.orphaned.put(from_json(text, "an orphaned deposit")?),
            kind => {
                return Err(Failed::Told(crate::error::refused(format!(
                    "a held deposit has the unknown kind {kind}; put a backup back"
                ))));
            }
        }
    }
    for row in session.query(WATCH, &[&found.number]).await? {
        state.watch.put_address(from_json::<WatchEntry>(row.get(0), "a watched address")?);
    }
    Ok(Some(state))
}
