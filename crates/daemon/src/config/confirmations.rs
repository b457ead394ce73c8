//! `confirmations = { default = 12, USDC = { at_least = 12, tag = "finalized" } }`

use super::value::shown;
use confirmd_core::{ConfigError, FinalityTag, Requirement};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use toml::Value;

const FORMS: &str = "a number of at least 1, \"safe\", \"finalized\", or { at_least = 12, tag = \"finalized\" }";

/// `confirmations.default`, and the others by symbol.
pub(super) fn read(value: Option<Value>) -> Result<(Requirement, BTreeMap<String, Requirement>), ConfigError> {
    let missing = || {
        ConfigError::new(
            "confirmations.default",
            "it is missing: how many confirmations make a deposit deep enough? The block itself counts as one; write confirmations = { default = 3 }, say",
        )
    };
    let table = match value {
        None => return Err(missing()),
        Some(Value::Table(table)) => table,
        Some(other) => {
            let problem = format!("{0} is not a table; write confirmations = {{ default = {0} }}", shown(&other));
            return Err(ConfigError::new("confirmations", problem));
        }
    };
    let mut by_symbol = BTreeMap::new();
    for (symbol, value) in &table {
        let requirement = requirement(value).map_err(|error| error.below(symbol).below("confirmations"))?;
        by_symbol.insert(symbol.clone(), requirement);
    }
    let default = by_symbol.remove("default").ok_or_else(missing)?;
    Ok((default, by_symbol))
}

fn requirement(value: &Value) -> Result<Requirement, ConfigError> {
    match value {
        Value::Integer(number) => Ok(Requirement::confirmations(at_least(*number)?)),
        Value::String(text) => Ok(Requirement { at_least: NonZeroU32::MIN, tag: Some(tag(text)?) }),
        Value::Table(table) => {
            let (mut number, mut mark) = (NonZeroU32::MIN, None);
            for (key, value) in table {
                match (key.as_str(), value) {
                    ("at_least", Value::Integer(n)) => number = at_least(*n).map_err(|error| error.below("at_least"))?,
                    ("tag", Value::String(text)) => mark = Some(tag(text).map_err(|error| error.below("tag"))?),
                    ("at_least" | "tag", other) => return Err(ConfigError::new(key, format!("{} is not {FORMS}", shown(other)))),
                    _ => return Err(ConfigError::new(key, format!("unknown key; this is {FORMS}"))),
                }
            }
            match (table.is_empty(), mark) {
                (true, _) => Err(ConfigError::new("", format!("it is empty; write {FORMS}"))),
                (false, tag) => Ok(Requirement { at_least: number, tag }),
            }
        }
        other => Err(ConfigError::new("", format!("{} is not {FORMS}", shown(other)))),
    }
}

fn at_least(number: i64) -> Result<NonZeroU32, ConfigError> {
    u32::try_from(number).ok().and_then(NonZeroU32::new).ok_or_else(|| {
        let why =
            if number == 0 { "0 would report a payment in no block; the block itself counts as one" } else { "out of range" };
        ConfigError::new("", format!("{number}: {why}; write {FORMS}"))
    })
}

fn tag(text: &str) -> Result<FinalityTag, ConfigError> {
    [FinalityTag::Safe, FinalityTag::Finalized]
        .into_iter()
        .find(|tag| tag.as_str() == text)
        .ok_or_else(|| ConfigError::new("", format!("{text:?} is not {FORMS}")))
}
