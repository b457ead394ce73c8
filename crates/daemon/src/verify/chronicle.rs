//! The events in the order of their places: is anything missing, repeated or out of turn?

use confirmd_core::{ChainId, DepositKey, Epoch, Event, EventId, EventRecord, Position, Sequence, Timestamp, Told};
use std::collections::BTreeMap;

/// What was read so far.
#[derive(Debug)]
pub(super) struct Chronicle {
    /// Nothing decided since then was forgotten.
    kept_since: Timestamp,
    last: Option<(Position, Timestamp)>,
    /// The last event of each key.
    pub(super) keys: BTreeMap<(ChainId, DepositKey), (Epoch, Sequence)>,
    pub(super) count: u64,
}

impl Chronicle {
    pub(super) fn new(kept_since: Timestamp) -> Self {
        Self { kept_since, last: None, keys: BTreeMap::new(), count: 0 }
    }

    /// Takes the next one; returns what is wrong with it.
    pub(super) fn take(&mut self, record: &EventRecord) -> Vec<String> {
        let (event, mut wrong) = (&record.event, Vec::new());
        let (position, key) = (record.position, &event.transfer.key);
        let name = format!("event {} at place {}", event.id, position.0);
        if event.decides() && EventId::derive(&event.chain, key, event.epoch, event.sequence) != event.id {
            wrong.push(format!("{name}: its id is not that of {key} with sequence {}", event.sequence.0));
        }
        match Told::read(&record.body) {
            Ok(told) if told.key == *key && told.sequence == event.sequence && told.amount == event.transfer.payment.amount => {}
            Ok(_) => wrong.push(format!("{name}: its body tells of another decision")),
            Err(error) => wrong.push(format!("{name}: its body can't be read: {error}")),
        }
        if let Some((before, decided_at)) = self.last
            && before.next() != position
            // What ended longer ago than history goes back may be forgotten.
            && (decided_at >= self.kept_since || before >= position)
        {
            wrong.push(format!("{name}: the one before stands at place {}; what was between is missing", before.0));
        }
        self.last = Some((position, event.decided_at));
        self.count = self.count.saturating_add(1);
        if !event.decides() {
            wrong.extend(self.beside(&name, event));
            return wrong;
        }
        let (epoch, sequence) = (event.epoch, event.sequence);
        if let Some((known_epoch, known)) = self.keys.insert((event.chain.clone(), key.clone()), (epoch, sequence)) {
            let follows = if epoch == known_epoch { known.next() == sequence } else { epoch > known_epoch };
            if !follows {
                wrong.push(format!("{name}: {key} has sequence {} after {}", sequence.0, known.0));
            }
        }
        wrong
    }

    /// An informative event names the last decision before it, where that is not forgotten.
    fn beside(&self, name: &str, event: &Event) -> Option<String> {
        let (epoch, known) = self.keys.get(&(event.chain.clone(), event.transfer.key.clone()))?;
        let of_it = *epoch != event.epoch || *known <= event.sequence;
        (!of_it).then(|| format!("{name}: it names the sequence {}, the last decision was {}", event.sequence.0, known.0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use confirmd_core::{
        Address, Amount, Asset, AssetId, BlockHash, BlockRef, ChainName, Event, Height, Payment, Transfer, TxId,
    };

    fn record(position: u64, sequence: u64) -> EventRecord {
        let chain = ChainId::new("eip155:1").unwrap();
        let asset = AssetId::new("eip155:1/slip44:60").unwrap();
        let key = DepositKey { tx_id: TxId::new("0xabc").unwrap(), output_index: 0 };
        let event = Event {
            id: EventId::derive(&chain, &key, Epoch(5), Sequence(sequence)),
            chain,
            chain_name: ChainName::new("ethereum").unwrap(),
            epoch: Epoch(5),
            sequence: Sequence(sequence),
            transfer: Transfer {
                key,
                payment: Payment {
                    address: Address::new(vec![1], "0x01"),
                    asset: asset.clone(),
                    amount: Amount::from(7_u64),
                    memo: None,
                },
                block: BlockRef { height: Height(9), hash: BlockHash::new("0xb").unwrap() },
                block_time: None,
                position: 0,
                from: None,
                maturity: None,
            },
            asset: Asset { id: asset, symbol: "ETH".to_owned(), decimals: 18 },
            reference: None,
            confirmations: 1,
            decided_at: Timestamp(1_000 + position),
            notice: None,
        };
        let body = event.to_body().into();
        EventRecord { position: Position(position), event, body }
    }

    #[test]
    fn gaps_repetitions_and_foreign_bodies_are_found_and_what_history_forgot_is_none() {
        let mut good = Chronicle::new(Timestamp(0));
        assert!(
            good.take(&record(1, 1)).is_empty() && good.take(&record(2, 2)).is_empty() && good.take(&record(3, 3)).is_empty()
        );
        assert!(good.take(&record(5, 4)).concat().contains("missing"));
        assert!(good.take(&record(6, 4)).concat().contains("sequence 4 after 4"));
        let mut forged = record(7, 5);
        forged.body = record(7, 3).body;
        assert!(good.take(&forged).concat().contains("another decision"));
        let mut forged = record(8, 6);
        forged.event.sequence = Sequence(8);
        assert!(good.take(&forged).len() >= 2);
        let mut old = Chronicle::new(Timestamp(5_000));
        assert!(old.take(&record(1, 1)).is_empty() && old.take(&record(9, 2)).is_empty(), "pruned between");
    }
}
