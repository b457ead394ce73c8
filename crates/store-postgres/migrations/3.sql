-- A row for each rescan: they stay for ever, and the chain's head is written anew with every tick. Those that stand in a head, of
-- an instance before this migration, are moved by the next commit.
create table {schema}.rescan (
    chain integer not null references {schema}.chain,
    id bigint not null,
    rescan text not null,
    primary key (chain, id)
);
