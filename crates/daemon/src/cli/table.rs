//! Plain tables.

/// Columns as wide as their widest cell, two spaces between; the last is not padded.
pub(super) fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head: Vec<String> = head.iter().map(|cell| cell.to_uppercase()).collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(&head).chain(&rows).map(line).collect::<Vec<_>>().join("\n")
}

/// Labels come from customers' data: a control character must not reach the terminal.
fn printable(cell: &str) -> String {
    cell.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// What stands in a cell without a value.
pub(super) fn or_dash<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "bitcoin".into()], vec!["long".into(), or_dash::<u8>(None)]];
        assert_eq!(render(&["x", "chain"], &rows), "X     CHAIN\na     bitcoin\nlong  -");
        assert_eq!(render(&["x"], &[vec!["a\u{1b}[2J\nb".into()]]), "X\na\\u{1b}[2J\\nb");
    }
}
