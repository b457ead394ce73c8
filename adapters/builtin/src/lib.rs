//! The one list of what the shipped binary contains: a new adapter is one line here and one dependency.
#![warn(missing_docs)]

use confirmd_core::Registry;

/// Every kind of chain and of sink that ships with confirmd.
pub fn registry() -> Registry {
    Registry::default()
        .with_chain(confirmd_chain_bitcoin::KIND)
        .with_chain(confirmd_chain_evm::KIND)
        .with_new_heads(confirmd_chain_bitcoin::KIND.name, confirmd_chain_bitcoin::build_new_heads)
        .with_new_heads(confirmd_chain_evm::KIND.name, confirmd_chain_evm::build_new_heads)
        .with_sink(confirmd_sink_stdout::KIND)
        .with_sink(confirmd_sink_file::KIND)
        .with_sink(confirmd_sink_webhook::KIND)
        .with_sink(confirmd_sink_postgres::KIND)
        .with_forged_sink(confirmd_sink_webhook::KIND.name, confirmd_sink_webhook::build_forged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_kind_is_listed_once_with_a_summary_and_an_example_that_names_it() {
        let registry = registry();
        let chains = registry.chains().map(|kind| ("chains", kind.name, kind.summary, kind.example));
        let sinks = registry.sinks().map(|kind| ("sinks", kind.name, kind.summary, kind.example));
        let all: Vec<_> = chains.chain(sinks).collect();
        let names: Vec<_> = all.iter().map(|(_, name, ..)| *name).collect();
        assert_eq!(names, ["bitcoin", "evm", "file", "postgres", "stdout", "webhook"]);
        for (section, name, summary, example) in all {
            assert!(!summary.is_empty() && !summary.contains('\n'), "{name}");
            let table: toml::Table = example.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
            let entries = table.get(section).and_then(toml::Value::as_table).unwrap();
            let kinds: Vec<_> = entries.values().filter_map(|entry| entry.get("kind")?.as_str()).collect();
            assert_eq!(kinds, [name]);
        }
    }

    #[test]
    fn an_unknown_kind_lists_the_known_ones() {
        let error = registry().sink("kafka").err().unwrap().to_string();
        assert!(error.contains("file, postgres, stdout, webhook"), "{error}");
        let error = registry().chain("solana").err().unwrap().to_string();
        assert!(error.contains("bitcoin, evm"), "{error}");
    }
}
