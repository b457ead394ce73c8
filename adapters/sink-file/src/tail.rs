//! The end of a file after a crash: what of it is whole, and what was being written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// How every line of ours begins (wire format version 1, field order pinned by its golden file).
pub(crate) const LINE_START: &[u8] = b"{\"id\":\"evt_";

/// How far back an unfinished batch can begin: 256 events of at most 4 KiB.
pub(crate) const WINDOW_BYTES: u64 = 1024 * 1024;

/// Why an end of a file is not touched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TailError {
    /// Cutting it could destroy somebody else's data.
    #[error(
        "its last line is unfinished and does not look like an event of confirmd; end it with a line break, or name another file"
    )]
    Foreign,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Cuts off an unfinished last line, durably; its event was never acknowledged and comes again.
/// Returns the file's length and how many bytes were cut.
pub(crate) fn repair(mut file: &File) -> Result<(u64, u64), TailError> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(WINDOW_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut window = Vec::new();
    file.take(WINDOW_BYTES).read_to_end(&mut window)?;
    let kept = whole_lines(&window, start == 0)?;
    let length = start + bytes(window.len());
    let end = start + bytes(kept);
    if end < length {
        file.set_len(end)?;
        file.sync_all()?;
    }
    Ok((end, length - end))
}

/// How many bytes of the window are whole lines. `from_start`: the window begins where the file does.
fn whole_lines(window: &[u8], from_start: bool) -> Result<usize, TailError> {
    // JSON holds no zero bytes. A power cut leaves them where the length was recorded and the data was not: in the last,
    // never synced batch. Whatever follows them belongs to that batch too.
    let written = window.iter().position(|&byte| byte == 0).unwrap_or(window.len());
    let written = window.get(..written).unwrap_or_default();
    let line_break = written.iter().rposition(|&byte| byte == b'\n');
    let kept = line_break.map_or(0, |at| at.saturating_add(1));
    if kept == window.len() {
        return Ok(kept);
    }
    if line_break.is_none() && !from_start {
        return Err(TailError::Foreign);
    }
    let torn = written.get(kept..).unwrap_or_default();
    let ours = torn.starts_with(LINE_START) || LINE_START.starts_with(torn);
    if ours { Ok(kept) } else { Err(TailError::Foreign) }
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn kept(window: &[u8]) -> Option<usize> {
        whole_lines(window, true).ok()
    }

    #[test]
    fn whole_lines_are_kept_and_a_torn_one_of_ours_is_not() {
        assert_eq!(kept(b""), Some(0));
        assert_eq!(kept(b"{\"id\":\"evt_1\"}\n"), Some(15));
        assert_eq!(kept(b"{\"id\":\"evt_1\"}\n{\"id\":\"evt_2"), Some(15));
        assert_eq!(kept(b"{\"id\":\"evt_1\"}\n{\"i"), Some(15));
        assert_eq!(kept(b"{\"id\":\"evt_1\"}"), Some(0), "whole but for its line break: it was not synced");
    }

    #[test]
    fn the_zeros_of_a_power_cut_and_what_follows_them_are_cut_from_the_line_they_are_in() {
        assert_eq!(kept(b"{\"id\":\"evt_1\"}\n\0\0\0\0"), Some(15));
        assert_eq!(kept(b"{\"id\":\"evt_1\"}\n{\"id\":\"evt_2\0\0\0}\n{\"id\":\"evt_3\"}\n"), Some(15));
    }

    #[test]
    fn a_tail_that_is_none_of_ours_is_not_touched() {
        assert_eq!(kept(b"{\"id\":\"evt_1\"}\nnotes by hand"), None);
        assert_eq!(kept(b"root:x:0:0"), None);
        assert!(whole_lines(b"{\"id\":\"evt_", false).is_err(), "a line longer than the window");
    }
}
