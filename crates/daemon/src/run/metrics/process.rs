//! The process itself, as Linux shows it; nothing elsewhere.

use std::fs;
use std::time::Duration;

/// Linux counts processor time for programs in hundredths of a second, whatever its own clock does.
const TICK: Duration = Duration::from_millis(10);

/// User and system time.
pub(super) fn cpu() -> Option<Duration> {
    cpu_in(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Resident bytes.
pub(super) fn memory() -> Option<u64> {
    memory_in(&fs::read_to_string("/proc/self/status").ok()?)
}

/// Open file descriptors.
pub(super) fn files() -> Option<u64> {
    // The one that reads the folder is among them.
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(count.saturating_sub(1)).ok()
}

fn cpu_in(stat: &str) -> Option<Duration> {
    // The program's name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().ok());
    let ticks: Vec<u32> = ticks.collect::<Option<_>>()?;
    Some(TICK.saturating_mul(ticks.into_iter().fold(0, u32::saturating_add)))
}

fn memory_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_whatever_the_program_is_called() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194560 100 0 0 0 250 30 0 0 20 0 9 0 100 1000 10";
        assert_eq!(cpu_in(stat), Some(Duration::from_millis(2_800)));
        assert_eq!(cpu_in("broken"), None);
        assert_eq!(memory_in("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152));
        assert_eq!(memory_in("Name:\tx\n"), None);
    }
}
