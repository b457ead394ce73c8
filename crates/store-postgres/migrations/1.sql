-- One row: whose store this is, and the counter that gives events their places in commit order.
create table {schema}.meta (
    one boolean primary key default true check (one),
    store text not null,
    epoch bigint not null,
    created_at bigint not null,
    next_position bigint not null
);

create table {schema}.chain (
    id integer generated always as identity primary key,
    chain text not null unique,
    version bigint not null,
    head text not null
);
create table {schema}.trail (
    chain integer not null references {schema}.chain,
    height bigint not null,
    hash text not null,
    primary key (chain, height)
);
create table {schema}.asset (
    chain integer not null references {schema}.chain,
    asset text not null,
    listed text not null,
    primary key (chain, asset)
);
create table {schema}.watch (
    chain integer not null references {schema}.chain,
    address bytea not null,
    entry text not null,
    primary key (chain, address)
);
-- kind 1: pending, 2: reported, 3: orphaned.
create table {schema}.held (
    chain integer not null references {schema}.chain,
    kind smallint not null,
    digest bytea not null,
    event bigint,
    deposit text not null,
    primary key (chain, kind, digest)
);
create index held_digest on {schema}.held (digest);
create table {schema}.archive (
    digest bytea primary key,
    chain integer not null references {schema}.chain,
    height bigint not null,
    sequence bigint not null,
    event bigint
);
create index archive_height on {schema}.archive (chain, height);
-- The newest change sets of each chain: what another instance applies instead of loading, and how a commit whose answer was
-- lost is found again.
create table {schema}.change (
    chain integer not null references {schema}.chain,
    version bigint not null,
    token text not null,
    first_event bigint,
    changes text not null,
    primary key (chain, version)
);
-- Whose turn it is to read a chain's node: a hint that spares nodes, never what decides.
create table {schema}.turn (
    chain text primary key,
    owner text not null,
    until timestamptz not null
);

create table {schema}.event (
    position bigint primary key,
    id text not null unique,
    chain text not null,
    asset text not null,
    digest bytea not null,
    decided_at bigint not null,
    record text not null,
    body bytea not null
);
create index event_decided_at on {schema}.event (decided_at);

create table {schema}.consumer (
    id integer generated always as identity primary key,
    name text not null unique,
    chains text[] not null,
    assets text[] not null,
    began bigint not null,
    cursor bigint not null,
    paused text
);
-- Undelivered events below a consumer's cursor. state 0: queued, 1: retrying, 2: dead. With a token it is out, until then.
create table {schema}.delivery (
    consumer integer not null references {schema}.consumer on delete cascade,
    position bigint not null,
    digest bytea not null,
    state smallint not null,
    due_at bigint not null,
    attempts integer not null,
    attempts_ever integer not null,
    given_up boolean not null default false,
    token bigint,
    owner text,
    lease_until timestamptz,
    primary key (consumer, position)
) with (fillfactor = 70);
create index delivery_key on {schema}.delivery (consumer, digest, position);
create index delivery_owner on {schema}.delivery (owner) where owner is not null;
create sequence {schema}.token;
create table {schema}.skipped (
    consumer integer not null references {schema}.consumer on delete cascade,
    position bigint not null,
    at bigint not null,
    attempts integer not null,
    primary key (consumer, position)
);
create table {schema}.attempt (
    consumer integer not null references {schema}.consumer on delete cascade,
    position bigint not null,
    ever integer not null,
    attempt text not null,
    primary key (consumer, position, ever)
);

create table {schema}.deposit (
    digest bytea primary key,
    chain text not null,
    address text not null,
    reference text,
    asset text not null,
    symbol text not null,
    tx_id text not null,
    output_index bigint not null,
    state smallint not null,
    seen_at bigint not null,
    changed_at bigint not null,
    event bigint,
    record text not null
);
create index deposit_seen on {schema}.deposit (seen_at, digest);
create index deposit_address on {schema}.deposit (address, seen_at);
create index deposit_reference on {schema}.deposit (reference, seen_at) where reference is not null;
create index deposit_tx on {schema}.deposit (tx_id);
create index deposit_state on {schema}.deposit (state, seen_at);
create index deposit_chain on {schema}.deposit (chain, seen_at);
create table {schema}.life (
    digest bytea not null,
    version bigint not null,
    number integer not null,
    step text not null,
    primary key (digest, version, number)
);
create table {schema}.reorg (
    chain integer not null references {schema}.chain,
    version bigint not null,
    at bigint not null,
    record text not null,
    primary key (chain, version)
);
create table {schema}.reader (
    name text primary key,
    after bigint not null,
    used_at bigint not null,
    expired boolean not null
);
