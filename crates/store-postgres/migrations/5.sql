-- Informative events are told to the consumers that ask for them; without a word, an event is a decision.
alter table {schema}.event add column notice text;
alter table {schema}.consumer add column notices text[] not null default '{}';
create or replace view {schema}.events as
select e.position, e.id, coalesce(e.notice,
        case when (e.record::jsonb->>'sequence')::bigint % 2 = 1 then 'confirmed' else 'reverted' end) as kind,
    (e.record::jsonb->>'epoch')::bigint as epoch, (e.record::jsonb->>'sequence')::bigint as sequence,
    e.chain, e.record::jsonb->'transfer'->'key'->>'tx_id' as tx_id,
    (e.record::jsonb->'transfer'->'key'->>'output_index')::bigint as output_index, e.record::jsonb->>'reference' as reference,
    e.asset, (e.record::jsonb->'transfer'->'payment'->>'amount')::numeric(78,0) as amount,
    to_timestamp(e.decided_at / 1000.0) as decided_at, e.body
from {schema}.event e;
