//! The connection breaks at every message of a batch, the server dies at any moment: nothing is lost, nothing is doubled, and what is
//! said to be accepted is.

use super::bench::{self, DATABASE, cluster, delivery, feed, postings, recorded, sink};
use anyhow::{Context, Result, ensure};
use confirmd_core::{DeliverError, Delivery, Sink, SinkErrorKind};
use e2e::{At, Cut, Needs, Postgres, WireProxy, node_trial};
use libtest_mimic::Trial;
use std::time::Duration;
use tokio_postgres::Client;

const EPOCH: u64 = 1_790_000_000;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Postgres];
    vec![
        node_trial(
            "postgres_sink::k3_k10_a_connection_cut_before_any_message_of_a_batch_is_mended_within_the_call",
            needs,
            || every_message(Cut::Before, false),
        ),
        node_trial(
            "postgres_sink::k3_k10_a_connection_cut_behind_any_message_of_a_batch_is_mended_within_the_call",
            needs,
            || every_message(Cut::After, false),
        ),
        node_trial("postgres_sink::k5_a_server_lost_at_any_message_of_a_batch_gets_it_again_and_books_it_once", needs, || {
            every_message(Cut::After, true)
        }),
        node_trial("postgres_sink::k5_a_server_killed_before_any_statement_of_a_batch_books_it_once", needs, || {
            server_killed(Cut::Before)
        }),
        node_trial("postgres_sink::k5_a_server_killed_after_any_statement_of_a_batch_books_it_once", needs, || {
            server_killed(Cut::After)
        }),
        node_trial("postgres_sink::k5_a_replica_that_takes_over_has_everything_and_the_rest_is_booked_there", needs, failover),
        full_trial(),
        node_trial("postgres_sink::k9_silence_at_any_message_of_a_batch_ends_at_the_deadline_and_books_once", needs, silence),
        node_trial("postgres_sink::a_server_killed_again_and_again_books_everything_once", needs, killed),
        node_trial("postgres_sink::several_instances_that_start_at_once_migrate_once", needs, migrated_at_once),
    ]
}

/// Ten deposits, of which two are taken back in the same batch.
fn batch(round: u64) -> Vec<Delivery> {
    let from = round * 10;
    let mut batch: Vec<_> = (from..from + 10).map(|number| delivery(number, 1, EPOCH)).collect();
    batch.insert(5, delivery(from + 2, 2, EPOCH));
    batch.push(delivery(from + 7, 2, EPOCH));
    batch
}

/// Delivers what is left until all is accepted, as the pump does; how many calls it took.
async fn until_accepted(sink: &dyn Sink, batch: &[Delivery]) -> Result<u64> {
    let mut rest = batch;
    for calls in 1..=50_u64 {
        match sink.deliver(rest).await {
            Ok(()) => return Ok(calls),
            Err(DeliverError { accepted, error }) => {
                ensure!(matches!(error.kind, SinkErrorKind::Transient { .. }), "{error}");
                rest = rest.get(accepted..).context("more was accepted than was given")?;
                // As the pump's schedule does: a server that starts takes a moment.
                tokio::time::sleep(Duration::from_millis(10 * calls)).await;
            }
        }
    }
    anyhow::bail!("never accepted")
}

/// Every event on record once, every change posted once and in order, the books as they must be.
async fn ensure_once(admin: &Client, rounds: u64) -> Result<()> {
    let wanted: Vec<String> = (0..rounds).flat_map(batch).map(|delivery| delivery.event.to_string()).collect();
    let posted = postings(admin).await?;
    ensure!(posted == wanted, "posted {posted:?}\nwanted {wanted:?}");
    let (events, deposits) = recorded(admin).await?;
    ensure!(usize::try_from(events)? == wanted.len(), "{events} events on record");
    let reverted = deposits.iter().filter(|(_, state)| state == "reverted").count();
    ensure!(u64::try_from(reverted)? == rounds * 2 && u64::try_from(deposits.len())? == rounds * 10, "{deposits:?}");
    let balance = admin.query_one("select sum(amount)::text from ledger.posting", &[]).await?.get::<_, String>(0);
    let standing = admin.query_one("select sum(amount)::text from confirmd.deposit where state = 'confirmed'", &[]).await?;
    ensure!(balance == standing.get::<_, String>(0), "the ledger has {balance}");
    // The consumer is where its newest event is, in the same transaction.
    let newest = (0..rounds).flat_map(batch).max_by_key(|delivery| delivery.position).context("no batch")?;
    let at = admin.query_one("select position, event_id from confirmd.consumer", &[]).await?;
    let at = (u64::try_from(at.get::<_, i64>(0))?, at.get::<_, String>(1));
    ensure!(at == (newest.position.0, newest.event.to_string()), "the consumer is at {at:?}");
    Ok(())
}

/// The messages of one batch on a warm connection.
async fn messages(sink: &dyn Sink, proxy: &WireProxy, round: u64) -> Result<u64> {
    proxy.repair();
    sink.deliver(&batch(round)).await?;
    Ok(proxy.messages())
}

async fn every_message(cut: Cut, down: bool) -> Result<()> {
    let cluster = cluster(&[]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let proxy = WireProxy::start(cluster.port()).await?;
    let sink = sink(&bench::keys(proxy.port(), "20s"), Some(feed(1, EPOCH)))?;
    sink.check().await?;
    sink.deliver(&batch(0)).await?;
    let count = messages(&sink, &proxy, 1).await?;
    ensure!(count > 10, "a batch is {count} messages");
    let mut round = 2;
    for message in 1..=count {
        proxy.cut(At::Message(message), cut, down);
        if down {
            let error = sink.deliver(&batch(round)).await.err().context("the server was lost, and all was accepted")?;
            // What is said to be accepted is there, and nothing else.
            let (events, _) = recorded(&admin).await?;
            let there = "select exists (select from confirmd.consumer c join confirmd.event e on e.id = c.event_id)";
            ensure!(admin.query_one(there, &[]).await?.get::<_, bool>(0), "the consumer is beyond what was applied");
            ensure!(matches!(error.error.kind, SinkErrorKind::Transient { .. }), "{}", error.error);
            ensure!(error.accepted == 0, "{} accepted of {events}", error.accepted);
            proxy.repair();
            until_accepted(&sink, &batch(round)).await?;
        } else {
            let sent = sink.deliver(&batch(round)).await;
            ensure!(sent.is_ok(), "cut at message {message} of {count}: {sent:?}");
        }
        ensure!(down || proxy.cuts() == 1, "message {message} of {count} never came");
        round += 1;
        ensure_once(&admin, round).await.with_context(|| format!("{cut:?} at message {message} of {count}"))?;
    }
    Ok(())
}

/// The server itself is killed where a statement of the batch ends, and comes back.
async fn server_killed(cut: Cut) -> Result<()> {
    let mut cluster = cluster(&[]).await?;
    let proxy = WireProxy::start(cluster.port()).await?;
    let sink = sink(&bench::keys(proxy.port(), "20s"), Some(feed(1, EPOCH)))?;
    sink.check().await?;
    sink.deliver(&batch(0)).await?;
    let mut round = 1;
    loop {
        proxy.cut_and(At::Statement(round), cut, cluster.killer()?);
        let events = batch(round);
        let mut sending = std::pin::pin!(until_accepted(&sink, &events));
        let mut sent = None;
        while sent.is_none() && proxy.cuts() == 0 {
            tokio::select! {
                done = sending.as_mut() => sent = Some(done),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
        let killed = proxy.cuts() > 0;
        if killed {
            cluster.start_after_kill().await?;
        }
        match sent {
            Some(sent) => sent,
            None => sending.await,
        }
        .with_context(|| format!("killed {cut:?} statement {round}"))?;
        proxy.repair();
        round += 1;
        let admin = cluster.admin(DATABASE).await?;
        ensure_once(&admin, round).await.with_context(|| format!("killed {cut:?} statement {}", round - 1))?;
        if !killed {
            break;
        }
    }
    ensure!(round > 5, "a batch is {} statements", round - 2);
    eprintln!("the server was killed {cut:?} each of the {} statements of a batch", round - 2);
    Ok(())
}

/// The server dies, its synchronous replica becomes the one that is written to; both stand in the URL.
async fn failover() -> Result<()> {
    let mut cluster = cluster(&["max_wal_senders=4"]).await?;
    let standby = cluster.standby().await?;
    let one = format!("127.0.0.1:{}/{DATABASE}", cluster.port());
    let both = format!("127.0.0.1:{},127.0.0.1:{}/{DATABASE}?target_session_attrs=read-write", cluster.port(), standby.port());
    let sink = sink(&bench::keys(cluster.port(), "3s").replace(&one, &both), Some(feed(1, EPOCH)))?;
    sink.check().await?;
    for round in 0..3 {
        sink.deliver(&batch(round)).await?;
    }
    let events = batch(3);
    let mut sending = std::pin::pin!(sink.deliver(&events));
    // Somewhere within it.
    let early = tokio::time::timeout(Duration::from_millis(4), sending.as_mut()).await;
    cluster.kill()?;
    let early = match early {
        Ok(sent) => sent,
        Err(_) => sending.await,
    };
    if let Err(error) = early {
        ensure!(matches!(error.error.kind, SinkErrorKind::Transient { .. }), "{}", error.error);
    }
    // A replica that only reads takes nothing, and it is no disaster.
    let error = sink.deliver(&batch(4)).await.err().context("a replica that only reads took it")?;
    ensure!(error.accepted == 0 && matches!(error.error.kind, SinkErrorKind::Transient { .. }), "{}", error.error);
    standby.promote().await?;
    for round in 3..6 {
        until_accepted(&sink, &batch(round)).await?;
    }
    ensure_once(&standby.admin(DATABASE).await?, 6).await
}

/// Of the file system that gets full: some thousand events.
const SMALL: u64 = 1024 * 1024;

fn full_trial() -> Trial {
    let name = "postgres_sink::k5_a_real_disk_that_is_full_loses_nothing_and_books_once_when_there_is_room";
    let trial = node_trial(name, &[Needs::Postgres], full);
    match Postgres::can_mount() {
        true => trial,
        false => trial.with_kind("a small file system can't be mounted: run as root").with_ignored_flag(true),
    }
}

async fn full() -> Result<()> {
    let cluster = bench::prepared(Postgres::start_with_small_disk(SMALL, &[]).await?).await?;
    let admin = cluster.admin(DATABASE).await?;
    let sink = sink(&bench::keys(cluster.port(), "5s"), Some(feed(1, EPOCH)))?;
    sink.check().await?;
    admin.batch_execute(&format!("create tablespace small location '{}'", cluster.small_folder().display())).await?;
    admin.batch_execute("alter table confirmd.event set tablespace small").await?;
    let mut round = 0;
    let error = loop {
        ensure!(round < 1_000, "the disk is never full");
        match sink.deliver(&batch(round)).await {
            Ok(()) => round += 1,
            Err(error) => break error,
        }
    };
    let said = error.error.to_string();
    ensure!(error.accepted == 0 && matches!(error.error.kind, SinkErrorKind::Transient { .. }), "{said}");
    ensure!(said.contains("53100") && said.contains("No space left on device") && said.contains("make room"), "{said}");
    ensure_once(&admin, round).await?;
    admin.batch_execute("alter table confirmd.event set tablespace pg_default").await?;
    sink.deliver(&batch(round)).await?;
    ensure_once(&admin, round + 1).await
}

async fn silence() -> Result<()> {
    let cluster = cluster(&[]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let proxy = WireProxy::start(cluster.port()).await?;
    let sink = sink(&bench::keys(proxy.port(), "1500ms"), Some(feed(1, EPOCH)))?;
    sink.check().await?;
    until_accepted(&sink, &batch(0)).await?;
    let count = messages(&sink, &proxy, 1).await?;
    let mut round = 2;
    // Statements come in groups of messages; every third one is enough to meet each, and each costs a deadline.
    for message in (1..=count).step_by(3).chain([count]) {
        proxy.cut(At::Message(message), Cut::SilenceAfter, false);
        let began = tokio::time::Instant::now();
        let _ = sink.deliver(&batch(round)).await;
        ensure!(began.elapsed() < Duration::from_secs(8), "message {message}: {:?}", began.elapsed());
        proxy.repair();
        until_accepted(&sink, &batch(round)).await?;
        round += 1;
        ensure_once(&admin, round).await.with_context(|| format!("silence behind message {message} of {count}"))?;
    }
    Ok(())
}

async fn killed() -> Result<()> {
    let mut cluster = cluster(&[]).await?;
    let sink = sink(&bench::keys(cluster.port(), "5s"), Some(feed(1, EPOCH)))?;
    sink.check().await?;
    let rounds = 24;
    for round in 0..rounds {
        let events = batch(round);
        let kills = round % 3 == 1;
        let killer = async {
            // Somewhere within the call: it takes a few milliseconds.
            tokio::time::sleep(Duration::from_micros(400 * round)).await;
            if kills {
                cluster.kill()?;
                cluster.start_again().await?;
            }
            Ok(())
        };
        let (sent, killed): (Result<u64>, Result<()>) = tokio::join!(until_accepted(&sink, &events), killer);
        killed?;
        sent?;
    }
    ensure_once(&cluster.admin(DATABASE).await?, rounds).await
}

async fn migrated_at_once() -> Result<()> {
    let cluster: Postgres = cluster(&[]).await?;
    let keys = bench::keys(cluster.port(), "20s");
    let sinks = (0..6).map(|_| sink(&keys, Some(feed(1, EPOCH)))).collect::<Result<Vec<_>>>()?;
    for check in futures::future::join_all(sinks.iter().map(Sink::check)).await {
        check?;
    }
    let admin = cluster.admin(DATABASE).await?;
    // Each from 1 to the last once, however many there are.
    let row = admin.query_one("select count(*), max(version)::bigint from confirmd.migration where part = 'sink'", &[]).await?;
    let (count, last) = (row.get::<_, i64>(0), row.get::<_, i64>(1));
    ensure!(count == last && count > 0, "{count} migrations on record, the last is {last}");
    // One of a newer version is refused, with what to do.
    admin.batch_execute("insert into confirmd.migration values ('sink', 99, now())").await?;
    let error = sink(&keys, None)?.check().await.err().context("a newer schema was taken")?;
    ensure!(error.kind == SinkErrorKind::Fatal && error.to_string().contains("newer"), "{error}");
    Ok(())
}
