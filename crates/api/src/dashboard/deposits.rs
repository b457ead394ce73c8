//! Deposits: searched, listed, plotted; and why a transaction produced none.

use super::Dashboard;
use super::door::Viewer;
use super::fields::{Fields, query};
use super::format::{ago, amount, deposit_path, deposit_state, foreign, short, word};
use super::layout::{Answer, Fault, Section, choice, more, page};
use super::plot::{Plot, Point};
use crate::view::{DepositQuery, DepositView, ExplainQuery, Status};
use crate::{ErrorKind, OperatorError, Page};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use confirmd_core::{ChainName, DepositState, Height, Timestamp};
use maud::{Markup, html};
use std::time::Duration;

/// Rows of a page.
const ROWS: u32 = 50;
/// The plot reads no more.
const PLOTTED: u32 = 1_000;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// What the one search field may hold, tried in this order.
const KINDS: [&str; 3] = ["reference", "transaction", "address"];

/// The list, newest first, or what a search finds.
pub(super) async fn list(
    State(here): State<Dashboard>,
    Extension(viewer): Extension<Viewer>,
    fields: Fields,
) -> Result<Response, Fault> {
    let operator = &here.api.operator;
    let status = operator.status().await?;
    let narrowed = DepositQuery {
        chain: fields.parsed("chain")?,
        asset: fields.owned("asset"),
        state: fields.word("state")?,
        after: fields.get("after").map(crate::Cursor::new),
        limit: Some(ROWS),
        ..DepositQuery::default()
    };
    let sought = fields.text("q").to_owned();
    let (found, fields) = match sought.as_str() {
        "" => (operator.deposits(&narrowed).await?, fields),
        _ => {
            if let Some(path) = of_key(&here, &sought, narrowed.chain.as_ref()).await? {
                return Ok(Redirect::to(&path).into_response());
            }
            search(&here, &sought, &narrowed, fields).await?
        }
    };
    let now = here.now();
    let body = html! {
        h1 { "Deposits" }
        (form(&fields, &status))
        div #deposits data-live {
            @if sought.is_empty() && fields.get("after").is_none() { (plot(&here, &narrowed, now).await?) }
            @if found.items.is_empty() { (nothing(&fields, &status)) } @else { (table(&found.items, now)) }
            (more(&fields, found.next.as_ref()))
        }
    };
    Ok(page(&viewer, Section::Deposits, "Deposits", now, body).into_response())
}

/// A transaction with its output, `TX:OUTPUT`, names one deposit.
async fn of_key(here: &Dashboard, text: &str, chain: Option<&ChainName>) -> Result<Option<String>, OperatorError> {
    let Some((tx_id, output)) = text.rsplit_once(':') else { return Ok(None) };
    let Ok(output) = output.parse::<u32>() else { return Ok(None) };
    let query = DepositQuery { tx_id: Some(tx_id.to_owned()), chain: chain.cloned(), ..DepositQuery::default() };
    let found = here.api.operator.deposits(&query).await?;
    let one = found.items.into_iter().find(|one| one.output_index == output);
    Ok(one.and_then(|one| Some(deposit_path(one.chain_name.as_ref()?, one.tx_id.as_str(), output))))
}

/// By the first kind of thing that finds something; further pages stay with that kind.
async fn search(
    here: &Dashboard,
    sought: &str,
    narrowed: &DepositQuery,
    fields: Fields,
) -> Result<(Page<DepositView>, Fields), OperatorError> {
    let kinds = KINDS.iter().filter(|kind| fields.get("by").is_none_or(|by| by == **kind));
    for kind in kinds {
        let mut query = narrowed.clone();
        let sought = Some(sought.to_owned());
        match *kind {
            "reference" => query.reference = sought,
            "transaction" => query.tx_id = sought,
            _ => query.address = sought,
        }
        let found = match here.api.operator.deposits(&query).await {
            // It can't be read as this kind of thing.
            Err(error) if error.kind == ErrorKind::Invalid && *kind == "address" => continue,
            found => found?,
        };
        if !found.items.is_empty() {
            let by = Fields::parse(fields.with("by", kind).trim_start_matches('?').as_bytes());
            return Ok((found, by));
        }
    }
    Ok((Page { items: Vec::new(), next: None }, fields))
}

fn chains(status: &Status) -> Vec<String> {
    status.chains.iter().map(|chain| chain.name.to_string()).collect()
}

fn form(fields: &Fields, status: &Status) -> Markup {
    let states: Vec<String> = DepositState::ALL.iter().map(word).collect();
    html! {
        form.search method="get" action="/deposits" role="search" {
            div.field.grow {
                label for="q" { "Reference, address, transaction, or transaction:output" }
                input #q type="search" name="q" value=(fields.text("q")) autocomplete="off" spellcheck="false";
            }
            (choice("chain", "Chain", "any", fields.text("chain"), &chains(status)))
            (choice("state", "State", "any", fields.text("state"), &states))
            div.field {
                label for="asset" { "Asset" }
                input #asset name="asset" value=(fields.text("asset")) placeholder="any" size="8" autocomplete="off" spellcheck="false";
            }
            button.main type="submit" { "Search" }
        }
    }
}

/// Deposits by the time they were first seen, from history: the last day, or as far as the newest thousand reach.
async fn plot(here: &Dashboard, narrowed: &DepositQuery, now: Timestamp) -> Result<Markup, OperatorError> {
    let query =
        DepositQuery { seen_from: Some(now.minus(DAY).to_rfc3339()), limit: Some(PLOTTED), after: None, ..narrowed.clone() };
    let found = here.api.operator.deposits(&query).await?;
    let points: Vec<Point> = found.items.iter().filter_map(|one| Some((Timestamp::from_rfc3339(&one.seen_at)?, 1))).collect();
    let oldest = points.iter().map(|(at, _)| *at).min().unwrap_or(now);
    let from = if found.next.is_some() { oldest } else { now.minus(DAY) };
    let title = if found.next.is_some() { "Deposits first seen, the newest 1\u{2009}000" } else { "Deposits first seen" };
    Ok(Plot { title, unit: "", class: "green", empty: "None within the last day." }.bars(from, now, &points, true))
}

/// Rows of deposits.
fn table(deposits: &[DepositView], now: Timestamp) -> Markup {
    html! {
        table {
            caption.unseen { "Deposits, newest first" }
            thead { tr { th scope="col" { "Seen" } th scope="col" { "State" } th.number scope="col" { "Amount" } th scope="col" { "Reference" } th scope="col" { "Address" } th scope="col" { "Transaction" } th scope="col" { "Chain" } } }
            tbody { @for one in deposits { (row(one, now)) } }
        }
    }
}

fn row(one: &DepositView, now: Timestamp) -> Markup {
    let key = html! { (short(one.tx_id.as_str())) ":" (one.output_index) };
    html! {
        tr {
            td data-label="Seen" { (ago(&one.seen_at, now)) }
            td data-label="State" { (deposit_state(one.state)) }
            td.number data-label="Amount" { (amount(one)) }
            td.text data-label="Reference" { @match &one.reference { Some(reference) => { (foreign(reference)) } None => { span.quiet { "none" } } } }
            td data-label="Address" { (short(&one.address)) }
            td data-label="Transaction" {
                @match &one.chain_name {
                    Some(chain) => { a href=(deposit_path(chain, one.tx_id.as_str(), one.output_index)) { (key) } }
                    None => { (key) }
                }
            }
            td data-label="Chain" { @match &one.chain_name { Some(chain) => { (chain) } None => { code { (one.chain) } } } }
        }
    }
}

fn nothing(fields: &Fields, status: &Status) -> Markup {
    html! {
        p.empty { "No deposit matches." }
        @if fields.get("q").is_some() {
            section.panel aria-labelledby="why" {
                h2 #why { "Why did a transaction produce nothing?" }
                form.search method="get" action="/transactions" {
                    (choice("explain-chain", "Chain", "choose", fields.text("chain"), &chains(status)))
                    div.field.grow { label for="tx" { "Transaction" } input #tx name="tx" required value=(fields.text("q")) spellcheck="false"; }
                    div.field { label for="height" { "Its block's height" } input #height name="height" inputmode="numeric" pattern="[0-9]*" size="10"; }
                    div.field.grow { label for="address" { "Who should have been paid" } input #address name="address" spellcheck="false"; }
                    button type="submit" { "Explain" }
                }
            }
        }
    }
}

/// Why a transaction produced what it did.
pub(super) async fn explain(State(here): State<Dashboard>, Extension(viewer): Extension<Viewer>, fields: Fields) -> Answer {
    let chain: ChainName = fields.needed("explain-chain")?;
    let tx_id: String = fields.needed("tx")?;
    let height = fields.parsed::<u64>("height")?.map(Height);
    let asked = ExplainQuery { height, address: fields.owned("address") };
    let told = here.api.operator.explain(&chain, &tx_id, &asked).await?;
    let now = here.now();
    let body = html! {
        h1 { "Transaction on " (chain) }
        p { code.whole { (tx_id) } }
        section.panel {
            h2 { "What is so" }
            @if told.findings.is_empty() { p { "Our records say nothing about it." } }
            ul { @for text in &told.findings { li { (foreign(text)) } } }
            @if !told.unknown.is_empty() {
                h2 { "What can't be told" }
                ul { @for text in &told.unknown { li { (foreign(text)) } } }
            }
        }
        @if !told.deposits.is_empty() { (table(&told.deposits, now)) }
        p { a href={ "/deposits" (query(&[("q", &tx_id), ("chain", chain.as_str())])) } { "Back to the search" } }
    };
    Ok(page(&viewer, Section::Deposits, "Explanation", now, body))
}
