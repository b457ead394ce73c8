//! Our statements, with `{schema}` for the schema's name. Prepared once a connection.

/// Takes the consumer's row, whose lock orders the transactions of a consumer, if it is ours to take; moves its position.
/// No row: it belongs to another store or a later epoch.
pub(crate) const CLAIM: &str = "
insert into {schema}.consumer as c (name, store, epoch, position, event_id, newest_at)
values ($1, $2, $3, $4, $5, now())
on conflict (name) do update set
    epoch = excluded.epoch,
    position = case when c.epoch = excluded.epoch and c.position > excluded.position then c.position else excluded.position end,
    event_id = case when c.epoch = excluded.epoch and c.position > excluded.position then c.event_id else excluded.event_id end,
    newest_at = case when c.epoch = excluded.epoch and c.position >= excluded.position then c.newest_at else excluded.newest_at end
where c.store = excluded.store and c.epoch <= excluded.epoch
returning id";

/// Whose the books are, and the newest event in them.
pub(crate) const CONSUMER: &str = "select store, epoch, position, event_id, newest_at from {schema}.consumer where name = $1";

/// Gives the books to another feed. Nothing, if what is in them is of a later epoch: it would always win over that feed's events;
/// or of the same epoch of another store, whose events have the same ids.
pub(crate) const ADOPT: &str = "
insert into {schema}.consumer as c (name, store, epoch) values ($1, $2, $3)
on conflict (name) do update set store = excluded.store, epoch = excluded.epoch, position = null, event_id = null, newest_at = null
where c.epoch < excluded.epoch or (c.epoch, c.store) = (excluded.epoch, excluded.store)";

/// Of these events, the applied ones; asked under the consumer's lock, so that a commit on its way has ended by then.
pub(crate) const APPLIED: &str = "
with locked as materialized (select id from {schema}.consumer where name = $1 for update)
select e.id from locked join {schema}.event e on e.consumer = locked.id where e.id = any($2)";

/// The last event of each deposit of a consumer on a chain, by key.
pub(crate) const LAST_EVENTS: &str = "
select e.body from {schema}.deposit d
join {schema}.consumer c on c.id = d.consumer and c.name = $1
join {schema}.event e on e.id = d.event_id
where d.chain = $2 and (d.tx_id, d.output_index) > ($3, $4)
order by d.tx_id, d.output_index limit $5";

/// Applies events of different deposits at once, and says of each what was there before. `$1` is the consumer's id.
pub(crate) const APPLY: &str = r#"
with input as (
    select * from unnest(
        $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[],
        $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::smallint[], $16::numeric[], $17::text[],
        $18::bigint[], $19::text[], $20::timestamptz[], $21::bigint[], $22::timestamptz[], $23::text[]
    ) with ordinality as i (id, chain, tx_id, output_index, epoch, sequence, state, chain_name, address, reference, memo,
        asset, symbol, decimals, amount, from_address, height, block_hash, block_time, confirmations, decided_at, body, place)
), fresh as (
    insert into {schema}.event (id, consumer, chain, tx_id, output_index, epoch, sequence, kind, body)
    select id, $1, chain, tx_id, output_index, epoch, sequence, state, body from input order by place
    on conflict (id) do nothing
    returning id
), changed as (
    insert into {schema}.deposit as d (chain, tx_id, output_index, consumer, epoch, sequence, state, chain_name, address,
        reference, memo, asset, symbol, decimals, amount, from_address, height, block_hash, block_time, confirmations,
        decided_at, event_id)
    select chain, tx_id, output_index, $1, epoch, sequence, state, chain_name, address, reference, memo, asset, symbol,
        decimals, amount, from_address, height, block_hash, block_time, confirmations, decided_at, i.id
    from input i join fresh using (id) where i.state in ('confirmed', 'reverted') order by place
    on conflict (chain, tx_id, output_index) do update set
        consumer = excluded.consumer, epoch = excluded.epoch, sequence = excluded.sequence, state = excluded.state,
        chain_name = excluded.chain_name, address = excluded.address, reference = excluded.reference, memo = excluded.memo,
        asset = excluded.asset, symbol = excluded.symbol, decimals = excluded.decimals, amount = excluded.amount,
        from_address = excluded.from_address, height = excluded.height, block_hash = excluded.block_hash,
        block_time = excluded.block_time, confirmations = excluded.confirmations, decided_at = excluded.decided_at,
        event_id = excluded.event_id, applied_at = now()
    where (d.epoch, d.sequence) < (excluded.epoch, excluded.sequence)
    returning d.event_id
)
select (i.place - 1) as place, fresh.id is not null as fresh, changed.event_id is not null as changed,
    e.consumer as by_consumer, e.body = i.body as same, before.consumer as of_consumer, before.state, before.address,
    before.reference, before.memo, before.asset, before.symbol, before.decimals, before.amount, before.from_address,
    before.height, before.block_hash, before.block_time
from input i
left join fresh on fresh.id = i.id
left join changed on changed.event_id = i.id
left join {schema}.event e on e.id = i.id
left join {schema}.deposit before
    on (before.chain, before.tx_id, before.output_index) = (i.chain, i.tx_id, i.output_index)
order by i.place"#;
