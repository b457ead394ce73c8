//! `confirmd deposit` and `confirmd explain`

use super::print;
use confirmd_api::view::{DepositLife, LifeStepView};

/// One deposit, step by step.
pub(super) fn show(life: &DepositLife) {
    let deposit = &life.deposit;
    print::line(&format!(
        "{}:{} pays {} {} base units of {} to {}",
        deposit.tx_id,
        deposit.output_index,
        deposit.reference.as_deref().unwrap_or("-"),
        deposit.amount,
        deposit.asset.symbol,
        deposit.address
    ));
    life.life.iter().for_each(|step| print::line(&format!("{}  {}", step.at, words(step))));
    for one in &life.deliveries {
        let state = serde_json::to_value(one.delivery.state).ok();
        let state = state.as_ref().and_then(|state| state.as_str()).unwrap_or_default();
        let count = print::counted(one.failed.len(), "failed attempt", "failed attempts");
        print::line(&format!("{}: {} is {state}, {count}", one.delivery.consumer, one.delivery.event));
    }
}

fn words(step: &LifeStepView) -> String {
    let block = step.block.as_ref().map(ToString::to_string).unwrap_or_default();
    let event = step.event.as_ref().map(ToString::to_string).unwrap_or_default();
    let ancestor = step.ancestor.as_ref().map(|ancestor| format!(", by a reorg above {ancestor}")).unwrap_or_default();
    match step.what.as_str() {
        "seen" => format!("seen in block {block}"),
        "confirmed" => {
            let rule = step.rule.as_ref().map(|rule| {
                let maturity = rule.maturity.map(|maturity| format!(", {maturity} by the chain")).unwrap_or_default();
                let tag = rule.tag.as_ref().map(|tag| format!(", and the {tag} block")).unwrap_or_default();
                format!(" of {} asked for{maturity}{tag}", rule.at_least)
            });
            let have = step.confirmations.unwrap_or_default();
            format!("confirmed in block {block} with {have} confirmations{}: {event}", rule.unwrap_or_default())
        }
        "reverted" => format!("taken back: block {block} left the best chain{ancestor}: {event}"),
        "left" => format!("block {block} left the best chain{ancestor}"),
        "settled" => format!("final: at or below the floor {}", step.floor.map(|floor| floor.to_string()).unwrap_or_default()),
        "below_minimum" => {
            let minimum = step.minimum.map(|minimum| minimum.to_string()).unwrap_or_default();
            format!("seen in block {block}, below the minimum of {minimum} base units: written down, not reported")
        }
        other => other.to_owned(),
    }
}

/// Why a transaction produced what it did.
pub(super) fn explain(told: &confirmd_api::view::Explanation) {
    told.findings.iter().for_each(|text| print::line(text));
    told.unknown.iter().for_each(|text| print::line(&format!("can't be told: {text}")));
}
