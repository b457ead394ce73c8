//! A chain's reorgs within history.

use super::format::{ago, badge, block, grouped};
use super::plot::Plot;
use crate::view::PastReorg;
use confirmd_core::Timestamp;
use maud::{Markup, html};

/// Depth over time, and each with what it took back.
pub(super) fn section(reorgs: &[PastReorg], now: Timestamp) -> Markup {
    let points: Vec<_> = reorgs.iter().filter_map(|reorg| Some((Timestamp::from_rfc3339(&reorg.at)?, reorg.depth))).collect();
    let from = points.iter().map(|(at, _)| *at).min().unwrap_or(now);
    html! {
        section aria-labelledby="reorgs" {
            h2 #reorgs { "Reorgs" }
            (Plot { title: "Reorg depth", unit: " blocks", class: "red", empty: "None within history." }.bars(from, now, &points, false))
            @if !reorgs.is_empty() {
                table {
                    caption.unseen { "The last reorgs, newest first" }
                    thead { tr { th scope="col" { "When" } th scope="col" { "Depth" } th scope="col" { "Last common block" } th scope="col" { "Reverted" } th scope="col" { "Dropped" } } }
                    tbody {
                        @for reorg in reorgs {
                            tr {
                                td data-label="When" { (ago(&reorg.at, now)) }
                                td.number data-label="Depth" { (grouped(reorg.depth)) @if reorg.accepted { " " (badge("wait", "below the floor, accepted")) } }
                                td data-label="Last common block" { (block(&reorg.ancestor)) }
                                td.number data-label="Reverted" { (grouped(reorg.reverted)) }
                                td.number data-label="Dropped" { (grouped(reorg.dropped)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
