//! `~/` in paths of the configuration.

use std::path::Path;
use toml::Value;

/// Replaces a leading `~/` by the home folder in every value whose key names a path: `path`, `file`, `*_path`, `*_file`.
pub(super) fn expand(table: &mut toml::Table, home: &Path) {
    for (key, value) in table.iter_mut() {
        let names_a_path =
            ["path", "file"].iter().any(|end| key.strip_suffix(end).is_some_and(|head| head.is_empty() || head.ends_with('_')));
        match value {
            Value::String(text) if names_a_path => {
                if let Some(expanded) = text.strip_prefix("~/").and_then(|rest| home.join(rest).to_str().map(str::to_owned)) {
                    *text = expanded;
                }
            }
            Value::Table(inner) => expand(inner, home),
            Value::Array(items) => items.iter_mut().filter_map(Value::as_table_mut).for_each(|inner| expand(inner, home)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_tilde_is_the_home_folder_in_paths_and_nowhere_else() {
        let text =
            "name = '~/a'\n[state]\npath = '~/s'\n[[rpc]]\ncookie_file = '~/c'\nsecret = { file = '~/t' }\nprofile = '~/p'";
        let mut table: toml::Table = text.parse().unwrap();
        expand(&mut table, Path::new("/home/op"));
        let expected = text.replace("'~/s'", "'/home/op/s'").replace("'~/c'", "'/home/op/c'").replace("'~/t'", "'/home/op/t'");
        assert_eq!(table, expected.parse().unwrap());
    }
}
