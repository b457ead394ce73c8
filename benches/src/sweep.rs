//! Cold caches, as they are when a block has just arrived.

use std::hint::black_box;

/// Larger than the caches of most machines.
const SWEPT_BYTES: usize = 128 << 20;

/// Memory that is walked through to push everything else out of the caches.
#[derive(Debug)]
pub struct Sweeper(Vec<u8>);

impl Default for Sweeper {
    fn default() -> Self {
        Self(vec![0; SWEPT_BYTES])
    }
}

impl Sweeper {
    /// Pushes everything out, then reads these bytes, as they just arrived.
    pub fn sweep(&mut self, received: &[u8]) {
        self.0.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(received.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    }
}
