//! Asks before what can't be taken back.

use super::print;
use anyhow::bail;
use std::io::{BufRead, IsTerminal};

/// Goes on if the operator says so: with `--yes`, or by `y` on a terminal.
pub(super) fn confirm(what: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        bail!("{what}\nthis can't be taken back; add --yes to do it");
    }
    on_terminal(what)
}

/// The same before something is sent to others.
pub(super) fn confirm_sending(what: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        bail!("{what}\nnothing was sent; add --yes to send it");
    }
    on_terminal(what)
}

fn on_terminal(what: &str) -> anyhow::Result<()> {
    print::to_stderr(&format!("{what}\nGo on? [y/N]"));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    bail!("nothing was done")
}
