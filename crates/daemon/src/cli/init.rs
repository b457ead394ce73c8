//! `confirmd init`: a commented configuration to begin with.

use super::args::InitArgs;
use super::print;
use anyhow::{Context as _, bail};
use confirmd_core::{ChainKind, Registry, SinkKind};
use std::io::Write;
use std::path::Path;

const HEAD: &str = r##"# confirmd: what is watched, and who is told. `confirmd check` checks it, `confirmd run --init` starts it the first time.
# Unknown keys are refused. Relative paths start at the current folder; ~/ is the home folder.
# Secrets, and URLs that carry a key, come from the environment or a file: { env = "NAME" } or { file = "path" }.

[state]
path = "./confirmd-state"               # one folder per instance; back it up, never share it
history = "90d"                         # event bodies and deposit records; what decides is kept for ever

[api]
listen = "127.0.0.1:8787"               # the API; port 0 takes any free one. Other machines may ask only with a token:
# admin_token = { env = "CONFIRMD_ADMIN_TOKEN" }   # may do everything; then every request needs a token
# read_token = { env = "CONFIRMD_READ_TOKEN" }     # may only look

[log]
# format = "json"                       # text, or one JSON object a line
# filter = "info"                       # the environment variable CONFIRMD_LOG wins

# [telemetry]                           # one trace per event, from the block to the delivery, to an OpenTelemetry collector
# otlp = "http://127.0.0.1:4318"        # OTLP over HTTP

# ---- Chains: one entry per network. Remove the leading "# " of what you need.
# Every chain takes, beside its own keys:
#   confirmations = { default = 3 }     # required; the block itself counts. Per asset: USDC = 12, "safe", "finalized",
#                                       # or { at_least = 12, tag = "finalized" }
#   minimum = { USDC = "1000000" }      # optional, in base units by symbol; what is less is written down, never confirmed
#   reorg_depth = 24                    # required; blocks that may still change. At least the deepest confirmations
#   start = "tip"                       # or the first height to read, at the very first start
#   poll_interval = "5s"                # between two looks at the tip; by default what fits the chain
#   fork_grace = "5m"                   # how long a fork that is shorter than ours is waited for
#   behind_alarm = "15m"                # how long a node may stay behind ours before it is an alarm
#   span_max = 100                      # blocks read at once while catching up
#   watch = [{ address = "...", reference = "customer-42" }]   # also: confirmd watch add, confirmd watch import
"##;

const SINKS: &str = r##"
# ---- Sinks: who is told. The name owns the delivery records; rename with `confirmd consumer rename`.
# Every sink takes, beside its own keys:
#   chains = ["bitcoin"]                # only these chains, by name
#   assets = ["USDC"]                   # only these assets, by symbol
#   start = "now"                       # or "beginning"; needed when a sink is added to a state that holds events
#   retry = ["30s", "2m", "10m", "30m", "2h", "6h", "12h", "24h"]   # waits between attempts; then a dead letter
"##;

pub(super) fn run(file: &Path, args: &InitArgs, registry: &Registry) -> anyhow::Result<()> {
    let mut options = std::fs::File::options();
    options.write(true);
    if args.force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut out = match options.open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} exists; --force replaces it, --config FILE names another", file.display())
        }
        opened => opened.with_context(|| format!("write {}", file.display()))?,
    };
    out.write_all(text(registry).as_bytes()).with_context(|| format!("write {}", file.display()))?;
    if args.json.json {
        return print::json(&serde_json::json!({ "file": file }));
    }
    print::line(&format!(
        "wrote {}; uncomment a chain and a sink in it, then `confirmd check` and `confirmd run --init`",
        file.display()
    ));
    Ok(())
}

/// The whole file: every known kind, commented out.
pub(super) fn text(registry: &Registry) -> String {
    let mut text = HEAD.to_owned();
    for kind in registry.chains() {
        text.push_str(&format!("\n# {}: {}\n{}", kind.name, kind.summary, commented(&chain_example(kind))));
    }
    text.push_str(SINKS);
    for kind in registry.sinks() {
        text.push_str(&format!("\n# {}: {}\n{}", kind.name, kind.summary, commented(&sink_example(kind))));
    }
    text
}

/// A kind's example as a whole table.
pub(super) fn chain_example(kind: &ChainKind) -> String {
    below(&format!("chains.{}", kind.name), kind.example)
}

/// A kind's example as a whole table.
pub(super) fn sink_example(kind: &SinkKind) -> String {
    below(&format!("sinks.{}", kind.name), kind.example)
}

/// An example with a header of its own stays as it is; one without gets it in front.
fn below(parent: &str, example: &str) -> String {
    let example = example.trim();
    let has_header = example.lines().any(|line| line.starts_with("[chains.") || line.starts_with("[sinks."));
    if has_header { format!("{example}\n") } else { format!("[{parent}]\n{example}\n") }
}

fn commented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "#\n".to_owned() } else { format!("# {line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::ConfigFile;

    #[test]
    fn the_written_configuration_parses_and_so_does_every_example_in_it_once_uncommented() {
        let registry = confirmd_builtin::registry();
        let file = ConfigFile::parse(Path::new("x.toml"), text(&registry)).unwrap();
        assert!(file.chains.is_empty() && file.sinks.is_empty());
        let mut whole = HEAD.to_owned();
        registry.chains().for_each(|kind| whole.push_str(&chain_example(kind)));
        registry.sinks().for_each(|kind| whole.push_str(&sink_example(kind)));
        let file = ConfigFile::parse(Path::new("x.toml"), whole).unwrap();
        assert_eq!((file.chains.len(), file.sinks.len()), (registry.chains().count(), registry.sinks().count()));
    }
}
