//! What a server may say: each provoked for real, each sorted by what to do, with a remedy.

use super::bench::{self, DATABASE, ROLE, cluster, delivery, delivery_of, feed, postings, recorded, sink};
use anyhow::{Context, Result, ensure};
use confirmd_core::{Amount, Sink, SinkBooks, SinkError, SinkErrorKind};
use e2e::{Needs, Postgres, node_trial};
use libtest_mimic::Trial;

const EPOCH: u64 = 1_790_000_000;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Postgres];
    vec![
        node_trial("postgres_sink::k6_what_an_operator_must_mend_is_fatal_at_the_check_and_says_how", needs, setup),
        node_trial("postgres_sink::k6_what_passes_by_itself_is_transient_and_then_delivered", needs, passing),
        node_trial("postgres_sink::k6_a_refused_event_names_itself_and_those_before_it_are_booked", needs, refused),
        node_trial("postgres_sink::g7_an_event_applied_with_another_content_is_refused_and_changes_nothing", needs, reused),
        node_trial(
            "postgres_sink::a_lower_sequence_changes_nothing_and_a_later_epoch_moves_money_only_for_another_payment",
            needs,
            order,
        ),
        node_trial(
            "postgres_sink::k5_an_event_that_is_being_written_by_another_session_is_no_event_by_the_primary_key",
            needs,
            at_once,
        ),
        node_trial("postgres_sink::books_of_another_store_or_a_later_epoch_are_refused_until_adopted", needs, books),
        node_trial("postgres_sink::a_disk_full_on_the_server_is_transient_and_nothing_is_lost", needs, disk_full),
        node_trial("postgres_sink::sslmode_require_is_never_plain_and_trusts_only_what_it_is_told_to", needs, tls),
    ]
}

async fn refusal(keys: &str) -> Result<SinkError> {
    sink(keys, Some(feed(1, EPOCH)))?.check().await.err().context("the check found nothing")
}

fn ensure_fatal(error: &SinkError, says: &str) -> Result<()> {
    ensure!(error.kind == SinkErrorKind::Fatal && error.to_string().contains(says), "wanted {says:?}: {error}");
    Ok(())
}

async fn setup() -> Result<()> {
    let cluster = cluster(&[]).await?;
    let keys = bench::keys(cluster.port(), "20s");
    let admin = cluster.admin(DATABASE).await?;
    admin.batch_execute(&format!("revoke create on database {DATABASE} from {ROLE}")).await?;
    ensure_fatal(&refusal(&keys).await?, "grant what docs/postgres.md lists")?;
    admin.batch_execute(&format!("grant create on database {DATABASE} to {ROLE}")).await?;
    ensure_fatal(&refusal(&keys.replace(&format!("/{DATABASE}"), "/nowhere")).await?, "create the database")?;
    ensure_fatal(&refusal(&keys.replace(ROLE, "somebody")).await?, "correct user or password")?;
    ensure_fatal(&refusal(&keys.replace("ledger.post($1, $9, $11, $14)", "ledger.nothing($1)")).await?, "on_confirmed")?;
    ensure_fatal(
        &refusal(&keys.replace("ledger.post($1, $9, $11, $14)", "ledger.post($14, $9, $11, $14)")).await?,
        "on_confirmed",
    )?;
    ensure_fatal(&refusal(&keys.replace("$14)", "$22)")).await?, "on_confirmed")?;
    ensure_fatal(&refusal(&keys.replace("-$14)", "-$14); select (1")).await?, "on_reverted")?;
    ensure!(recorded(&admin).await?.0 == 0);
    // A port nobody listens on may be a server that starts.
    let down = refusal(&keys.replace(&cluster.port().to_string(), "1")).await?;
    ensure!(matches!(down.kind, SinkErrorKind::Transient { .. }), "{down}");
    Ok(())
}

async fn passing() -> Result<()> {
    let cluster = cluster(&["max_connections=14", "superuser_reserved_connections=3"]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let transient = |error: &SinkError, code: &str| -> Result<()> {
        ensure!(
            matches!(error.kind, SinkErrorKind::Transient { .. }) && error.to_string().contains(code),
            "wanted {code}: {error}"
        );
        Ok(())
    };
    let keys = bench::keys(cluster.port(), "3s");
    let (one, two) = ([delivery(1, 1, EPOCH)], [delivery(2, 1, EPOCH)]);

    // A statement that takes too long: something else holds the lock.
    let held = sink(&keys, Some(feed(1, EPOCH)))?;
    held.deliver(&one).await?;
    let mut other = cluster.admin(DATABASE).await?;
    let lock = other.transaction().await?;
    lock.batch_execute("lock table confirmd.event in exclusive mode").await?;
    let error = held.deliver(&two).await.err().context("delivered past a lock")?;
    ensure!(error.accepted == 0 && matches!(error.error.kind, SinkErrorKind::Transient { .. }), "{}", error.error);
    lock.rollback().await?;
    held.deliver(&two).await?;

    // The server ends a statement that is too slow for it.
    admin.batch_execute("create function ledger.slow() returns void language sql as 'select pg_sleep(60)'").await?;
    let slow = sink(&keys.replace("ledger.post($1, $9, $11, $14)", "ledger.slow()"), Some(feed(1, EPOCH)))?;
    let cancel = "select pg_cancel_backend(pid) from pg_stat_activity where query like '%ledger.slow()%' and state = 'active' and pid <> pg_backend_pid()";
    let cancelled = async {
        while admin.query(cancel, &[]).await?.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        anyhow::Ok(())
    };
    let events = [delivery(3, 1, EPOCH)];
    let (sent, ended) = tokio::join!(slow.deliver(&events), cancelled);
    ended?;
    transient(&sent.err().context("no limit")?.error, "57014")?;

    // A serialization failure, as often as it is tried.
    admin
        .batch_execute("create function ledger.lost() returns void language plpgsql as $$ begin raise sqlstate '40001'; end $$")
        .await?;
    let lost = keys.replace("ledger.post($1, $9, $11, $14)", "ledger.lost()");
    let error = sink(&lost, Some(feed(1, EPOCH)))?.deliver(&[delivery(3, 1, EPOCH)]).await.err().context("no failure")?;
    transient(&error.error, "40001")?;

    // A replica that only reads, as after a failover to one that was not promoted yet.
    admin.batch_execute(&format!("alter database {DATABASE} set default_transaction_read_only = on")).await?;
    let error = sink(&keys, Some(feed(1, EPOCH)))?.deliver(&[delivery(4, 1, EPOCH)]).await.err().context("written")?;
    transient(&error.error, "25006")?;
    ensure!(error.error.to_string().contains("target_session_attrs"), "{}", error.error);
    // The superuser's session began before.
    admin.batch_execute(&format!("alter database {DATABASE} reset default_transaction_read_only")).await?;

    // Every connection is taken.
    let late = sink(&keys, Some(feed(1, EPOCH)))?;
    let mut taken = Vec::new();
    let error = loop {
        match cluster.connect(ROLE, bench::PASSWORD, DATABASE).await {
            Ok(client) => taken.push(client),
            Err(_) => break late.deliver(&[delivery(4, 1, EPOCH)]).await.err().context("connected")?,
        }
    };
    transient(&error.error, "53300")?;
    drop(taken);
    // The server needs a moment to see that they are gone.
    let mut tries = 0;
    while late.deliver(&[delivery(4, 1, EPOCH)]).await.is_err() {
        tries += 1;
        ensure!(tries < 200, "still no connection");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    ensure!(postings(&admin).await?.len() == 3);
    Ok(())
}

async fn refused() -> Result<()> {
    let cluster = cluster(&[]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let target = sink(&bench::keys(cluster.port(), "20s"), Some(feed(1, EPOCH)))?;
    let batch: Vec<_> = (0..6).map(|number| delivery(number, 1, EPOCH)).collect();
    let names = |range: std::ops::Range<usize>| batch[range].iter().map(|one| one.event.to_string()).collect::<Vec<_>>();
    // The operator's function refuses the fourth.
    admin.batch_execute("update ledger.rule set room = 3").await?;
    let error = target.deliver(&batch).await.err().context("taken")?;
    ensure!(error.accepted == 3 && matches!(error.error.kind, SinkErrorKind::Rejected { .. }), "{error}");
    ensure!(error.error.to_string().contains(batch[3].event.as_str()) && error.error.to_string().contains("closed"), "{error}");
    ensure!(postings(&admin).await? == names(0..3) && recorded(&admin).await?.0 == 3);
    admin.batch_execute("update ledger.rule set room = null").await?;

    // A trigger of the operator's on our table refuses the fifth: it is found though one statement writes them all.
    let fifth = batch[4].event.as_str();
    let check = format!("alter table confirmd.deposit add constraint no_fifth check (event_id <> '{fifth}')");
    admin.batch_execute(&check).await?;
    let error = target.deliver(&batch[3..]).await.err().context("taken")?;
    ensure!(error.accepted == 1 && error.error.to_string().contains(fifth), "{error}");
    admin.batch_execute("alter table confirmd.deposit drop constraint no_fifth").await?;

    // A constraint that is only looked at when the transaction ends refuses the sixth.
    admin
        .batch_execute(&format!(
            "create function ledger.late() returns trigger language plpgsql as $$ begin
                if new.event_id = '{}' then raise exception 'too late'; end if; return null; end $$;
             create constraint trigger late after insert on ledger.posting deferrable initially deferred
                for each row execute function ledger.late()",
            batch[5].event
        ))
        .await?;
    let error = target.deliver(&batch[4..]).await.err().context("taken")?;
    ensure!(error.accepted == 1 && error.error.to_string().contains("too late"), "{error}");
    ensure!(postings(&admin).await? == names(0..5));
    Ok(())
}

async fn reused() -> Result<()> {
    let cluster = cluster(&[]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let target = sink(&bench::keys(cluster.port(), "20s"), Some(feed(1, EPOCH)))?;
    target.deliver(&[delivery(1, 1, EPOCH)]).await?;
    let other = delivery_of(1, 1, EPOCH, |event| event.transfer.payment.amount = Amount::from(5));
    let error = target.deliver(&[delivery(2, 1, EPOCH), other]).await.err().context("taken")?;
    ensure!(error.accepted == 1 && error.error.to_string().contains("another content"), "{error}");
    ensure!(postings(&admin).await?.len() == 2);
    Ok(())
}

async fn order() -> Result<()> {
    let cluster = cluster(&[]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let keys = bench::keys(cluster.port(), "20s");
    let target = sink(&keys, Some(feed(1, EPOCH)))?;
    target.deliver(&[delivery(1, 1, EPOCH), delivery(1, 2, EPOCH), delivery(1, 3, EPOCH), delivery(2, 1, EPOCH)]).await?;
    target.deliver(&[delivery(1, 1, EPOCH), delivery(1, 2, EPOCH)]).await?;
    let posted = postings(&admin).await?;
    ensure!(posted.len() == 4, "{posted:?}");
    // A restored state decides again in a later epoch: what stands and stands is not moved.
    let later = sink(&keys, Some(feed(1, EPOCH + 1)))?;
    later.deliver(&[delivery(1, 1, EPOCH + 1)]).await?;
    ensure!(postings(&admin).await?.len() == 4);
    // Another payment is.
    let change = |event: &mut confirmd_core::Event| event.transfer.payment.amount = Amount::from(5);
    later.deliver(&[delivery_of(2, 1, EPOCH + 1, change)]).await?;
    let sums = admin.query_one("select count(*), sum(amount)::text from ledger.posting", &[]).await?;
    let standing = admin.query_one("select sum(amount)::text from confirmd.deposit where state = 'confirmed'", &[]).await?;
    ensure!(sums.get::<_, i64>(0) == 6 && sums.get::<_, String>(1) == standing.get::<_, String>(0));
    // An event of the earlier epoch comes late.
    later.deliver(&[delivery(2, 2, EPOCH)]).await?;
    ensure!(postings(&admin).await?.len() == 6 && recorded(&admin).await?.0 == 7);
    // So do two of the same epoch that were never seen: they are put on record, and that is all.
    later.deliver(&[delivery(5, 3, EPOCH + 1)]).await?;
    later.deliver(&[delivery(5, 1, EPOCH + 1), delivery(5, 2, EPOCH + 1)]).await?;
    ensure!(postings(&admin).await?.len() == 7 && recorded(&admin).await?.0 == 10);
    let stands = "select count(*) from confirmd.deposit where sequence = 3 and state = 'confirmed' and event_id = $1";
    let stands = admin.query_one(stands, &[&delivery(5, 3, EPOCH + 1).event.as_str()]).await?;
    ensure!(stands.get::<_, i64>(0) == 1, "a lower sequence changed what stands");
    Ok(())
}

/// Another session writes the event while we apply it: what came first would see nothing of it. The primary key does.
async fn at_once() -> Result<()> {
    let cluster = cluster(&[]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let target = sink(&bench::keys(cluster.port(), "60s"), Some(feed(1, EPOCH)))?;
    let twin = delivery(1, 1, EPOCH);
    target.deliver(&[twin.clone(), delivery(2, 1, EPOCH)]).await?;
    // Its traces are taken away, and come back in a transaction that has not ended.
    admin.batch_execute("create table ledger.aside as select * from confirmd.event where tx_id like '%01'").await?;
    admin.batch_execute("create table ledger.aside_deposit as select * from confirmd.deposit where tx_id like '%01'").await?;
    admin
        .batch_execute("delete from confirmd.event where tx_id like '%01'; delete from confirmd.deposit where tx_id like '%01'")
        .await?;
    let other = cluster.admin(DATABASE).await?;
    other
        .batch_execute(
            "begin; insert into confirmd.event select * from ledger.aside; insert into confirmd.deposit select * from ledger.aside_deposit",
        )
        .await?;
    let batch = [delivery(3, 1, EPOCH), twin, delivery(4, 1, EPOCH)];
    let waiting = "select 1 from pg_stat_activity where usename = $1 and wait_event_type = 'Lock'";
    let ends = async {
        while admin.query(waiting, &[&ROLE]).await?.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        anyhow::Ok(other.batch_execute("commit").await?)
    };
    let (sent, ended) = tokio::join!(target.deliver(&batch), ends);
    ended?;
    sent?;
    let wanted: Vec<_> = (1..5).map(|number| delivery(number, 1, EPOCH).event.to_string()).collect();
    ensure!(postings(&admin).await? == wanted && recorded(&admin).await?.0 == 4, "{:?}", postings(&admin).await?);
    Ok(())
}

async fn books() -> Result<()> {
    let cluster = cluster(&[]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let keys = bench::keys(cluster.port(), "20s");
    let ours = sink(&keys, Some(feed(1, EPOCH)))?;
    ensure!(ours.newest().await?.is_none());
    ours.deliver(&[delivery(2, 1, EPOCH), delivery(1, 1, EPOCH)]).await?;
    let newest = ours.newest().await?.context("no newest event")?;
    ensure!(newest.feed == feed(1, EPOCH) && newest.event == delivery(2, 1, EPOCH).event, "{newest:?}");
    let chain = delivery(1, 1, EPOCH).chain;
    let page = ours.last_events(&chain, None, 1).await?;
    ensure!(page.len() == 1 && *page[0] == *delivery(1, 1, EPOCH).body);
    let rest = ours.last_events(&chain, Some(&delivery(1, 1, EPOCH).key), 10).await?;
    ensure!(rest.len() == 1 && *rest[0] == *delivery(2, 1, EPOCH).body);

    let other = sink(&keys, Some(feed(2, EPOCH + 9)))?;
    for error in [other.check().await.err(), other.deliver(&[delivery(3, 1, EPOCH + 9)]).await.err().map(|error| error.error)] {
        ensure_fatal(&error.context("another store was taken")?, "confirmd consumer adopt ledger")?;
    }
    // A restored copy takes over; the one it was copied from is told so.
    let restored = sink(&keys, Some(feed(1, EPOCH + 5)))?;
    restored.check().await?;
    restored.deliver(&[delivery(3, 1, EPOCH + 5)]).await?;
    ensure_fatal(&ours.deliver(&[delivery(4, 1, EPOCH)]).await.err().context("both feed")?.error, "run --restored")?;
    ensure!(postings(&admin).await?.len() == 3);

    // What a state of an earlier epoch decides would be passed over: it can't have the books.
    for early in [feed(2, EPOCH + 4), feed(1, EPOCH)] {
        ensure_fatal(&other.adopt(&early).await.err().context("adopted by an earlier epoch")?, "run --restored")?;
    }
    restored.check().await?;
    let before = other.adopt(&feed(2, EPOCH + 9)).await?;
    ensure!(before == Some(feed(1, EPOCH + 5)), "{before:?}");
    other.deliver(&[delivery(4, 1, EPOCH + 9)]).await?;
    ensure_fatal(&restored.check().await.err().context("both feed")?, "adopt")?;
    // Nobody said who feeds.
    let nobody = sink(&keys, None)?;
    ensure_fatal(&nobody.deliver(&[delivery(5, 1, EPOCH)]).await.err().context("taken")?.error, "which store")?;
    nobody.check().await?;
    Ok(())
}

async fn disk_full() -> Result<()> {
    let cluster = cluster(&[]).await?;
    let admin = cluster.admin(DATABASE).await?;
    // What the server says when it can't write, from within a statement: a real full disk would take the whole test machine's memory.
    admin
        .batch_execute(
            "create function ledger.full() returns void language plpgsql as $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$",
        )
        .await?;
    let keys = bench::keys(cluster.port(), "20s");
    let full = sink(&keys.replace("ledger.post($1, $9, $11, $14)", "ledger.full()"), Some(feed(1, EPOCH)))?;
    let batch = [delivery(1, 1, EPOCH), delivery(2, 1, EPOCH)];
    let error = full.deliver(&batch).await.err().context("written")?;
    ensure!(error.accepted == 0 && matches!(error.error.kind, SinkErrorKind::Transient { .. }), "{error}");
    ensure!(error.error.to_string().contains("make room"), "{error}");
    ensure!(recorded(&admin).await?.0 == 0);
    sink(&keys, Some(feed(1, EPOCH)))?.deliver(&batch).await?;
    ensure!(postings(&admin).await?.len() == 2);
    Ok(())
}

async fn tls() -> Result<()> {
    let mut cluster: Postgres = cluster(&[]).await?;
    let secure = |port: u16, mode: &str| {
        bench::keys(port, "20s").replace(&format!("/{DATABASE}\""), &format!("/{DATABASE}?sslmode={mode}\""))
    };
    // The server has none.
    for mode in ["require", "verify-full"] {
        ensure_fatal(&refusal(&secure(cluster.port(), mode)).await?, "TLS")?;
    }
    sink(&secure(cluster.port(), "prefer"), Some(feed(1, EPOCH)))?.check().await?;
    // Trusted, of another name.
    let file = tempfile::NamedTempFile::new()?;
    let trusted = format!("{}ca_file = {:?}\n", secure(cluster.port(), "verify-full"), file.path());
    std::fs::write(file.path(), certify(&cluster, "db.example")?)?;
    cluster.admin("postgres").await?.batch_execute("alter system set ssl = on").await?;
    cluster.restart().await?;
    ensure_fatal(&refusal(&trusted).await?, "certificate")?;
    // Of the right name, and not trusted.
    let certificate = certify(&cluster, "127.0.0.1")?;
    cluster.restart().await?;
    ensure_fatal(&refusal(&secure(cluster.port(), "require")).await?, "certificate")?;
    std::fs::write(file.path(), certificate)?;
    let target = sink(&trusted, Some(feed(1, EPOCH)))?;
    target.check().await?;
    target.deliver(&[delivery(1, 1, EPOCH)]).await?;
    let admin = cluster.admin(DATABASE).await?;
    let ask = format!("select bool_and(s.ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) where a.usename = '{ROLE}'");
    ensure!(admin.query_one(&ask, &[]).await?.get::<_, Option<bool>>(0) == Some(true), "a session is plain");
    Ok(())
}

/// A new certificate of this name for the server; it is used from the next start on.
fn certify(cluster: &Postgres, name: &str) -> Result<String> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()])?;
    cluster.put_file("server.crt", &made.cert.pem())?;
    cluster.put_file("server.key", &made.signing_key.serialize_pem())?;
    Ok(made.cert.pem())
}
