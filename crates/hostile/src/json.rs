//! One change to a JSON value.

use fastrand::Rng;
use serde_json::{Value, json};

/// What was done, for messages and for telling apart what a parser can notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonAlteration {
    /// The changed place: keys and indexes, `transactions/3/value`.
    pub path: String,
    /// The last key on the way to it; empty for a list's item at the top.
    pub key: String,
    /// What was done.
    pub kind: JsonChange,
}

/// The kinds of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonChange {
    /// A key or item is gone.
    Removed,
    /// `null` stands there.
    Nulled,
    /// Something of another type, or nothing that the type allows.
    Replaced,
    /// An item stands there twice.
    Repeated,
    /// Two neighbours changed places.
    Swapped,
}

impl JsonAlteration {
    /// Changes one place of `value`, any of them as likely as another.
    pub fn apply(value: &mut Value, rng: &mut Rng) -> Self {
        let mut at = rng.usize(..places(value).max(1));
        let mut path = Vec::new();
        let kind = change(value, &mut at, &mut path, rng).unwrap_or_else(|| {
            *value = unfit(rng);
            JsonChange::Replaced
        });
        let key = path.iter().rev().find(|step| step.parse::<usize>().is_err()).cloned().unwrap_or_default();
        Self { path: path.join("/"), key, kind }
    }
}

/// Children at any depth.
fn places(value: &Value) -> usize {
    let below = |child: &Value| 1 + places(child);
    match value {
        Value::Array(items) => items.iter().map(below).sum(),
        Value::Object(fields) => fields.values().map(below).sum(),
        _ => 0,
    }
}

/// Goes to the `at`-th child and changes it; `None` if there are fewer.
fn change(value: &mut Value, at: &mut usize, path: &mut Vec<String>, rng: &mut Rng) -> Option<JsonChange> {
    match value {
        Value::Array(items) => {
            for index in 0..items.len() {
                path.push(index.to_string());
                if *at == 0 {
                    return Some(change_item(items, index, rng));
                }
                *at -= 1;
                if let Some(kind) = items.get_mut(index).and_then(|item| change(item, at, path, rng)) {
                    return Some(kind);
                }
                path.pop();
            }
        }
        Value::Object(fields) => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            for key in keys {
                path.push(key.clone());
                if *at == 0 {
                    if rng.bool() {
                        fields.remove(&key);
                        return Some(JsonChange::Removed);
                    }
                    let field = fields.get_mut(&key)?;
                    return Some(replace(field, rng));
                }
                *at -= 1;
                if let Some(kind) = fields.get_mut(&key).and_then(|field| change(field, at, path, rng)) {
                    return Some(kind);
                }
                path.pop();
            }
        }
        _ => {}
    }
    None
}

fn change_item(items: &mut Vec<Value>, index: usize, rng: &mut Rng) -> JsonChange {
    match rng.u8(..4) {
        0 => {
            items.remove(index);
            JsonChange::Removed
        }
        1 => {
            let again = items.get(index).cloned().unwrap_or_default();
            items.insert(index, again);
            JsonChange::Repeated
        }
        2 if index + 1 < items.len() => {
            items.swap(index, index + 1);
            JsonChange::Swapped
        }
        _ => items.get_mut(index).map_or(JsonChange::Removed, |item| replace(item, rng)),
    }
}

fn replace(value: &mut Value, rng: &mut Rng) -> JsonChange {
    if rng.u8(..3) == 0 {
        *value = Value::Null;
        return JsonChange::Nulled;
    }
    *value = unfit(rng);
    JsonChange::Replaced
}

/// Values that fit few fields.
fn unfit(rng: &mut Rng) -> Value {
    match rng.u8(..12) {
        0 => json!(true),
        1 => json!(-1),
        2 => json!(1.5),
        3 => json!(""),
        4 => json!("0x"),
        5 => json!("0xzz"),
        6 => json!(format!("0x1{}", "0".repeat(64))),
        7 => json!([]),
        8 => json!({}),
        9 => json!(["0x1", { "a": null }]),
        10 => json!("\u{0}\u{fffd}'\"; x"),
        _ => json!("f".repeat(rng.usize(..5_000))),
    }
}

/// `open`, `depth` times, around `middle`, with `close` as often behind it: `deep("[", "0", "]", 3)` is `[[[0]]]`.
pub fn deep(open: &str, middle: &str, close: &str, depth: usize) -> String {
    format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_reached_and_a_change_is_named() {
        let whole = json!({ "a": [1, { "b": 2 }], "c": null });
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let mut value = whole.clone();
            let done = JsonAlteration::apply(&mut value, &mut Rng::with_seed(seed));
            seen.insert(done.path);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["a", "a/0", "a/1", "a/1/b", "c"]);
        assert_eq!(deep("[", "0", "]", 3), "[[[0]]]");
    }
}
