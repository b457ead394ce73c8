//! The one shape of our textual identifiers: checked once, cheap to clone, never a bare string.

/// Why a text is not an identifier of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {kind}: {rule}")]
pub struct TextIdError {
    /// The text that was refused.
    pub text: String,
    /// What it should have been, with its article: `a CAIP-2 chain id`.
    pub kind: &'static str,
    /// The rule it breaks.
    pub rule: &'static str,
}

/// Declares a checked textual identifier over `Arc<str>`.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Checks the text. Errors name the text and the rule it breaks.
            pub fn new(text: impl AsRef<str>) -> Result<Self, $crate::TextIdError> {
                let text = text.as_ref();
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.into()))
                } else {
                    Err($crate::TextIdError { text: text.chars().take(120).collect(), kind: $kind, rule: $rule })
                }
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($name), &self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::TextIdError;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::TextIdError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }
    };
}

pub(crate) use text_id;

/// Printable ASCII without spaces, of a bounded length.
pub(crate) fn is_token(text: &str, length_max: usize) -> bool {
    !text.is_empty() && text.len() <= length_max && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Lower-case letters, digits, `-` and `_`, starting with a letter or digit: an operator's own name for a thing.
pub(crate) fn is_name(text: &str) -> bool {
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    text.len() <= 64 && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) && text.bytes().all(ok)
}
