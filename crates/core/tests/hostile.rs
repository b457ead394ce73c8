//! Identifiers, amounts, durations and events as anybody could write them.
#![allow(clippy::unwrap_used)]

use confirmd_core::*;
use confirmd_hostile::{Alteration, JsonAlteration, assert_bounded, config, deep};
use fastrand::Rng;
use proptest::prelude::*;
use serde_json::Value;

fn event() -> Event {
    let chain = ChainId::new("eip155:1").unwrap();
    let key = DepositKey { tx_id: TxId::new("0xaa").unwrap(), output_index: 4 };
    let asset = Asset { id: AssetId::new("eip155:1/erc20:0xcc").unwrap(), symbol: "USDC".into(), decimals: 6 };
    Event {
        id: EventId::derive(&chain, &key, Epoch(1_790_000_000), Sequence(1)),
        chain,
        chain_name: ChainName::new("ethereum").unwrap(),
        epoch: Epoch(1_790_000_000),
        sequence: Sequence(1),
        transfer: Transfer {
            key,
            payment: Payment { address: Address::new([0xbb], "0xBB"), asset: asset.id.clone(), amount: Amount::MAX, memo: None },
            block: BlockRef { height: Height(19_000_000), hash: BlockHash::new("0xdd").unwrap() },
            block_time: Some(Timestamp::from_seconds(1_767_225_600)),
            position: 3,
            from: Some("0xEE".into()),
            maturity: None,
        },
        asset,
        reference: Some("customer-42".into()),
        confirmations: 20,
        decided_at: Timestamp::from_seconds(1_767_225_600),
        notice: None,
    }
}

/// Checked text: what is accepted is printed as it was given.
fn same_again<T: std::str::FromStr + std::fmt::Display>(text: &str) {
    if let Ok(read) = text.parse::<T>() {
        assert_eq!(read.to_string(), text);
    }
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn hostile_core_identifiers_of_any_text_are_judged_and_print_as_they_were_given(
        text in prop_oneof![any::<String>(), "[ -~]{0,140}", "eip155:[0-9]{0,40}(/[a-z0-9]{0,9}:[0-9a-fx]{0,70})?", "evt_[0-9a-f]{30,34}"],
    ) {
        same_again::<ChainId>(&text);
        same_again::<ChainName>(&text);
        same_again::<ConsumerName>(&text);
        same_again::<AssetId>(&text);
        same_again::<TxId>(&text);
        same_again::<BlockHash>(&text);
        same_again::<EventId>(&text);
    }

    #[test]
    fn hostile_core_amounts_and_durations_of_any_digits_are_exact_or_refused(
        digits in prop_oneof!["[0-9]{0,100}", any::<String>()], unit in "(ms|s|m|h|d|w|)",
    ) {
        if let Ok(amount) = digits.parse::<Amount>() {
            let shown = amount.to_string();
            prop_assert_eq!(digits.trim_start_matches('0'), if amount.is_zero() { "" } else { shown.as_str() });
        }
        if let Ok(span) = format!("{digits}{unit}").parse::<HumanDuration>() {
            prop_assert_eq!(span.to_string().parse::<HumanDuration>().unwrap(), span);
        }
    }

    #[test]
    fn hostile_core_a_bodys_text_fields_come_back_as_they_went_in(
        symbol in any::<String>(), reference in any::<Option<String>>(), from in any::<Option<String>>(), memo in any::<Option<String>>(),
        amount in any::<[u8; 32]>(), time in any::<u64>(),
    ) {
        let mut event = event();
        event.asset.symbol = symbol;
        event.reference = reference.map(Into::into);
        event.transfer.from = from;
        event.transfer.payment.memo = memo;
        event.transfer.payment.amount = Amount::from_be_bytes(amount);
        event.transfer.block_time = Some(Timestamp(time));
        event.decided_at = Timestamp(time);
        let read: Value = serde_json::from_slice(&event.to_body()).unwrap();
        prop_assert_eq!(read.pointer("/asset/symbol").and_then(Value::as_str), Some(event.asset.symbol.as_str()));
        prop_assert_eq!(read.get("reference").and_then(Value::as_str), event.reference.as_deref());
        prop_assert_eq!(read.get("from").and_then(Value::as_str), event.transfer.from.as_deref());
        let amount = read.get("amount").and_then(Value::as_str).unwrap();
        prop_assert_eq!(amount.parse::<Amount>().unwrap(), event.transfer.payment.amount);
    }

    #[test]
    fn hostile_core_an_altered_event_is_refused_or_reads_the_same_twice(seed in any::<u64>(), changes in 1usize..4) {
        let mut rng = Rng::with_seed(seed);
        let mut value = serde_json::to_value(event()).unwrap();
        for _ in 0..changes {
            JsonAlteration::apply(&mut value, &mut rng);
        }
        if let Ok(read) = serde_json::from_value::<Event>(value) {
            let again: Event = serde_json::from_slice(&serde_json::to_vec(&read).unwrap()).unwrap();
            prop_assert_eq!(&again, &read);
            prop_assert_eq!(again.to_body(), read.to_body());
        }
    }

    #[test]
    fn hostile_core_altered_bytes_of_an_event_are_judged_within_bounds(seed in any::<u64>(), changes in 1usize..4) {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = serde_json::to_vec(&event()).unwrap();
        for _ in 0..changes {
            bytes = Alteration::random(&mut rng, bytes.len()).apply(&bytes);
        }
        let _ = assert_bounded(bytes.len(), 8, 16_384, || serde_json::from_slice::<Event>(&bytes).is_ok());
    }
}

#[test]
fn hostile_core_a_body_or_event_cut_anywhere_is_no_json() {
    for whole in [event().to_body(), serde_json::to_vec(&event()).unwrap()] {
        for end in 0..whole.len() {
            assert!(serde_json::from_slice::<Value>(whole.get(..end).unwrap()).is_err());
            assert!(serde_json::from_slice::<Event>(whole.get(..end).unwrap()).is_err());
        }
    }
    for text in [deep("[", "", "]", 300_000), deep("{\"transfer\":", "0", "}", 100_000)] {
        assert!(assert_bounded(text.len(), 4, 16_384, || serde_json::from_str::<Event>(&text).is_err()));
    }
}
