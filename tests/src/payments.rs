//! Payments from the node's own wallet.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bitcoin_family::BitcoinFamily;

/// Base units as the RPC wants them: a decimal string, exact.
pub(crate) fn decimal(amount: u64) -> String {
    const UNIT: u64 = 100_000_000;
    format!("{}.{:08}", amount / UNIT, amount % UNIT)
}

/// An RPC amount in base units; the JSON number is read from its text.
pub fn base_units(amount: &Value) -> Result<u64> {
    let text = amount.to_string();
    // A small amount is written as 1e-8.
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let places = i32::try_from(fraction.len())? - exponent.parse::<i32>()?;
    let digits: u64 = format!("{whole}{fraction}").parse().with_context(|| format!("not an amount: {text}"))?;
    let scale = 10_u64.pow(u32::try_from((8 - places).abs())?);
    Ok(if places <= 8 { digits * scale } else { digits / scale })
}

fn compact_size(value: usize) -> Result<String> {
    Ok(match u8::try_from(value) {
        Ok(small) if small < 0xfd => format!("{small:02x}"),
        _ => format!("fd{}", hex(&u16::try_from(value)?.to_le_bytes())),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl BitcoinFamily {
    /// Pays an address; the id of the waiting transaction.
    pub async fn pay(&self, address: &str, amount: u64) -> Result<String> {
        self.payer().text("sendtoaddress", json!([address, decimal(amount)])).await
    }

    /// As [`BitcoinFamily::pay`], replaceable by [`BitcoinFamily::bump_fee`] (RBF).
    pub async fn pay_replaceable(&self, address: &str, amount: u64) -> Result<String> {
        self.payer().text("sendtoaddress", json!([address, decimal(amount), "", "", false, true])).await
    }

    /// Replaces a waiting transaction by one with a higher fee; the new one's id.
    pub async fn bump_fee(&self, txid: &str) -> Result<String> {
        let bumped = self.payer().call("bumpfee", json!([txid])).await?;
        let new = bumped.get("txid").and_then(Value::as_str);
        Ok(new.with_context(|| format!("bumpfee answers {bumped}"))?.to_owned())
    }

    /// The script that an address stands for, hex.
    pub async fn script_of(&self, address: &str) -> Result<String> {
        let answer = self.rpc().call("validateaddress", json!([address])).await?;
        let script = answer.get("scriptPubKey").and_then(Value::as_str);
        Ok(script.with_context(|| format!("not an address here: {answer}"))?.to_owned())
    }

    /// One transaction with exactly these outputs, in this order, one address as often as wanted; output `n` of
    /// the transaction is the n-th of the list, and the change comes last. Returns its id.
    pub async fn pay_many(&self, outputs: &[(&str, u64)]) -> Result<String> {
        let mut scripts = Vec::new();
        for (address, amount) in outputs {
            scripts.push((self.script_of(address).await?, *amount));
        }
        let scripts: Vec<_> = scripts.iter().map(|(script, amount)| (script.as_str(), *amount)).collect();
        self.pay_scripts(&scripts).await
    }

    /// As [`BitcoinFamily::pay_many`], to scripts in hex: data carriers, bare multisig.
    pub async fn pay_scripts(&self, outputs: &[(&str, u64)]) -> Result<String> {
        // The node's own maker of raw transactions refuses an address that comes twice, so the bytes are written
        // here: version 2, no input yet, the outputs, no lock time.
        let mut raw = format!("0200000000{}", compact_size(outputs.len())?);
        for (script, amount) in outputs {
            raw.push_str(&hex(&amount.to_le_bytes()));
            raw.push_str(&compact_size(script.len() / 2)?);
            raw.push_str(script);
        }
        raw.push_str("00000000");
        // Without the last argument the empty input list would be taken for the mark of a witness.
        let options = json!({"changePosition": outputs.len()});
        let funded = self.payer().call("fundrawtransaction", json!([raw, options, false])).await?;
        let funded = funded.get("hex").and_then(Value::as_str).context("no hex in fundrawtransaction")?;
        let signed = self.sign(funded).await?;
        self.rpc().text("sendrawtransaction", json!([signed])).await
    }

    /// A signed transaction, not sent, with exactly these outputs and the change behind them, amounts of nothing included: what no pool
    /// takes, a block may hold. Hex.
    pub async fn signed_paying(&self, outputs: &[(&str, u64)]) -> Result<String> {
        const FEE: u64 = 100_000;
        let needed = outputs.iter().map(|(_, amount)| amount).sum::<u64>() + FEE;
        let coins = self.payer().call("listunspent", json!([1])).await?;
        let worth = |coin: &Value| coin.get("amount").and_then(|amount| base_units(amount).ok()).unwrap_or_default();
        let coins = coins.as_array().context("no list of coins")?;
        let coin = coins.iter().find(|coin| worth(coin) > needed).context("no coin is large enough")?;
        let input = json!([{"txid": coin.get("txid").context("no txid")?, "vout": coin.get("vout").context("no vout")?}]);
        let change = self.new_address().await?;
        let all = outputs.iter().copied().chain([(change.as_str(), worth(coin) - needed)]);
        let all: Vec<Value> = all.map(|(address, amount)| json!({ address: decimal(amount) })).collect();
        let raw = self.rpc().text("createrawtransaction", json!([input, all])).await?;
        self.sign(&raw).await
    }

    /// Signs a raw transaction with the wallet's keys; hex.
    pub async fn sign(&self, raw: &str) -> Result<String> {
        let signed = self.payer().call("signrawtransactionwithwallet", json!([raw])).await?;
        let complete = signed.get("complete").and_then(Value::as_bool).unwrap_or(false);
        let hex = signed.get("hex").and_then(Value::as_str).filter(|_| complete);
        Ok(hex.with_context(|| format!("the wallet could not sign: {signed}"))?.to_owned())
    }

    /// A signed transaction, not sent, that spends the same coins as `txid` and pays all of them, less a fee, to
    /// `address`; hex.
    pub async fn conflicting(&self, txid: &str, address: &str) -> Result<String> {
        const FEE: u64 = 100_000;
        let original = self.transaction(txid).await?;
        let mut coins = Vec::new();
        let mut total = 0;
        for input in original.get("vin").and_then(Value::as_array).context("no inputs")? {
            let (id, index) = (input.get("txid").context("no txid")?, input.get("vout").context("no vout")?);
            let funding = self.transaction(id.as_str().context("txid is no text")?).await?;
            let outputs = funding.get("vout").and_then(Value::as_array).context("no outputs")?;
            let output = outputs.iter().find(|output| output.get("n") == Some(index)).context("no such output")?;
            total += base_units(output.get("value").context("no value")?)?;
            coins.push(json!({"txid": id, "vout": index}));
        }
        let outputs = json!([{ address: decimal(total - FEE) }]);
        let raw = self.rpc().text("createrawtransaction", json!([coins, outputs])).await?;
        self.sign(&raw).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn amounts_are_exact_both_ways() {
        for amount in [0, 1, 99_999_999, 100_000_000, 2_100_000_000_000_000] {
            let text: Value = serde_json::from_str(&decimal(amount)).unwrap();
            assert_eq!(base_units(&text).unwrap(), amount);
        }
        assert_eq!(base_units(&serde_json::from_str("1e-8").unwrap()).unwrap(), 1);
    }
}
