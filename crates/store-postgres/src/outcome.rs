//! What came of a delivery. A result under a token that somebody else's has replaced is passed over.

use crate::consumers::find;
use crate::error::{Failed, int, to_json};
use crate::session::Session;
use confirmd_core::{Attempt, ConsumerName, Timestamp};

/// Failed attempts kept per delivery; older ones go.
const ATTEMPTS_KEPT: i32 = 50;

const ACKNOWLEDGE: &str = "delete from delivery d using unnest($2::bigint[], $3::bigint[]) as i (position, token)
where d.consumer = $1 and d.position = i.position
    and case when i.token is null then d.token is null or d.lease_until <= clock_timestamp() else d.token = i.token end";
const FAIL: &str = "update delivery d set state = $4, due_at = $5, attempts = attempts + 1, attempts_ever = attempts_ever + 1,
    token = null, owner = null, lease_until = null
where consumer = $1 and position = $2 and state < 2 and not given_up
    and case when $3::bigint is null then d.token is null or d.lease_until <= clock_timestamp() else d.token = $3 end
returning attempts_ever";
const END_GIVEN_UP: &str = "delete from delivery d where consumer = $1 and position = any($2) and given_up
    and (token is null or lease_until <= clock_timestamp() or token = any($3))";
const ATTEMPT: &str = "insert into attempt (consumer, position, ever, attempt) values ($1, $2, $3, $4)
on conflict (consumer, position, ever) do update set attempt = excluded.attempt";
const FORGET: &str = "delete from attempt where consumer = $1 and position = $2 and ever <= $3";
const RELEASE: &str = "update delivery d set token = null, owner = null, lease_until = null
from unnest($2::bigint[], $3::bigint[]) as i (position, token)
where d.consumer = $1 and d.position = i.position and d.token = i.token";

/// Deliveries by position, each with the token it was claimed under, where it was.
pub(crate) type Reported = Vec<(i64, Option<i64>)>;

pub(crate) async fn acknowledge(session: &Session, (name, reported): &(ConsumerName, Reported)) -> Result<(), Failed> {
    let row = find(session, name).await?;
    let (positions, tokens): (Vec<_>, Vec<_>) = reported.iter().copied().unzip();
    let ended = session.execute(ACKNOWLEDGE, &[&row.id, &positions, &tokens]).await?;
    let ours = tokens.iter().flatten().count();
    if usize::try_from(ended).is_ok_and(|ended| ended < ours) {
        tracing::warn!(sink = %name, sent = ours, recorded = ended, "a result came after its lease had passed to another instance, and is passed over");
    }
    Ok(())
}

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) consumer: ConsumerName,
    pub(crate) reported: Reported,
    pub(crate) attempt: Attempt,
    /// When it is tried again; never, if there is no time.
    pub(crate) at: Option<Timestamp>,
}

pub(crate) async fn failed(session: &Session, failure: &Failure) -> Result<(), Failed> {
    let row = find(session, &failure.consumer).await?;
    for (position, token) in &failure.reported {
        let (state, due_at) = failure.at.map_or((2_i16, 0), |at| (1, int(at.0)));
        let ever = session.query_opt(FAIL, &[&row.id, position, token, &state, &due_at]).await?;
        let Some(ever) = ever.map(|row| row.get::<_, i32>(0)) else {
            end_given_up(session, row.id, &[*position], token.as_slice()).await?;
            continue;
        };
        session.execute(ATTEMPT, &[&row.id, position, &ever, &to_json(&failure.attempt)?]).await?;
        if ever > ATTEMPTS_KEPT {
            session.execute(FORGET, &[&row.id, position, &ever.saturating_sub(ATTEMPTS_KEPT)]).await?;
        }
    }
    Ok(())
}

pub(crate) async fn release(session: &Session, (name, reported): &(ConsumerName, Reported)) -> Result<(), Failed> {
    let row = find(session, name).await?;
    let ours: Vec<_> = reported.iter().filter_map(|(position, token)| Some((*position, (*token)?))).collect();
    let (positions, tokens): (Vec<_>, Vec<_>) = ours.into_iter().unzip();
    end_given_up(session, row.id, &positions, &tokens).await?;
    session.execute(RELEASE, &[&row.id, &positions, &tokens]).await?;
    Ok(())
}

/// What was given up while it was out is gone with the end of its attempt.
async fn end_given_up(session: &Session, consumer: i32, positions: &[i64], tokens: &[i64]) -> Result<(), Failed> {
    session.execute(END_GIVEN_UP, &[&consumer, &positions, &tokens]).await?;
    Ok(())
}
