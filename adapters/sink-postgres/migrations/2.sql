-- Informative events are written down beside the decisions, for a consumer that asks for them; they change no deposit.
alter table {schema}.event drop constraint event_kind_check;
alter table {schema}.event add constraint event_kind_check check (kind in ('confirmed', 'reverted', 'detected', 'settled'));
