//! `confirmd deposits`

use super::args::DepositsArgs;
use super::table::or_dash;
use super::{print, table};
use confirmd_api::view::{DepositQuery, DepositView};
use confirmd_api::{Operator, PAGE_MAX};

pub(super) async fn run(operator: &dyn Operator, args: DepositsArgs) -> anyhow::Result<()> {
    let list = args.list;
    let mut query = DepositQuery {
        chain: args.chain,
        address: args.address,
        reference: args.reference,
        state: args.state.map(Into::into),
        tx_id: args.tx_id,
        asset: args.asset,
        seen_from: args.from,
        seen_before: args.before,
        after: None,
        limit: None,
    };
    let mut left = list.limit;
    let mut rows = Vec::new();
    loop {
        query.limit = page_limit(list.all, left);
        let page = operator.deposits(&query).await?;
        left = left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
        for item in page.items {
            if list.json.json { print::json(&item)? } else { rows.push(row(item)) }
        }
        query.after = page.next;
        if query.after.is_none() || (!list.all && left == 0) {
            break;
        }
    }
    if !list.json.json {
        let head = ["seen", "chain", "state", "amount", "asset", "reference", "address", "height", "transaction:output"];
        print::line(&table::render(&head, &rows));
        more(query.after.is_some());
    }
    Ok(())
}

/// What to ask for at once where so many are left to be shown.
pub(super) fn page_limit(all: bool, left: u32) -> Option<u32> {
    Some(if all { PAGE_MAX } else { left.min(PAGE_MAX) })
}

/// Says that a list goes on.
pub(super) fn more(more: bool) {
    if more {
        print::to_stderr("there are more: --limit N or --all");
    }
}

fn row(item: DepositView) -> Vec<String> {
    let state = serde_json::to_value(item.state).ok().and_then(|state| state.as_str().map(str::to_owned));
    vec![
        item.seen_at,
        item.chain_name.map_or_else(|| item.chain.to_string(), |name| name.to_string()),
        or_dash(state),
        coins(&item.amount.to_string(), item.asset.decimals),
        item.asset.symbol,
        or_dash(item.reference),
        item.address,
        item.block.height.to_string(),
        format!("{}:{}", item.tx_id, item.output_index),
    ]
}

/// Base units as coins, exactly: only the point is set.
fn coins(units: &str, decimals: u8) -> String {
    let decimals = usize::from(decimals);
    let padded = format!("{units:0>width$}", width = decimals.saturating_add(1));
    let (whole, part) = padded.split_at(padded.len().saturating_sub(decimals));
    let part = part.trim_end_matches('0');
    if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") }
}

#[cfg(test)]
mod tests {
    use super::coins;

    #[test]
    fn g12_coins_are_the_base_units_with_a_point_and_nothing_lost() {
        assert_eq!(coins("25000000", 6), "25");
        assert_eq!(coins("1", 18), "0.000000000000000001");
        assert_eq!(coins("123456789", 8), "1.23456789");
        assert_eq!(coins("7", 0), "7");
        assert_eq!(coins("0", 8), "0");
        let max = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        assert_eq!(coins(max, 18), "115792089237316195423570985008687907853269984665640564039457.584007913129639935");
    }
}
