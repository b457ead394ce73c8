//! Curves as SVG: both axes logarithmic, each curve relative to its own first value.

use std::fmt::Write as _;

const WIDTH: i64 = 640;
const HEIGHT: i64 = 360;
const MARGIN: i64 = 60;
const COLOURS: [&str; 5] = ["#1f5fa8", "#b8501c", "#2c7a3f", "#7a3f8f", "#555555"];

/// One curve.
#[derive(Debug, Clone)]
pub struct Curve {
    /// What it shows, with its unit.
    pub name: String,
    /// Sizes and values, by size.
    pub points: Vec<(u64, u64)>,
}

/// A plot of curves over one kind of size. Sizes and values of 0 stand at 1.
#[must_use]
pub fn svg(title: &str, sizes: &str, curves: &[Curve]) -> String {
    let relative: Vec<Vec<(u64, u64)>> = curves.iter().map(|curve| to_first(&curve.points)).collect();
    let all = || relative.iter().flatten();
    let x = Axis::over(all().map(|(size, _)| *size), MARGIN, WIDTH - MARGIN);
    let y = Axis::over(all().map(|(_, value)| *value).chain([50, 1_000]), HEIGHT - MARGIN, MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">{title}</text>\n",
        HEIGHT + 18 * i64::try_from(curves.len()).unwrap_or_default()
    );
    let (left, right, top, bottom) = (MARGIN, WIDTH - MARGIN, MARGIN, HEIGHT - MARGIN);
    for hundredths in [10, 100, 1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|value| y.holds(*value)) {
        let at = y.place(hundredths);
        let label = if hundredths < 100 { "0.1x".to_owned() } else { format!("{}x", hundredths / 100) };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" y1=\"{at}\" x2=\"{right}\" y2=\"{at}\" stroke=\"#cccccc\"/><text x=\"8\" y=\"{at}\">{label}</text>"
        );
    }
    let mut seen: Vec<u64> = all().map(|(size, _)| *size).collect();
    seen.sort_unstable();
    seen.dedup();
    for size in seen {
        let at = x.place(size);
        let _ = writeln!(
            text,
            "<line x1=\"{at}\" y1=\"{top}\" x2=\"{at}\" y2=\"{bottom}\" stroke=\"#eeeeee\"/><text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{size}</text>",
            bottom + 16
        );
    }
    let _ = writeln!(text, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{sizes}</text>", WIDTH / 2, bottom + 36);
    for ((curve, points), (n, colour)) in curves.iter().zip(&relative).zip((0i64..).zip(COLOURS.iter().cycle())) {
        let line: Vec<String> = points.iter().map(|(size, value)| format!("{},{}", x.place(*size), y.place(*value))).collect();
        let _ = writeln!(text, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", line.join(" "));
        let values: Vec<String> = curve.points.iter().map(|(_, value)| value.to_string()).collect();
        let _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{}\" fill=\"{colour}\">{}: {}</text>",
            HEIGHT + 18 * n,
            curve.name,
            values.join(", ")
        );
    }
    text.push_str("</svg>\n");
    text
}

/// Hundredths of the first value.
fn to_first(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let first = points.first().map_or(1, |(_, value)| (*value).max(1));
    points.iter().map(|(size, value)| ((*size).max(1), (value.saturating_mul(100) / first).max(1))).collect()
}

/// Thousandths of the binary logarithm, placed between two ends.
struct Axis {
    least: i64,
    most: i64,
    from: i64,
    to: i64,
}

impl Axis {
    fn over(values: impl Iterator<Item = u64>, from: i64, to: i64) -> Self {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for value in values {
            (least, most) = (least.min(log2(value)), most.max(log2(value)));
        }
        Self { least, most: most.max(least.saturating_add(1)), from, to }
    }

    fn holds(&self, value: u64) -> bool {
        (self.least..=self.most).contains(&log2(value))
    }

    fn place(&self, value: u64) -> i64 {
        self.from + (self.to - self.from) * (log2(value) - self.least) / (self.most - self.least)
    }
}

/// In thousandths, straight between powers of two.
fn log2(value: u64) -> i64 {
    let value = value.max(1);
    let whole = value.ilog2();
    let rest = u128::from(value) * 1_000 / (1u128 << whole) - 1_000;
    i64::from(whole) * 1_000 + i64::try_from(rest).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithm_grows_by_a_thousand_a_doubling() {
        assert_eq!((log2(1), log2(2), log2(3), log2(1 << 20)), (0, 1_000, 1_500, 20_000));
    }

    #[test]
    fn a_curve_is_drawn_relative_to_its_first_value() {
        let curve = Curve { name: "CPU, us".to_owned(), points: vec![(10, 200), (100, 2_000)] };
        assert_eq!(to_first(&curve.points), [(10, 100), (100, 1_000)]);
        let text = svg("a title", "keys", &[curve]);
        assert!(text.contains("CPU, us: 200, 2000") && text.ends_with("</svg>\n"));
    }
}
