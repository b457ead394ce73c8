-- Who is fed, by which store, and how far. One row a consumer.
create table {schema}.consumer (
    id          integer generated always as identity primary key,
    name        text not null unique,
    store       text not null,
    epoch       bigint not null,
    position    bigint,
    event_id    text,
    newest_at   timestamptz,
    created_at  timestamptz not null default now(),
    check ((position is null) = (event_id is null))
);

-- Every event ever applied, with the bytes that came.
create table {schema}.event (
    id            text primary key,
    consumer      integer not null references {schema}.consumer (id),
    chain         text not null,
    tx_id         text not null,
    output_index  bigint not null,
    epoch         bigint not null,
    sequence      bigint not null,
    kind          text not null check (kind in ('confirmed', 'reverted')),
    body          text not null,
    applied_at    timestamptz not null default now()
);
create index event_of_deposit on {schema}.event (chain, tx_id, output_index);
create index event_by_time on {schema}.event (applied_at);

-- What stands now. A reverted deposit keeps its row: that is what makes a late repetition harmless.
create table {schema}.deposit (
    chain         text not null,
    tx_id         text collate "C" not null,
    output_index  bigint not null,
    consumer      integer not null references {schema}.consumer (id),
    epoch         bigint not null,
    sequence      bigint not null,
    state         text not null check (state in ('confirmed', 'reverted')),
    chain_name    text not null,
    address       text not null,
    reference     text,
    memo          text,
    asset         text not null,
    symbol        text not null,
    decimals      smallint not null,
    amount        numeric(78, 0) not null check (amount > 0),
    from_address  text,
    height        bigint not null,
    block_hash    text not null,
    block_time    timestamptz,
    confirmations bigint not null,
    decided_at    timestamptz not null,
    event_id      text not null,
    applied_at    timestamptz not null default now(),
    primary key (chain, tx_id, output_index)
);
create index deposit_of_reference on {schema}.deposit (reference, asset) where state = 'confirmed';
create index deposit_of_address on {schema}.deposit (address);
create index deposit_by_time on {schema}.deposit (decided_at);
