//! Configurations for trials: quick polls, generous limits, loopback only.

use std::path::Path;

use super::customer::SECRET_ENV;

/// A configuration under construction. Sections stand in the order they were added.
#[derive(Debug, Clone, Default)]
pub struct Config {
    chains: Vec<ChainSection>,
    sinks: Vec<SinkSection>,
    state: String,
    api: String,
    tail: String,
}

impl Config {
    /// Nothing but state and API.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a chain.
    pub fn chain(mut self, chain: ChainSection) -> Self {
        self.chains.push(chain);
        self
    }

    /// Adds a sink.
    pub fn sink(mut self, sink: SinkSection) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Adds lines to `[state]`.
    pub fn state(mut self, lines: &str) -> Self {
        self.state.push_str(lines);
        self
    }

    /// Adds lines to `[api]`.
    pub fn api(mut self, lines: &str) -> Self {
        self.api.push_str(lines);
        self
    }

    /// Adds sections as they are written.
    pub fn text(mut self, sections: &str) -> Self {
        self.tail.push_str(sections);
        self
    }

    /// The text of `confirmd.toml`: the state lies in `state` within `folder`; the API takes any free port.
    pub fn render(&self, folder: &Path) -> String {
        let state = folder.join("state");
        let mut text = format!("[state]\npath = {state:?}\n{}\n[api]\nlisten = \"127.0.0.1:0\"\n{}\n", self.state, self.api);
        for ChainSection { name, lines, .. } in &self.chains {
            text.push_str(&format!("\n[chains.{name}]\n{}\n", lines.join("\n")));
        }
        for chain in &self.chains {
            for (address, reference) in &chain.watch {
                let name = &chain.name;
                text.push_str(&format!("\n[[chains.{name}.watch]]\naddress = \"{address}\"\nreference = \"{reference}\"\n"));
            }
        }
        for SinkSection { name, lines } in &self.sinks {
            text.push_str(&format!("\n[sinks.{name}]\n{}\n", lines.join("\n")));
        }
        text.push_str(&self.tail);
        text
    }
}

/// `[chains.NAME]`. Set `confirmations` and `reorg_depth`; everything else has a value that suits trials.
#[derive(Debug, Clone)]
pub struct ChainSection {
    name: String,
    lines: Vec<String>,
    watch: Vec<(String, String)>,
}

impl ChainSection {
    fn new(name: &str, kind: &str) -> Self {
        let lines = vec![
            format!("kind = \"{kind}\""),
            "poll_interval = \"50ms\"".to_owned(),
            "limits = { requests_per_second = 5000 }".to_owned(),
        ];
        Self { name: name.to_owned(), lines, watch: Vec::new() }
    }

    /// An EVM chain behind one endpoint, with ETH (slip44 60) as its coin.
    pub fn evm(name: &str, chain_id: u64, url: &str) -> Self {
        Self::new(name, "evm")
            .line(&format!("chain_id = {chain_id}"))
            .line(&format!("rpc = [{{ url = \"{url}\" }}]"))
            .line("native = { symbol = \"ETH\", decimals = 18, slip44 = 60 }")
    }

    /// A chain of the Bitcoin family; `rpc` is one endpoint as an inline table.
    pub fn bitcoin(name: &str, network: &str, rpc: &str) -> Self {
        Self::new(name, "bitcoin").line(&format!("network = \"{network}\"")).line(&format!("rpc = [{rpc}]"))
    }

    /// Any `key = value` of the section, in place of an earlier one with this key.
    pub fn line(mut self, line: &str) -> Self {
        let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
        self.lines.retain(|earlier| key(earlier) != key(line));
        self.lines.push(line.to_owned());
        self
    }

    /// The inside of `confirmations = { ... }`, for example `default = 3, MINI = 5`.
    pub fn confirmations(self, policy: &str) -> Self {
        self.line(&format!("confirmations = {{ {policy} }}"))
    }

    /// Blocks that may still change.
    pub fn reorg_depth(self, blocks: u64) -> Self {
        self.line(&format!("reorg_depth = {blocks}"))
    }

    /// Watches an address under a reference.
    pub fn watch(mut self, address: &str, reference: &str) -> Self {
        self.watch.push((address.to_owned(), reference.to_owned()));
        self
    }
}

/// `[sinks.NAME]`.
#[derive(Debug, Clone)]
pub struct SinkSection {
    name: String,
    lines: Vec<String>,
}

impl SinkSection {
    /// A webhook to a customer on loopback, signed with the trials' secret.
    pub fn webhook(name: &str, url: &str) -> Self {
        let lines = vec![
            "kind = \"webhook\"".to_owned(),
            format!("url = \"{url}\""),
            format!("secret = {{ env = \"{SECRET_ENV}\" }}"),
            "allow_private = [\"127.0.0.0/8\"]".to_owned(),
        ];
        Self { name: name.to_owned(), lines }
    }

    /// A sink of any kind.
    pub fn of_kind(name: &str, kind: &str) -> Self {
        Self { name: name.to_owned(), lines: vec![format!("kind = \"{kind}\"")] }
    }

    /// Any `key = value` of the section.
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// The waits between attempts, for example `&["200ms", "1s"]`.
    pub fn retry(self, waits: &[&str]) -> Self {
        self.line(&format!("retry = {waits:?}"))
    }
}
