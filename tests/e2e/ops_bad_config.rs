//! Bad input in the configuration, through the binary: `check` and `run` name the key, the value and the remedy, exit
//! with 1, show no secret, and touch nothing.

use anyhow::{Result, ensure};
use e2e::{Instance, node_trial};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        node_trial("ops::mistakes_of_a_chain_name_key_value_and_remedy", &[], || table(chain_mistakes())),
        node_trial("ops::mistakes_of_an_address_name_key_value_and_remedy", &[], || table(address_mistakes())),
        node_trial("ops::secrets_are_never_taken_literally_and_never_shown", &[], || table(secret_mistakes())),
        node_trial("ops::mistakes_elsewhere_name_key_value_and_remedy", &[], || table(other_mistakes())),
    ]
}

/// Nobody listens there; a mistake is found before anything is asked.
const GOOD: &str = r#"
[state]
path = "./state"
[api]
listen = "127.0.0.1:0"
[chains.coins]
kind = "bitcoin"
network = "litecoin-regtest"
rpc = [{ url = "http://127.0.0.1:1" }]
confirmations = { default = 3 }
reorg_depth = 24
[chains.ether]
kind = "evm"
chain_id = 31337
rpc = [{ url = "http://127.0.0.1:1" }]
confirmations = { default = 2, MINI = 5 }
reorg_depth = 16
native = { symbol = "ETH", decimals = 18, slip44 = 60 }
assets = [{ symbol = "MINI", contract = "0x5FbDB2315678afecb367f032d93F642f64180aa3", decimals = 6 }]
[sinks.ledger]
kind = "webhook"
url = "https://ledger.example/hooks"
secret = { env = "LEDGER_SECRET" }
[sinks.archive]
kind = "file"
path = "./events.jsonl"
"#;

/// Stands for every secret: it must not be seen anywhere.
const SECRET: &str = "hunter2correcthorse";

/// What is replaced, by what, and what must be said.
type Case = (&'static str, String, &'static [&'static str]);

fn case(old: &'static str, new: &str, said: &'static [&'static str]) -> Case {
    (old, new.to_owned(), said)
}

fn chain_mistakes() -> Vec<Case> {
    let confirmations = "confirmations = { default = 3 }";
    let again = "[chains.again]\nkind = \"bitcoin\"\nnetwork = \"litecoin-regtest\"\nrpc = [{ url = \"http://127.0.0.1:2\" }]\n\
                 confirmations = { default = 1 }\nreorg_depth = 2\n[chains.ether]";
    vec![
        case("reorg_depth = 24", "reorg_depth = 24\nlimit = 5", &["chains.coins.limit", "unknown", "limits", "reorg_depth"]),
        case("reorg_depth = 24", "reorg_dept = 24", &["chains.coins.reorg_depth", "missing"]),
        case("reorg_depth = 24", "", &["chains.coins.reorg_depth", "missing", "24 suits Bitcoin"]),
        case("reorg_depth = 24", "reorg_depth = \"24\"", &["chains.coins.reorg_depth", "\"24\"", "whole number"]),
        case("reorg_depth = 24", "reorg_depth = 2", &["chains.coins.reorg_depth", "2 is below", "default = 3", "at least 3"]),
        case("reorg_depth = 16", "reorg_depth = 4", &["chains.ether.reorg_depth", "4 is below", "MINI = 5", "at least 5"]),
        case(confirmations, "", &["chains.coins.confirmations.default", "missing", "{ default = 3 }"]),
        case(confirmations, "confirmations = { default = 0 }", &["chains.coins.confirmations.default", "0", "at least 1"]),
        case(confirmations, "confirmations = \"three\"", &["chains.coins.confirmations", "three", "{ default ="]),
        case(confirmations, "confirmations = { default = 3, DOGE = 2 }", &["chains.coins.confirmations.DOGE", "LTC"]),
        case(
            confirmations,
            "confirmations = { default = \"finalized\" }",
            &["chains.coins.confirmations.default", "finalized", "number"],
        ),
        case("kind = \"bitcoin\"", "kind = \"bitcoind\"", &["chains.coins.kind", "bitcoind", "bitcoin, evm"]),
        case("kind = \"bitcoin\"", "", &["chains.coins.kind", "missing", "bitcoin, evm"]),
        case("network = \"litecoin-regtest\"", "network = \"ltc\"", &["chains.coins.network", "\"ltc\"", "litecoin-regtest"]),
        case("network = \"litecoin-regtest\"", "", &["chains.coins", "network", "missing"]),
        case("chain_id = 31337", "chain_id = \"0x7a69\"", &["chains.ether.chain_id", "0x7a69"]),
        case("[chains.ether]", again, &["same network as", "chains.again", "chains.coins", "bip122:", "rpc"]),
    ]
}

fn address_mistakes() -> Vec<Case> {
    let watch = |old, chain: &str, address: &str, said| {
        case(old, &format!("[[chains.{chain}.watch]]\naddress = \"{address}\"\n[chains.ether]"), said)
    };
    let coins = |address, said| watch("[chains.ether]", "coins", address, said);
    let ether = |address: &str, said| {
        case("[sinks.ledger]", &format!("[[chains.ether.watch]]\naddress = \"{address}\"\n[sinks.ledger]"), said)
    };
    vec![
        coins(
            "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
            &["chains.coins.watch[0].address", "bcrt1qw508", "Bitcoin regtest"],
        ),
        coins("ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9", &["chains.coins.watch[0].address", "ltc1qw508", "Litecoin mainnet"]),
        coins("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfm", &["chains.coins.watch[0].address", "mipcBbFg", "mistyped"]),
        coins(
            "rltc1Qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9",
            &["chains.coins.watch[0].address", "upper and lower case", "lower case"],
        ),
        coins("tmweb1qqqq", &["chains.coins.watch[0].address", "MWEB", "outside it"]),
        coins("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", &["chains.coins.watch[0].address", "0x5aAeb6053F"]),
        coins("", &["chains.coins.watch[0].address", "empty"]),
        ether("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed", &["chains.ether.watch[0].address", "0x5aAeb6053F", "checksum"]),
        ether("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Be", &["chains.ether.watch[0].address", "0x5aAeb6053F"]),
        ether("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", &["chains.ether.watch[0].address", "bc1qw508"]),
    ]
}

fn secret_mistakes() -> Vec<Case> {
    let rpc = "rpc = [{ url = \"http://127.0.0.1:1\" }]\nconfirmations = { default = 3 }";
    let coins = |endpoint: &str, said| case(rpc, &format!("rpc = [{{ {endpoint} }}]\nconfirmations = {{ default = 3 }}"), said);
    let secret = "secret = { env = \"LEDGER_SECRET\" }";
    vec![
        case(secret, &format!("secret = \"whsec_{SECRET}\""), &["sinks.ledger.secret", "{ env = \"NAME\" }", "{ file ="]),
        case(secret, "secret = { env = \"NOT_SET_ANYWHERE\" }", &["sinks.ledger.secret", "NOT_SET_ANYWHERE"]),
        case(secret, "secret = { file = \"./not-there\" }", &["sinks.ledger.secret", "./not-there"]),
        case(secret, "secret = { env = \"ONLY_TEXT\" }", &["sinks.ledger.secret", "whsec_"]),
        coins(
            &format!("url = \"http://127.0.0.1:1\", user = \"u\", password = \"{SECRET}\""),
            &["chains.coins.rpc[0].password", "{ env = \"NAME\" }", "{ file ="],
        ),
        coins(&format!("url = \"http://u:{SECRET}@127.0.0.1:1\""), &["chains.coins.rpc[0].url", "user info", "env"]),
        coins(&format!("url = \"ftp://127.0.0.1/{SECRET}\""), &["chains.coins.rpc[0].url", "http"]),
        coins(
            &format!("url = \"http://127.0.0.1:1\", headers = {{ Authorization = \"Bearer {SECRET}\" }}"),
            &["chains.coins.rpc[0].headers", "env"],
        ),
        coins("url = \"http://127.0.0.1:1\", user = \"u\"", &["chains.coins.rpc[0]", "password"]),
        case(
            "url = \"https://ledger.example/hooks\"",
            &format!("url = \"https://u:{SECRET}@ledger.example/\""),
            &["sinks.ledger.url"],
        ),
    ]
}

fn other_mistakes() -> Vec<Case> {
    vec![
        case("path = \"./state\"", "path = \"./state\"\nhistori = \"1d\"", &["state.histori", "unknown", "history"]),
        case("path = \"./state\"", "", &["state.path", "missing", "./confirmd-state"]),
        case("path = \"./state\"", "path = \"\"", &["state.path", "./confirmd-state"]),
        case("path = \"./state\"", "path = 7", &["state.path", "7", "string"]),
        case("path = \"./state\"", "path = \"./state", &["not TOML", "confirmd.toml:3"]),
        case("[chains.coins]", "[chain.coins]", &["chain", "chains"]),
        case("listen = \"127.0.0.1:0\"", "listen = \"0.0.0.0:8787\"", &["api.listen", "0.0.0.0:8787", "127.0.0.1"]),
        case("kind = \"webhook\"", "kind = \"kafka\"", &["sinks.ledger.kind", "kafka", "file, postgres, stdout, webhook"]),
        case("kind = \"file\"", "kind = \"file\"\nchains = [\"base\"]", &["sinks.archive.chains[0]", "base", "coins, ether"]),
        case("kind = \"file\"", "kind = \"file\"\nassets = [\"USDT\"]", &["sinks.archive.assets[0]", "USDT", "MINI"]),
        case("kind = \"file\"", "kind = \"file\"\nretry = [\"soon\"]", &["sinks.archive.retry[0]", "soon", "30s"]),
        case("path = \"./events.jsonl\"", "", &["sinks.archive", "path", "missing"]),
        case("[sinks.archive]", "[sinks.\"The Archive\"]", &["sinks", "The Archive"]),
    ]
}

async fn table(cases: Vec<Case>) -> Result<()> {
    let mut instance = Instance::new(|_| GOOD.to_owned())?;
    instance.env("LEDGER_SECRET", "whsec_bGVkZ2VyIHNlY3JldCBvZiBhIHRyaWFs").env("ONLY_TEXT", SECRET).env("NO_COLOR", "1");
    let good = said(&instance, &["check"]).await?.1;
    ensure!(good.contains("ok    configuration"), "{good}");
    let mut wrong = Vec::new();
    for (old, new, parts) in cases {
        ensure!(GOOD.matches(old).count() == 1, "{old:?} is not there once");
        instance.configure(|_| GOOD.replace(old, &new))?;
        for command in [["check"].as_slice(), &["run", "--init"]] {
            let (code, text) = said(&instance, command).await?;
            let missing: Vec<_> = parts.iter().filter(|part| !text.contains(**part)).collect();
            if code != Some(1) || !missing.is_empty() || text.contains(SECRET) {
                wrong.push(format!("{command:?} of {new:?} ends with {code:?}, without {missing:?}:\n{text}"));
            }
        }
        ensure!(!instance.dir().join("state").exists(), "a state was made for {new:?}");
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Exit code, and everything that was printed.
async fn said(instance: &Instance, args: &[&str]) -> Result<(Option<i32>, String)> {
    let output = instance.command(args).await?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((output.status.code(), text.concat()))
}
