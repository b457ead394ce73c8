//! What happened, as a digest that two runs of a seed must share, and as lines for people.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::clock::VirtualClock;

/// Takes everything down in the order in which it happened.
#[derive(Debug)]
pub(super) struct Record {
    digest: Mutex<Sha256>,
    aloud: bool,
}

impl Record {
    pub(super) fn new(aloud: bool) -> Self {
        Self { digest: Mutex::default(), aloud }
    }

    /// One fact: its time and bytes enter the digest.
    pub(super) fn fact(&self, clock: &VirtualClock, what: &str, bytes: &[u8]) {
        let mut digest = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        digest.update(clock.elapsed().as_millis().to_be_bytes());
        digest.update(what.len().to_be_bytes());
        digest.update(what.as_bytes());
        digest.update(bytes.len().to_be_bytes());
        digest.update(bytes);
        drop(digest);
        if self.aloud {
            const SHOWN: usize = 400;
            let text = String::from_utf8_lossy(bytes.get(..SHOWN).unwrap_or(bytes)).into_owned();
            self.line(clock, format_args!("{what} {text}"));
        }
    }

    /// A line for people only.
    pub(super) fn line(&self, clock: &VirtualClock, text: fmt::Arguments<'_>) {
        if self.aloud {
            println!("{:>12.3} {text}", clock.elapsed().as_secs_f64());
        }
    }

    /// Of everything so far, in hex.
    pub(super) fn digest(&self) -> String {
        let digest = self.digest.lock().unwrap_or_else(PoisonError::into_inner).clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
