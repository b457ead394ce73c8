//! `eth_getLogs`: its filter, read the way geth reads it, and its limits.

use alloy::primitives::{Address, B256};
use alloy::rpc::types::Log;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::chain::Chain;
use super::json;
use super::rpc::{Tagged, block_number, invalid};
use crate::json_rpc::RpcError;

struct Filter {
    addresses: Vec<Address>,
    /// Per position the accepted topics; none at all accepts every topic.
    topics: Vec<Vec<B256>>,
}

impl Filter {
    fn parse(given: &Value) -> Result<Self, RpcError> {
        let addresses = given.get("address").map_or(Ok(Vec::new()), one_or_many)?;
        let topics = match given.get("topics") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(positions)) => positions.iter().map(one_or_many).collect::<Result<_, _>>()?,
            Some(_) => return Err(invalid("topics must be an array")),
        };
        Ok(Self { addresses, topics })
    }

    /// A filter with more positions than the log has topics never matches.
    fn matches(&self, log: &Log) -> bool {
        let address = self.addresses.is_empty() || self.addresses.contains(&log.inner.address);
        let topics = log.inner.data.topics();
        let pairs = self.topics.iter().zip(topics);
        address
            && self.topics.len() <= topics.len()
            && pairs.into_iter().all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }
}

fn one_or_many<T: DeserializeOwned>(given: &Value) -> Result<Vec<T>, RpcError> {
    let parse = |value: &Value| serde_json::from_value(value.clone()).map_err(|error| invalid(&error.to_string()));
    match given {
        Value::Null => Ok(Vec::new()),
        Value::Array(many) => many.iter().map(parse).collect(),
        one => Ok(vec![parse(one)?]),
    }
}

pub(super) fn get(chain: &mut Chain, given: &Value) -> Result<Vec<Log>, RpcError> {
    let filter = Filter::parse(given)?;
    if chain.empty_logs > 0 {
        chain.empty_logs -= 1;
        return Ok(Vec::new());
    }
    let blocks = match given.get("blockHash") {
        None | Some(Value::Null) => range(chain, given)?,
        Some(hash) => {
            let hash: B256 = serde_json::from_value(hash.clone()).map_err(|error| invalid(&error.to_string()))?;
            vec![chain.shown(&hash).ok_or_else(|| RpcError::new(-32000, "unknown block"))?]
        }
    };
    let logs: Vec<Log> = blocks.into_iter().flat_map(|mined| json::logs(mined)).filter(|log| filter.matches(log)).collect();
    match chain.log_results_max {
        Some(max) if logs.len() > max => Err(RpcError::new(-32005, &format!("query returned more than {max} results"))),
        _ => Ok(logs),
    }
}

fn range<'a>(chain: &'a Chain, given: &Value) -> Result<Vec<&'a std::sync::Arc<super::block::Mined>>, RpcError> {
    let bound = |name: &str| match given.get(name) {
        None | Some(Value::Null) => Ok(chain.shown_tip()),
        Some(value) => match block_number(chain, value)? {
            Tagged::Height(height) => Ok(height),
            Tagged::Null => Err(RpcError::new(-32000, "unknown block")),
        },
    };
    let (from, to) = (bound("fromBlock")?, bound("toBlock")?);
    if from > to {
        return Err(RpcError::new(-32000, "invalid block range params"));
    }
    if to > chain.shown_tip() && chain.logs_refused_above_tip {
        return Err(RpcError::new(-32000, "block range extends beyond current head block"));
    }
    match chain.log_range_max {
        Some(max) if to - from >= max => Err(RpcError::new(-32005, &format!("query exceeds max block range {max}"))),
        _ => {
            let to = to.min(chain.shown_tip());
            Ok((from..=to).filter_map(|height| chain.shown_at(height)).collect())
        }
    }
}
