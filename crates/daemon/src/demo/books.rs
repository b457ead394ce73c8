//! The last act: the customer's ledger against the chains.

use super::stage::{ALICE, BOB, BTC_CONFIRMATIONS, CAROL, ETH_CONFIRMATIONS, Stage, TOKEN, USDX_CONFIRMATIONS, alice};
use super::voice::Voice;
use confirmd_testkit::alloy::primitives::U256;
use std::collections::BTreeMap;

/// One customer's balance.
struct Account {
    owner: &'static str,
    address: String,
    symbol: &'static str,
    decimals: usize,
    /// What the best chain says: payments deep enough.
    chain: U256,
}

/// Compares, prints, and says whether everything is equal.
pub(super) fn compare(stage: &Stage, voice: Voice) -> bool {
    voice.act("Books", "what the customer credited, against what the chains hold deep enough now");
    let ledger = stage.receiver.ledger();
    let mut told: BTreeMap<&str, U256> = BTreeMap::new();
    for ((address, _), balance) in ledger.balances() {
        let sum = told.entry(address.as_str()).or_default();
        *sum = sum.saturating_add(*balance);
    }
    let accounts = accounts(stage);
    let mut equal = told.len() == accounts.len();
    for account in &accounts {
        let credited = told.get(account.address.as_str()).copied().unwrap_or_default();
        equal &= credited == account.chain && !credited.is_zero();
        voice.balance(account.owner, account.symbol, &coins(credited, account.decimals), &coins(account.chain, account.decimals));
    }
    for problem in ledger.problems() {
        equal = false;
        voice.aside(&format!("broken promise: {problem}"));
    }
    let (events, moves) = (stage.accepted_ids().len(), ledger.moves());
    let text = if equal {
        format!("{events} events, {moves} movements of money; ledger and chains are equal")
    } else {
        "ledger and chains differ".to_owned()
    };
    voice.verdict(equal, &text);
    equal
}

fn accounts(stage: &Stage) -> Vec<Account> {
    let (bitcoin_tip, devnet_tip) = stage.heights();
    let paid = stage.bitcoin.payments().into_iter();
    let deep = paid.filter(|paid| paid.script == alice() && paid.place.height + BTC_CONFIRMATIONS <= bitcoin_tip + 1);
    let btc = deep.fold(U256::ZERO, |sum, paid| sum.saturating_add(U256::from(paid.sats)));
    let devnet = |to, token, confirmations: u32| {
        let paid = stage.devnet.payments().into_iter();
        let deep =
            paid.filter(|paid| paid.to == to && paid.token == token && paid.height + u64::from(confirmations) <= devnet_tip + 1);
        deep.fold(U256::ZERO, |sum, paid| sum.saturating_add(paid.amount))
    };
    vec![
        Account { owner: "alice", address: ALICE.to_owned(), symbol: "BTC", decimals: 8, chain: btc },
        Account {
            owner: "bob",
            address: BOB.to_string(),
            symbol: "ETH",
            decimals: 18,
            chain: devnet(BOB, None, ETH_CONFIRMATIONS),
        },
        Account {
            owner: "carol",
            address: CAROL.to_string(),
            symbol: "USDX",
            decimals: 6,
            chain: devnet(CAROL, Some(TOKEN), USDX_CONFIRMATIONS),
        },
    ]
}

/// Base units as coins, exactly: the decimal point is set into the text.
fn coins(units: U256, decimals: usize) -> String {
    let digits = format!("{units:0>width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(decimals));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_units_are_shown_as_coins_without_rounding() {
        assert_eq!(coins(U256::from(150_000_000), 8), "1.5");
        assert_eq!(coins(U256::from(1), 18), "0.000000000000000001");
        assert_eq!(coins(U256::from(250_000_000), 6), "250");
        assert_eq!(coins(U256::ZERO, 6), "0");
    }
}
