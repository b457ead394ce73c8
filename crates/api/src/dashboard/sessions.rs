//! Who is signed in to the page. In memory: a restart signs everybody out.

use crate::Role;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A session ends after so long, used or not.
pub(super) const SESSION: Duration = Duration::from_secs(12 * 3600);
/// More are not kept: the oldest ends.
const SESSIONS_MAX: usize = 64;

/// What a session may do.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) role: Role,
    /// In every form of this session.
    pub(super) csrf: String,
    until: Instant,
}

/// Sessions by the digest of their id: what is in memory signs nobody in.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<[u8; 32], Session>>,
}

impl Sessions {
    fn open(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, session| session.until > Instant::now());
        open
    }

    /// Begins one; answers its id.
    pub(super) fn begin(&self, role: Role) -> Result<String, getrandom::Error> {
        let (id, csrf) = (random()?, random()?);
        let mut open = self.open();
        if open.len() >= SESSIONS_MAX
            && let Some(oldest) = open.iter().min_by_key(|(_, session)| session.until).map(|(digest, _)| *digest)
        {
            open.remove(&oldest);
        }
        open.insert(digest(&id), Session { role, csrf, until: Instant::now() + SESSION });
        Ok(id)
    }

    pub(super) fn of(&self, id: &str) -> Option<Session> {
        self.open().get(&digest(id)).cloned()
    }

    pub(super) fn end(&self, id: &str) {
        self.open().remove(&digest(id));
    }
}

/// 32 bytes of the system's, as hex.
pub(super) fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_by_itself_by_logging_out_and_when_there_are_too_many() {
        let sessions = Sessions::default();
        let first = sessions.begin(Role::Read).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = sessions.begin(Role::Admin).unwrap();
        assert_eq!(sessions.of(&second).unwrap().role, Role::Admin);
        assert_ne!(sessions.of(&first).unwrap().csrf, sessions.of(&second).unwrap().csrf);
        for _ in 2..=SESSIONS_MAX {
            tokio::time::advance(Duration::from_secs(1)).await;
            sessions.begin(Role::Read).unwrap();
        }
        assert!(sessions.of(&first).is_none() && sessions.of(&second).is_some());
        sessions.end(&second);
        assert!(sessions.of(&second).is_none());
        let last = sessions.begin(Role::Read).unwrap();
        tokio::time::advance(SESSION).await;
        assert!(sessions.of(&last).is_none() && sessions.of("").is_none());
    }
}
