//! Small plots as inline SVG: a line over time, bars over time. Words beside them say the same to who can't see them.

use super::format::{grouped, span};
use confirmd_core::Timestamp;
use maud::{Markup, html};

const WIDTH: u64 = 600;
const HEIGHT: u64 = 100;
/// Bars of a plot.
const BARS: u64 = 48;

/// What a plot shows.
#[derive(Debug)]
pub(super) struct Plot<'a> {
    /// What is measured, and in what: `Lag, blocks`.
    pub(super) title: &'a str,
    /// Behind numbers: ` ms`.
    pub(super) unit: &'a str,
    /// The colour's name.
    pub(super) class: &'a str,
    /// What is said when there is nothing.
    pub(super) empty: &'a str,
}

/// A number and when.
pub(super) type Point = (Timestamp, u64);

impl Plot<'_> {
    /// A line through points, oldest first. Its scale begins at 0.
    pub(super) fn line(&self, points: &[Point]) -> Markup {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return self.nothing() };
        let highest = points.iter().map(|point| point.1).max().unwrap_or(0);
        let width = last.0.0.saturating_sub(first.0.0).max(1);
        let mut path = String::new();
        for (at, value) in points {
            let x = at.0.saturating_sub(first.0.0).saturating_mul(WIDTH) / width;
            path.push_str(if path.is_empty() { "M" } else { "L" });
            path.push_str(&format!("{x} {}", y(*value, highest)));
        }
        let summary = format!("now {}{}, at most {}{}", grouped(last.1), self.unit, grouped(highest), self.unit);
        let area = format!("{path}L{WIDTH} {HEIGHT}L0 {HEIGHT}Z");
        self.figure(
            &summary,
            first.0,
            last.0,
            "now",
            html! {
                @if points.len() > 1 { path.area d=(area) {} }
                path.line d=(path) vector-effect="non-scaling-stroke" {}
            },
        )
    }

    /// Bars of what was counted between `from` and `to`, in equal parts of that time. `each` are single things with their number.
    pub(super) fn bars(&self, from: Timestamp, to: Timestamp, each: &[Point], sum: bool) -> Markup {
        if each.is_empty() {
            return self.nothing();
        }
        let width = to.0.saturating_sub(from.0).max(1);
        let mut parts = vec![0u64; usize::try_from(BARS).unwrap_or(0)];
        for (at, value) in each {
            let place = at.0.saturating_sub(from.0).saturating_mul(BARS) / width;
            let place = usize::try_from(place.min(BARS.saturating_sub(1))).unwrap_or(0);
            if let Some(part) = parts.get_mut(place) {
                *part = if sum { part.saturating_add(*value) } else { (*part).max(*value) };
            }
        }
        let highest = parts.iter().copied().max().unwrap_or(0);
        let total: u64 = each.iter().map(|(_, value)| *value).sum();
        let summary = match sum {
            true => format!("{}{} in all", grouped(total), self.unit),
            false => {
                format!("{} in all, at most {}{}", grouped(u64::try_from(each.len()).unwrap_or(0)), grouped(highest), self.unit)
            }
        };
        let step = WIDTH / BARS.max(1);
        let bars = (0..BARS).zip(parts).filter(|(_, value)| *value > 0);
        self.figure(
            &summary,
            from,
            to,
            "now",
            html! {
                @for (place, value) in bars {
                    @let top = y(value, highest).min(HEIGHT - 2);
                    rect.bar x=(place * step + 1) y=(top) width=(step - 2) height=(HEIGHT - top) {}
                }
            },
        )
    }

    fn figure(&self, summary: &str, from: Timestamp, to: Timestamp, end: &str, drawn: Markup) -> Markup {
        let back = span(to.since(from).as_secs());
        html! {
            figure.plot.(self.class) {
                figcaption { span { (self.title) } " " span.quiet { (summary) } }
                svg role="img" aria-label={ (self.title) ", the last " (back) ": " (summary) } viewBox={ "0 0 " (WIDTH) " " (HEIGHT) }
                    preserveAspectRatio="none" { (drawn) }
                div.axis aria-hidden="true" { span { (back) " ago" } span { (end) } }
            }
        }
    }

    fn nothing(&self) -> Markup {
        html! { figure.plot.empty { figcaption { span { (self.title) } } p.quiet { (self.empty) } } }
    }
}

/// From the top, which leaves room for the line's width.
fn y(value: u64, highest: u64) -> u64 {
    HEIGHT.saturating_sub(value.saturating_mul(HEIGHT - 6) / highest.max(1)).saturating_sub(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Plot<'_> = Plot { title: "Lag", unit: " blocks", class: "a", empty: "Nothing yet." };

    fn at(second: u64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    #[test]
    fn a_line_spans_the_plot_and_says_in_words_what_it_shows() {
        let drawn = PLOT.line(&[(at(0), 0), (at(30), 8), (at(60), 4)]).into_string();
        assert!(drawn.contains("M0 98L300 4L600 51"), "{drawn}");
        assert!(drawn.contains("now 4 blocks, at most 8 blocks") && drawn.contains("1 min ago"), "{drawn}");
        assert!(PLOT.line(&[]).into_string().contains("Nothing yet."));
        assert!(PLOT.line(&[(at(5), u64::MAX)]).into_string().contains("M0 "), "one point, and a huge one");
    }

    #[test]
    fn bars_take_sums_or_the_highest_and_show_the_smallest() {
        let each = [(at(0), 1), (at(1), 2), (at(4_799), 1_000)];
        let drawn = PLOT.bars(at(0), at(4_800), &each, true).into_string();
        assert_eq!(drawn.matches("<rect").count(), 2);
        assert!(drawn.contains("y=\"98\"") && drawn.contains("in all"), "{drawn}");
        assert!(PLOT.bars(at(0), at(4_800), &each, false).into_string().contains("3 in all, at most"));
    }
}
