//! Accounts: 20 bytes, spelled with EIP-55's checksum.

use alloy::primitives::Address as Account;
use confirmd_core::{Address, AddressError};

/// Reads `0x` and 40 hexadecimal digits. All lower or all upper case carries no checksum and is accepted; mixed case must be
/// EIP-55's. The zero account is refused: nobody has its key.
pub(crate) fn parse_account(text: &str) -> Result<Account, String> {
    let digits = text.strip_prefix("0x").ok_or("it does not begin with 0x")?;
    if digits.len() != 40 {
        return Err(format!("it has {} characters after 0x instead of 40", digits.chars().count()));
    }
    let account: Account = digits.parse().map_err(|_| "it holds characters that are no hexadecimal digits".to_owned())?;
    let mixed = digits.bytes().any(|b| b.is_ascii_lowercase()) && digits.bytes().any(|b| b.is_ascii_uppercase());
    if mixed && account.to_checksum(None) != text {
        return Err("its upper and lower case letters are not EIP-55's checksum: a digit is mistyped".into());
    }
    if account.is_zero() {
        return Err("it is the zero address, which nobody can spend from".into());
    }
    Ok(account)
}

/// The canonical form of an account.
pub(crate) fn canonical(account: Account) -> Address {
    Address::new(account.to_vec(), account.to_checksum(None))
}

/// As [`confirmd_core::ChainSource::parse_address`] wants it.
pub(crate) fn parse_address(text: &str, network: &str) -> Result<Address, AddressError> {
    parse_account(text).map(canonical).map_err(|problem| AddressError {
        text: text.chars().take(120).collect(),
        network: network.to_owned(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CANONICAL: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

    #[test]
    fn s15_every_accepted_spelling_gives_one_canonical_address() {
        let upper = format!("0x{}", CANONICAL.trim_start_matches("0x").to_uppercase());
        for text in [CANONICAL.to_owned(), CANONICAL.to_lowercase(), upper] {
            let address = parse_address(&text, "eip155:1").unwrap();
            assert_eq!(address.as_str(), CANONICAL);
            assert_eq!(address.bytes().len(), 20);
        }
    }

    #[test]
    fn s15_a_mistyped_or_foreign_address_is_refused_with_its_problem() {
        for (bad, why) in [
            ("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "EIP-55"),
            ("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0x"),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe", "40"),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg", "hexadecimal"),
            ("0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "0x"),
            ("bc1qx9t2l3pyny2spqpqlye8svce70nppwtaxwdrp4", "0x"),
            ("0x0000000000000000000000000000000000000000", "zero"),
            ("", "0x"),
        ] {
            let error = parse_address(bad, "eip155:1").unwrap_err();
            assert!(error.problem.contains(why), "{bad}: {}", error.problem);
            assert!(error.to_string().contains("eip155:1"));
        }
    }
}
