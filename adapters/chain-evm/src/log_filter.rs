//! The parameters of `eth_getLogs`.

use crate::erc20::TRANSFER;
use crate::quantity::hex;
use alloy::primitives::{Address, B256};
use serde_json::{Value, json};

/// geth and its like refuse more accounts or topics in one filter.
const ALTERNATIVES_MAX: usize = 1_000;

/// `Transfer` events of some contracts, to some accounts or to any.
#[derive(Debug, Clone)]
pub(crate) struct LogFilter {
    contracts: Vec<Address>,
    recipients: Option<Vec<B256>>,
}

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Block(B256),
    /// Heights, both included.
    Range(u64, u64),
}

impl LogFilter {
    /// `recipients`: `None` asks for every transfer, to be matched here. The same question is asked in the same words, whatever the order of
    /// the sets it is made from.
    pub(crate) fn new(mut contracts: Vec<Address>, mut recipients: Option<Vec<B256>>) -> Self {
        contracts.sort_unstable();
        if let Some(words) = &mut recipients {
            words.sort_unstable();
        }
        Self { contracts, recipients }
    }

    /// How many calls one place takes.
    pub(crate) fn calls(&self) -> usize {
        let parts = |len: usize| len.div_ceil(ALTERNATIVES_MAX).max(1);
        parts(self.contracts.len()) * self.recipients.as_ref().map_or(1, |words| parts(words.len()))
    }

    pub(crate) fn contracts(&self) -> &[Address] {
        &self.contracts
    }

    pub(crate) fn recipients(&self) -> Option<&[B256]> {
        self.recipients.as_deref()
    }

    /// The parameters of each call for a place.
    pub(crate) fn params(&self, place: Place) -> Vec<Value> {
        let mut params = Vec::with_capacity(self.calls());
        for contracts in self.contracts.chunks(ALTERNATIVES_MAX) {
            match &self.recipients {
                Some(words) => params
                    .extend(words.chunks(ALTERNATIVES_MAX).map(|words| filter(place, contracts, json!([TRANSFER, null, words])))),
                None => params.push(filter(place, contracts, json!([TRANSFER]))),
            }
        }
        params
    }
}

fn filter(place: Place, contracts: &[Address], topics: Value) -> Value {
    match place {
        Place::Block(hash) => json!([{ "blockHash": hash, "address": contracts, "topics": topics }]),
        Place::Range(from, to) => json!([{ "fromBlock": hex(from), "toBlock": hex(to), "address": contracts, "topics": topics }]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn the_same_accounts_are_asked_for_in_the_same_order() {
        let filter = |words: [u8; 2]| LogFilter::new(vec![Address::repeat_byte(1)], Some(words.map(B256::repeat_byte).to_vec()));
        assert_eq!(filter([1, 2]).params(Place::Range(1, 2)), filter([2, 1]).params(Place::Range(1, 2)));
    }

    #[test]
    fn many_recipients_are_split_over_calls_that_nodes_accept() {
        let words: Vec<B256> = (0..2_500u32).map(|n| B256::left_padding_from(&n.to_be_bytes())).collect();
        let filter = LogFilter::new(vec![Address::repeat_byte(1)], Some(words));
        let params = filter.params(Place::Range(16, 31));
        assert_eq!((params.len(), filter.calls()), (3, 3));
        assert_eq!(params[0][0]["fromBlock"], "0x10");
        assert_eq!(params[2][0]["topics"][2].as_array().unwrap().len(), 500);
        let all = LogFilter::new(vec![Address::repeat_byte(1)], None).params(Place::Block(B256::ZERO));
        assert_eq!(all.len(), 1);
        assert_eq!(all[0][0]["topics"], json!([TRANSFER]));
    }
}
