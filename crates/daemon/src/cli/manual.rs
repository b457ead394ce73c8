//! `confirmd completions` and `confirmd man`: both made from the command line itself.

use super::{Cli, print};
use anyhow::Context as _;
use clap::CommandFactory as _;
use std::path::Path;

pub(super) fn completions(shell: clap_complete::Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "confirmd", &mut script);
    print::line(String::from_utf8_lossy(&script).trim_end());
}

/// One page a command: `confirmd.1`, `confirmd-watch-add.1`, …
pub(super) fn pages(folder: &Path, json: bool) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let mut root = Cli::command();
    root.build();
    let count = write(&root, folder)?;
    if json {
        return print::json(&serde_json::json!({ "folder": folder, "pages": count }));
    }
    print::line(&format!("{} in {}", print::counted(count, "manual page", "manual pages"), folder.display()));
    Ok(())
}

fn write(command: &clap::Command, folder: &Path) -> anyhow::Result<u64> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let file = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page).with_context(|| format!("render the page of {name}"))?;
    std::fs::write(&file, page).with_context(|| format!("write {}", file.display()))?;
    let mut count = 1_u64;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        count = count.saturating_add(write(sub, folder)?);
    }
    Ok(count)
}
