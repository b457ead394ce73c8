//! `confirmd kinds`

use super::init::{chain_example, sink_example};
use super::{print, table};
use anyhow::bail;
use confirmd_core::Registry;

pub(super) fn run(name: Option<&str>, json: bool, registry: &Registry) -> anyhow::Result<()> {
    let chains = registry.chains().map(|kind| ("chain", kind.name, kind.summary, chain_example(kind)));
    let sinks = registry.sinks().map(|kind| ("sink", kind.name, kind.summary, sink_example(kind)));
    let all: Vec<_> = chains.chain(sinks).filter(|(_, known, ..)| name.is_none_or(|name| name == *known)).collect();
    if let (Some(name), true) = (name, all.is_empty()) {
        let known: Vec<_> = registry.chains().map(|kind| kind.name).chain(registry.sinks().map(|kind| kind.name)).collect();
        bail!("unknown kind {name:?}; known: {}", known.join(", "));
    }
    if json {
        return all.iter().try_for_each(|(of, kind, summary, example)| {
            print::json(&serde_json::json!({ "of": of, "kind": kind, "summary": summary, "example": example }))
        });
    }
    if name.is_some() {
        all.iter().for_each(|(.., example)| print::line(example.trim_end()));
        return Ok(());
    }
    let rows: Vec<_> = all.iter().map(|(of, kind, summary, _)| vec![(*of).into(), (*kind).into(), (*summary).into()]).collect();
    print::line(&table::render(&["of", "kind", "summary"], &rows));
    Ok(())
}
