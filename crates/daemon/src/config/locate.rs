//! From a key's path to the line it stands on.

use toml::de::{DeTable, DeValue};

/// The line (from 1) of the deepest part of `key` that stands in the text: `chains.bitcoin.rpc[1].url`.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut here = None;
    let mut value: Option<&DeValue<'_>> = None;
    let steps = key.split(['.', '[', ']']).filter(|step| !step.is_empty());
    for (index, step) in steps.enumerate() {
        let next = match (index, value) {
            (0, _) => table.get_ref().get_key_value(step),
            (_, Some(DeValue::Table(inner))) => inner.get_key_value(step),
            (_, Some(DeValue::Array(items))) => {
                let Some(item) = step.parse().ok().and_then(|index: usize| items.get(index)) else { break };
                here = Some(item.span().start);
                value = Some(item.get_ref());
                continue;
            }
            _ => None,
        };
        let Some((name, found)) = next else { break };
        here = Some(name.span().start);
        value = Some(found.get_ref());
    }
    here.map(|at| line_at(text, at))
}

/// The line (from 1) of a byte offset.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn a_key_is_found_in_tables_inline_tables_and_arrays() {
        let text = "[state]\npath = 'x'\n\n[chains.btc]\nkind = 'b'\nrpc = [\n  { url = 1 },\n  { url = 2 },\n]\n\n[[chains.btc.watch]]\naddress = 'a'\n[[chains.btc.watch]]\naddress = 'b'\n";
        for (key, line) in [
            ("state.path", 2),
            ("chains.btc.kind", 5),
            ("chains.btc.rpc[1].url", 8),
            ("chains.btc.rpc[1].cookie_file", 8),
            ("chains.btc.watch[1].address", 14),
            ("chains.btc.confirmations", 4),
        ] {
            assert_eq!(line_of(text, key), Some(line), "{key}");
        }
        assert_eq!(line_of(text, "sinks.x"), None);
    }
}
