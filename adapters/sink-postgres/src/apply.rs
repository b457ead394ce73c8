//! One transaction: events, deposits, the operator's effects, and the consumer's position.

use crate::effect::{Effect, Way};
use crate::entry::{Entry, Paid};
use crate::failure::{Failure, fatal, rejected, transient};
use crate::session::{Prepared, Session};
use crate::sink::Target;
use confirmd_core::Feed;
use confirmd_postgres::Trouble;
use futures::future::join_all;
use std::collections::HashSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, IsolationLevel, Row, Transaction};

/// What a transaction is about.
pub(crate) struct Work<'a> {
    pub(crate) target: &'a Target,
    pub(crate) feed: &'a Feed,
    pub(crate) entries: &'a [Entry],
    /// Each event by itself, so that a failure has a name.
    pub(crate) one_by_one: bool,
}

/// One vector for each column of `APPLY`.
macro_rules! columns {
    ($entries:expr => $($column:ident: $value:expr),+ $(,)?) => {
        $(let $column: Vec<_> = $entries.iter().map($value).collect();)+
    };
}

impl Work<'_> {
    /// Runs it, commit included. After `Unknown` and `Lost` the session is of no more use.
    /// `committing` is set once the commit is on its way: whoever stops waiting then knows nothing.
    pub(crate) async fn run(&self, session: &mut Session, committing: &mut bool) -> Result<(), Failure> {
        let Session { connection, prepared } = session;
        let begun = connection.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await;
        let transaction = begun.map_err(|error| self.failed("beginning a transaction", None, &error))?;
        let consumer = self.claim(&transaction, prepared).await?;
        let mut from = 0;
        while from < self.entries.len() {
            let run = self.run_from(from);
            self.apply(&transaction, prepared, consumer, from, run).await?;
            from += run.len();
        }
        *committing = true;
        let committed = transaction.commit().await;
        *committing = false;
        match committed {
            Ok(()) => Ok(()),
            Err(error) if error.code().is_some() => Err(self.failed("committing", None, &error)),
            Err(error) => Err(Failure::Unknown(transient(format!(
                "{}: the connection broke while the commit was out: {}",
                self.target.server.label(),
                self.target.server.describe(&error)
            )))),
        }
    }

    /// The most events from here on that one statement may hold: all of different deposits.
    fn run_from(&self, from: usize) -> &[Entry] {
        let rest = self.entries.get(from..).unwrap_or_default();
        if self.one_by_one {
            return rest.get(..1).unwrap_or_default();
        }
        let mut seen = HashSet::new();
        let length = rest.iter().take_while(|entry| seen.insert(entry.key())).count();
        rest.get(..length).unwrap_or_default()
    }

    async fn claim(&self, transaction: &Transaction<'_>, prepared: &Prepared) -> Result<i32, Failure> {
        let newest = self.entries.iter().max_by_key(|entry| entry.position);
        let (position, event) = newest.map_or((None, None), |entry| (Some(entry.position), Some(entry.id.as_str())));
        let epoch = self.target.epoch_of(self.feed).map_err(Failure::Nothing)?;
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&self.target.consumer.as_str(), &self.feed.store.as_str(), &epoch, &position, &event];
        let claimed = transaction.query_opt(&prepared.claim, &parameters).await;
        match claimed.map_err(|error| self.failed("taking the consumer's row", None, &error))? {
            Some(row) => Ok(row.get(0)),
            None => match self.target.not_ours(transaction.client(), self.feed).await {
                Ok(Some(error)) | Err(error) => Err(Failure::Nothing(error)),
                Ok(None) => Err(Failure::Nothing(transient("the consumer's row changed hands meanwhile".to_owned()))),
            },
        }
    }

    async fn apply(
        &self,
        transaction: &Transaction<'_>,
        prepared: &Prepared,
        consumer: i32,
        from: usize,
        run: &[Entry],
    ) -> Result<(), Failure> {
        let named = (run.len() == 1).then_some(from);
        let rows = self.write(transaction, prepared, consumer, run).await;
        let rows = rows.map_err(|error| self.failed("writing events and deposits", named, &error))?;
        let mut effects = Vec::new();
        for (row, (place, entry)) in rows.iter().zip((from..).zip(run)) {
            effects.extend(self.judge(row, consumer, place, entry)?);
        }
        self.take_effect(transaction, prepared, &effects).await?;
        if self.one_by_one {
            // What the operator's constraints put off to the commit is decided here, where it has a name.
            let checked = transaction.batch_execute("set constraints all immediate; set constraints all deferred").await;
            checked.map_err(|error| self.failed("checking deferred constraints", named, &error))?;
        }
        Ok(())
    }

    async fn write(
        &self,
        transaction: &Transaction<'_>,
        prepared: &Prepared,
        consumer: i32,
        run: &[Entry],
    ) -> Result<Vec<Row>, Error> {
        columns! { run =>
            id: |e| e.id.as_str(), chain: |e| e.chain.as_str(), tx_id: |e| e.tx_id.as_str(), output_index: |e| e.output_index,
            epoch: |e| e.epoch, sequence: |e| e.sequence, state: |e| e.state(), chain_name: |e| e.chain_name.as_str(),
            address: |e| e.paid.address.as_str(), reference: |e| e.paid.reference.as_deref(), memo: |e| e.paid.memo.as_deref(),
            asset: |e| e.paid.asset.as_str(), symbol: |e| e.paid.symbol.as_str(), decimals: |e| e.paid.decimals,
            amount: |e| e.paid.amount, from_address: |e| e.paid.from_address.as_deref(), height: |e| e.paid.height,
            block_hash: |e| e.paid.block_hash.as_str(), block_time: |e| e.paid.block_time, confirmations: |e| e.confirmations,
            decided_at: |e| e.decided_at, body: |e| e.body.as_str(),
        }
        let parameters: [&(dyn ToSql + Sync); 23] = [
            &consumer,
            &id,
            &chain,
            &tx_id,
            &output_index,
            &epoch,
            &sequence,
            &state,
            &chain_name,
            &address,
            &reference,
            &memo,
            &asset,
            &symbol,
            &decimals,
            &amount,
            &from_address,
            &height,
            &block_hash,
            &block_time,
            &confirmations,
            &decided_at,
            &body,
        ];
        transaction.query(&prepared.apply, &parameters).await
    }

    /// What an event did, and what follows from it for the operator's books.
    fn judge(&self, row: &Row, consumer: i32, place: usize, entry: &Entry) -> Result<Vec<Effect>, Failure> {
        let of_another = |owner: i32| owner != consumer;
        if !row.get::<_, bool>("fresh") {
            match (row.get::<_, Option<i32>>("by_consumer"), row.get::<_, Option<bool>>("same")) {
                (Some(owner), _) if of_another(owner) => return Err(Failure::At(place, self.shared("event", &entry.id))),
                (_, Some(false)) => return Err(Failure::At(place, self.reused(entry))),
                // Applied by a transaction that ended after this one began to look.
                (None, _) => {
                    return Err(Failure::Collision(transient(format!("event {} is being applied by another session", entry.id))));
                }
                _ => return Ok(Vec::new()),
            }
        }
        if row.get::<_, Option<i32>>("of_consumer").is_some_and(of_another) {
            let deposit = format!("{}:{} of {}", entry.tx_id, entry.output_index, entry.chain);
            return Err(Failure::At(place, self.shared("deposit", &deposit)));
        }
        if !row.get::<_, bool>("changed") {
            return Ok(Vec::new());
        }
        let stood = row.get::<_, Option<&str>>("state") == Some("confirmed");
        Ok(Effect::of(place, entry, stood.then(|| paid(row))))
    }

    fn shared(&self, what: &str, which: &str) -> confirmd_core::SinkError {
        fatal(format!(
            "{}: the {what} {which} was told to another consumer of the schema {}; give each consumer a `schema` of its own",
            self.target.server.label(),
            self.target.schema
        ))
    }

    fn reused(&self, entry: &Entry) -> confirmd_core::SinkError {
        rejected(format!(
            "{}: event {} was applied with another content: the state was an older copy and decided it anew; compare both (`confirmd deliveries show {}`, and body in {}.event), then skip this one",
            self.target.server.label(),
            entry.id,
            entry.id,
            self.target.schema
        ))
    }

    /// Sent together, run one after the other; the first that fails is the one.
    async fn take_effect(&self, transaction: &Transaction<'_>, prepared: &Prepared, effects: &[Effect]) -> Result<(), Failure> {
        let calls = effects.iter().filter_map(|effect| {
            let entry = self.entries.get(effect.place)?;
            let statement = prepared.effect(effect.way)?;
            Some(async move {
                let done = transaction.execute(statement, &effect.parameters(entry)).await;
                done.map_err(|error| self.failed(effect.way.key(), Some(effect.place), &error))
            })
        });
        join_all(calls).await.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// Sorts an error of the server; `place` is the event whose statement it was, if it was of one.
    fn failed(&self, what: &str, place: Option<usize>, error: &Error) -> Failure {
        let target = self.target;
        let entry = place.and_then(|place| self.entries.get(place));
        let of = entry.map_or_else(String::new, |entry| format!(" for event {}", entry.id));
        let context = format!("{}: {what}{of}: {}", target.server.label(), target.server.describe(error));
        let effect = [Way::Confirmed, Way::Reverted].iter().any(|way| way.key() == what);
        match (Trouble::of(error), place) {
            // The session ended, as it does when the server goes down: by itself, or with a last word (57P01 and the like).
            (Trouble::Passing, _) if error.code().is_none_or(|code| code.code().starts_with("57P")) => {
                Failure::Lost(transient(context))
            }
            (Trouble::Collision, _) => Failure::Collision(transient(context)),
            (Trouble::Slow, Some(place)) => Failure::At(place, transient(context)),
            (Trouble::Passing | Trouble::Slow, _) => Failure::Nothing(transient(context)),
            // The operator's function may lack a privilege; ours are checked before anything is sent.
            (Trouble::Setup, Some(place)) if effect => Failure::At(place, rejected(context)),
            (Trouble::Setup, _) => Failure::Nothing(fatal(context)),
            (Trouble::Statement, Some(place)) => Failure::At(place, rejected(context)),
            (Trouble::Statement, None) => Failure::OfSeveral(rejected(context)),
        }
    }
}

/// The payment that stood, as it was credited.
fn paid(row: &Row) -> Paid {
    Paid {
        address: row.get("address"),
        reference: row.get("reference"),
        memo: row.get("memo"),
        asset: row.get("asset"),
        symbol: row.get("symbol"),
        decimals: row.get("decimals"),
        amount: row.get("amount"),
        from_address: row.get("from_address"),
        height: row.get("height"),
        block_hash: row.get("block_hash"),
        block_time: row.get("block_time"),
    }
}
