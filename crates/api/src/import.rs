//! Lists of addresses: JSON Lines or CSV with chain, address, reference, from_height.

use crate::view::WatchRequest;
use confirmd_core::{ChainName, Height};
use serde::Deserialize;
use std::sync::Arc;

/// A line that can't be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ImportError {
    /// From 1.
    pub line: u64,
    /// What is wrong and what to do.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    chain: String,
    address: String,
    reference: Option<Arc<str>>,
    from_height: Option<u64>,
}

impl Line {
    fn check(self, line: u64) -> Result<WatchRequest, ImportError> {
        let wrong = |problem: String| ImportError { line, problem };
        let chain = ChainName::new(&self.chain).map_err(|error| wrong(error.to_string()))?;
        if self.address.is_empty() {
            return Err(wrong("the address is empty".to_owned()));
        }
        Ok(WatchRequest {
            chain,
            address: self.address,
            reference: self.reference.filter(|r| !r.is_empty()),
            from_height: self.from_height.map(Height),
            line: Some(line),
        })
    }
}

/// Reads either form: a first byte `{` means JSON Lines.
pub fn read(text: &str) -> Result<Vec<WatchRequest>, ImportError> {
    let (mut reader, mut read) = (LineReader::either(), Vec::new());
    reader.push(text.as_bytes(), &mut read)?;
    reader.end(&mut read)?;
    Ok(read)
}

/// Bytes of one line; a longer one is no address.
const LINE_MAX: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One JSON object a line.
    Json,
    /// Comma-separated, double quotes where needed, no line breaks within a field; with or without the header line.
    Csv,
}

/// Reads a list as it arrives, in parts of any size. Holds at most one line.
#[derive(Debug)]
pub struct LineReader {
    rest: Vec<u8>,
    number: u64,
    /// The first line that says something decides, where it may.
    form: Option<Form>,
    seen: bool,
}

impl Default for LineReader {
    /// Reads JSON Lines.
    fn default() -> Self {
        Self { form: Some(Form::Json), ..Self::either() }
    }
}

impl LineReader {
    /// Reads either form: a first byte `{` means JSON Lines.
    pub fn either() -> Self {
        Self { rest: Vec::new(), number: 0, form: None, seen: false }
    }

    /// Lines that were read so far.
    pub fn lines(&self) -> u64 {
        self.number
    }

    /// Takes the next bytes; whole lines become requests.
    pub fn push(&mut self, mut data: &[u8], into: &mut Vec<WatchRequest>) -> Result<(), ImportError> {
        while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = data.split_at(end);
            self.rest.extend_from_slice(head);
            data = tail.get(1..).unwrap_or_default();
            self.line(into)?;
        }
        self.rest.extend_from_slice(data);
        self.bounded()
    }

    /// What stands behind the last line break.
    pub fn end(&mut self, into: &mut Vec<WatchRequest>) -> Result<(), ImportError> {
        self.line(into)
    }

    fn bounded(&self) -> Result<(), ImportError> {
        if self.rest.len() <= LINE_MAX {
            return Ok(());
        }
        let problem = format!("it is longer than {LINE_MAX} bytes; write one address a line");
        Err(ImportError { line: self.number.saturating_add(1), problem })
    }

    fn line(&mut self, into: &mut Vec<WatchRequest>) -> Result<(), ImportError> {
        self.bounded()?;
        let mut bytes = std::mem::take(&mut self.rest);
        self.number = self.number.saturating_add(1);
        let line = self.number;
        let text = std::str::from_utf8(&bytes).map_err(|_| ImportError { line, problem: "it is not UTF-8".to_owned() })?;
        let text = if line == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        if !text.trim().is_empty() {
            let json = text.trim_start().starts_with('{');
            let first = !std::mem::replace(&mut self.seen, true);
            match *self.form.get_or_insert(if json { Form::Json } else { Form::Csv }) {
                Form::Json => into.push(json_line(line, text)?),
                Form::Csv => into.extend(csv_line(line, text, first)?),
            }
        }
        // Its memory is used again.
        bytes.clear();
        self.rest = bytes;
        Ok(())
    }
}

fn json_line(line: u64, text: &str) -> Result<WatchRequest, ImportError> {
    let parsed: Line = serde_json::from_str(text).map_err(|error| ImportError { line, problem: error.to_string() })?;
    parsed.check(line)
}

/// `None` for the header, which may be the first line.
fn csv_line(line: u64, text: &str, first: bool) -> Result<Option<WatchRequest>, ImportError> {
    let fields = fields(text).map_err(|problem| ImportError { line, problem })?;
    if first && fields.first().is_some_and(|first| first == "chain") {
        check_header(&fields).map_err(|problem| ImportError { line, problem })?;
        return Ok(None);
    }
    csv_fields(fields, line).map(Some)
}

fn check_header(fields: &[String]) -> Result<(), String> {
    let expected = ["chain", "address", "reference", "from_height"];
    let same = fields.len() >= 2 && fields.len() <= 4 && fields.iter().zip(expected).all(|(a, b)| a == b);
    if same { Ok(()) } else { Err(format!("the columns are {}, in this order", expected.join(", "))) }
}

fn csv_fields(fields: Vec<String>, line: u64) -> Result<WatchRequest, ImportError> {
    let count = fields.len();
    let mut fields = fields.into_iter();
    let (Some(chain), Some(address), true) = (fields.next(), fields.next(), count <= 4) else {
        let problem = format!("{count} columns; expected chain, address and, if wanted, reference and from_height");
        return Err(ImportError { line, problem });
    };
    let reference = fields.next().map(Arc::from);
    let from_height = match fields.next().as_deref() {
        None | Some("") => None,
        Some(text) => {
            Some(text.parse().map_err(|_| ImportError { line, problem: format!("from_height {text:?} is not a whole number") })?)
        }
    };
    Line { chain, address, reference, from_height }.check(line)
}

fn fields(line: &str) -> Result<Vec<String>, String> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, after) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => rest.find(',').map_or((rest.trim().to_owned(), ""), |at| {
                let (field, after) = rest.split_at(at);
                (field.trim().to_owned(), after)
            }),
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Ok(fields),
        }
    }
}

fn quoted_field(text: &str) -> Result<(String, &str), String> {
    let (mut field, mut rest) = (String::new(), text);
    loop {
        let (head, tail) = rest.split_once('"').ok_or("a double quote is not closed on its line")?;
        field.push_str(head);
        match tail.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => {
                let after = tail.trim_start();
                let ends = after.is_empty() || after.starts_with(',');
                return if ends { Ok((field, after)) } else { Err("text follows a closing double quote".to_owned()) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn both_forms_give_the_same_list() {
        let json =
            "{\"chain\":\"btc\",\"address\":\"a1\",\"reference\":\"x, \\\"y\\\"\"}\n\n{\"chain\":\"eth\",\"address\":\"b\"}\n";
        let csv = "chain,address,reference,from_height\r\nbtc, a1 ,\"x, \"\"y\"\"\",\r\n\r\neth,b\r\n";
        let (from_json, mut from_csv) = (read(json).unwrap(), read(csv).unwrap());
        assert_eq!(from_json[0].reference.as_deref(), Some("x, \"y\""));
        assert_eq!((from_json[1].line, from_csv[1].line), (Some(3), Some(4)));
        from_csv.iter_mut().for_each(|entry| entry.line = entry.line.map(|line| line - 1));
        assert_eq!(from_json, from_csv);
        assert_eq!(csv_without_header(), 1);
    }

    fn csv_without_header() -> usize {
        read("btc,a1,ref").unwrap().len()
    }

    #[test]
    fn a_stream_gives_the_same_list_however_it_is_cut() {
        let text = "{\"chain\":\"btc\",\"address\":\"a1\"}\r\n\n{\"chain\":\"eth\",\"address\":\"ü\"}";
        let csv = "chain,address\r\n\nbtc,a1\neth,\"ü\"";
        for text in [text, csv] {
            let whole = read(text).unwrap();
            assert_eq!(whole.len(), 2);
            for size in 1..text.len() {
                let (mut reader, mut read) = (LineReader::either(), Vec::new());
                text.as_bytes().chunks(size).for_each(|part| reader.push(part, &mut read).unwrap());
                reader.end(&mut read).unwrap();
                assert_eq!(read, whole, "{size}");
            }
        }
        assert!(LineReader::default().push(b"btc,a1\n", &mut Vec::new()).is_err(), "a stream of JSON took another form");
        let error = LineReader::default().push(&[b'x'; LINE_MAX + 1], &mut Vec::new()).unwrap_err();
        assert_eq!(error.line, 1);
    }

    #[test]
    fn a_bad_line_is_named_with_its_problem() {
        for (text, line, part) in [
            ("btc,a\nbtc", 2, "columns"),
            ("btc,a,r,x", 1, "whole number"),
            ("BTC,a", 1, "a chain name"),
            ("btc,\"a", 1, "not closed"),
            ("btc,\"a\"b", 1, "follows"),
            ("btc,a,r,,", 1, "columns"),
            ("chain,reference,address", 1, "in this order"),
            ("{\"chain\":\"btc\",\"address\":\"a\",\"adress\":1}", 1, "adress"),
            ("{\"chain\":\"btc\",\"address\":\"a\",\"from_height\":-7}", 1, "invalid value"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            assert!(error.problem.contains(part), "{text}: {error}");
        }
    }
}
