//! Bad input: every mistake names the file, the line, the key, the value and the remedy.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use confirmd_core::{ConsumerStart, FinalityTag, HumanDuration, StartAt};
use std::path::Path;
use std::time::Duration;

const ANVIL: &str = r#"
[state]
path = "./s"
[chains.anvil]
kind = "evm"
chain_id = 31337
rpc = [{ url = "http://127.0.0.1:8545" }]
confirmations = { default = 2 }
reorg_depth = 16
native = { symbol = "ETH", decimals = 18, slip44 = 60 }
assets = [{ symbol = "USDC", contract = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", decimals = 6 }]
[chains.btc]
kind = "bitcoin"
network = "regtest"
rpc = [{ url = "http://127.0.0.1:18443" }]
confirmations = { default = 3 }
reorg_depth = 24
[sinks.screen]
kind = "stdout"
"#;

fn build(text: &str) -> Result<Config, ConfigFaults> {
    ConfigFile::parse(Path::new("conf.toml"), text.to_owned()).and_then(|file| Config::build(file, &confirmd_builtin::registry()))
}

/// The good configuration with one line replaced, or lines added below one.
fn with(line: &str, new: &str) -> String {
    assert_eq!(ANVIL.matches(line).count(), 1, "{line}");
    ANVIL.replace(line, new)
}

fn below(header: &str, new: &str) -> String {
    with(header, &format!("{header}\n{new}"))
}

#[test]
fn a_good_configuration_is_read_as_it_is_written() {
    let text = with(
        "confirmations = { default = 2 }",
        "confirmations = { default = 2, USDC = { at_least = 5, tag = 'finalized' }, ETH = 'safe' }",
    );
    let text = text.replace(
        "[sinks.screen]",
        "[sinks.screen]\nchains = ['anvil']\nassets = ['USDC']\nstart = 'beginning'\nretry = ['1s', '2m']",
    );
    let text = text.replace(
        "[chains.btc]",
        "[chains.btc]\nstart = 7\npoll_interval = '250ms'\nfork_grace = '1m'\nbehind_alarm = '2m'\nspan_max = 9",
    );
    let text = text.replace("[chains.anvil]", "[chains.anvil]\nminimum = { ETH = '100000000000000000000', USDC = 7 }");
    let config = build(&text).unwrap();
    let profile = config.chains[0].source.profile();
    let minimums: Vec<_> = profile.assets.iter().map(|listed| listed.minimum.map(|minimum| minimum.to_string())).collect();
    assert_eq!(minimums, [Some("100000000000000000000".to_owned()), Some("7".to_owned())]);
    assert_eq!(config.chains[1].source.profile().assets[0].minimum, None);
    assert_eq!((config.chains[0].kind, profile.chain.as_str(), profile.start), ("evm", "eip155:31337", StartAt::Tip));
    let requirement = |symbol: &str| profile.assets.iter().find(|a| a.asset.symbol == symbol).unwrap().requirement;
    assert_eq!((requirement("USDC").at_least.get(), requirement("USDC").tag), (5, Some(FinalityTag::Finalized)));
    assert_eq!((requirement("ETH").at_least.get(), requirement("ETH").tag), (1, Some(FinalityTag::Safe)));
    let btc = config.chains[1].source.profile();
    assert_eq!((btc.start, btc.span_max.get()), (StartAt::Height(confirmd_core::Height(7)), 9));
    assert_eq!(
        (btc.poll_interval, btc.fork_grace, btc.behind_alarm),
        (Duration::from_millis(250), Duration::from_secs(60), Duration::from_secs(120))
    );
    let sink = &config.sinks[0];
    assert_eq!(
        (sink.spec.start, sink.spec.filter.chains.len(), sink.spec.filter.assets.len()),
        (Some(ConsumerStart::Beginning), 1, 1)
    );
    assert_eq!(sink.retry, Some(vec![Duration::from_secs(1), Duration::from_secs(120)]));
    assert_eq!(config.file.state.history, HumanDuration(Duration::from_secs(90 * 86_400)));
    assert_eq!(config.file.api.listen.to_string(), "127.0.0.1:8787");
}

/// A mistake, the key it must be named by, and parts that must stand in the text: the value, the remedy.
type Case = (String, &'static str, &'static [&'static str]);

fn check(cases: Vec<Case>) {
    for (text, key, parts) in cases {
        let faults = build(&text).map(|_| ()).unwrap_err();
        let shown = faults.to_string();
        assert_eq!(faults.faults[0].error.key, key, "{shown}");
        assert!(shown.starts_with("conf.toml"), "{shown}");
        for part in parts {
            assert!(shown.contains(part), "{part:?} is not in: {shown}");
        }
    }
}

#[test]
fn mistakes_at_the_top_level() {
    let plain = |text: &str| text.to_owned();
    check(vec![
        (plain("[state]\npath = "), "", &["conf.toml:2: this is not TOML"]),
        (plain("[api]"), "state.path", &["missing", "[state] path ="]),
        (plain("[state]\nhistory = '1d'"), "state.path", &["conf.toml:1", "missing", "[state] path ="]),
        (plain("[state]\npath = ''"), "state.path", &["conf.toml:2", "missing", "[state] path ="]),
        (plain("[state]\npath = 's'\nhistori = '1d'"), "state.histori", &["conf.toml:3", "histori", "history"]),
        (plain("[state]\npath = 's'\nhistory = '90 days'"), "state.history", &["90 days", "30s"]),
        (plain("[state]\npath = 's'\nhistory = '0s'"), "state.history", &["conf.toml:3", "90d"]),
        (plain("[state]\npath = 5"), "state.path", &["conf.toml:2", "5", "string"]),
        (plain("[state]\npath = 's'\n[chain.x]\nkind = 'evm'"), "chain", &["conf.toml:3", "chain", "chains"]),
        (
            plain("[state]\npath = 's'\n[api]\nlisten = '0.0.0.0:80'"),
            "api.listen",
            &["conf.toml:4", "0.0.0.0:80", "token", "127.0.0.1"],
        ),
        (plain("[state]\npath = 's'\n[api]\nlisten = '8787'"), "api.listen", &["conf.toml:4"]),
        (plain("[state]\npath = 's'\n[log]\nformat = 'xml'"), "log.format", &["conf.toml:4", "xml", "json"]),
    ]);
}

#[test]
fn mistakes_in_a_chain() {
    let confirmations = |new: &str| with("confirmations = { default = 2 }", new);
    check(vec![
        (with("kind = \"evm\"", "kind = \"emv\""), "chains.anvil.kind", &["conf.toml:5", "emv", "bitcoin, evm"]),
        (with("kind = \"evm\"", ""), "chains.anvil.kind", &["missing", "bitcoin, evm"]),
        (with("[chains.btc]", "[chains.BTC]"), "chains.BTC", &["conf.toml:12", "a chain name"]),
        (confirmations(""), "chains.anvil.confirmations.default", &["missing", "{ default = 3 }"]),
        (confirmations("confirmations = {}"), "chains.anvil.confirmations.default", &["missing", "conf.toml:8"]),
        (confirmations("confirmations = 2"), "chains.anvil.confirmations", &["{ default = 2 }"]),
        (
            confirmations("confirmations = { default = 0 }"),
            "chains.anvil.confirmations.default",
            &["conf.toml:8", "0 would", "at least 1"],
        ),
        (confirmations("confirmations = { default = -1 }"), "chains.anvil.confirmations.default", &["-1", "at least 1"]),
        (confirmations("confirmations = { default = 2.5 }"), "chains.anvil.confirmations.default", &["2.5", "at least 1"]),
        (confirmations("confirmations = { default = 'latest' }"), "chains.anvil.confirmations.default", &["latest", "\"safe\""]),
        (
            confirmations("confirmations = { default = 1, USDC = { atleast = 2 } }"),
            "chains.anvil.confirmations.USDC.atleast",
            &["unknown key", "at_least"],
        ),
        (confirmations("confirmations = { default = 1, USDC = {} }"), "chains.anvil.confirmations.USDC", &["empty", "at_least"]),
        (confirmations("confirmations = { default = 1, USDT = 2 }"), "chains.anvil.confirmations.USDT", &["USDT", "USDC"]),
        (
            confirmations("confirmations = { default = 1, USDC = 17 }"),
            "chains.anvil.reorg_depth",
            &["16", "confirmations.USDC = 17", "raise reorg_depth to at least 17"],
        ),
        (below("[chains.anvil]", "minimum = 5"), "chains.anvil.minimum", &["conf.toml:5", "5 is not a table", "USDC = "]),
        (below("[chains.anvil]", "minimum = { USDC = 0 }"), "chains.anvil.minimum.USDC", &["conf.toml:5", "remove the line"]),
        (below("[chains.anvil]", "minimum = { USDC = -1 }"), "chains.anvil.minimum.USDC", &["-1 is not", "base units"]),
        (below("[chains.anvil]", "minimum = { USDC = 0.5 }"), "chains.anvil.minimum.USDC", &["0.5 is not", "base units"]),
        (below("[chains.anvil]", "minimum = { USDC = '1 USDC' }"), "chains.anvil.minimum.USDC", &["1 USDC", "base units"]),
        (below("[chains.anvil]", "minimum = { default = 5 }"), "chains.anvil.minimum.default", &["by its symbol"]),
        (below("[chains.anvil]", "minimum = { USDT = 5 }"), "chains.anvil.minimum.USDT", &["USDT", "known: ETH, USDC"]),
        (with("reorg_depth = 16", ""), "chains.anvil.reorg_depth", &["missing", "24 suits Bitcoin"]),
        (with("reorg_depth = 16", "reorg_depth = 0"), "chains.anvil.reorg_depth", &["conf.toml:9", "0", "at least 1"]),
        (
            with("reorg_depth = 16", "reorg_depth = '16'"),
            "chains.anvil.reorg_depth",
            &["conf.toml:9", "\"16\" is not a whole number"],
        ),
        (below("[chains.btc]", "start = 0"), "chains.btc.start", &["conf.toml:13", "0", "\"tip\""]),
        (below("[chains.btc]", "start = 'genesis'"), "chains.btc.start", &["genesis", "\"tip\""]),
        (below("[chains.btc]", "poll_interval = '0s'"), "chains.btc.poll_interval", &["0", "10s"]),
        (below("[chains.btc]", "span_max = 0"), "chains.btc.span_max", &["0", "at least 1"]),
        (below("[chains.btc]", "networck = 'x'"), "chains.btc.networck", &["conf.toml:13", "networck", "network", "reorg_depth"]),
        (with("network = \"regtest\"", "network = \"regtst\""), "chains.btc.network", &["regtst", "regtest"]),
        (
            with(
                "[chains.btc]",
                "[chains.again]\nkind = 'evm'\nchain_id = 31337\nrpc = [{ url = 'http://127.0.0.1:1' }]\nconfirmations = { default = 1 }\nreorg_depth = 2\nnative = { symbol = 'ETH', decimals = 18, slip44 = 60 }\n[chains.btc]",
            ),
            "chains.anvil",
            &["same network as `chains.again`", "eip155:31337", "`rpc`"],
        ),
    ]);
}

#[test]
fn mistakes_in_the_addresses_of_a_chain() {
    let evm = |address: &str| below("[chains.anvil]", &format!("watch = [{{ address = '{address}' }}]"));
    let btc = |address: &str| below("[chains.btc]", &format!("watch = [{{ address = '{address}' }}]"));
    let good = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    check(vec![
        (
            evm("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed"),
            "chains.anvil.watch[0].address",
            &["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed"],
        ),
        (evm("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), "chains.anvil.watch[0].address", &["bc1q"]),
        (btc("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), "chains.btc.watch[0].address", &["bc1q", "conf.toml:13"]),
        (btc("bcrt1qW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KYGT080"), "chains.btc.watch[0].address", &["bcrt1qW508"]),
        (
            below("[chains.anvil]", &format!("watch = [{{ address = '{good}' }}, {{ address = '{}' }}]", good.to_lowercase())),
            "chains.anvil.watch[1].address",
            &["twice", "watch[0]"],
        ),
        (
            below("[chains.anvil]", &format!("watch = [{{ address = '{good}', label = 'x' }}]")),
            "chains.anvil.watch[0].label",
            &["label", "reference"],
        ),
        (below("[chains.anvil]", "watch = [{ reference = 'x' }]"), "chains.anvil.watch[0]", &["address"]),
    ]);
}

#[test]
fn mistakes_in_a_sink() {
    let sink = |new: &str| below("[sinks.screen]", new);
    let hook = |secret: &str| with("kind = \"stdout\"", &format!("kind = 'webhook'\nurl = 'https://ledger.example/x'\n{secret}"));
    check(vec![
        (with("kind = \"stdout\"", "kind = \"stdou\""), "sinks.screen.kind", &["stdou", "file, postgres, stdout, webhook"]),
        (with("kind = \"stdout\"", ""), "sinks.screen.kind", &["missing", "file, postgres, stdout, webhook"]),
        (sink("chains = ['base']"), "sinks.screen.chains[0]", &["base", "anvil, btc"]),
        (sink("chains = []"), "sinks.screen.chains", &["empty", "leave the key out"]),
        (sink("assets = ['USDT']"), "sinks.screen.assets[0]", &["USDT", "BTC, ETH, USDC"]),
        (sink("chains = ['btc']\nassets = ['USDC']"), "sinks.screen.assets[0]", &["USDC", "known: BTC"]),
        (sink("start = 'tip'"), "sinks.screen.start", &["tip", "\"now\"", "\"beginning\""]),
        (sink("events = ['pending']"), "sinks.screen.events[0]", &["pending", "detected, settled"]),
        (sink("events = ['settled', 'confirmed']"), "sinks.screen.events[1]", &["every sink gets confirmed events"]),
        (sink("retry = ['30s', '0s']"), "sinks.screen.retry[1]", &["0"]),
        (sink("retry = ['often']"), "sinks.screen.retry[0]", &["often", "30s"]),
        (sink("pth = 'x'"), "sinks.screen.pth", &["pth", "chains, assets, events, start, retry"]),
        (hook("secret = 'whsec_c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0'"), "sinks.screen.secret", &["env =", "file ="]),
        (hook("secret = { env = 'CONFIRMD_TEST_NOT_SET' }"), "sinks.screen.secret", &["CONFIRMD_TEST_NOT_SET"]),
    ]);
    let shown = build(&hook("secret = 'whsec_c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0'")).unwrap_err().to_string();
    assert!(!shown.contains("c2Vj"), "a secret is shown: {shown}");
}

#[test]
fn a_url_with_credentials_is_refused_without_showing_them() {
    let text = with("http://127.0.0.1:18443", "http://user:hunter2@127.0.0.1:18443");
    let shown = build(&text).unwrap_err().to_string();
    assert!(shown.contains("chains.btc.rpc[0].url") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn every_mistake_in_the_chains_is_listed_at_once() {
    let text = with("reorg_depth = 16", "").replace("network = \"regtest\"", "network = \"x\"");
    let faults = build(&text).unwrap_err();
    assert_eq!(faults.faults.len(), 2, "{faults}");
}

#[test]
fn a_missing_file_names_the_command_that_writes_one() {
    let shown = ConfigFile::read(Path::new("does-not-exist.toml")).unwrap_err().to_string();
    assert!(shown.contains("does-not-exist.toml") && shown.contains("confirmd init") && shown.contains("--config"), "{shown}");
}
