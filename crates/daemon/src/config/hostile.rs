//! Configurations as a tired operator or a bad editor could leave them.
#![allow(clippy::unwrap_used)]

use super::*;
use confirmd_hostile::{Alteration, assert_bounded, cases, config, deep};
use fastrand::Rng;
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;

/// What no error may show.
const SECRET: &str = "hunter2hunter2hunter2hunter2";
/// Parsers of text take many times its length; what they take must not grow faster than it.
const FACTOR: u64 = 300;
const BASE: u64 = 8 * 1024 * 1024;

fn judge(text: &str) -> Result<(), String> {
    let file = ConfigFile::parse(Path::new("conf.toml"), text.to_owned()).map_err(|faults| faults.to_string())?;
    Config::build(file, &confirmd_builtin::registry()).map(drop).map_err(|faults| faults.to_string())
}

fn file(content: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

/// A valid configuration that uses each kind of secret, and the files they are in.
fn valid() -> (String, [tempfile::NamedTempFile; 3]) {
    let files = [file(SECRET), file(&format!("http://us3r:{SECRET}@127.0.0.1:8332/{SECRET}?key={SECRET}")), file(WHSEC)];
    let [password, url, whsec] = files.each_ref().map(|file| file.path().display().to_string());
    let text = format!(
        r#"# All there is.
[state]
path = "./s"
history = "30d"
[api]
listen = "127.0.0.1:0"
[telemetry]
otlp = "http://127.0.0.1:4318"
headers = {{ authorization = {{ file = "{password}" }} }}
[chains.btc]
kind = "bitcoin"
network = "regtest"
rpc = [{{ url = {{ file = "{url}" }} }}, {{ url = "http://127.0.0.1:1", user = "u", password = {{ file = "{password}" }} }}]
confirmations = {{ default = 3, BTC = {{ at_least = 5 }} }}
reorg_depth = 24
start = 7
limits = {{ requests_per_second = 5, deadline = "30s" }}
[chains.evm]
kind = "evm"
chain_id = 31337
rpc = [{{ url = "http://127.0.0.1:2", headers = {{ Authorization = {{ file = "{password}" }} }} }}]
confirmations = {{ default = 2 }}
reorg_depth = 16
native = {{ symbol = "ETH", decimals = 18, slip44 = 60 }}
assets = [{{ symbol = "USDC", contract = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", decimals = 6 }}]
[[chains.evm.watch]]
address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
reference = "customer-42"
[sinks.ledger]
kind = "webhook"
url = "https://ledger.example/hooks"
secret = {{ file = "{whsec}" }}
retry = ["1s", "2m"]
chains = ["evm"]
[sinks.screen]
kind = "stdout"
"#
    );
    (text, files)
}

const WHSEC: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn shows_no_secret(text: &str, error: &str) {
    for secret in [SECRET, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"] {
        assert!(!error.contains(secret), "the error shows a secret: {error}\nof the configuration\n{text}");
    }
    assert!(!error.is_empty());
}

#[test]
fn hostile_config_an_altered_configuration_is_used_or_refused_without_a_secret() {
    let (whole, files) = valid();
    judge(&whole).unwrap();
    for seed in 0..u64::from(cases(1_500)) {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..rng.usize(1..4) {
            bytes = Alteration::random(&mut rng, bytes.len()).apply(&bytes);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Err(error) = assert_bounded(text.len(), FACTOR, BASE, || judge(&text)) {
            shows_no_secret(&text, &error);
        }
    }
    drop(files);
}

/// A secret that was written into the file itself is refused wherever it stands, and an error about anything else nearby
/// does not quote it.
#[test]
fn hostile_config_a_literal_secret_is_in_no_error_whatever_else_is_wrong() {
    let (valid, files) = valid();
    let quoted = |n: usize| format!("{{ file = \"{}\" }}", files.get(n).unwrap().path().display());
    let literals = [
        (quoted(0), format!("\"{SECRET}\"")),
        (quoted(1), format!("\"http://us3r:{SECRET}@127.0.0.1:8332/\"")),
        (quoted(2), format!("\"whsec_{SECRET}\"")),
        ("\"https://ledger.example/hooks\"".to_owned(), format!("\"https://u:{SECRET}@ledger.example/hooks\"")),
    ];
    for (kept, literal) in literals {
        assert!(valid.contains(&kept));
        let whole = valid.replacen(&kept, &literal, 1);
        shows_no_secret(&whole, &judge(&whole).unwrap_err());
        for seed in 0..u64::from(cases(300)) {
            let mut rng = Rng::with_seed(seed);
            let bytes = Alteration::random(&mut rng, whole.len()).apply(whole.as_bytes());
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Err(error) = judge(&text) {
                shows_no_secret(&text, &error);
            }
        }
    }
}

#[test]
fn hostile_config_a_configuration_cut_anywhere_is_judged() {
    let (whole, _files) = valid();
    for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        if let Err(error) = judge(whole.get(..end).unwrap()) {
            shows_no_secret(&whole, &error);
        }
    }
}

#[test]
fn hostile_config_deep_nesting_is_refused_within_bounds() {
    for depth in [100, 10_000, 200_000] {
        for text in [
            format!("x = {}", deep("[", "", "]", depth)),
            format!("x = {}", deep("{a=", "1", "}", depth)),
            format!("{}a = 1", "a.".repeat(depth)),
            format!("[{}a]\nb = 1", "a.".repeat(depth)),
            format!("[[{}a]]\nb = 1", "a.".repeat(depth)),
            format!("[chains.{}a]", "a.".repeat(depth)),
            format!("[sinks.x]\nkind = 'stdout'\ny = {}", deep("[[", "", "]]", depth)),
            "[".repeat(depth),
            "\"".repeat(depth),
            format!("x = \"{}", "\\u0000".repeat(depth)),
        ] {
            assert!(assert_bounded(text.len(), FACTOR, BASE, || judge(&text).is_err()), "{:?} …", text.get(..20));
        }
    }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn hostile_config_any_text_is_judged_without_a_panic(
        text in prop_oneof![any::<String>(), "([a-z.]{1,8} = ([0-9]{1,30}|'[a-z]{0,9}'|\\[\\]|\\{\\})\n|\\[[a-z.]{1,12}\\]\n){0,20}"],
    ) {
        let _ = judge(&text);
    }

    #[test]
    fn hostile_config_any_value_at_any_key_is_judged_without_a_panic(which in 0usize..60, value in "(-?[0-9]{1,25}|'[ -&(-~]{0,30}'|\\[\\]|\\{\\}|true|1979-05-27|inf|nan|0x[f]{1,20})") {
        let (whole, _files) = valid();
        let mut keys = 0;
        let changed: Vec<String> = whole
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some((key, _)) => {
                    keys += 1;
                    if keys == which { format!("{key} = {value}") } else { line.to_owned() }
                }
                None => line.to_owned(),
            })
            .collect();
        let text = changed.join("\n");
        if let Err(error) = judge(&text) {
            shows_no_secret(&text, &error);
        }
    }
}
