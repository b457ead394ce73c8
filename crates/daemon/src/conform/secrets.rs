//! What a configuration keeps out of sight, to see whether it stays there.

use toml::{Table, Value};

/// Shorter texts are words.
const LENGTH_MIN: usize = 8;

/// The texts behind every `{ env = ... }`, `{ file = ... }` and cookie file of a table; of URLs what could be a key.
pub(crate) fn secrets_of(table: &Table) -> Vec<String> {
    let mut found = Vec::new();
    collect(table, &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect(table: &Table, found: &mut Vec<String>) {
    for (key, value) in table {
        let kept = match (key.as_str(), value) {
            ("env", Value::String(name)) => std::env::var(name).ok(),
            ("file" | "cookie_file", Value::String(path)) => std::fs::read_to_string(path).ok(),
            (_, Value::String(text)) if text.contains("://") => {
                found.extend(keys_in_url(text));
                None
            }
            (_, Value::Table(table)) => {
                collect(table, found);
                None
            }
            (_, Value::Array(items)) => {
                items.iter().filter_map(Value::as_table).for_each(|table| collect(table, found));
                None
            }
            _ => None,
        };
        let Some(kept) = kept else { continue };
        let kept = kept.trim();
        match kept.contains("://") {
            true => found.extend(keys_in_url(kept)),
            // A cookie is `user:password`.
            false => found.extend(kept.split(':').filter(|part| part.len() >= LENGTH_MIN).map(str::to_owned)),
        }
    }
}

/// User info, parts of the path and values of the query that could be keys; never the host.
fn keys_in_url(url: &str) -> Vec<String> {
    let Some((_, rest)) = url.split_once("://") else { return Vec::new() };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let user_info = authority.rsplit_once('@').map_or("", |(user_info, _)| user_info);
    let parts = user_info.split(':').chain(path.split(['/', '?', '&', '=', '#']));
    parts.filter(|part| part.len() >= LENGTH_MIN).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_in_urls_and_files_are_found_and_hosts_and_words_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let cookie = folder.path().join("cookie");
        std::fs::write(&cookie, "__cookie__:0123456789abcdef\n").unwrap();
        let text = format!(
            "network = 'regtest'\nrpc = [{{ url = 'https://node.example.org/v2/a-key-of-the-endpoint?apikey=another-key', cookie_file = {cookie:?} }}]"
        );
        let found = secrets_of(&text.parse().unwrap());
        assert_eq!(found, ["0123456789abcdef", "__cookie__", "a-key-of-the-endpoint", "another-key"]);
    }
}
