//! A change set as one transaction.

use crate::chain::{self, ChainNumber, Found, Heads};
use crate::deposits::{self, DepositPlan, Stored};
use crate::error::{Failed, int, invalid, position, to_json, uint};
use crate::held::{HeldRows, Places, last_events};
use crate::lives::LifeRows;
use crate::session::Session;
use confirmd_core::{
    ChainState, ChangeSet, CommitReceipt, KeyDigest, LifePlan, Notice, Position, StateVersion, StoreError, Timestamp,
};
use confirmd_postgres::Trouble;
use std::sync::Arc;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

/// Change sets kept per chain for others to catch up by.
const CHANGES_KEPT: i64 = 512;

const KNOWN: &str = "select token, first_event from change where chain = $1 and version = $2";
const POSITIONS: &str = "update meta set next_position = next_position + $1 returning next_position - $1";
const EVENTS: &str = "insert into event (position, id, chain, asset, digest, decided_at, record, body, notice)
select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::text[], $8::bytea[], $9::text[])";
const CHANGE: &str = "insert into change (chain, version, token, first_event, changes) values ($1, $2, $3, $4, $5)";
const FORGET: &str = "delete from change where chain = $1 and version = $2";

/// What a commit is made of.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) set: ChangeSet,
    /// Names this commit: by it a commit whose answer was lost is found again.
    pub(crate) token: String,
    pub(crate) heads: Arc<Heads>,
    pub(crate) now: Timestamp,
    /// The operator's statement for every event.
    pub(crate) on_event: Option<Arc<str>>,
    pub(crate) notice: crate::listen::Notice,
}

/// The work of a commit. `Conflict` if the chain has moved on; then nothing was written.
/// With the receipt come the small parts of the state as they are once the transaction is committed.
pub(crate) async fn commit(session: &Session, commit: &Commit) -> Result<(CommitReceipt, Option<ChainState>), Failed> {
    let set = &commit.set;
    // Whoever holds the row is waited for: after that, the version is the truth.
    let found = chain::lock(session, &set.chain).await?;
    if found.version != set.base {
        return Ok((earlier(session, commit, &found).await?, None));
    }
    let mut small = match commit.heads.take(&set.chain, set.base) {
        Some(small) => small,
        None => chain::small_to_advance(session, &set.chain, &found).await?,
    };
    let known = last_events(session, set).await?;
    let mut stored = Stored::read(session, found.number, set).await?;
    let smalls = stored.smalls(set);
    let version = set.base.0.saturating_add(1);
    // From here on every other commit with events waits: reads come before.
    let first = positions(session, set).await?;
    let places = Places::of(set, first);
    let held = HeldRows::of(set, &places, known)?;
    let records = DepositPlan::new(&stored, &small, set, &smalls, &places, commit.now).records();
    let lives = LifeRows::of(&LifePlan::new(&small, set, smalls.before(), commit.now), &set.chain)?;
    let rows = chain::advance(&mut small, set)?;
    held.write(session, found.number).await?;
    deposits::write(session, &records).await?;
    lives.write(session, found.number, int(version)).await?;
    events(session, set, places.first).await?;
    rows.write(session, found.number).await?;
    let first_event = (!set.events.is_empty()).then_some(first);
    change(session, commit, found.number, version, first_event).await?;
    effects(session, commit).await?;
    commit.notice.commit(session, &set.chain, !set.events.is_empty()).await?;
    Ok((CommitReceipt { version: StateVersion(version), first_event }, Some(small)))
}

/// The state has moved on: by this very commit, whose answer was lost, or by another one.
async fn earlier(session: &Session, commit: &Commit, found: &Found) -> Result<CommitReceipt, Failed> {
    let version = commit.set.base.0.saturating_add(1);
    if let Some(row) = session.query_opt(KNOWN, &[&found.number, &int(version)]).await?
        && row.get::<_, &str>(0) == commit.token
    {
        let first_event = row.get::<_, Option<i64>>(1).map(position);
        return Ok(CommitReceipt { version: StateVersion(version), first_event });
    }
    let chain = commit.set.chain.clone();
    Err(Failed::Told(StoreError::Conflict { chain, expected: commit.set.base, found: found.version }))
}

async fn positions(session: &Session, set: &ChangeSet) -> Result<Position, Failed> {
    if set.events.is_empty() {
        return Ok(Position(0));
    }
    let count = i64::try_from(set.events.len()).unwrap_or(i64::MAX);
    let row = session.query_opt(POSITIONS, &[&count]).await?;
    let first = row.map(|row| uint(row.get(0)));
    Ok(Position(first.ok_or_else(|| crate::error::refused("the row of the table meta is gone; put a backup back"))?))
}

async fn events(session: &Session, set: &ChangeSet, first: Position) -> Result<(), Failed> {
    if set.events.is_empty() {
        return Ok(());
    }
    macro_rules! column {
        ($value:expr) => {
            set.events.iter().map($value).collect::<Vec<_>>()
        };
    }
    let positions: Vec<_> = (first.0..).take(set.events.len()).map(int).collect();
    let ids = column!(|(event, _)| event.id.as_str());
    let chains = column!(|(event, _)| event.chain.as_str());
    let assets = column!(|(event, _)| event.asset.id.as_str());
    let digests = column!(|(event, _)| KeyDigest::of(&event.chain, &event.transfer.key).0.to_vec());
    let decided_at = column!(|(event, _)| int(event.decided_at.0));
    let notices = column!(|(event, _)| event.notice.map(Notice::word));
    let records = set.events.iter().map(|(event, _)| to_json(event)).collect::<Result<Vec<_>, StoreError>>()?;
    let bodies = column!(|(_, body)| &body[..]);
    let written =
        session.execute(EVENTS, &[&positions, &ids, &chains, &assets, &digests, &decided_at, &records, &bodies, &notices]).await;
    match written {
        // The last line of defence for G1.
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            let detail = error.as_db_error().and_then(|error| error.detail()).unwrap_or_default().to_owned();
            Err(invalid(format!("an event of {} was decided before ({detail}); nothing was written", set.chain)))
        }
        written => Ok(written.map(drop)?),
    }
}

async fn change(
    session: &Session,
    commit: &Commit,
    chain: ChainNumber,
    version: u64,
    first_event: Option<Position>,
) -> Result<(), Failed> {
    let (version, first) = (int(version), first_event.map(|first| int(first.0)));
    let changes = to_json(&commit.set.changes)?;
    session.execute(CHANGE, &[&chain, &version, &commit.token, &first, &changes]).await?;
    session.execute(FORGET, &[&chain, &version.saturating_sub(CHANGES_KEPT)]).await?;
    Ok(())
}

/// The operator's statement, once for each decision, within the decision's own transaction.
async fn effects(session: &Session, commit: &Commit) -> Result<(), Failed> {
    let Some(sql) = commit.on_event.as_deref().filter(|_| commit.set.decisions().next().is_some()) else { return Ok(()) };
    let refused = |error: tokio_postgres::Error, of: &str| match Trouble::of(&error) {
        Trouble::Statement | Trouble::Setup => invalid(format!(
            "state.on_event{of} was refused, so nothing was decided: {}; mend the statement or what it calls, it is tried again",
            Trouble::describe(&error)
        )),
        _ => Failed::Server(error),
    };
    let statement = session.connection().prepare_typed(sql, &[Type::TEXT]).await.map_err(|error| refused(error, ""))?;
    for (event, body) in commit.set.events.iter().filter(|(event, _)| event.decides()) {
        let body = String::from_utf8_lossy(body);
        let done = session.connection().execute(&statement, &[&body.as_ref()]).await;
        done.map_err(|error| refused(error, &format!(" for event {}", event.id)))?;
    }
    Ok(())
}
