//! `confirmd watch import`: a list of any length, in bounded memory.

use super::print;
use anyhow::Context as _;
use confirmd_api::import::LineReader;
use confirmd_api::view::{WatchAdded, WatchRequest};
use confirmd_api::{Operator, merge};
use confirmd_core::Height;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// Addresses that are added at a time, some 30 MB.
const PART: usize = 100_000;
/// Between two lines about how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// Adds the file's addresses from a line on.
pub(super) async fn run(
    operator: &dyn Operator,
    file: &Path,
    from_line: u64,
    from_height: Option<Height>,
) -> anyhow::Result<Vec<WatchAdded>> {
    let of_stdin = file == Path::new("-");
    if !of_stdin {
        let nothing = || format!("nothing of {} is imported", file.display());
        let mut list = List::open(file)?;
        while list.next(PART).with_context(nothing)?.is_some() {}
    }
    let mut list = List::open(file)?;
    let (began, mut told, mut count, mut added) = (Instant::now(), Instant::now(), 0_u64, Vec::new());
    let mut line_done = from_line.saturating_sub(1);
    let partly = |done: u64| {
        let after = done.saturating_add(1);
        format!("{} is not imported whole; go on with --from-line {after}: what was added stays", file.display())
    };
    while let Some(mut part) = list.next(PART).with_context(|| partly(line_done))? {
        let last = part.last().and_then(|entry| entry.line);
        part.iter_mut().for_each(|entry| entry.from_height = entry.from_height.or(from_height));
        part.retain(|entry| entry.line.is_none_or(|line| line >= from_line));
        let size = u64::try_from(part.len()).unwrap_or(u64::MAX);
        if size > 0 {
            let new = operator.watch_add(part).await.with_context(|| partly(line_done))?;
            new.into_iter().for_each(|new| merge(&mut added, new));
            count = count.saturating_add(size);
        }
        line_done = last.unwrap_or(line_done).max(line_done);
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            let speed = count / began.elapsed().as_secs().max(1);
            print::to_stderr(&format!("{count} addresses up to line {line_done}, {speed} a second"));
        }
    }
    Ok(added)
}

/// A file that is read once, from its beginning.
struct List {
    input: Box<dyn Read + Send>,
    name: String,
    reader: LineReader,
    waiting: Vec<WatchRequest>,
    ended: bool,
}

impl List {
    fn open(file: &Path) -> anyhow::Result<Self> {
        let name = file.display().to_string();
        let input: Box<dyn Read + Send> = match name.as_str() {
            "-" => Box::new(std::io::stdin()),
            _ => Box::new(File::open(file).with_context(|| format!("read {name}"))?),
        };
        Ok(Self { input, name, reader: LineReader::either(), waiting: Vec::new(), ended: false })
    }

    /// The next entries, at most so many; `None` at the end.
    fn next(&mut self, most: usize) -> anyhow::Result<Option<Vec<WatchRequest>>> {
        let mut buffer = vec![0; 64 * 1024];
        while self.waiting.len() < most && !self.ended {
            let length = self.input.read(&mut buffer).with_context(|| format!("read {}", self.name))?;
            match buffer.get(..length).unwrap_or_default() {
                [] => {
                    self.ended = true;
                    self.reader.end(&mut self.waiting)?;
                }
                data => self.reader.push(data, &mut self.waiting)?,
            }
        }
        let rest = self.waiting.split_off(most.min(self.waiting.len()));
        let part = std::mem::replace(&mut self.waiting, rest);
        Ok((!part.is_empty()).then_some(part))
    }
}
