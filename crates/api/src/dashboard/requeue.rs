//! Queueing again: one, a selection, a group, all.

use super::Dashboard;
use super::deliveries::name_of;
use super::fields::{Fields, query};
use super::layout::Fault;
use crate::OperatorError;
use crate::view::{DeadGroup, DeadQuery, Requeue};
use axum::extract::State;
use axum::response::Redirect;
use confirmd_core::{ConsumerName, EventId};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// Does it, and shows the list with how many there were.
pub(super) async fn requeue(State(here): State<Dashboard>, fields: Fields) -> Result<Redirect, Fault> {
    let operator = &here.api.operator;
    let mut count = 0u64;
    let groups = match fields.text("scope") {
        "group" => operator.dead_letters(&DeadQuery { consumer: fields.parsed("consumer")? }).await?,
        _ => Vec::new(),
    };
    for (consumer, request) in requests(&fields, &groups)? {
        count = count.saturating_add(operator.requeue(&consumer, request).await?.count);
    }
    let count = count.to_string();
    let mut shown = vec![("done", "requeued"), ("count", count.as_str())];
    shown.extend(fields.get("consumer").map(|consumer| ("consumer", consumer)));
    Ok(Redirect::to(&format!("/deliveries{}", query(&shown))))
}

/// What a form asks for, by consumer.
fn requests(fields: &Fields, groups: &[DeadGroup]) -> Result<BTreeMap<ConsumerName, Requeue>, OperatorError> {
    let per_second = fields.parsed::<NonZeroU32>("per_second")?;
    let of_all = |request: Requeue| Ok(BTreeMap::from([(fields.needed("consumer")?, Requeue { all_dead: true, ..request })]));
    match fields.text("scope") {
        "all" => of_all(Requeue { per_second, ..Requeue::default() }),
        "group" => {
            let group = groups.iter().find(|group| name_of(group) == fields.text("group"));
            let gone = || OperatorError::conflict("this group of dead letters is not there any more; look at the list again");
            let group = group.ok_or_else(gone)?;
            of_all(Requeue { status: group.status, error: Some(group.error.clone()), per_second, ..Requeue::default() })
        }
        "selected" => selected(fields),
        other => Err(OperatorError::invalid(format!("the form asks for {other:?}, which is nothing that can be requeued"))),
    }
}

/// The one whose button was pressed, else those that are ticked.
fn selected(fields: &Fields) -> Result<BTreeMap<ConsumerName, Requeue>, OperatorError> {
    let name = if fields.get("only").is_some() { "only" } else { "delivery" };
    let mut requests: BTreeMap<ConsumerName, Requeue> = BTreeMap::new();
    for text in fields.all(name) {
        let wrong = || OperatorError::invalid(format!("{text:?} names no delivery"));
        let (consumer, event) = text.split_once(' ').ok_or_else(wrong)?;
        let (consumer, event) = (ConsumerName::new(consumer).map_err(|_| wrong())?, EventId::new(event).map_err(|_| wrong())?);
        requests.entry(consumer).or_default().events.push(event);
    }
    match requests.is_empty() {
        true => Err(OperatorError::invalid("nothing is selected: tick deliveries, or use the button beside one")),
        false => Ok(requests),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_form_asks_for_one_for_those_ticked_for_a_group_or_for_all() {
        let (a, b) = (format!("evt_{}", "a".repeat(32)), format!("evt_{}", "b".repeat(32)));
        let ledger = ConsumerName::new("ledger").unwrap();
        let dead = DeadGroup {
            consumer: ledger.clone(),
            status: Some(502),
            error: "answered 502\nand more ".into(),
            excerpt: None,
            count: 2,
            first_at: String::new(),
            last_at: String::new(),
            example: EventId::new(&a).unwrap(),
        };
        let of = |text: String| requests(&Fields::parse(text.as_bytes()), std::slice::from_ref(&dead));
        let one = of(format!("scope=selected&delivery=ledger+{a}&delivery=ledger+{b}&only=ledger+{b}")).unwrap();
        assert_eq!(one[&ledger].events, [EventId::new(&b).unwrap()]);
        let both = of(format!("scope=selected&delivery=ledger+{a}&delivery=books+{b}")).unwrap();
        assert_eq!(both.len(), 2);
        let group = of(format!("scope=group&consumer=ledger&group={}&per_second=7", name_of(&dead))).unwrap();
        let wanted = Requeue {
            all_dead: true,
            status: Some(502),
            error: Some("answered 502\nand more ".into()),
            per_second: NonZeroU32::new(7),
            ..Requeue::default()
        };
        assert_eq!(group[&ledger], wanted);
        assert!(of("scope=all&consumer=ledger".into()).unwrap()[&ledger].all_dead);
        for wrong in ["scope=selected", "scope=all", "scope=selected&only=ledger", "", "scope=group&consumer=ledger"] {
            assert!(of(wrong.into()).is_err(), "{wrong}");
        }
    }
}
