//! Answers that are small and claim to be large, or nest without end.

use crate::subject::made;
use confirmd_hostile::{assert_bounded, deep};
use std::path::Path;

/// Bytes of each hostile answer.
const LENGTH: usize = 1_000_000;
const BASE: u64 = 256 * 1024;

pub(crate) fn deep_nesting(_: &Path) {
    let subject = made();
    let (block, receipts, traces) = (subject.block.to_string(), subject.receipts.to_string(), subject.traces.to_string());
    for (open, middle, close) in [("[", "", "]"), ("{\"a\":", "0", "}"), ("{\"calls\":[", "", "]}"), ("[{\"x\":", "[]", "}]")] {
        let text = deep(open, middle, close, LENGTH / open.len());
        assert_bounded(text.len(), 8, BASE, || {
            assert!(subject.read_texts(&text, &receipts, &traces).is_err());
            assert!(subject.read_texts(&block, &text, &traces).is_err());
            assert!(subject.read_texts(&block, &receipts, &text).is_err());
        });
        // Where unknown fields are skipped, and in a frame.
        let skipped = block.replacen('{', &format!("{{\"unknown\":{text},"), 1);
        let read = assert_bounded(skipped.len(), 8, BASE, || subject.read_texts(&skipped, &receipts, &traces));
        assert!(read.is_err() || read.unwrap() == subject.paid);
        let framed = traces.replacen("\"calls\":[]", &format!("\"calls\":[{text}]"), 1);
        assert!(framed.len() > text.len());
        assert_bounded(framed.len(), 8, BASE, || assert!(subject.read_texts(&block, &receipts, &framed).is_err()));
    }
    // Calls within calls are valid frames, only too many: refused before they take quadratic time.
    let frames = deep("{\"type\":\"CALL\",\"calls\":[", "", "]}", 50_000);
    let framed = traces.replacen("\"calls\":[]", &format!("\"calls\":[{frames}]"), 1);
    assert!(subject.read_texts(&block, &receipts, &framed).unwrap_err().contains("deeper"));
}

pub(crate) fn lists_of_nothing(_: &Path) {
    let subject = made();
    let (block, receipts, traces) = (subject.block.to_string(), subject.receipts.to_string(), subject.traces.to_string());
    let list = |item: &str| format!("[{}{item}]", format!("{item},").repeat(LENGTH / (item.len() + 1)));
    for item in ["{}", "null", "0", "[]", "\"\"", "{\"result\":0}", "{\"error\":1}", "{\"type\":\"CALL\"}"] {
        let text = list(item);
        // The list itself, which may be a list of something, and its place within a block and a receipt.
        let _ = assert_bounded(text.len(), 16, BASE, || subject.read_texts(&block, &receipts, &text));
        let _ = assert_bounded(text.len(), 16, BASE, || subject.read_texts(&block, &text, &traces));
        for key in ["transactions", "withdrawals"] {
            let within = format!("{{\"hash\":\"0x{}\",\"{key}\":{text}}}", "b1".repeat(32));
            let _ = assert_bounded(within.len(), 16, BASE, || subject.read_texts(&within, &receipts, &traces));
        }
        let framed = traces.replacen("\"calls\":[]", &format!("\"calls\":{text}"), 1);
        let _ = assert_bounded(framed.len(), 16, BASE, || subject.read_texts(&block, &receipts, &framed));
    }
    let long = format!("\"0x{}\"", "0".repeat(LENGTH));
    let within = block.replacen("\"0x5\"", &long, 1);
    assert!(within.len() > LENGTH);
    let read = assert_bounded(within.len(), 8, BASE, || subject.read_texts(&within, &receipts, &traces));
    assert!(read.is_err());
}
