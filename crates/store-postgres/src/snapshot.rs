//! `Snapshots`: the whole store as it was at one moment, read in one transaction that sees no other.

use crate::chain::{self, ChainNumber, HeadRow};
use crate::consumers;
use crate::error::{Failed, from_json, position, refused, time, uint};
use crate::held::{ORPHANED, PENDING, REPORTED, digest};
use crate::history;
use crate::session::Session;
use crate::store::{Inner, PgStore};
use async_trait::async_trait;
use confirmd_core::{
    Archived, BlockHash, BlockRef, ChainId, ConsumerFilter, ConsumerName, DumpRecord, DumpedArchive, DumpedAttempt, DumpedChain,
    DumpedConsumer, DumpedEvent, DumpedHeld, DumpedOpen, DumpedSkip, DumpedStep, DumpedStore, Epoch, Height, KeyDigest, Notice,
    OpenDelivery, OpenState, Position, Sequence, Snapshots, StateVersion, StoreError, StoreSnapshot,
};
use serde::de::DeserializeOwned;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::Row;

/// Records read at once.
const PAGE: i64 = 1_000;
/// How often, and how long apart, the server's sessions are looked at while one seems to be an instance's.
const LOOKS: u32 = 10;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

const BEGIN: &str = "begin isolation level repeatable read read only";
const META: &str = "select epoch, created_at, next_position from meta";
/// Instances read nodes by turns, have deliveries out, and listen under their own names.
const SHARED: &str = "select exists (select from turn where until > clock_timestamp())
    or exists (select from delivery where owner <> $1 and lease_until > clock_timestamp())";
const LISTENERS: &str = "select exists (select from pg_stat_activity where datname = current_database()
    and query like $1 and query <> $2)";
const CHAINS: &str = "select id, chain, version, head from chain where version > 0 order by chain collate \"C\"";
const BLOCKS: &str = "select height, hash from trail where chain = $1 and height > $2 order by height limit $3";
const ASSETS: &str =
    "select asset, listed from asset where chain = $1 and asset collate \"C\" > $2 order by asset collate \"C\" limit $3";
const WATCHED: &str =
    "select address, entry from watch where chain = $1 and ($2::bytea is null or address > $2) order by address limit $3";
const HELD: &str = "select digest, event, deposit from held
where chain = $1 and kind = $2 and ($3::bytea is null or digest > $3) order by digest limit $4";
const REORGS: &str = "select version, record from reorg where chain = $1 and version > $2 order by version limit $3";
const ARCHIVE: &str = "select digest, chain, height, sequence, event from archive
where ($1::bytea is null or digest > $1) order by digest limit $2";
const EVENTS: &str = "select position, record, body from event where position > $1 order by position limit $2";
const OPEN: &str = "select position, digest, state, due_at, attempts, attempts_ever from delivery
where consumer = $1 and position > $2 and not given_up order by position limit $3";
const SKIPPED: &str =
    "select position, at, attempts from skipped where consumer = $1 and position > $2 order by position limit $3";
const ATTEMPTS: &str = "select position, ever, attempt from attempt
where consumer = $1 and (position, ever) > ($2, $3) order by position, ever limit $4";
const DEPOSITS: &str = "select digest, record from deposit where ($1::bytea is null or digest > $1) order by digest limit $2";
const STEPS: &str = "select digest, version, number, step from life
where $1::bytea is null or (digest, version, number) > ($1, $2, $3) order by digest, version, number limit $4";

/// What is read next.
#[derive(Debug, Clone, Copy)]
enum Part {
    Store,
    Chain(usize),
    Blocks(ChainNumber),
    Assets(ChainNumber),
    Watched(ChainNumber),
    Held(ChainNumber, i16),
    Rescans(usize),
    Reorgs(ChainNumber),
    Archive,
    Events,
    Consumer(usize),
    Open(i32),
    Skipped(i32),
    Attempts(i32),
    Deposits,
    Steps,
    Cursors,
}

/// Behind what the part that is read goes on.
#[derive(Debug)]
struct Behind {
    bytes: Option<Vec<u8>>,
    text: String,
    number: i64,
    more: i32,
}

impl Default for Behind {
    fn default() -> Self {
        Self { bytes: None, text: String::new(), number: -1, more: -1 }
    }
}

/// A chain's row, read.
type ChainRow = (ChainNumber, ChainId, StateVersion, HeadRow);

/// See the module. The transaction ends with its connection.
#[derive(Debug)]
struct PgSnapshot {
    inner: Arc<Inner>,
    session: Session,
    shared: bool,
    chains: Vec<ChainRow>,
    names: HashMap<ChainNumber, ChainId>,
    consumers: Vec<(ConsumerName, consumers::Row)>,
    parts: VecDeque<Part>,
    behind: Behind,
    _alone: OwnedSemaphorePermit,
}

#[async_trait]
impl Snapshots for PgStore {
    fn backend(&self) -> &'static str {
        "postgres"
    }

    async fn snapshot(self: Arc<Self>) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        let inner = self.inner.clone();
        if inner.worker.is_ended() {
            return Err(StoreError::Invalid("the store is closed".to_owned()));
        }
        let under_way = || StoreError::Invalid("the state is being exported already; wait until that has ended".to_owned());
        let alone = inner.exports.clone().try_acquire_owned().map_err(|_| under_way())?;
        let begun = PgSnapshot::begin(inner.clone(), alone).await;
        Ok(Box::new(begun.map_err(|failed| inner.exporting(failed))?))
    }
}

impl Inner {
    fn exporting(&self, failed: Failed) -> StoreError {
        match failed {
            Failed::Told(error) => error,
            Failed::Server(error) => {
                let pool = &self.worker.pool;
                let what = pool.server().describe(&error);
                refused(format!("exporting the schema {} of {}: {what}; export again", pool.schema(), pool.server().label()))
            }
        }
    }
}

impl PgSnapshot {
    async fn begin(inner: Arc<Inner>, alone: OwnedSemaphorePermit) -> Result<Self, Failed> {
        let pool = &inner.worker.pool;
        let session = Session::open(pool.server(), pool.schema()).await?;
        let (all, ours) = (inner.notice.listening("%"), inner.notice.listening(&inner.notice.owner));
        // Servers that only speak PostgreSQL's protocol may not show their sessions; then the turns tell.
        let mut shared = false;
        for look in 0..LOOKS {
            if look > 0 {
                // The server has not noticed yet that one has just ended, maybe.
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            let listened = session.query_opt(LISTENERS, &[&all, &ours]).await;
            shared = listened.is_ok_and(|row| row.is_some_and(|row| row.get(0)));
            if !shared {
                break;
            }
        }
        session.say(BEGIN).await?;
        let seen = session.query_opt(SHARED, &[&&*inner.notice.owner]).await?;
        shared |= seen.is_some_and(|row| row.get(0));
        let (mut chains, mut names, mut parts) = (Vec::new(), HashMap::new(), VecDeque::from([Part::Store]));
        for (at, row) in session.query(CHAINS, &[]).await?.iter().enumerate() {
            let number: ChainNumber = row.get(0);
            let id = ChainId::new(row.get::<_, &str>(1)).map_err(|error| refused(format!("{error}; put a backup back")))?;
            names.insert(number, id.clone());
            chains.push((number, id, StateVersion(uint(row.get(2))), from_json(row.get(3), "a chain's head")?));
            parts.extend([Part::Chain(at), Part::Blocks(number), Part::Assets(number), Part::Watched(number)]);
            parts.extend([PENDING, REPORTED, ORPHANED].map(|kind| Part::Held(number, kind)));
            parts.extend([Part::Rescans(at), Part::Reorgs(number)]);
        }
        parts.extend([Part::Archive, Part::Events]);
        let consumers = consumers::all(&session).await?;
        for (at, (_, row)) in consumers.iter().enumerate() {
            parts.extend([Part::Consumer(at), Part::Open(row.id), Part::Skipped(row.id), Part::Attempts(row.id)]);
        }
        parts.extend([Part::Deposits, Part::Steps, Part::Cursors]);
        Ok(Self { inner, session, shared, chains, names, consumers, parts, behind: Behind::default(), _alone: alone })
    }

    /// The next records of a part; none if it has ended.
    async fn records(&mut self, part: Part) -> Result<Vec<DumpRecord>, Failed> {
        let once = self.behind.number < 0;
        match part {
            Part::Store | Part::Chain(_) | Part::Rescans(_) | Part::Consumer(_) | Part::Cursors if !once => return Ok(Vec::new()),
            Part::Store | Part::Chain(_) | Part::Rescans(_) | Part::Consumer(_) | Part::Cursors => self.behind.number = 0,
            _ => {}
        }
        match part {
            Part::Store => Ok(vec![DumpRecord::Store(self.store().await?)]),
            Part::Chain(at) => Ok(self.chains.get(at).map(chain_record).into_iter().collect()),
            Part::Rescans(at) => {
                let Some((number, _, _, head)) = self.chains.get(at) else { return Ok(Vec::new()) };
                let rescans = chain::rescans(&self.session, *number, head).await?;
                Ok(rescans.into_values().map(DumpRecord::Rescan).collect())
            }
            Part::Consumer(at) => self.consumers.get(at).into_iter().map(consumer).collect(),
            Part::Cursors => Ok(history::cursors(&self.session, &()).await?.into_iter().map(DumpRecord::Cursor).collect()),
            part => {
                let rows = self.rows(part).await?;
                rows.iter().map(|row| self.record(part, row)).collect()
            }
        }
    }

    async fn store(&self) -> Result<DumpedStore, Failed> {
        let row = self.session.query_opt(META, &[]).await?;
        let row = row.ok_or_else(|| refused("the row of the table meta is gone; put a backup back"))?;
        Ok(DumpedStore {
            id: self.inner.identity.clone(),
            epoch: Epoch(uint(row.get(0))),
            created_at: time(row.get(1)),
            next_position: position(row.get(2)),
        })
    }

    async fn rows(&self, part: Part) -> Result<Vec<Row>, Failed> {
        let Behind { bytes, text, number, more } = &self.behind;
        let session = &self.session;
        Ok(match part {
            Part::Blocks(chain) => session.query(BLOCKS, &[&chain, number, &PAGE]).await?,
            Part::Assets(chain) => session.query(ASSETS, &[&chain, text, &PAGE]).await?,
            Part::Watched(chain) => session.query(WATCHED, &[&chain, bytes, &PAGE]).await?,
            Part::Held(chain, kind) => session.query(HELD, &[&chain, &kind, bytes, &PAGE]).await?,
            Part::Reorgs(chain) => session.query(REORGS, &[&chain, number, &PAGE]).await?,
            Part::Archive => session.query(ARCHIVE, &[bytes, &PAGE]).await?,
            Part::Events => session.query(EVENTS, &[number, &PAGE]).await?,
            Part::Open(consumer) => session.query(OPEN, &[&consumer, number, &PAGE]).await?,
            Part::Skipped(consumer) => session.query(SKIPPED, &[&consumer, number, &PAGE]).await?,
            Part::Attempts(consumer) => session.query(ATTEMPTS, &[&consumer, number, more, &PAGE]).await?,
            Part::Deposits => session.query(DEPOSITS, &[bytes, &PAGE]).await?,
            Part::Steps => session.query(STEPS, &[bytes, number, more, &PAGE]).await?,
            Part::Store | Part::Chain(_) | Part::Rescans(_) | Part::Consumer(_) | Part::Cursors => Vec::new(),
        })
    }

    /// One row as a record; the part goes on behind it.
    fn record(&mut self, part: Part, row: &Row) -> Result<DumpRecord, Failed> {
        let behind = &mut self.behind;
        match part {
            Part::Blocks(_) | Part::Reorgs(_) | Part::Events | Part::Open(_) | Part::Skipped(_) => behind.number = row.get(0),
            Part::Assets(_) => behind.text = row.get(0),
            Part::Attempts(_) => (behind.number, behind.more) = (row.get(0), row.get(1)),
            Part::Steps => (behind.bytes, behind.number, behind.more) = (row.get(0), row.get(1), row.get(2)),
            _ => behind.bytes = row.get(0),
        }
        let count = |at: usize| u32::try_from(row.get::<_, i32>(at)).unwrap_or_default();
        Ok(match part {
            Part::Blocks(_) => {
                let hash =
                    BlockHash::new(row.get::<_, &str>(1)).map_err(|error| refused(format!("{error}; put a backup back")))?;
                DumpRecord::Block(BlockRef { height: Height(uint(row.get(0))), hash })
            }
            Part::Assets(_) => DumpRecord::Asset(from_json(row.get(1), "a listed asset")?),
            Part::Watched(_) => DumpRecord::Watched(from_json(row.get(1), "a watched address")?),
            Part::Held(_, PENDING) => DumpRecord::Pending(held(row)?),
            Part::Held(_, REPORTED) => DumpRecord::Reported(held(row)?),
            Part::Held(..) => DumpRecord::Orphaned(held(row)?),
            Part::Reorgs(_) => DumpRecord::Reorg(from_json(row.get(1), "a reorg")?),
            Part::Archive => {
                let chain = self.names.get(&row.get(1)).cloned().ok_or_else(|| refused("an archived key has no chain"))?;
                let archived = Archived { height: Height(uint(row.get(2))), sequence: Sequence(uint(row.get(3))) };
                let event = row.get::<_, Option<i64>>(4).map(position);
                DumpRecord::Archived(DumpedArchive { digest: of_key(row, 0)?, chain, archived, event })
            }
            Part::Events => {
                let body = String::from_utf8(row.get(2)).map_err(|_| refused("an event's body is no text; put a backup back"))?;
                let event = from_json(row.get(1), "an event")?;
                DumpRecord::Event(Box::new(DumpedEvent { position: position(row.get(0)), event, body }))
            }
            Part::Open(_) => {
                let state = match row.get::<_, i16>(2) {
                    0 => OpenState::Queued,
                    1 => OpenState::Retrying { at: time(row.get(3)) },
                    _ => OpenState::Dead,
                };
                let open = OpenDelivery { key: of_key(row, 1)?, state, attempts: count(4), attempts_ever: count(5) };
                DumpRecord::Open(DumpedOpen::new(position(row.get(0)), open))
            }
            Part::Skipped(_) => {
                DumpRecord::Skipped(DumpedSkip { position: position(row.get(0)), at: time(row.get(1)), attempts: count(2) })
            }
            Part::Attempts(_) => {
                let attempt = from_json(row.get(2), "a failed attempt")?;
                DumpRecord::Attempt(DumpedAttempt { position: position(row.get(0)), ever: count(1), attempt })
            }
            Part::Steps => {
                let step = from_json(row.get(3), "a step of a deposit's life")?;
                DumpRecord::Step(DumpedStep { digest: of_key(row, 0)?, step })
            }
            _ => DumpRecord::Deposit(from_json(row.get(1), "a deposit")?),
        })
    }
}

#[async_trait]
impl StoreSnapshot for PgSnapshot {
    async fn next(&mut self) -> Result<Vec<DumpRecord>, StoreError> {
        while let Some(part) = self.parts.front().copied() {
            let records = self.records(part).await.map_err(|failed| self.inner.exporting(failed))?;
            if !records.is_empty() {
                return Ok(records);
            }
            self.parts.pop_front();
            self.behind = Behind::default();
        }
        Ok(Vec::new())
    }

    fn is_shared(&self) -> bool {
        self.shared
    }
}

fn of_key(row: &Row, at: usize) -> Result<KeyDigest, Failed> {
    let found = digest(row.get(at));
    Ok(found.ok_or_else(|| refused("the digest of a key has another length than 16 bytes; put a backup back"))?)
}

fn held<T: DeserializeOwned>(row: &Row) -> Result<DumpedHeld<T>, Failed> {
    let event: Option<Position> = row.get::<_, Option<i64>>(1).map(position);
    Ok(DumpedHeld { digest: of_key(row, 0)?, event, deposit: from_json(row.get(2), "a held deposit")? })
}

fn chain_record((_, id, version, head): &ChainRow) -> DumpRecord {
    DumpRecord::Chain(DumpedChain {
        id: id.clone(),
        version: *version,
        name: head.name.clone(),
        floor: head.floor,
        linked_from: head.linked_from,
        marks: head.marks.iter().copied().collect(),
        halt: head.halt.clone(),
    })
}

fn consumer((name, row): &(ConsumerName, consumers::Row)) -> Result<DumpRecord, Failed> {
    let wrong = |error: confirmd_core::TextIdError| refused(format!("the filter of {name}: {error}; put a backup back"));
    let filter = ConsumerFilter {
        chains: row.chains.iter().map(ChainId::new).collect::<Result<_, _>>().map_err(wrong)?,
        assets: row.assets.iter().map(confirmd_core::AssetId::new).collect::<Result<_, _>>().map_err(wrong)?,
        notices: row.notices.iter().filter_map(|word| Notice::of_word(word)).collect(),
    };
    let (name, paused) = (name.clone(), row.paused.clone());
    Ok(DumpRecord::Consumer(DumpedConsumer { name, filter, began: position(row.began), cursor: position(row.cursor), paused }))
}
