//! Reads a dump, a piece at a time, and believes none of it before its end.

use super::lines::{DUMP_FORMAT, DumpSummary, EndLine, HeadLine, Tally};
use super::record::DumpRecord;
use serde::Deserialize;

/// No line of ours comes near it.
const LINE_MAX: usize = 16 * 1024 * 1024;

/// Why a dump can't be used. Nothing of it may be kept then.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Something else.
    #[error("this is not a dump of a confirmd state: {0}")]
    Foreign(String),
    /// Of a later version.
    #[error(
        "the dump has format {0}, this confirmd reads format {DUMP_FORMAT}; import it with the version that wrote it, or a newer one"
    )]
    Newer(u32),
    /// Not what was written.
    #[error("the dump is damaged in line {line}: {problem}; take a copy that is whole, or export again")]
    Damaged {
        /// From 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// Its end is missing.
    #[error("the dump ends after line {line}, in the middle: it was cut off; take a copy that is whole, or export again")]
    Cut {
        /// The last whole line.
        line: u64,
    },
}

#[derive(Debug)]
enum Stage {
    Head,
    Records { head: HeadLine },
    Ended { summary: DumpSummary },
}

/// See the module.
#[derive(Debug)]
pub struct DumpReader {
    stage: Stage,
    tally: Tally,
    /// The beginning of a line that has not ended.
    rest: Vec<u8>,
    line: u64,
}

impl Default for DumpReader {
    fn default() -> Self {
        Self { stage: Stage::Head, tally: Tally::default(), rest: Vec::new(), line: 0 }
    }
}

impl std::fmt::Debug for HeadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.confirmd_state.fmt(f)
    }
}

impl DumpReader {
    /// The next piece of the dump; its records are appended.
    pub fn push(&mut self, data: &[u8], records: &mut Vec<DumpRecord>) -> Result<(), DumpError> {
        let mut parts = data.split(|byte| *byte == b'\n');
        // What is behind the last line's end; there always is something, if only nothing.
        let behind = parts.next_back().unwrap_or_default();
        for part in parts {
            match self.rest.is_empty() {
                true => self.whole(part, records)?,
                false => {
                    self.rest.extend_from_slice(part);
                    let line = std::mem::take(&mut self.rest);
                    self.whole(&line, records)?;
                }
            }
        }
        self.rest.extend_from_slice(behind);
        if self.rest.len() > LINE_MAX {
            return Err(match self.stage {
                Stage::Head => DumpError::Foreign("its first line does not end".to_owned()),
                _ => DumpError::Damaged { line: self.line.saturating_add(1), problem: "the line does not end".to_owned() },
            });
        }
        Ok(())
    }

    /// The head, once it was read.
    pub fn head(&self) -> Option<&super::DumpHead> {
        match &self.stage {
            Stage::Head => None,
            Stage::Records { head } => Some(&head.confirmd_state),
            Stage::Ended { summary } => Some(&summary.head),
        }
    }

    /// There is nothing more. Only now it is known that everything was as it was written.
    pub fn end(self) -> Result<DumpSummary, DumpError> {
        match self.stage {
            Stage::Head if self.rest.is_empty() => Err(DumpError::Foreign("it is empty".to_owned())),
            Stage::Head => Err(DumpError::Foreign("its first line does not end".to_owned())),
            Stage::Ended { summary } if self.rest.is_empty() => Ok(summary),
            Stage::Ended { .. } => Err(behind_the_end(self.line)),
            Stage::Records { .. } => Err(DumpError::Cut { line: self.line }),
        }
    }

    fn whole(&mut self, line: &[u8], records: &mut Vec<DumpRecord>) -> Result<(), DumpError> {
        self.line = self.line.saturating_add(1);
        let number = self.line;
        let damaged = |problem: String| DumpError::Damaged { line: number, problem };
        match &self.stage {
            Stage::Head => self.stage = Stage::Records { head: read_head(line)? },
            Stage::Ended { .. } => return Err(behind_the_end(number)),
            Stage::Records { head } => {
                if line.starts_with(b"{\"end\":") {
                    let head = head.confirmd_state.clone();
                    let said: EndLine = serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
                    let found = std::mem::take(&mut self.tally).end();
                    if said.end.records != found.records {
                        return Err(damaged("the numbers of records are not those that were written".to_owned()));
                    }
                    if said.end.sha256 != found.sha256 || serde_json::to_vec(&said).ok().as_deref() != Some(line) {
                        return Err(damaged("the checksum over all lines does not match".to_owned()));
                    }
                    self.stage = Stage::Ended { summary: DumpSummary { head, records: found.records, sha256: found.sha256 } };
                    return Ok(());
                }
                let record: DumpRecord = serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
                self.tally.take(&record, line).map_err(damaged)?;
                records.push(record);
            }
        }
        Ok(())
    }
}

fn behind_the_end(line: u64) -> DumpError {
    DumpError::Damaged { line, problem: "there is something behind the dump's end".to_owned() }
}

/// Only the format of a head that may be of a later version.
#[derive(Deserialize)]
struct AnyHead {
    confirmd_state: AnyFormat,
}

#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

fn read_head(line: &[u8]) -> Result<HeadLine, DumpError> {
    let foreign = |_| DumpError::Foreign("its first line is not a dump's head".to_owned());
    let any: AnyHead = serde_json::from_slice(line).map_err(foreign)?;
    if any.confirmd_state.format > DUMP_FORMAT {
        return Err(DumpError::Newer(any.confirmd_state.format));
    }
    let altered = || DumpError::Damaged { line: 1, problem: "the head is not what was written".to_owned() };
    let head: HeadLine = serde_json::from_slice(line).map_err(|_| altered())?;
    if HeadLine::of(&head.confirmd_state).line() != line {
        return Err(altered());
    }
    Ok(head)
}
