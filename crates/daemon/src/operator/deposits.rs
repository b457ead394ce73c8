//! Deposits: listed.

use super::LocalOperator;
use confirmd_api::view::{DepositQuery, DepositView};
use confirmd_api::{Cursor, OperatorError, Page, page_size};
use confirmd_core::{DepositFilter, DepositRecord, Timestamp};

/// A time of a question.
pub(super) fn time(name: &str, text: &str) -> Result<Timestamp, OperatorError> {
    Timestamp::from_rfc3339(text)
        .ok_or_else(|| OperatorError::invalid(format!("{name} = {text:?} is not a time; write it like 2026-01-31T12:00:00Z")))
}

impl LocalOperator {
    pub(super) async fn list_deposits(&self, query: &DepositQuery) -> Result<Page<DepositView>, OperatorError> {
        let chain = query.chain.as_ref().map(|name| self.chains.get(name)).transpose()?;
        let filter = DepositFilter {
            chain: chain.map(|slot| slot.id().clone()),
            address: query.address.as_deref().map(|text| self.canonical(text, query)).transpose()?,
            reference: query.reference.clone(),
            state: query.state,
            tx_id: query.tx_id.clone(),
            asset: query.asset.clone(),
            seen_from: query.seen_from.as_deref().map(|text| time("seen_from", text)).transpose()?,
            seen_before: query.seen_before.as_deref().map(|text| time("seen_before", text)).transpose()?,
            output_index: None,
        };
        let limit = page_size(query.limit)?;
        let after: Option<DepositRecord> = query.after.as_ref().map(Cursor::place).transpose()?;
        let found = self.stores.history.deposits(&filter, after.as_ref(), limit.saturating_add(1)).await;
        let mut records = self.store(found)?;
        let more = records.len() > limit;
        records.truncate(limit);
        let next = if more { records.last().map(Cursor::of) } else { None };
        let view = |record: DepositRecord| {
            let name = self.chains.name_of(&record.chain);
            DepositView::new(record, name)
        };
        Ok(Page { items: records.into_iter().map(view).collect(), next })
    }

    /// History knows the canonical spelling only. With a chain, that chain reads the address; else any that can.
    fn canonical(&self, text: &str, query: &DepositQuery) -> Result<String, OperatorError> {
        if let Some(name) = &query.chain {
            let parsed = self.chains.get(name)?.source.parse_address(text);
            return parsed.map(|a| a.as_str().to_owned()).map_err(|error| OperatorError::invalid(error.to_string()));
        }
        let read = self.chains.iter().find_map(|slot| slot.source.parse_address(text).ok());
        Ok(read.map_or_else(|| text.to_owned(), |address| address.as_str().to_owned()))
    }
}
