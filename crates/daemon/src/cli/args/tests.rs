#![allow(clippy::unwrap_used)]
use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn the_commands_of_the_documentation_parse() {
    for line in [
        "run --config x.toml --init",
        "-c x.toml check --json",
        "watch add bitcoin bc1q --reference customer-42",
        "watch remove bitcoin a b",
        "watch list --chain bitcoin --all --json",
        "watch import list.csv",
        "deposits --state confirmed --tx 0xab --limit 5",
        "deliveries list --consumer ledger --state dead",
        "deliveries requeue ledger --all-dead",
        "deliveries requeue ledger evt_00000000000000000000000000000000",
        "deliveries skip ledger evt_00000000000000000000000000000000 --yes",
        "consumer rename a b",
        "consumer purge a --yes",
        "consumer adopt a --yes",
        "chain resume bitcoin --accept-reorg --revert-settled --yes",
        "kinds webhook",
        "deposit bitcoin ab 1 --json",
        "explain bitcoin ab --height 5 --address x",
        "events --cursor reader --follow",
        "cursor put reader --now",
        "deliveries dead --consumer ledger",
        "deliveries requeue ledger --all-dead --status 502 --per-second 20",
        "deliveries replay ledger --from 2026-01-01T00:00:00Z --before 2026-01-02T00:00:00Z",
        "deliveries replay ledger evt_00000000000000000000000000000000",
        "consumer test ledger",
        "chain show bitcoin",
        "conform bitcoin --address bc1q --blocks 100 --json",
        "conform --sink ledger --ledger https://ledger.example/test-credits --yes",
        "completions bash",
        "man pages",
        "openapi",
    ] {
        let parsed = Cli::try_parse_from(std::iter::once("confirmd").chain(line.split(' ')));
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
    }
    for line in [
        "deliveries requeue ledger",
        "deliveries requeue ledger --all-dead evt_00000000000000000000000000000000",
        "deliveries show 17",
        "chain resume bitcoin --revert-settled",
        "consumer pause LEDGER",
        "conform",
        "conform bitcoin --sink ledger",
        "conform bitcoin --yes",
    ] {
        assert!(Cli::try_parse_from(std::iter::once("confirmd").chain(line.split(' '))).is_err(), "{line}");
    }
}

#[test]
fn the_version_shows_the_sources_revision() {
    assert_eq!(VERSION, format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("CONFIRMD_REVISION")));
}
