//! What a batch saves in `sink-postgres`: 500 events a transaction against one, in turn, on one real server; fails below the goal.
//!
//! Each round measures both, so that what else the machine does weighs on both; medians are compared. The cluster lies on a disk,
//! beside the target folder or where `--folder` says, since a commit costs what its disk costs. Needs `tests/postgres/install`.
#![allow(dead_code, unused_imports, unreachable_pub)]

#[path = "../../../tests/e2e/postgres_sink/comparison.rs"]
mod comparison;
#[path = "../../../tests/src/port.rs"]
mod port;
#[path = "../../../tests/src/postgres.rs"]
mod postgres;
#[path = "../../../tests/src/process.rs"]
mod process;
#[path = "../../../tests/src/scratch.rs"]
mod scratch;

use anyhow::{Context, Result, ensure};
use benches::ratio::Ratio;
use clap::Parser;
use comparison::{GOAL, compare};
use confirmd_core::{
    Address, Amount, Asset, AssetId, BlockHash, BlockRef, ChainId, ChainName, ConsumerName, Delivery, DepositKey, Epoch, Event,
    EventId, Feed, Height, Payment, Position, Sequence, Sink, StoreId, Timestamp, Transfer, TxId,
};
use confirmd_sink_postgres::{PostgresConfig, PostgresSink};
use postgres::Postgres;
use std::path::PathBuf;
use std::process::ExitCode;

const EPOCH: Epoch = Epoch(1_790_000_000);
const LEDGER: &str = "
create schema ledger;
create table ledger.posting (event_id text not null, account text, asset text not null, amount numeric(78,0) not null);
create function ledger.post(event text, account text, asset text, amount numeric) returns void
language plpgsql security definer set search_path = ledger as $$
begin insert into ledger.posting values (event, account, asset, amount); end $$;";
const EFFECT: &str =
    "on_confirmed = \"select ledger.post($1, $9, $11, $14)\"\non_reverted = \"select ledger.post($1, $9, $11, -$14)\"\n";

/// Events a transaction.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds; each runs both.
    #[arg(long, default_value_t = 15)]
    rounds: u64,
    /// Single events a round.
    #[arg(long, default_value_t = 100)]
    singles: u64,
    /// Where the cluster lies meanwhile.
    #[arg(long, default_value = "target")]
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let folder = tempfile::Builder::new().prefix("confirmd-bench-postgres-").tempdir_in(&args.folder);
    let cluster = Postgres::start_in(folder.context("make a folder for the cluster")?, &[]).await?;
    cluster.admin("postgres").await?.batch_execute(LEDGER).await.context("make a ledger")?;
    let bare = reached(&cluster, &args, "no effect", "").await?;
    let effect = reached(&cluster, &args, "an effect for each event", EFFECT).await?;
    Ok(if bare && effect { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One comparison, in a schema of its own.
async fn reached(cluster: &Postgres, args: &Args, what: &str, effect: &str) -> Result<bool> {
    let schema = if effect.is_empty() { "bare" } else { "effect" };
    let sink = sink(cluster, schema, effect)?;
    let measured = compare(&sink, args.rounds, args.singles, 0, delivery).await?;
    let admin = cluster.admin("postgres").await?;
    let there: i64 = admin.query_one(&format!("select count(*) from {schema}.event"), &[]).await?.get(0);
    ensure!(u64::try_from(there)? == measured.sent, "{there} events are there of {}", measured.sent);
    let ratio = Ratio(measured.hundredths());
    let reached = measured.hundredths() >= GOAL * 100;
    println!(
        "{what}: one event a transaction {} us, in {} a transaction {} us an event: {ratio} (goal {GOAL}x){}",
        measured.single / 1_000,
        measured.batch,
        measured.batched / 1_000,
        if reached { "" } else { "  MISSED" }
    );
    Ok(reached)
}

fn sink(cluster: &Postgres, schema: &str, effect: &str) -> Result<PostgresSink> {
    let (role, word) = Postgres::SUPERUSER;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), word)?;
    let url = cluster.url(role, "postgres");
    let keys =
        format!("url = {url:?}\npassword = {{ file = {:?} }}\nschema = {schema:?}\ntimeout = \"120s\"\n{effect}", file.path());
    let config: PostgresConfig = toml::from_str(&keys).context("read the keys")?;
    let sink = PostgresSink::new(ConsumerName::new("ledger")?, &config)?;
    if let Some(books) = sink.books() {
        books.fed_by(Feed { store: StoreId::new(format!("{:032x}", 1))?, epoch: EPOCH });
    }
    Ok(sink)
}

/// A deposit of its own each, as the pump hands them over.
fn delivery(number: u64) -> Result<Delivery> {
    let chain = ChainId::new("eip155:31337")?;
    let key = DepositKey { tx_id: TxId::new(format!("0x{:064x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))?, output_index: 0 };
    let asset = Asset { id: AssetId::native(&chain, 60)?, symbol: "ETH".into(), decimals: 18 };
    let address = Address::new(number.to_be_bytes(), format!("0x{number:040x}"));
    let event = Event {
        id: EventId::derive(&chain, &key, EPOCH, Sequence(1)),
        chain,
        chain_name: ChainName::new("devnet")?,
        epoch: EPOCH,
        sequence: Sequence(1),
        transfer: Transfer {
            key,
            payment: Payment { address, asset: asset.id.clone(), amount: Amount::MAX, memo: None },
            block: BlockRef { height: Height(number), hash: BlockHash::new(format!("0x{number:064x}"))? },
            block_time: Some(Timestamp::from_seconds(1_767_225_600)),
            position: 0,
            from: None,
            maturity: None,
        },
        asset,
        reference: Some(format!("customer-{number}").into()),
        confirmations: 12,
        decided_at: Timestamp::from_seconds(1_767_225_601),
        notice: None,
    };
    let body = event.to_body().into();
    Ok(Delivery::new(Position(number), event, body, 1))
}
