#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use super::*;
use crate::kind::KIND;
use crate::tests::context;

const USDC: &str = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";

fn parse(text: &str) -> Result<Settings, ConfigError> {
    let table: toml::Table = format!("chain_id = 1\nrpc = [{{ url = 'http://127.0.0.1:8545' }}]\n{text}").parse().unwrap();
    Settings::parse(&context(12), table)
}

fn refused(text: &str) -> (String, String) {
    let error = parse(text).unwrap_err();
    (error.key, error.problem)
}

#[test]
fn assets_get_caip_19_ids_with_the_contract_in_lower_case() {
    let settings =
        parse(&format!("native = {{ symbol = 'ETH' }}\nassets = [{{ symbol = 'USDC', contract = '{USDC}', decimals = 6 }}]"))
            .unwrap();
    let ids: Vec<_> = settings.assets.iter().map(|asset| asset.asset.id.as_str()).collect();
    assert_eq!(ids, ["eip155:1/slip44:60", "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"]);
    assert_eq!(settings.assets[0].asset.decimals, 18);
    assert_eq!(settings.chain.as_str(), "eip155:1");
}

#[test]
fn a_mistake_names_its_key_and_what_to_do() {
    let token = |symbol: &str, contract: &str| format!("{{ symbol = '{symbol}', contract = '{contract}', decimals = 6 }}");
    for (text, key, hint) in [
        ("".to_owned(), "assets", "native ="),
        ("nativ = 1".to_owned(), "nativ", "unknown field"),
        (format!("assets = [{}]", token("USDC", "0xa0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48")), "assets[0].contract", "EIP-55"),
        (
            format!("assets = [{}, {}]", token("USDC", USDC), token("USDC", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed")),
            "assets[1].symbol",
            "unique",
        ),
        (format!("assets = [{}, {}]", token("USDC", USDC), token("USDX", &USDC.to_lowercase())), "assets[1].contract", "twice"),
        (format!("native = {{ symbol = 'USDC' }}\nassets = [{}]", token("USDC", USDC)), "assets[0].symbol", "unique"),
        (format!("withdrawals = true\nassets = [{}]", token("USDC", USDC)), "withdrawals", "native ="),
        (format!("internal_transfers = 'required'\nassets = [{}]", token("USDC", USDC)), "internal_transfers", "native ="),
        ("native = { symbol = 'ETH' }\ninternal_transfers = 'yes'".to_owned(), "internal_transfers", "auto"),
        ("native = { symbol = 'ETH', decimals = 78 }".to_owned(), "native.decimals", "77"),
        ("native = { symbol = 'ETH' }\ngenesis = '0x12'".to_owned(), "genesis", ""),
        ("native = { symbol = 'ETH' }\nlog_range_max = 0".to_owned(), "log_range_max", ""),
        ("native = { symbol = 'ETH' }\nnative_log_emitters = ['0x1']".to_owned(), "native_log_emitters[0]", "40"),
    ] {
        let (at, problem) = refused(&text);
        assert!(at == key && problem.contains(hint) || key == "nativ" && problem.contains(hint), "{text}: {at}: {problem}");
    }
}

#[test]
fn confirmations_for_an_asset_that_is_not_listed_are_refused() {
    let mut context = context(12);
    context.requirements.insert("USDT".into(), context.default_requirement);
    let table: toml::Table =
        "chain_id = 1\nrpc = [{ url = 'http://127.0.0.1:8545' }]\nnative = { symbol = 'ETH' }".parse().unwrap();
    let error = Settings::parse(&context, table).unwrap_err();
    assert_eq!(error.key, "confirmations.USDT");
    assert!(error.problem.contains("ETH"));
}

#[test]
fn b06_b26_a_contract_that_repeats_native_payments_is_no_token() {
    let system = "assets = [{ symbol = 'X', contract = '0xfffffffffffffffffffffffffffffffffffffffe', decimals = 18 }]";
    assert_eq!(refused(system).0, "assets[0].contract");
    let zksync = "native_log_emitters = ['0x000000000000000000000000000000000000800A']
        assets = [{ symbol = 'ETH', contract = '0x000000000000000000000000000000000000800A', decimals = 18 }]";
    assert!(refused(zksync).1.contains("twice"));
}

#[test]
fn the_example_parses_and_builds() {
    let mut table: toml::Table = KIND.example.parse().unwrap();
    let mut own = table["chains"]["ethereum"].as_table_mut().unwrap().clone();
    for common in ["kind", "confirmations", "reorg_depth", "start"] {
        assert!(own.remove(common).is_some(), "{common}");
    }
    let source = (KIND.build)(context(96), own).unwrap();
    assert_eq!(source.profile().chain.as_str(), "eip155:1");
    assert_eq!(source.profile().assets.len(), 2);
}
