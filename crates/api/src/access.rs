//! Tokens: who may look, who may change.

use confirmd_core::Secret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Shorter ones can be guessed.
const TOKEN_LENGTH_MIN: usize = 16;

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Every GET.
    Read,
    /// Everything.
    Admin,
}

/// The tokens of an instance. Without any, only programs on this machine may ask, and those may order everything.
#[derive(Debug, Clone, Default)]
pub struct Access {
    tokens: Vec<(Role, [u8; 32])>,
}

impl Access {
    /// With these tokens. An error says which one can't be used and why, never its content.
    pub fn new(admin: Option<&Secret>, read: Option<&Secret>) -> Result<Self, String> {
        let mut tokens = Vec::new();
        for (role, name, token) in [(Role::Admin, "admin_token", admin), (Role::Read, "read_token", read)] {
            let Some(token) = token else { continue };
            let text = token.expose();
            if text.len() < TOKEN_LENGTH_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "the {name} must be at least {TOKEN_LENGTH_MIN} printable characters without spaces; `openssl rand -hex 32` makes one"
                ));
            }
            tokens.push((role, digest(text)));
        }
        if let [(_, admin), (_, read)] = tokens.as_slice()
            && admin == read
        {
            return Err("admin_token and read_token are the same; a reader could change everything".to_owned());
        }
        Ok(Self { tokens })
    }

    /// Whether a token is asked for at all.
    pub fn is_required(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether some token may change things.
    pub fn has_admin(&self) -> bool {
        self.tokens.iter().any(|(role, _)| *role == Role::Admin)
    }

    /// What a presented token allows. Takes the same time whatever is presented: digests are compared, all of them, in constant time.
    pub(crate) fn role_of(&self, presented: &str) -> Option<Role> {
        let presented = digest(presented);
        let mut found = None;
        for (role, known) in &self.tokens {
            if bool::from(known.as_slice().ct_eq(presented.as_slice())) {
                found = Some(*role);
            }
        }
        found
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_gives_its_role_and_a_weak_or_shared_one_is_refused_without_being_shown() {
        let (admin, read) = (Secret::new("a".repeat(32)), Secret::new("r".repeat(32)));
        let access = Access::new(Some(&admin), Some(&read)).unwrap();
        assert_eq!(access.role_of(admin.expose()), Some(Role::Admin));
        assert_eq!(access.role_of(read.expose()), Some(Role::Read));
        assert_eq!(access.role_of(""), None);
        assert_eq!(access.role_of(&"a".repeat(31)), None);
        assert!(!Access::default().is_required() && access.has_admin());
        for weak in ["short", "with a space in its middle", "ümlautümlautümlaut"] {
            let error = Access::new(Some(&Secret::new(weak)), None).unwrap_err();
            assert!(error.contains("admin_token") && !error.contains(weak), "{error}");
        }
        assert!(Access::new(Some(&admin), Some(&admin)).unwrap_err().contains("the same"));
        assert!(!format!("{access:?}").contains("aaaa"));
    }
}
