//! Loopback ports that stay ours while a node is down.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result, bail};

/// Below the ports that the kernel hands out by itself, so that a stopped node finds its port free again.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;
const TRIES_MAX: u32 = 200;

/// A port of 127.0.0.1 that no other test takes while this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Takes a free port at random.
    pub fn free() -> Result<Self> {
        let folder = std::env::temp_dir().join("confirmd-e2e-ports");
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        for _ in 0..TRIES_MAX {
            let random = RandomState::new().build_hasher().finish() % u64::from(COUNT);
            let number = FIRST + u16::try_from(random)?;
            let path = folder.join(number.to_string());
            let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
            let lock = lock.with_context(|| format!("open {}", path.display()))?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, number));
            if lock.try_lock().is_ok() && TcpListener::bind(address).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("no free port among {TRIES_MAX} tried from {FIRST} up")
    }

    /// The number, for a command line.
    pub fn number(&self) -> u16 {
        self.number
    }
}
