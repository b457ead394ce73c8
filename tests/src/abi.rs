//! The little of the contract ABI that the test contracts need.

use anyhow::{Context, Result, bail};

/// An argument of a contract call.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// 20 bytes of hex with `0x`.
    Address(&'a str),
    /// A number that fits 128 bits.
    Uint(u128),
    /// 2^256 - 1.
    UintMax,
    /// Any 32 bytes: 64 hex digits without `0x`.
    Word(&'a str),
    /// `address[]`.
    Addresses(&'a [&'a str]),
}

const WORD_BYTES: usize = 32;

/// Call data: selector (8 hex digits) and arguments.
pub(crate) fn encode(selector: &str, args: &[Arg<'_>]) -> Result<String> {
    let mut head = String::new();
    let mut tail = String::new();
    for arg in args {
        match arg {
            Arg::Address(address) => head.push_str(&address_word(address)?),
            Arg::Uint(number) => head.push_str(&format!("{number:064x}")),
            Arg::UintMax => head.push_str(&"f".repeat(64)),
            Arg::Word(word) if word.len() == 64 => head.push_str(word),
            Arg::Word(word) => bail!("a word has 64 hex digits: {word}"),
            Arg::Addresses(list) => {
                let offset = args.len() * WORD_BYTES + tail.len() / 2;
                head.push_str(&format!("{offset:064x}"));
                tail.push_str(&format!("{:064x}", list.len()));
                for address in *list {
                    tail.push_str(&address_word(address)?);
                }
            }
        }
    }
    Ok(format!("0x{selector}{head}{tail}"))
}

fn address_word(address: &str) -> Result<String> {
    let digits = address.strip_prefix("0x").filter(|digits| digits.len() == 40);
    let digits = digits.with_context(|| format!("not an address: {address}"))?;
    Ok(format!("{:0>64}", digits.to_lowercase()))
}
