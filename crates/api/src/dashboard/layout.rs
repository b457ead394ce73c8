//! What every page has around it.

use super::door::Viewer;
use super::fields::Fields;
use super::format::{counted, grouped};
use crate::OperatorError;
use crate::problem::ProblemType;
use axum::response::{IntoResponse, Response};
use confirmd_core::Timestamp;
use maud::{DOCTYPE, Markup, html};

/// Where one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Deposits,
    Deliveries,
    Addresses,
}

const SECTIONS: [(Section, &str, &str); 4] = [
    (Section::Overview, "/", "Overview"),
    (Section::Deposits, "/deposits", "Deposits"),
    (Section::Deliveries, "/deliveries", "Deliveries"),
    (Section::Addresses, "/addresses", "Addresses"),
];

/// An error as a page.
#[derive(Debug)]
pub(super) struct Fault(pub(super) OperatorError);

impl From<OperatorError> for Fault {
    fn from(error: OperatorError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        fault_page(&self.0)
    }
}

/// What handlers answer.
pub(super) type Answer = Result<Markup, Fault>;

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · confirmd" }
            link rel="icon" href="/page.svg" type="image/svg+xml";
            link rel="stylesheet" href="/page.css";
            script src="/page.js" defer {}
        }
    }
}

/// A page of a section.
pub(super) fn page(viewer: &Viewer, section: Section, title: &str, now: Timestamp, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                a.skip href="#main" { "To the content" }
                header {
                    a.brand href="/" { "confirmd" }
                    nav aria-label="Pages" {
                        @for (one, path, name) in SECTIONS {
                            a href=(path) aria-current=[(one == section).then_some("page")] { (name) }
                        }
                    }
                    @if viewer.signed_in {
                        form.leave method="post" action="/logout" {
                            (csrf(viewer))
                            @if !viewer.may_change { span.badge.quiet { "read only" } " " }
                            button.plain type="submit" { "Sign out" }
                        }
                    }
                }
                main #main tabindex="-1" { (body) }
                footer {
                    p #live role="status" { "As of " time datetime=(now) { (super::format::time(&now.to_rfc3339())) } " UTC; reload for newer figures." }
                }
            }
        }
    }
}

/// A page without sections: signing in.
pub(super) fn bare(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" { (head(title)) body { main #main { (body) } } }
    }
}

/// What could not be done, why, and what to do.
pub(super) fn fault_page(error: &OperatorError) -> Response {
    let (_, status) = ProblemType::Of(error.kind).parts();
    let body = html! {
        section.panel {
            h1 { "That was not done" }
            p.alert role="alert" { (super::format::foreign(&error.text)) }
            p { a href="/" { "To the overview" } }
        }
    };
    (status, bare("Not done", body)).into_response()
}

/// In every form.
pub(super) fn csrf(viewer: &Viewer) -> Markup {
    html! { input type="hidden" name="csrf" value=(viewer.csrf); }
}

/// A form of one button.
pub(super) fn button(viewer: &Viewer, action: &str, class: &str, text: &str, hidden: &[(&str, &str)]) -> Markup {
    html! {
        form.inline method="post" action=(action) {
            (csrf(viewer))
            @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
            button.(class) type="submit" { (text) }
        }
    }
}

/// What the form before did, from a fixed list of words: the query is anybody's.
pub(super) fn done(fields: &Fields) -> Markup {
    let count = fields.get("count").and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    let text = match fields.text("done") {
        "requeued" if count == 0 => "Nothing was left to requeue.".to_owned(),
        "requeued" => format!("{} queued again.", counted(count, "delivery was", "deliveries were")),
        "skipped" => "The event was given up for this consumer, on record.".to_owned(),
        "paused" => "Paused. Events wait; nothing is lost.".to_owned(),
        "resumed" => "It goes on.".to_owned(),
        "added" => format!("Watched, from height {} on.", grouped(count)),
        "removed" => format!("{} no new deposits from now on.", counted(count, "address takes", "addresses take")),
        _ => return html! {},
    };
    html! { p.done role="status" { (text) } }
}

/// The way to the rest of a list.
pub(super) fn more(fields: &Fields, next: Option<&crate::Cursor>) -> Markup {
    html! {
        @if let Some(next) = next {
            p.more { a.button href=(fields.with("after", next.as_str())) { "Further ones" } }
        }
    }
}

/// A choice among words, one of them chosen.
pub(super) fn choice(id: &str, label: &str, any: &str, chosen: &str, words: &[String]) -> Markup {
    html! {
        div.field {
            label for=(id) { (label) }
            select #(id) name=(id) {
                option value="" selected[chosen.is_empty()] { (any) }
                @for word in words { option value=(word) selected[word == chosen] { (word) } }
                @if !chosen.is_empty() && !words.iter().any(|word| word == chosen) { option value=(chosen) selected { (chosen) } }
            }
        }
    }
}
