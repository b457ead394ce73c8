//! A block's bloom filter against what is looked for: "nothing" is believed only where the filter agrees.

use crate::erc20::TRANSFER;
use alloy::primitives::{Address, B256, Bloom, BloomInput};

/// Whether the block may hold a `Transfer` of one of these contracts, and, where `words` is given, to one of these accounts.
/// Never wrongly "no".
pub(crate) fn may_hold<'a>(bloom: &Bloom, contracts: impl IntoIterator<Item = &'a Address>, words: Option<&[B256]>) -> bool {
    let holds = |bytes: &[u8]| bloom.contains_input(BloomInput::Raw(bytes));
    holds(TRANSFER.as_slice())
        && contracts.into_iter().any(|contract| holds(contract.as_slice()))
        && words.is_none_or(|words| words.iter().any(|word| holds(word.as_slice())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b12_a_filter_that_holds_the_transfer_says_so_and_an_empty_one_does_not() {
        let (token, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let to = Address::repeat_byte(3).into_word();
        let mut bloom = Bloom::ZERO;
        assert!(!may_hold(&bloom, [&token], None));
        bloom.accrue_raw_log(token, &[TRANSFER, Address::repeat_byte(9).into_word(), to]);
        assert!(may_hold(&bloom, [&other, &token], Some(&[to])));
        assert!(may_hold(&bloom, [&token], None));
        assert!(!may_hold(&bloom, [&other], None));
        assert!(!may_hold(&bloom, [&token], Some(&[Address::repeat_byte(4).into_word()])));
    }
}
