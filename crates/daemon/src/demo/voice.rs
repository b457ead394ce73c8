//! What the demo says: lines for people, or JSON for machines.

use serde_json::json;
use std::io::{IsTerminal, Write as _};

/// A line on stdout. A reader that has gone (`| head`) is no reason to panic.
macro_rules! line {
    ($($part:tt)*) => {{ let _ = writeln!(std::io::stdout(), $($part)*); }};
}

/// How the demo speaks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Voice {
    json: bool,
    colour: bool,
}

impl Voice {
    pub(super) fn new(json: bool) -> Self {
        let colour = !json && std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { json, colour }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn say(self, kind: &str, text: &str, line: &str) {
        if self.json {
            line!("{}", json!({ "kind": kind, "text": text }));
        } else {
            line!("{line}");
        }
    }

    /// A new act begins.
    pub(super) fn act(self, name: &str, what: &str) {
        let line = format!("\n{}  {what}", self.paint("1;36", name));
        self.say("act", &format!("{name}: {what}"), &line);
    }

    /// Something happened on the chains or to the processes.
    pub(super) fn did(self, text: &str) {
        self.say("did", text, &format!("  {} {text}", self.paint("2", "·")));
    }

    /// The customer's ledger was told of something.
    pub(super) fn told(self, text: &str) {
        self.say("told", text, &format!("  {} {text}", self.paint("1;32", "✓")));
    }

    /// Heights after a block.
    pub(super) fn chains(self, (bitcoin, devnet): (u32, u64)) {
        let text = format!("bitcoin at {bitcoin}, devnet at {devnet}");
        self.say("height", &text, &format!("  {} {text}", self.paint("2", "▪")));
    }

    /// One line of the comparison.
    pub(super) fn balance(self, owner: &str, symbol: &str, ledger: &str, chain: &str) {
        if self.json {
            line!("{}", json!({ "kind": "balance", "owner": owner, "asset": symbol, "ledger": ledger, "chain": chain }));
            return;
        }
        let verdict = if ledger == chain { self.paint("1;32", "equal") } else { self.paint("1;31", "DIFFERENT") };
        line!("  {owner:<8} {symbol:<6} ledger {ledger:>12}   chain {chain:>12}   {verdict}");
    }

    /// The last line.
    pub(super) fn verdict(self, equal: bool, text: &str) {
        if self.json {
            line!("{}", json!({ "kind": "verdict", "equal": equal, "text": text }));
        } else {
            line!("\n{}", self.paint(if equal { "1;32" } else { "1;31" }, text));
        }
    }

    /// Where something is, or why something went wrong; always on stderr.
    pub(super) fn aside(self, text: &str) {
        eprintln!("{}", self.paint("2", text));
    }
}
