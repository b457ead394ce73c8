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

/// What `--json` would mean nothing for: a program that goes on (its log has `--log-format json`), a script for a shell.
const WITHOUT_JSON: [&str; 2] = ["run", "completions"];

fn leaves<'a>(command: &'a clap::Command, path: &str, found: &mut Vec<(String, &'a clap::Command)>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        match sub.has_subcommands() {
            true => leaves(sub, &path, found),
            false => found.push((path.trim_start().to_owned(), sub)),
        }
    }
}

#[test]
fn every_command_that_answers_takes_json() {
    let root = Cli::command();
    let mut found = Vec::new();
    leaves(&root, "", &mut found);
    assert!(found.len() > 30, "{}", found.len());
    for (path, command) in found {
        let takes = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
        assert_eq!(takes, !WITHOUT_JSON.contains(&path.as_str()), "confirmd {path}");
    }
}

#[test]
fn every_command_and_argument_says_what_it_is_for_in_sentences() {
    let root = Cli::command();
    let mut found = Vec::new();
    leaves(&root, "", &mut found);
    for (path, command) in found {
        let about = command.get_about().unwrap_or_else(|| panic!("confirmd {path} says nothing")).to_string();
        assert!(about.starts_with(|c: char| c.is_uppercase()) && !about.ends_with('.'), "confirmd {path}: {about}");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "confirmd {path}: {} says nothing", argument.get_id());
        }
    }
}

#[test]
fn exit_codes_stand_in_the_help_and_in_the_documentation() {
    let help = Cli::command().render_long_help().to_string();
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let documented = std::fs::read_to_string(file).unwrap();
    let line = documented.lines().skip_while(|line| !line.starts_with("**Exit codes:**")).take(3).collect::<Vec<_>>().join(" ");
    for code in ["0", "1", "2", "130"] {
        assert!(help.contains(&format!("\n  {code} ")), "{help}");
        assert!(line.contains(&format!(" {code}")), "{line}");
    }
}

#[test]
fn the_version_shows_the_sources_revision() {
    assert_eq!(VERSION, format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("CONFIRMD_REVISION")));
}
