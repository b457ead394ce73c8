-- What people ask, in columns they can read. Nothing of confirmd's own goes by these.
create view {schema}.deposits as
select d.chain, d.tx_id, d.output_index,
    case d.state when 1 then 'pending' when 2 then 'confirmed' when 3 then 'settled' when 4 then 'orphaned' else 'reverted' end as state,
    d.state in (2, 3) as stands,
    d.address, d.reference, d.asset, d.symbol, (d.record::jsonb->'asset'->>'decimals')::smallint as decimals,
    (d.record::jsonb->>'amount')::numeric(78,0) as amount,
    (d.record::jsonb->'block'->>'height')::bigint as height, d.record::jsonb->'block'->>'hash' as block_hash,
    (d.record::jsonb->>'sequence')::bigint as sequence,
    to_timestamp(d.seen_at / 1000.0) as seen_at, to_timestamp(d.changed_at / 1000.0) as changed_at
from {schema}.deposit d;

create view {schema}.events as
select e.position, e.id, case when (e.record::jsonb->>'sequence')::bigint % 2 = 1 then 'confirmed' else 'reverted' end as kind,
    (e.record::jsonb->>'epoch')::bigint as epoch, (e.record::jsonb->>'sequence')::bigint as sequence,
    e.chain, e.record::jsonb->'transfer'->'key'->>'tx_id' as tx_id,
    (e.record::jsonb->'transfer'->'key'->>'output_index')::bigint as output_index, e.record::jsonb->>'reference' as reference,
    e.asset, (e.record::jsonb->'transfer'->'payment'->>'amount')::numeric(78,0) as amount,
    to_timestamp(e.decided_at / 1000.0) as decided_at, e.body
from {schema}.event e;

create view {schema}.deliveries as
select c.name as consumer, e.id as event, e.position,
    case d.state when 0 then 'queued' when 1 then 'retrying' else 'dead' end as state,
    d.attempts, to_timestamp(d.due_at / 1000.0) as due_at, d.owner, d.lease_until
from {schema}.delivery d
join {schema}.consumer c on c.id = d.consumer
join {schema}.event e on e.position = d.position
where not d.given_up;
