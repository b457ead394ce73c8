//! What of a configuration can be told from another one: by which key, and what a running instance can take over.

use crate::config::{Config, ConfigFile, SinkConfig};
use anyhow::bail;
use confirmd_api::view::PartChange;
use confirmd_core::{Secret, SecretSource};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::{Table, Value};

/// The key of the log filter.
pub(super) const FILTER: &str = "log.filter";

/// The key of where traces go.
pub(super) const TELEMETRY: &str = "telemetry";

/// A configuration as far as a reload compares it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outline {
    /// Keys that hold from start to end.
    fixed: Vec<(&'static str, String)>,
    /// Chains, sinks and the rest that can change alone, by key.
    parts: BTreeMap<String, Print>,
}

/// One part: what stands in the file, what its secrets hold now, and what its names stand for.
#[derive(Debug, Clone, PartialEq)]
struct Print {
    common: Table,
    /// The adapter's own keys.
    own: Table,
    secrets: Vec<Option<Secret>>,
    /// What names in it were resolved to.
    resolved: String,
}

impl Print {
    fn of(table: Table) -> Self {
        let mut secrets = Vec::new();
        collect(&table, &mut secrets);
        Self { common: Table::new(), own: table, secrets, resolved: String::new() }
    }

    fn of_sink(table: Table, sink: &SinkConfig) -> Self {
        let own = SinkConfig::adapter_keys(table.clone());
        let common = table.into_iter().filter(|(key, _)| !own.contains_key(key)).collect();
        Self { common, resolved: format!("{:?}", sink.spec.filter), ..Self::of(own) }
    }
}

/// The content of every secret a table names; `None` where it can't be read, which whoever builds it says.
fn collect(table: &Table, found: &mut Vec<Option<Secret>>) {
    let source = match (table.len(), table.iter().next()) {
        (1, Some((key, Value::String(name)))) if key == "env" => Some(SecretSource::Env(name.clone())),
        (1, Some((key, Value::String(path)))) if key == "file" => Some(SecretSource::File(PathBuf::from(path))),
        _ => None,
    };
    if let Some(source) = source {
        return found.push(source.resolve().ok());
    }
    for value in table.values() {
        collect_value(value, found);
    }
}

fn collect_value(value: &Value, found: &mut Vec<Option<Secret>>) {
    match value {
        Value::Table(table) => collect(table, found),
        Value::Array(items) => items.iter().for_each(|item| collect_value(item, found)),
        _ => {}
    }
}

fn fixed(file: &ConfigFile) -> Vec<(&'static str, String)> {
    let (state, api) = (&file.state, &file.api);
    vec![
        ("state.path", format!("{:?}", state.path)),
        ("state.history", format!("{:?}", state.history)),
        ("state", format!("{state:?}")),
        ("api.listen", format!("{:?}", api.listen)),
        ("api.admin_token", format!("{:?}", api.admin_token)),
        ("api.read_token", format!("{:?}", api.read_token)),
        ("api", format!("{api:?}")),
        ("log.format", format!("{:?}", file.log.format)),
    ]
}

impl Outline {
    pub(super) fn of(config: &Config) -> Self {
        let file = &config.file;
        let mut parts = BTreeMap::new();
        for (name, table) in &file.chains {
            parts.insert(format!("chains.{name}"), Print::of(table.clone()));
        }
        for sink in &config.sinks {
            let table = file.sinks.get(sink.name().as_str()).cloned().unwrap_or_default();
            parts.insert(sink.key(), Print::of_sink(table, sink));
        }
        if let Some(section) = &file.operations {
            let resolved = format!("{} {:?}", section.reorg_blocks, section.failing_after);
            parts.insert(super::super::OPERATIONS.to_owned(), Print { resolved, ..Print::of(section.sink.clone()) });
        }
        if let Some(section) = &file.telemetry {
            let secrets = section.headers.values().map(|source| source.resolve().ok()).collect();
            let print = Print { resolved: format!("{section:?}"), secrets, ..Print::of(Table::new()) };
            parts.insert(TELEMETRY.to_owned(), print);
        }
        if let Some(filter) = &file.log.filter {
            let table = Table::from_iter([("filter".to_owned(), Value::String(filter.clone()))]);
            parts.insert(FILTER.to_owned(), Print::of(table));
        }
        Self { fixed: fixed(file), parts }
    }

    /// What became of which part. An error names every key that can't change while an instance runs.
    pub(super) fn changes(&self, new: &Self) -> anyhow::Result<BTreeMap<String, PartChange>> {
        let moved: Vec<&str> =
            self.fixed.iter().zip(&new.fixed).filter(|(old, new)| old != new).map(|((key, _), _)| *key).collect();
        // A section is named where none of its keys says more.
        let whole = |key: &&&str| !key.contains('.') && moved.iter().any(|other| other.starts_with(&format!("{key}.")));
        let named: Vec<String> =
            moved.iter().filter(|key| !whole(key)).map(|key| format!("{key}: a change needs a restart")).collect();
        if !named.is_empty() {
            bail!("{}; nothing of the file was taken over: restart, or set it back for now", named.join("; "));
        }
        let mut changes = BTreeMap::new();
        for (key, print) in &new.parts {
            match self.parts.get(key) {
                None => drop(changes.insert(key.clone(), PartChange::Added)),
                Some(old) if old != print => drop(changes.insert(key.clone(), PartChange::Changed)),
                Some(_) => {}
            }
        }
        let gone = self.parts.keys().filter(|key| !new.parts.contains_key(*key));
        changes.extend(gone.map(|key| (key.clone(), PartChange::Removed)));
        Ok(changes)
    }

    /// Whether a part's adapter would be built as it is: it can be kept.
    pub(super) fn same_adapter(&self, new: &Self, key: &str) -> bool {
        let (Some(old), Some(new)) = (self.parts.get(key), new.parts.get(key)) else { return false };
        old.own == new.own && old.secrets == new.secrets && old.common.get("kind") == new.common.get("kind")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn outline(fixed: &[(&'static str, &str)], parts: &[(&str, &str)]) -> Outline {
        Outline {
            fixed: fixed.iter().map(|(key, value)| (*key, (*value).to_owned())).collect(),
            parts: parts.iter().map(|(key, table)| ((*key).to_owned(), Print::of(table.parse().unwrap()))).collect(),
        }
    }

    #[test]
    fn each_part_is_told_from_another_and_a_secret_by_what_it_holds() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter-1").unwrap();
        let secret = format!("secret = {{ file = {:?} }}", file.path());
        let parts = |a: &'static str| [("chains.a", a), ("chains.same", "x = 1"), ("sinks.s", secret.as_str())];
        let old = outline(&[], &[parts("x = 1").as_slice(), &[("sinks.gone", "")]].concat());
        std::fs::write(file.path(), "hunter-2").unwrap();
        let new = outline(&[], &[parts("x = 2").as_slice(), &[("chains.new", "")]].concat());
        let changes: Vec<_> =
            old.changes(&new).unwrap().into_iter().map(|(key, change)| format!("{key} {}", change.as_str())).collect();
        assert_eq!(changes, ["chains.a changed", "chains.new added", "sinks.gone removed", "sinks.s changed"]);
        assert!(!old.same_adapter(&new, "sinks.s") && old.same_adapter(&new, "chains.same"));
        assert!(!format!("{old:?}").contains("hunter"), "{old:?}");
    }

    #[test]
    fn what_holds_from_start_to_end_is_named_by_its_key() {
        let old = outline(&[("state.path", "a"), ("state", "a"), ("api", "b")], &[]);
        let new = outline(&[("state.path", "c"), ("state", "c"), ("api", "d")], &[]);
        let text = old.changes(&new).unwrap_err().to_string();
        assert!(text.starts_with("state.path: a change needs a restart; api: a change needs a restart; nothing"), "{text}");
    }
}
