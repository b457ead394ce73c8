//! Where the running instance of a state is found: a small file in the state's folder.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The file's name within the state's folder.
pub const FILE: &str = "api-address";

/// A running instance as its state's folder names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceAddress {
    /// Where its control API listens.
    pub address: SocketAddr,
    /// Names the run, so that another program at the same port is not taken for it.
    pub instance: String,
}

fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

impl InstanceAddress {
    /// Where this machine's programs reach it: an address for every interface is reached on the loopback one.
    pub fn reachable(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        address
    }

    /// Writes the file.
    pub fn write(&self, state: &Path) -> std::io::Result<()> {
        std::fs::write(path(state), format!("{}\n{}\n", self.address, self.instance))
    }

    /// Reads the file; `None` if there is none or it is not readable as one.
    pub fn read(state: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path(state)).ok()?;
        let mut lines = text.lines();
        let address = lines.next()?.parse().ok()?;
        Some(Self { address, instance: lines.next()?.to_owned() })
    }

    /// Takes the file away at a clean stop, if it is still this run's.
    pub fn remove(&self, state: &Path) {
        if Self::read(state).as_ref() == Some(self) {
            let _ = std::fs::remove_file(path(state));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_instance_takes_only_its_own_file_away() {
        let dir = tempfile::tempdir().unwrap();
        let one = InstanceAddress { address: "127.0.0.1:5".parse().unwrap(), instance: "a".into() };
        let two = InstanceAddress { instance: "b".into(), ..one.clone() };
        assert_eq!(InstanceAddress::read(dir.path()), None);
        one.write(dir.path()).unwrap();
        two.remove(dir.path());
        assert_eq!(InstanceAddress::read(dir.path()), Some(one.clone()));
        one.remove(dir.path());
        assert_eq!(InstanceAddress::read(dir.path()), None);
    }
}
