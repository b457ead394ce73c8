//! A cluster with the operator's own ledger in it, and sinks that lead there.

use anyhow::{Context, Result};
use confirmd_core::{
    Address, Amount, Asset, AssetId, BlockHash, BlockRef, ChainId, ChainName, ConsumerName, Delivery, DepositKey, Epoch, Event,
    EventId, Feed, Height, Payment, Position, Sequence, Sink, StoreId, Timestamp, Transfer, TxId,
};
use confirmd_sink_postgres::{PostgresConfig, PostgresSink};
use e2e::Postgres;
use tokio_postgres::Client;

/// The database of the operator, the role of confirmd and its password.
pub(crate) const DATABASE: &str = "shop";
pub(crate) const ROLE: &str = "confirmd_role";
pub(super) const PASSWORD: &str = "correct-horse-battery";
pub(super) const PASSWORD_ENV: &str = "CONFIRMD_E2E_POSTGRES_PASSWORD";

/// The operator's side: a ledger that confirmd's role may only call, and whose every posting is on record in order.
const OPERATOR: &str = "
create schema ledger;
create table ledger.posting (n bigint generated always as identity primary key, event_id text not null, account text,
    asset text not null, amount numeric(78,0) not null);
create table ledger.rule (room bigint, says text);
insert into ledger.rule values (null, null);
create function ledger.post(event text, account text, asset text, amount numeric) returns void
language plpgsql security definer set search_path = ledger as $$
declare room bigint; says text;
begin
    select r.room, r.says into room, says from ledger.rule r;
    if room is not null and (select count(*) from ledger.posting) >= room then
        raise exception '%', coalesce(says, 'the account is closed');
    end if;
    insert into ledger.posting (event_id, account, asset, amount) values (event, account, asset, amount);
end $$;
revoke all on function ledger.post from public;
grant usage on schema ledger to confirmd_role;
grant execute on function ledger.post to confirmd_role;
";

/// The keys of a sink that posts to the ledger.
pub(super) fn keys(port: u16, timeout: &str) -> String {
    format!(
        "url = \"postgres://{ROLE}@127.0.0.1:{port}/{DATABASE}\"\n\
         password = {{ env = \"{PASSWORD_ENV}\" }}\n\
         on_confirmed = \"select ledger.post($1, $9, $11, $14)\"\n\
         on_reverted = \"select ledger.post($1, $9, $11, -$14)\"\n\
         timeout = \"{timeout}\"\n"
    )
}

/// A cluster with the operator's database, and what the role needs and no more.
pub(super) async fn cluster(settings: &[&str]) -> Result<Postgres> {
    prepared(Postgres::start_with(settings).await?).await
}

/// The operator's database in a running cluster.
pub(crate) async fn prepared(cluster: Postgres) -> Result<Postgres> {
    let admin = cluster.admin("postgres").await?;
    admin.batch_execute(&format!("create role {ROLE} login password '{PASSWORD}'")).await?;
    admin.batch_execute(&format!("create database {DATABASE}")).await?;
    let admin = cluster.admin(DATABASE).await?;
    admin.batch_execute(OPERATOR).await.context("make the operator's ledger")?;
    admin.batch_execute(&format!("grant create on database {DATABASE} to {ROLE}")).await?;
    Ok(cluster)
}

/// Who feeds in trials.
pub(super) fn feed(store: u8, epoch: u64) -> Feed {
    Feed { store: StoreId::new(format!("{store:032x}")).unwrap(), epoch: Epoch(epoch) }
}

/// A sink with these keys; the password is read from a file, since a process has but one environment.
pub(super) fn sink(keys: &str, feed: Option<Feed>) -> Result<PostgresSink> {
    let word = tempfile::NamedTempFile::new()?;
    std::fs::write(word.path(), PASSWORD)?;
    let keys = keys.replace(&format!("{{ env = \"{PASSWORD_ENV}\" }}"), &format!("{{ file = {:?} }}", word.path()));
    let config: PostgresConfig = toml::from_str(&keys).context("read the keys")?;
    let sink = PostgresSink::new(ConsumerName::new("ledger")?, &config)?;
    if let (Some(books), Some(feed)) = (sink.books(), feed) {
        books.fed_by(feed);
    }
    Ok(sink)
}

/// Key `number` at a sequence, as the pump hands it over.
pub(super) fn delivery(number: u64, sequence: u64, epoch: u64) -> Delivery {
    delivery_of(number, sequence, epoch, |_| {})
}

pub(super) fn delivery_of(number: u64, sequence: u64, epoch: u64, change: impl FnOnce(&mut Event)) -> Delivery {
    let chain = ChainId::new("eip155:31337").unwrap();
    let key = DepositKey { tx_id: TxId::new(format!("0x{number:064x}")).unwrap(), output_index: 0 };
    let asset = Asset { id: AssetId::native(&chain, 60).unwrap(), symbol: "ETH".into(), decimals: 18 };
    let mut event = Event {
        id: EventId::derive(&chain, &key, Epoch(epoch), Sequence(sequence)),
        chain,
        chain_name: ChainName::new("devnet").unwrap(),
        epoch: Epoch(epoch),
        sequence: Sequence(sequence),
        transfer: Transfer {
            key,
            payment: Payment { address: Address::new([7], "0x07"), asset: asset.id.clone(), amount: Amount::MAX, memo: None },
            block: BlockRef { height: Height(number + 1), hash: BlockHash::new(format!("0xb{number}")).unwrap() },
            block_time: Some(Timestamp::from_seconds(1_767_225_600)),
            position: 0,
            from: None,
            maturity: None,
        },
        asset,
        reference: Some("customer-1".into()),
        confirmations: 3,
        decided_at: Timestamp::from_seconds(1_767_225_601),
        notice: None,
    };
    change(&mut event);
    let body = event.to_body().into();
    Delivery::new(Position(number * 4 + sequence), event, body, 1)
}

/// Ids of everything posted, in order.
pub(super) async fn postings(admin: &Client) -> Result<Vec<String>> {
    let rows = admin.query("select event_id from ledger.posting order by n", &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Events on record, and what stands, as `(event, state)`.
pub(super) async fn recorded(admin: &Client) -> Result<(i64, Vec<(String, String)>)> {
    if !admin.query_one("select to_regclass('confirmd.event') is not null", &[]).await?.get::<_, bool>(0) {
        return Ok((0, Vec::new()));
    }
    let events = admin.query_one("select count(*) from confirmd.event", &[]).await?.get(0);
    let rows = admin.query("select event_id, state from confirmd.deposit order by chain, tx_id, output_index", &[]).await?;
    Ok((events, rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
}
