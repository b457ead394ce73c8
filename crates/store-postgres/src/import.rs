//! `StoreImport`: a new store made from a dump, in one transaction.

use crate::chain::{self, HeadRow};
use crate::deposits;
use crate::error::{Failed, refused, text, to_json};
use crate::held::{self, ORPHANED, PENDING, REPORTED};
use crate::lives;
use crate::session::Session;
use crate::store::{PgOptions, PgStore, prepare};
use async_trait::async_trait;
use confirmd_core::{
    AssetId, ChainId, DumpRecord, DumpedChain, DumpedConsumer, DumpedStore, KeyDigest, Notice, OpenState, Position, StoreError,
    StoreImport,
};
use confirmd_postgres::Server;
use std::collections::HashMap;

/// The row is there before anything else: whoever would begin a state here meanwhile waits for us.
const META: &str =
    "insert into meta (store, epoch, created_at, next_position) values ($1, $2, $3, $4) on conflict (one) do nothing";
const THERE: &str = "select store from meta";
const CHAIN: &str = "insert into chain (chain, version, head) values ($1, $2, $3) returning id";
const ARCHIVE: &str = "insert into archive (digest, chain, height, sequence, event)
select * from unnest($1::bytea[], $2::integer[], $3::bigint[], $4::bigint[], $5::bigint[])";
const EVENTS: &str = "insert into event (position, id, chain, asset, digest, decided_at, record, body, notice)
select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::text[], $8::bytea[], $9::text[])";
const CONSUMER: &str = "insert into consumer (name, chains, assets, began, cursor, paused, notices) values ($1, $2, $3, $4, $5, $6, $7) returning id";
const OPEN: &str = "insert into delivery (consumer, position, digest, state, due_at, attempts, attempts_ever)
select $1, * from unnest($2::bigint[], $3::bytea[], $4::smallint[], $5::bigint[], $6::integer[], $7::integer[])";
const SKIPPED: &str =
    "insert into skipped (consumer, position, at, attempts) select $1, * from unnest($2::bigint[], $3::bigint[], $4::integer[])";
const ATTEMPTS: &str = "insert into attempt (consumer, position, ever, attempt)
select $1, * from unnest($2::bigint[], $3::integer[], $4::text[])";
const STEPS: &str = "insert into life (digest, version, number, step)
select digest, 0, number, step from unnest($1::bytea[], $2::integer[], $3::text[]) as i (digest, number, step)";
const READER: &str = "insert into reader (name, after, used_at, expired) values ($1, $2, $3, $4)";

impl PgStore {
    /// Begins to make a store in a schema that holds none. `options.init` means nothing here; with `options.restored` the store takes a
    /// new epoch.
    pub async fn import(server: Server, options: PgOptions) -> Result<Box<dyn StoreImport>, StoreError> {
        let label = format!("the schema {} of {}", options.schema, server.label());
        let session = prepare(&server, &PgOptions { init: true, ..options.clone() }).await?;
        let mut import =
            PgImport { server, options, label, session, chain: 0, chains: HashMap::new(), consumer: 0, reorgs: 0, step: None };
        let begun = import.begin().await;
        begun.map_err(|failed| import.why(failed))?;
        Ok(Box::new(import))
    }
}

/// See the module. Dropped, its connection closes, and the server rolls back.
#[derive(Debug)]
struct PgImport {
    server: Server,
    options: PgOptions,
    label: String,
    session: Session,
    /// What records that follow are of.
    chain: i32,
    chains: HashMap<ChainId, i32>,
    consumer: i32,
    reorgs: i64,
    /// The deposit of the last step, and its number.
    step: Option<(KeyDigest, i32)>,
}

#[async_trait]
impl StoreImport for PgImport {
    async fn put(&mut self, records: Vec<DumpRecord>) -> Result<(), StoreError> {
        let mut records = records.into_iter().peekable();
        while let Some(first) = records.next() {
            let kind = first.kind();
            let mut run = vec![first];
            while let Some(next) = records.next_if(|next| next.kind() == kind) {
                run.push(next);
            }
            self.run(run).await.map_err(|failed| self.why(failed))?;
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        if self.session.query_opt(THERE, &[]).await.map_err(|error| self.why(error.into()))?.is_none() {
            return Err(refused("a dump without a record makes no state"));
        }
        self.session.say("commit").await.map_err(|error| StoreError::Unknown {
            context: format!(
                "ending the import into {}: {}; it is there whole or not at all: `confirmd state verify` tells",
                self.label,
                self.server.describe(&error)
            ),
            source: None,
        })
    }
}

/// Numbers of a dump that the database can't hold are refused, never changed.
fn int(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| refused(format!("the dump holds the number {number}, which this kind of store can't hold")))
}

fn count(number: u32) -> Result<i32, StoreError> {
    i32::try_from(number).map_err(|_| refused(format!("the dump holds the number {number}, which this kind of store can't hold")))
}

fn place(position: Option<Position>) -> Result<Option<i64>, StoreError> {
    position.map(|position| int(position.0)).transpose()
}

/// A column of a run of one kind of record.
macro_rules! column {
    ($run:ident, $kind:ident, $row:ident => $value:expr) => {
        $run.iter()
            .filter_map(|record| match record {
                DumpRecord::$kind($row) => Some($value),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    (try $run:ident, $kind:ident, $row:ident => $value:expr) => {
        $run.iter()
            .filter_map(|record| match record {
                DumpRecord::$kind($row) => Some($value),
                _ => None,
            })
            .collect::<Result<Vec<_>, StoreError>>()?
    };
}

impl PgImport {
    async fn begin(&mut self) -> Result<(), Failed> {
        self.session.say("begin isolation level read committed").await?;
        match self.session.query_opt(THERE, &[]).await? {
            None => Ok(()),
            Some(row) => Err(Failed::Told(self.holds_one(row.get(0)))),
        }
    }

    fn holds_one(&self, store: &str) -> StoreError {
        refused(format!(
            "{} holds a state already ({store}), and a dump is imported only where there is none: drop the schema or name another `state.schema`",
            self.label
        ))
    }

    fn why(&self, failed: Failed) -> StoreError {
        match failed {
            Failed::Told(error) => error,
            Failed::Server(error) => refused(format!("importing into {}: {}", self.label, self.server.describe(&error))),
        }
    }

    /// Writes records of one kind.
    async fn run(&mut self, run: Vec<DumpRecord>) -> Result<(), Failed> {
        let (session, chain, consumer) = (&self.session, self.chain, self.consumer);
        match run.first() {
            Some(DumpRecord::Store(store)) => return self.store(store).await,
            Some(DumpRecord::Chain(_)) => {
                for record in run {
                    if let DumpRecord::Chain(chain) = record {
                        self.chain(chain).await?;
                    }
                }
            }
            Some(DumpRecord::Rescan(_)) => {
                let rescans = column!(run, Rescan, rescan => rescan);
                chain::put_rescans(session, chain, rescans.into_iter()).await?;
            }
            Some(DumpRecord::Reorg(_)) => return self.reorgs(run).await,
            Some(DumpRecord::Consumer(_)) => {
                for record in run {
                    if let DumpRecord::Consumer(consumer) = record {
                        self.consumer(consumer).await?;
                    }
                }
            }
            Some(DumpRecord::Archived(_)) => return self.archive(&run).await,
            Some(DumpRecord::Event(_)) => return self.events(&run).await,
            Some(DumpRecord::Open(_)) => return self.open(&run).await,
            Some(DumpRecord::Step(_)) => return self.steps(&run).await,
            Some(DumpRecord::Pending(_) | DumpRecord::Reported(_) | DumpRecord::Orphaned(_)) => return self.held(&run).await,
            Some(DumpRecord::Block(_)) => {
                let heights = column!(try run, Block, block => int(block.height.0));
                let hashes = column!(run, Block, block => block.hash.as_str());
                session.execute(chain::PUT_TRAIL, &[&chain, &heights, &hashes]).await?;
            }
            Some(DumpRecord::Asset(_)) => {
                let ids = column!(run, Asset, listed => listed.asset.id.as_str());
                let listed = column!(try run, Asset, listed => to_json(listed));
                session.execute(chain::PUT_ASSETS, &[&chain, &ids, &listed]).await?;
            }
            Some(DumpRecord::Watched(_)) => {
                let bytes = column!(run, Watched, entry => entry.address.bytes());
                let entries = column!(try run, Watched, entry => to_json(entry));
                session.execute(held::WATCH, &[&chain, &bytes, &entries]).await?;
            }
            Some(DumpRecord::Skipped(_)) => {
                let positions = column!(try run, Skipped, skip => int(skip.position.0));
                let times = column!(try run, Skipped, skip => int(skip.at.0));
                let attempts = column!(try run, Skipped, skip => count(skip.attempts));
                session.execute(SKIPPED, &[&consumer, &positions, &times, &attempts]).await?;
            }
            Some(DumpRecord::Attempt(_)) => {
                let positions = column!(try run, Attempt, row => int(row.position.0));
                let ever = column!(try run, Attempt, row => count(row.ever));
                let attempts = column!(try run, Attempt, row => to_json(&row.attempt));
                session.execute(ATTEMPTS, &[&consumer, &positions, &ever, &attempts]).await?;
            }
            Some(DumpRecord::Deposit(_)) => {
                let records = column!(run, Deposit, row => (KeyDigest::of(&row.chain, &row.key), (**row).clone()));
                deposits::write(session, &records).await?;
            }
            Some(DumpRecord::Cursor(_)) => {
                for record in &run {
                    if let DumpRecord::Cursor(cursor) = record {
                        let (after, used_at) = (int(cursor.after.0)?, int(cursor.used_at.0)?);
                        session.execute(READER, &[&cursor.name.as_str(), &after, &used_at, &cursor.expired]).await?;
                    }
                }
            }
            None => {}
        }
        Ok(())
    }

    async fn store(&self, store: &DumpedStore) -> Result<(), Failed> {
        let epoch = match self.options.restored {
            true => store.epoch.restored(self.options.clock.now()),
            false => store.epoch,
        };
        let (epoch, created_at, next) = (int(epoch.0)?, int(store.created_at.0)?, int(store.next_position.0)?);
        match self.session.execute(META, &[&store.id.as_str(), &epoch, &created_at, &next]).await? {
            0 => Err(Failed::Told(self.holds_one("begun meanwhile"))),
            _ => Ok(()),
        }
    }

    async fn chain(&mut self, row: DumpedChain) -> Result<(), Failed> {
        let DumpedChain { id, version, name, floor, linked_from, marks, halt } = row;
        let head = HeadRow { name, floor, linked_from, marks: marks.into_iter().collect(), halt, ..HeadRow::default() };
        let made = self.session.query_opt(CHAIN, &[&id.as_str(), &int(version.0)?, &to_json(&head)?]).await?;
        self.chain = made.map(|row| row.get(0)).unwrap_or_default();
        self.chains.insert(id, self.chain);
        self.reorgs = 0;
        Ok(())
    }

    /// Commits that come have higher versions.
    async fn reorgs(&mut self, run: Vec<DumpRecord>) -> Result<(), Failed> {
        for record in run {
            if let DumpRecord::Reorg(reorg) = record {
                let at = int(reorg.at.0)?;
                self.session.execute(lives::REORG, &[&self.chain, &self.reorgs, &at, &to_json(&reorg)?]).await?;
                self.reorgs = self.reorgs.saturating_add(1);
            }
        }
        Ok(())
    }

    async fn held(&self, run: &[DumpRecord]) -> Result<(), Failed> {
        let (mut kinds, mut digests, mut events, mut deposits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for record in run {
            let (kind, digest, event, deposit) = match record {
                DumpRecord::Pending(row) => (PENDING, row.digest, row.event, to_json(&row.deposit)?),
                DumpRecord::Reported(row) => (REPORTED, row.digest, row.event, to_json(&row.deposit)?),
                DumpRecord::Orphaned(row) => (ORPHANED, row.digest, row.event, to_json(&row.deposit)?),
                _ => continue,
            };
            kinds.push(kind);
            digests.push(digest.0.to_vec());
            events.push(place(event)?);
            deposits.push(deposit);
        }
        self.session.execute(held::PUT, &[&self.chain, &kinds, &digests, &events, &deposits]).await?;
        Ok(())
    }

    async fn archive(&self, run: &[DumpRecord]) -> Result<(), Failed> {
        let no_chain = |id: &ChainId| refused(format!("the dump has no record of the chain {id}"));
        let digests = column!(run, Archived, row => row.digest.0.to_vec());
        let chains = column!(try run, Archived, row => self.chains.get(&row.chain).copied().ok_or_else(|| no_chain(&row.chain)));
        let heights = column!(try run, Archived, row => int(row.archived.height.0));
        let sequences = column!(try run, Archived, row => int(row.archived.sequence.0));
        let events = column!(try run, Archived, row => place(row.event));
        self.session.execute(ARCHIVE, &[&digests, &chains, &heights, &sequences, &events]).await?;
        Ok(())
    }

    async fn events(&self, run: &[DumpRecord]) -> Result<(), Failed> {
        let positions = column!(try run, Event, row => int(row.position.0));
        let ids = column!(run, Event, row => row.event.id.as_str());
        let chains = column!(run, Event, row => row.event.chain.as_str());
        let assets = column!(run, Event, row => row.event.asset.id.as_str());
        let digests = column!(run, Event, row => KeyDigest::of(&row.event.chain, &row.event.transfer.key).0.to_vec());
        let decided_at = column!(try run, Event, row => int(row.event.decided_at.0));
        let records = column!(try run, Event, row => to_json(&row.event));
        let bodies = column!(run, Event, row => row.body.as_bytes());
        let notices = column!(run, Event, row => row.event.notice.map(Notice::word));
        let columns: crate::session::Params<'_> =
            &[&positions, &ids, &chains, &assets, &digests, &decided_at, &records, &bodies, &notices];
        self.session.execute(EVENTS, columns).await?;
        Ok(())
    }

    async fn consumer(&mut self, row: DumpedConsumer) -> Result<(), Failed> {
        let chains: Vec<_> = row.filter.chains.iter().map(ChainId::as_str).collect();
        let assets: Vec<_> = row.filter.assets.iter().map(AssetId::as_str).collect();
        let (began, cursor, paused) = (int(row.began.0)?, int(row.cursor.0)?, row.paused.as_deref().map(text));
        let notices: Vec<_> = row.filter.notices.iter().map(|notice| notice.word()).collect();
        let columns: crate::session::Params<'_> = &[&row.name.as_str(), &chains, &assets, &began, &cursor, &paused, &notices];
        let made = self.session.query_opt(CONSUMER, columns).await?;
        self.consumer = made.map(|row| row.get(0)).unwrap_or_default();
        Ok(())
    }

    async fn open(&self, run: &[DumpRecord]) -> Result<(), Failed> {
        let state = |state: OpenState| match state {
            OpenState::Queued => Ok((0_i16, 0_i64)),
            OpenState::Retrying { at } => Ok((1, int(at.0)?)),
            OpenState::Dead => Ok((2, 0)),
        };
        let positions = column!(try run, Open, row => int(row.position.0));
        let digests = column!(run, Open, row => row.digest.0.to_vec());
        let states = column!(try run, Open, row => state(row.delivery().state));
        let (states, due): (Vec<_>, Vec<_>) = states.into_iter().unzip();
        let attempts = column!(try run, Open, row => count(row.attempts));
        let ever = column!(try run, Open, row => count(row.attempts_ever));
        self.session.execute(OPEN, &[&self.consumer, &positions, &digests, &states, &due, &attempts, &ever]).await?;
        Ok(())
    }

    async fn steps(&mut self, run: &[DumpRecord]) -> Result<(), Failed> {
        let (mut digests, mut numbers, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        for record in run {
            let DumpRecord::Step(row) = record else { continue };
            let number = match self.step {
                Some((digest, number)) if digest == row.digest => number.saturating_add(1),
                _ => 0,
            };
            self.step = Some((row.digest, number));
            digests.push(row.digest.0.to_vec());
            numbers.push(number);
            steps.push(to_json(&row.step)?);
        }
        self.session.execute(STEPS, &[&digests, &numbers, &steps]).await?;
        Ok(())
    }
}
