//! Every file in `config/` is a configuration that works once its secrets are there.

use confirmd::config::{Config, ConfigFile};
use std::path::Path;

/// Environment variables become files, so that the test sets none.
fn with_secrets(text: &str, dir: &Path) -> String {
    let mut out = text.to_owned();
    for (name, content) in [
        ("ETH_RPC_URL", "https://node.example/key"),
        ("ETH_RPC_AUTH", "Bearer x"),
        ("LEDGER_WEBHOOK_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        ("LITECOIN_RPC_PASSWORD", "x"),
    ] {
        let file = dir.join(name);
        std::fs::write(&file, content).unwrap();
        out = out.replace(&format!("{{ env = \"{name}\" }}"), &format!("{{ file = {file:?} }}"));
    }
    // The compose example mounts its secrets.
    for (name, content) in [
        ("confirmd_admin_token", "0123456789abcdef0"),
        ("confirmd_read_token", "0123456789abcdef1"),
        ("postgres_password", "x"),
        ("eth_rpc_url", "https://node.example/key"),
    ] {
        std::fs::write(dir.join(name), content).unwrap();
        out = out.replace(&format!("\"/run/secrets/{name}\""), &format!("{:?}", dir.join(name)));
    }
    out
}

#[test]
fn every_example_configuration_is_valid() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    let files = std::fs::read_dir(super::root().join("config")).unwrap().map(|entry| entry.unwrap().path());
    for path in files.chain([super::root().join("deploy/compose/confirmd.toml")]) {
        let text = with_secrets(&std::fs::read_to_string(&path).unwrap(), dir.path());
        let file = ConfigFile::parse(&path, text).unwrap_or_else(|error| panic!("{error}"));
        let config = Config::build(file, &confirmd_builtin::registry()).unwrap_or_else(|error| panic!("{error}"));
        assert!(!config.chains.is_empty() && !config.sinks.is_empty(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 4);
}
