//! A chain's rescans that are not done.

use super::format::{ago, badge, foreign, grouped, span};
use crate::view::{ChainView, RescanView};
use confirmd_core::Timestamp;
use maud::{Markup, html};

/// How far it is, in one line.
pub(super) fn progress(rescan: &RescanView) -> Markup {
    html! {
        (state(rescan)) " " (grouped(rescan.percent_read)) " % of " (grouped(rescan.from_height.0)) " to " (grouped(rescan.to_height.0))
        @if let Some(pace) = rescan.heights_per_second { ", " (grouped(pace)) " a second" }
        @if let Some(left) = rescan.seconds_left { ", " (span(left)) " left" }
    }
}

fn state(rescan: &RescanView) -> Markup {
    let class = match rescan.state.as_str() {
        "failed" => "bad",
        "paused" => "wait",
        _ => "quiet",
    };
    badge(class, &rescan.state)
}

/// Each with what it is for and how it goes; nothing if there is none.
pub(super) fn section(chain: &ChainView, now: Timestamp) -> Markup {
    html! {
        @if !chain.rescans.is_empty() {
            section aria-labelledby="rescans" {
                h2 #rescans { "Rescans" }
                table {
                    caption.unseen { "Rescans that are not done" }
                    thead { tr { th scope="col" { "Rescan" } th scope="col" { "For" } th scope="col" { "How far" } th.number scope="col" { "Found" } th scope="col" { "Asked for" } } }
                    tbody {
                        @for rescan in &chain.rescans {
                            tr {
                                td data-label="Rescan" { (rescan.id) }
                                td data-label="For" { @match &rescan.asset { Some(asset) => { code { (asset) } } None => { (rescan.scope) } }
                                    @if rescan.addresses > 0 { ", " (grouped(rescan.addresses)) " addresses" } }
                                td.text data-label="How far" { (progress(rescan)) @if let Some(trouble) = &rescan.trouble { ": " (foreign(trouble)) } }
                                td.number data-label="Found" { (grouped(rescan.found)) }
                                td data-label="Asked for" { (ago(&rescan.created_at, now)) }
                            }
                        }
                    }
                }
                p.quiet { "Paused, resumed and cancelled by " code { "confirmd rescan" } "." }
            }
        }
    }
}
