//! Watched addresses: searched, added, removed.

use super::Dashboard;
use super::door::Viewer;
use super::fields::{Fields, query};
use super::format::{badge, foreign, grouped};
use super::layout::{Answer, Fault, Section, choice, csrf, done, more, page};
use crate::view::{Status, WatchQuery, WatchRequest, Watched};
use crate::{ErrorKind, OperatorError, Page};
use axum::Extension;
use axum::extract::State;
use axum::response::Redirect;
use confirmd_core::{ChainName, WatchOrigin, WatchState};
use maud::{Markup, html};

const ROWS: u32 = 50;
/// Pages looked through for a reference before an answer is given.
const LOOKED_MAX: usize = 20;

/// The list, or what a search finds.
pub(super) async fn list(State(here): State<Dashboard>, Extension(viewer): Extension<Viewer>, fields: Fields) -> Answer {
    let operator = &here.api.operator;
    let status = operator.status().await?;
    let found = find(&here, &fields).await?;
    let body = html! {
        h1 { "Addresses" }
        (done(&fields))
        form.search method="get" action="/addresses" role="search" {
            div.field.grow { label for="q" { "Address or reference" } input #q type="search" name="q" value=(fields.text("q")) autocomplete="off" spellcheck="false"; }
            (choice("chain", "Chain", "any", fields.text("chain"), &chains(&status)))
            button.main type="submit" { "Search" }
        }
        @if viewer.may_change { (adding(&viewer, &status)) }
        div #addresses data-live {
            @if found.items.is_empty() {
                p.empty { @if found.next.is_some() { "None so far; there are further ones to look through." } @else { "No watched address matches." } }
            } @else { (table(&viewer, &found.items)) }
            (more(&fields, found.next.as_ref()))
        }
    };
    Ok(page(&viewer, Section::Addresses, "Addresses", here.now(), body))
}

fn chains(status: &Status) -> Vec<String> {
    status.chains.iter().map(|chain| chain.name.to_string()).collect()
}

/// As an address if it can be read as one that is watched, else as a reference.
async fn find(here: &Dashboard, fields: &Fields) -> Result<Page<Watched>, OperatorError> {
    let operator = &here.api.operator;
    let after = fields.get("after").map(crate::Cursor::new);
    let asked = WatchQuery { chain: fields.parsed("chain")?, after, limit: Some(ROWS), ..WatchQuery::default() };
    let Some(sought) = fields.owned("q") else { return operator.watched(&asked).await };
    if asked.after.is_none() {
        let query = WatchQuery { address: Some(sought.clone()), ..asked.clone() };
        match operator.watched(&query).await {
            Ok(found) if !found.items.is_empty() => return Ok(found),
            Err(error) if !matches!(error.kind, ErrorKind::Invalid | ErrorKind::NotFound) => return Err(error),
            _ => {}
        }
    }
    let mut query = WatchQuery { reference: Some(sought), ..asked };
    let mut found = operator.watched(&query).await?;
    for _ in 1..LOOKED_MAX {
        if !found.items.is_empty() || found.next.is_none() {
            break;
        }
        query.after = found.next;
        found = operator.watched(&query).await?;
    }
    Ok(found)
}

fn table(viewer: &Viewer, found: &[Watched]) -> Markup {
    let may_remove = |one: &Watched| viewer.may_change && one.origin == WatchOrigin::Command && one.state == WatchState::Watching;
    let any = found.iter().any(may_remove);
    let table = html! {
            table {
                caption.unseen { "Watched addresses" }
                thead { tr {
                    th scope="col" { "Address" } th scope="col" { "Reference" } th scope="col" { "Chain" } th.number scope="col" { "Covered from" } th scope="col" { "State" }
                    @if any { th scope="col" { span.unseen { "Order" } } }
                } }
                tbody { @for one in found {
                    tr {
                        td data-label="Address" { a href={ "/deposits" (query(&[("q", &one.address), ("chain", one.chain.as_str())])) } { code.whole { (one.address) } } }
                        td.text data-label="Reference" { @match &one.reference { Some(text) => { (foreign(text)) } None => { span.quiet { "none" } } } }
                        td data-label="Chain" { (one.chain) }
                        td.number data-label="Covered from" { (grouped(one.from_height.0)) }
                        td data-label="State" { @match one.state { WatchState::Watching => { (badge("good", "watching")) } WatchState::Removed => { (badge("quiet", "removed")) } }
                            " " span.quiet { @match one.origin { WatchOrigin::Config => { "in the configuration" } WatchOrigin::Command => { "by command" } } } }
                        @if any { td { @if may_remove(one) { button type="submit" name="only" value={ (one.chain) " " (one.address) } aria-label={ "Remove " (one.address) } { "Remove" } } } }
                    }
                } }
            }
    };
    html! {
        @if any {
            form method="post" action="/addresses/remove" { (csrf(viewer)) (table) }
        } @else { (table) }
    }
}

fn adding(viewer: &Viewer, status: &Status) -> Markup {
    html! {
        details.panel {
            summary { "Watch further addresses" }
            form method="post" action="/addresses/add" {
                (csrf(viewer))
                div.field { label for="add-chain" { "Chain" } select #add-chain name="chain" required { @for name in chains(status) { option value=(name) { (name) } } } }
                div.field { label for="entries" { "One a line: address, then a comma or space and its reference" }
                    textarea #entries name="entries" rows="4" required spellcheck="false" {} }
                button.main type="submit" { "Watch" }
                p.hint { "All or none. They are covered from the next height on; an address that is watched already takes the new reference." }
            }
        }
    }
}

/// Watches what the form lists.
pub(super) async fn add(State(here): State<Dashboard>, fields: Fields) -> Result<Redirect, Fault> {
    let chain: ChainName = fields.needed("chain")?;
    let entries = entries(&chain, fields.text("entries"));
    if entries.is_empty() {
        return Err(Fault(OperatorError::invalid("no address was given")));
    }
    let added = here.api.operator.watch_add(entries).await?;
    let from = added.iter().map(|one| one.from_height.0).max().unwrap_or(0).to_string();
    Ok(Redirect::to(&format!("/addresses{}", query(&[("done", "added"), ("count", &from), ("chain", chain.as_str())]))))
}

fn entries(chain: &ChainName, text: &str) -> Vec<WatchRequest> {
    let lines = (1u64..).zip(text.lines()).map(|(number, line)| (number, line.trim())).filter(|(_, line)| !line.is_empty());
    let read = lines.map(|(number, line)| {
        let (address, reference) = line.split_once([',', ' ', '\t']).unwrap_or((line, ""));
        let reference = reference.trim();
        WatchRequest {
            chain: chain.clone(),
            address: address.to_owned(),
            reference: (!reference.is_empty()).then(|| reference.into()),
            from_height: None,
            line: Some(number),
        }
    });
    read.collect()
}

/// Takes no new deposits for one.
pub(super) async fn remove(State(here): State<Dashboard>, fields: Fields) -> Result<Redirect, Fault> {
    let only: String = fields.needed("only")?;
    let wrong = || OperatorError::invalid(format!("{only:?} names no address"));
    let (chain, address) = only.split_once(' ').ok_or_else(wrong)?;
    let chain = ChainName::new(chain).map_err(|_| wrong())?;
    let count = here.api.operator.watch_remove(&chain, vec![address.to_owned()]).await?.count.to_string();
    Ok(Redirect::to(&format!("/addresses{}", query(&[("done", "removed"), ("count", &count)]))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_pasted_list_gives_addresses_with_references_and_their_lines() {
        let chain = ChainName::new("btc").unwrap();
        let read = entries(&chain, "a, customer 1\r\n\n  b\tcustomer 2\nc");
        let flat: Vec<_> = read.iter().map(|one| (one.address.as_str(), one.reference.as_deref(), one.line)).collect();
        assert_eq!(flat, [("a", Some("customer 1"), Some(1)), ("b", Some("customer 2"), Some(3)), ("c", None, Some(4))]);
    }
}
