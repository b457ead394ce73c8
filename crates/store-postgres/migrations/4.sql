-- Payments below their asset's minimum are state 6: nothing holds them, so a reorg finds them by their blocks' heights.
alter table {schema}.deposit add column height bigint;
create index deposit_below_minimum on {schema}.deposit (chain, height) where state = 6;
create or replace view {schema}.deposits as
select d.chain, d.tx_id, d.output_index,
    case d.state when 1 then 'pending' when 2 then 'confirmed' when 3 then 'settled' when 4 then 'orphaned'
        when 5 then 'reverted' else 'below_minimum' end as state,
    d.state in (2, 3) as stands,
    d.address, d.reference, d.asset, d.symbol, (d.record::jsonb->'asset'->>'decimals')::smallint as decimals,
    (d.record::jsonb->>'amount')::numeric(78,0) as amount,
    (d.record::jsonb->'block'->>'height')::bigint as height, d.record::jsonb->'block'->>'hash' as block_hash,
    (d.record::jsonb->>'sequence')::bigint as sequence,
    to_timestamp(d.seen_at / 1000.0) as seen_at, to_timestamp(d.changed_at / 1000.0) as changed_at
from {schema}.deposit d;
