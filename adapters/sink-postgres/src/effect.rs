//! The operator's own effect: one statement for each way what stands may change.

use crate::entry::{Entry, Paid};
use tokio_postgres::types::{ToSql, Type};

/// A parameter of `on_confirmed` and `on_reverted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// What it holds. `$1` is the first.
    pub name: &'static str,
    /// Its type.
    pub of: Type,
}

/// The parameters, `$1` first. Of `on_reverted`, those from `address` to `block_time` are of the payment that was credited.
pub const PARAMETERS: [Parameter; 21] = [
    Parameter { name: "event_id", of: Type::TEXT },
    Parameter { name: "chain", of: Type::TEXT },
    Parameter { name: "chain_name", of: Type::TEXT },
    Parameter { name: "tx_id", of: Type::TEXT },
    Parameter { name: "output_index", of: Type::INT8 },
    Parameter { name: "epoch", of: Type::INT8 },
    Parameter { name: "sequence", of: Type::INT8 },
    Parameter { name: "address", of: Type::TEXT },
    Parameter { name: "reference", of: Type::TEXT },
    Parameter { name: "memo", of: Type::TEXT },
    Parameter { name: "asset", of: Type::TEXT },
    Parameter { name: "symbol", of: Type::TEXT },
    Parameter { name: "decimals", of: Type::INT2 },
    Parameter { name: "amount", of: Type::NUMERIC },
    Parameter { name: "from_address", of: Type::TEXT },
    Parameter { name: "height", of: Type::INT8 },
    Parameter { name: "block_hash", of: Type::TEXT },
    Parameter { name: "block_time", of: Type::TIMESTAMPTZ },
    Parameter { name: "confirmations", of: Type::INT8 },
    Parameter { name: "decided_at", of: Type::TIMESTAMPTZ },
    Parameter { name: "body", of: Type::TEXT },
];

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Confirmed,
    Reverted,
}

impl Way {
    /// The configuration's key.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Confirmed => "on_confirmed",
            Self::Reverted => "on_reverted",
        }
    }
}

/// One effect of one event.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) way: Way,
    /// Which event of the batch.
    pub(crate) place: usize,
    /// What begins or ends to stand.
    pub(crate) paid: Paid,
}

impl Effect {
    /// What an event that changed its deposit does to what stands: it may end, begin, or both where the payment is another.
    pub(crate) fn of(place: usize, entry: &Entry, stood: Option<Paid>) -> Vec<Self> {
        let stands = (entry.state() == "confirmed").then(|| entry.paid.clone());
        if let (Some(before), Some(after)) = (&stood, &stands)
            && before.owes_the_same(after)
        {
            return Vec::new();
        }
        let ended = stood.map(|paid| Self { way: Way::Reverted, place, paid });
        let begun = stands.map(|paid| Self { way: Way::Confirmed, place, paid });
        ended.into_iter().chain(begun).collect()
    }

    /// Its parameters, in the order of [`PARAMETERS`].
    pub(crate) fn parameters<'a>(&'a self, entry: &'a Entry) -> [&'a (dyn ToSql + Sync); 21] {
        let paid = &self.paid;
        [
            &entry.id,
            &entry.chain,
            &entry.chain_name,
            &entry.tx_id,
            &entry.output_index,
            &entry.epoch,
            &entry.sequence,
            &paid.address,
            &paid.reference,
            &paid.memo,
            &paid.asset,
            &paid.symbol,
            &paid.decimals,
            &paid.amount,
            &paid.from_address,
            &paid.height,
            &paid.block_hash,
            &paid.block_time,
            &entry.confirmations,
            &entry.decided_at,
            &entry.body,
        ]
    }
}
