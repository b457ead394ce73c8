//! `confirmd state export`

use super::print;
use anyhow::{Context as _, bail};
use confirmd_api::Operator;
use confirmd_core::{DumpReader, DumpSummary};
use futures::StreamExt as _;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two lines about how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(2);

pub(super) async fn run(operator: &dyn Operator, file: &Path, json: bool) -> anyhow::Result<()> {
    let mut out = Out::create(file)?;
    let mut dump = operator.export().await?;
    // What could not be read back is no dump: that is noticed now, not when it is needed.
    let (mut reader, mut records, mut count, mut told) = (DumpReader::default(), Vec::new(), 0_usize, Instant::now());
    while let Some(part) = dump.next().await {
        let part = part.context("the export was broken off")?;
        reader.push(&part, &mut records).context("the export can't be read back")?;
        count = count.saturating_add(records.len());
        records.clear();
        out.write(&part)?;
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            print::to_stderr(&format!("{count} records"));
        }
    }
    let summary = reader.end().context("the export was broken off")?;
    out.finish()?;
    if json && file != Path::new("-") {
        return print::json(&summary);
    }
    let text = said(&summary, file);
    if file == Path::new("-") {
        print::to_stderr(&text)
    } else {
        print::line(&text)
    }
    Ok(())
}

fn said(summary: &DumpSummary, file: &Path) -> String {
    let then = match summary.head.running {
        true => "; an instance runs: what it decides from here on is not in it (to move the state, stop it first)",
        false => "",
    };
    format!("exported {} to {}{then}", counts(summary), file.display())
}

/// What a dump holds, in words.
pub(super) fn counts(summary: &DumpSummary) -> String {
    let count = |kind: &str| summary.records.get(kind).copied().unwrap_or_default();
    let held = count("pending").saturating_add(count("reported")).saturating_add(count("orphaned"));
    format!(
        "{}, {}, {}, {}, {}, {}",
        print::counted(count("chain"), "chain", "chains"),
        print::counted(count("watched"), "watched address", "watched addresses"),
        print::counted(held, "held deposit", "held deposits"),
        print::counted(count("archived"), "settled key", "settled keys"),
        print::counted(count("event"), "event", "events"),
        print::counted(count("open"), "open delivery", "open deliveries"),
    )
}

/// Where the dump goes. A file has its name only when it is whole.
enum Out {
    Stdout,
    File { file: BufWriter<File>, partial: PathBuf, path: PathBuf, whole: bool },
}

impl Out {
    fn create(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        if path.exists() {
            bail!("{} is there already; name another file, or remove it", path.display());
        }
        let mut name = path.file_name().with_context(|| format!("{} does not name a file", path.display()))?.to_owned();
        name.push(".partial");
        let partial = path.with_file_name(name);
        // Customers' addresses and deposits are in it.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial);
        let file = file.with_context(|| format!("write {}", partial.display()))?;
        Ok(Self::File { file: BufWriter::new(file), partial, path: path.to_owned(), whole: false })
    }

    fn write(&mut self, part: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Stdout => std::io::stdout().lock().write_all(part).context("write to stdout"),
            Self::File { file, partial, .. } => file.write_all(part).with_context(|| format!("write {}", partial.display())),
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Self::File { file, partial, path, whole } = self else { return std::io::stdout().flush().context("write to stdout") };
        let failed = || format!("write {}", path.display());
        file.flush().with_context(failed)?;
        file.get_ref().sync_all().with_context(failed)?;
        std::fs::rename(&*partial, &*path).with_context(failed)?;
        *whole = true;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(failed)
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if let Self::File { partial, whole: false, .. } = self {
            // What is left of a broken export is of no use; that it could not be removed is seen.
            let _ = std::fs::remove_file(partial);
        }
    }
}
