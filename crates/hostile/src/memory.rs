//! What a parser allocates.

/// Runs `work` and returns its result with the most bytes that this thread held for it at once.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let mut result = None;
    let used = allocation_counter::measure(|| result = Some(work()));
    (result.expect("invariant: measure runs what it is given"), used.bytes_max)
}

/// Runs `work` on an input of `length` bytes; it may hold at most `factor` times that, and `base` bytes besides.
///
/// # Panics
/// Where it held more: a length that the input claims has been believed.
pub fn assert_bounded<T>(length: usize, factor: u64, base: u64, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_bytes(work);
    let allowed = u64::try_from(length).unwrap_or(u64::MAX).saturating_mul(factor).saturating_add(base);
    assert!(peak <= allowed, "{peak} bytes were held for an input of {length}; {allowed} were allowed");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_held_at_once_is_counted_and_too_much_is_noticed() {
        let (length, peak) = peak_bytes(|| vec![0u8; 10_000].len());
        assert!(length == 10_000 && (10_000..11_000).contains(&peak), "{peak}");
        assert_bounded(100, 10, 0, || drop(vec![0u8; 1_000]));
        assert!(std::panic::catch_unwind(|| assert_bounded(100, 10, 0, || drop(vec![0u8; 2_000]))).is_err());
    }
}
