//! `minimum = { USDC = "1000000" }`

use super::value::shown;
use confirmd_core::{Amount, ConfigError};
use std::collections::BTreeMap;
use toml::Value;

const FORM: &str =
    "the least amount to confirm, in base units, as a whole number or a string of digits: \"1000000\" is one coin of 6 decimals";

/// The minimums by symbol.
pub(super) fn read(value: Option<Value>) -> Result<BTreeMap<String, Amount>, ConfigError> {
    let table = match value {
        None => return Ok(BTreeMap::new()),
        Some(Value::Table(table)) => table,
        Some(other) => {
            let problem = format!("{} is not a table by symbol; write minimum = {{ USDC = \"1000000\" }}, say", shown(&other));
            return Err(ConfigError::new("minimum", problem));
        }
    };
    let mut by_symbol = BTreeMap::new();
    for (symbol, value) in table {
        let amount = amount(&symbol, &value).map_err(|problem| ConfigError::new(format!("minimum.{symbol}"), problem))?;
        by_symbol.insert(symbol, amount);
    }
    Ok(by_symbol)
}

fn amount(symbol: &str, value: &Value) -> Result<Amount, String> {
    if symbol == "default" {
        return Err("there is none for every asset: base units differ from asset to asset; name each by its symbol".to_owned());
    }
    let amount = match value {
        Value::Integer(number) => u64::try_from(*number).ok().map(Amount::from),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    match amount {
        Some(amount) if amount.is_zero() => Err("0 leaves nothing out; remove the line".to_owned()),
        Some(amount) => Ok(amount),
        None => Err(format!("{} is not {FORM}", shown(value))),
    }
}
