//! Real mainnet blocks and the execution APIs' own examples, with the values that must come out of them.
//!
//! The data is not part of the project: it is looked for in `CONFIRMD_REAL_DATA`, else in `../shared/data` beside the
//! workspace, and where it is absent every trial shows as ignored.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use confirmd_chain_evm::{BlockEvidence, KIND};
use confirmd_core::*;
use confirmd_testkit::{EvmOptions, FakeEvm};
use flate2::read::GzDecoder;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

type Check = fn(&Path) -> Result<(), Failed>;

const CHECKS: &[(&str, Check)] = &[
    ("b08_b01_every_expected_token_payment_has_its_place_in_the_receipt", token_payments),
    ("b30_three_withdrawals_to_one_address_are_three_deposits_in_wei", withdrawals),
    ("b29_failed_transactions_with_value_pay_nobody", failed_transactions),
    ("b27_a_payment_that_only_traces_show_is_found", internal_payment),
    ("b09_b10_look_alikes_and_zero_amounts_are_no_deposits", look_alikes),
    ("b33_a_self_transfer_is_no_credit", self_transfers),
    ("s7_s20_keys_are_unique_and_do_not_depend_on_what_else_is_watched", keys),
    ("execution_apis_blocks_are_read", api_blocks),
    ("execution_apis_receipts_are_read", api_receipts),
    ("execution_apis_log_errors_are_neither_empty_nor_fatal", api_log_errors),
];

fn main() {
    let arguments = Arguments::from_args();
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("CONFIRMD_REAL_DATA").map_or(default, PathBuf::from);
    let absent = !data.join("evm").is_dir() || !data.join("expected.json").is_file();
    let trial = |(name, check): &(&'static str, Check)| {
        let (check, data) = (*check, data.clone());
        let why = if absent { "no real data; set CONFIRMD_REAL_DATA" } else { "" };
        Trial::test(*name, move || check(&data)).with_kind(why).with_ignored_flag(absent)
    };
    libtest_mimic::run(&arguments, CHECKS.iter().map(trial).collect()).exit();
}

fn read(path: &Path) -> Result<Value, Failed> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut text = String::new();
    match path.extension().is_some_and(|extension| extension == "gz") {
        true => GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)?,
        false => bytes.as_slice().read_to_string(&mut text)?,
    };
    Ok(serde_json::from_str(&text)?)
}

fn block_number(file: &str) -> u64 {
    file.split('_').nth(1).and_then(|number| number.parse().ok()).unwrap()
}

struct Recorded {
    json: Value,
    evidence: BlockEvidence,
}

fn recorded(data: &Path, number: u64) -> Result<Recorded, Failed> {
    let json = read(&data.join(format!("evm/ethereum_{number}_block_receipts.json.gz")))?;
    let traces = read(&data.join(format!("evm/ethereum_{number}_traces.json.gz")))?;
    // The recorder kept the frames alone; a node wraps each one.
    let traces: Value = traces.as_array().unwrap().iter().map(|top| json!({ "result": top })).collect();
    let evidence = BlockEvidence::parse(&json["block"].to_string(), &json["receipts"].to_string(), Some(&traces.to_string()))?;
    Ok(Recorded { json, evidence })
}

fn source(url: &str, tokens: &[&str]) -> Arc<dyn ChainSource> {
    let token = |(n, contract): (usize, &&str)| format!("{{ symbol = 'T{n}', contract = '{contract}', decimals = 0 }}");
    let tokens: Vec<_> = tokens.iter().enumerate().map(token).collect();
    let native = "native = { symbol = 'ETH' }\nlimits = { attempts = 1 }";
    let table = format!("chain_id = 1\nrpc = [{{ url = '{url}' }}]\n{native}\nassets = [{}]", tokens.join(","));
    let context = ChainContext {
        name: ChainName::new("ethereum").unwrap(),
        default_requirement: Requirement::confirmations(NonZeroU32::MIN),
        requirements: BTreeMap::new(),
        minimums: BTreeMap::new(),
        reorg_depth: NonZeroU64::new(10).unwrap(),
        start: StartAt::Tip,
        poll_interval: None,
        fork_grace: Duration::from_secs(60),
        behind_alarm: Duration::from_secs(600),
        span_max: None,
        meter: SourceMeter::default(),
    };
    (KIND.build)(context, table.parse().unwrap()).unwrap()
}

fn watch(tokens: &[&str], addresses: &[String]) -> WatchSet {
    let source = source("http://127.0.0.1:1", tokens);
    let mut watch = WatchSet::default();
    for address in addresses {
        watch.put_address(WatchEntry {
            address: source.parse_address(address).unwrap(),
            reference: None,
            from: Height(0),
            origin: WatchOrigin::Config,
            state: WatchState::Watching,
            history: None,
        });
    }
    source.profile().assets.iter().for_each(|asset| watch.put_asset(asset.clone()));
    watch
}

/// The cases of `expected.json` whose name contains `what`, each with its block.
fn cases(data: &Path, what: &str, count: usize) -> Result<Vec<(Value, Recorded)>, Failed> {
    let all = read(&data.join("expected.json"))?;
    let ours = |case: &&Value| case["chain"] == "eth" && case["case"].as_str().unwrap().contains(what);
    let cases: Vec<Value> = all.as_array().unwrap().iter().filter(ours).cloned().collect();
    assert_eq!(cases.len(), count, "cases about {what:?}");
    let with_block = |case: Value| {
        let block = recorded(data, block_number(case["file"].as_str().unwrap()))?;
        Ok((case, block))
    };
    cases.into_iter().map(with_block).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn token_payments(data: &Path) -> Result<(), Failed> {
    let mut both = cases(data, "transfers of one token to one recipient", 1)?;
    both.extend(cases(data, "transfers one recipient", 1)?);
    for (case, block) in both {
        let watch = watch(&[case["token"].as_str().unwrap()], &[text(&case["address"])]);
        let found = block.evidence.transfers(&watch, false)?;
        let tx = text(&case["tx"]);
        let found: Vec<_> = found.iter().filter(|t| t.key.tx_id.as_str() == tx && t.payment.asset.parts().0 == "erc20").collect();
        let got: Vec<_> = found
            .iter()
            .map(|t| (t.key.output_index, t.payment.amount.to_string(), t.from.clone().unwrap().to_lowercase()))
            .collect();
        let row = |row: &Value| {
            let ordinal = row["ordinal_in_tx"].as_u64().unwrap();
            (u32::try_from(1 + ordinal).unwrap(), text(&row["value"]), text(&row["from"]))
        };
        let expected: Vec<_> = case["expected"].as_array().unwrap().iter().map(row).collect();
        assert_eq!(got, expected, "{}", case["case"]);
        assert!(found.iter().all(|t| t.block.hash.as_str() == case["block"].as_str().unwrap()));
    }
    Ok(())
}

fn withdrawals(data: &Path) -> Result<(), Failed> {
    let (case, block) = cases(data, "EIP-4895", 1)?.remove(0);
    let watch = watch(&[], &[text(&case["address"])]);
    let found = block.evidence.transfers(&watch, true)?;
    let got: Vec<_> = found.iter().map(|t| (t.key.tx_id.to_string(), t.key.output_index, t.payment.amount.to_string())).collect();
    let row = |row: &Value| (format!("withdrawal:{}", row["index"]), 0, format!("{}000000000", text(&row["gwei"])));
    let expected: Vec<_> = case["expected"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(got, expected);
    assert_eq!(block.evidence.transfers(&watch, false)?, []);
    Ok(())
}

fn failed_transactions(data: &Path) -> Result<(), Failed> {
    for (case, block) in cases(data, "failed tx", 2)? {
        let found = block.evidence.transfers(&watch(&[], &[text(&case["address"])]), false)?;
        assert!(found.iter().all(|t| t.key.tx_id.as_str() != case["tx"].as_str().unwrap()), "{case}");
        let tx = block.json["block"]["transactions"].as_array().unwrap().iter().find(|tx| tx["hash"] == case["tx"]).unwrap();
        assert_ne!(tx["value"], "0x0", "the case is about a transaction with value");
    }
    Ok(())
}

fn internal_payment(data: &Path) -> Result<(), Failed> {
    let (case, block) = cases(data, "internal ETH transfer", 1)?.remove(0);
    let found = block.evidence.transfers(&watch(&[], &[text(&case["address"])]), false)?;
    let own: Vec<_> = found.iter().filter(|t| t.key.tx_id.as_str() == case["tx"].as_str().unwrap()).collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].payment.amount.to_string(), text(&case["expected"][0]["wei"]));
    assert!(own[0].key.output_index >= 1_000_000_000, "{}", own[0].key);
    Ok(())
}

/// Every account in a block that a log's topics or a transaction names.
fn everyone(block: &Value) -> Vec<String> {
    let mut accounts = BTreeSet::new();
    for receipt in block["receipts"].as_array().unwrap() {
        accounts.extend(receipt["to"].as_str().map(str::to_owned));
        for log in receipt["logs"].as_array().unwrap() {
            let topics = log["topics"].as_array().unwrap();
            let account =
                topics.get(2).and_then(Value::as_str).and_then(|topic| topic.strip_prefix("0x000000000000000000000000"));
            accounts.extend(account.map(|digits| format!("0x{digits}")));
        }
    }
    accounts.remove("0x0000000000000000000000000000000000000000");
    accounts.into_iter().collect()
}

/// Where a log stands in its receipt, as an output index; none: every log of the transaction is meant.
fn place(block: &Value, case: &Value) -> Option<u32> {
    let index = format!("{:#x}", case["logIndex"].as_u64()?);
    let receipts = block["receipts"].as_array().unwrap();
    let receipt = receipts.iter().find(|receipt| receipt["transactionHash"] == case["tx"]).unwrap();
    let position = receipt["logs"].as_array().unwrap().iter().position(|log| log["logIndex"] == index).unwrap();
    Some(u32::try_from(position + 1).unwrap())
}

fn look_alikes(data: &Path) -> Result<(), Failed> {
    let mut all = cases(data, "CryptoKitties", 1)?;
    all.extend(cases(data, "ERC-721", 1)?);
    all.extend(cases(data, "zero-value ERC-20", 1)?);
    for (case, block) in all {
        let found = block.evidence.transfers(&watch(&[case["token"].as_str().unwrap()], &everyone(&block.json)), false)?;
        let place = place(&block.json, &case);
        let meant = |t: &&Transfer| {
            let own = t.key.tx_id.as_str() == case["tx"].as_str().unwrap() && t.payment.asset.parts().0 == "erc20";
            own && place.is_none_or(|place| t.key.output_index == place)
        };
        assert_eq!(found.iter().find(meant), None, "{}", case["case"]);
    }
    Ok(())
}

fn self_transfers(data: &Path) -> Result<(), Failed> {
    let block = recorded(data, 11_098_450)?;
    let receipts = block.json["receipts"].as_array().unwrap();
    let logs = receipts.iter().flat_map(|receipt| receipt["logs"].as_array().unwrap());
    let own = |log: &&Value| {
        log["topics"].as_array().unwrap().len() == 3 && log["topics"][1] == log["topics"][2] && log["logIndex"] == "0x98"
    };
    let log = logs.clone().find(own).ok_or("log 152 is not a self transfer")?;
    let account = format!("0x{}", &log["topics"][2].as_str().unwrap()[26..]);
    let found = block.evidence.transfers(&watch(&[log["address"].as_str().unwrap()], &[account]), false)?;
    assert!(found.iter().all(|t| t.key.tx_id.as_str() != log["transactionHash"].as_str().unwrap()), "{found:?}");
    Ok(())
}

fn keys(data: &Path) -> Result<(), Failed> {
    for number in [4_370_006, 7_280_016, 11_098_450, 15_753_009, 17_053_184] {
        let block = recorded(data, number)?;
        let everyone = everyone(&block.json);
        let tokens: BTreeSet<String> = block.json["receipts"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|r| r["logs"].as_array().unwrap())
            .map(|log| text(&log["address"]))
            .collect();
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let all = block.evidence.transfers(&watch(&tokens, &everyone), true)?;
        let keys: BTreeSet<_> = all.iter().map(|t| t.key.clone()).collect();
        assert_eq!(keys.len(), all.len(), "block {number}");
        assert!(all.len() > 20, "block {number}: {}", all.len());
        for account in everyone.iter().step_by(17) {
            let alone = block.evidence.transfers(&watch(&tokens, std::slice::from_ref(account)), true)?;
            let expected: Vec<_> =
                all.iter().filter(|t| t.payment.address.as_str().eq_ignore_ascii_case(account)).cloned().collect();
            assert_eq!(alone, expected, "block {number}, {account}");
        }
    }
    Ok(())
}

/// Request and response of each example whose name begins like this.
fn examples(data: &Path, prefix: &str) -> Result<Vec<(String, Value, Value)>, Failed> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(data.join("evm/execution-apis"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(prefix) {
            let content = std::fs::read_to_string(&path)?;
            let line = |mark: &str| content.lines().find_map(|line| line.strip_prefix(mark)).map(serde_json::from_str).unwrap();
            found.push((name.clone(), line(">> ")?, line("<< ")?));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!found.is_empty(), "no example of {prefix}");
    Ok(found)
}

/// A node that answers the next call of a method as recorded.
fn replay<T>(method: &str, response: &Value, ask: impl AsyncFnOnce(Arc<dyn ChainSource>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let node = FakeEvm::start(EvmOptions { chain_id: 1, ..EvmOptions::default() }).await.unwrap();
        node.mine(3);
        let answer = match response.get("error") {
            Some(error) => {
                let message = error["message"].as_str().unwrap();
                Err(confirmd_testkit::json_rpc::RpcError::new(error["code"].as_i64().unwrap(), message))
            }
            None => Ok(response["result"].clone()),
        };
        node.faults().answer_next(method, 1, answer);
        ask(source(&node.url(), &["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df"])).await
    })
}

fn api_blocks(data: &Path) -> Result<(), Failed> {
    for (name, request, response) in examples(data, "eth_getBlockByNumber")? {
        let place = text(&request["params"][0]);
        let expected = response["result"]["hash"].as_str().map(str::to_owned);
        let found = replay("eth_getBlockByNumber", &response, async |source| match place.as_str() {
            "latest" => source.tip().await.map(Some),
            "safe" => source.finalized(FinalityTag::Safe).await,
            "finalized" => source.finalized(FinalityTag::Finalized).await,
            number => {
                let height = u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap();
                source.header_at(Height(height)).await.map(|header| header.map(|header| header.block))
            }
        })?;
        assert_eq!(found.map(|block| block.hash.to_string()), expected, "{name}");
    }
    Ok(())
}

fn api_receipts(data: &Path) -> Result<(), Failed> {
    let mut read = 0;
    for (name, _, response) in examples(data, "eth_getBlockReceipts")? {
        let Some(receipts) = response["result"].as_array().filter(|receipts| !receipts.is_empty()) else { continue };
        let transactions: Vec<_> =
            receipts.iter().map(|receipt| json!({ "hash": receipt["transactionHash"], "value": "0x0" })).collect();
        let zero = format!("0x{}", "0".repeat(64));
        let block = json!({
            "hash": receipts[0]["blockHash"], "number": receipts[0]["blockNumber"], "parentHash": zero, "timestamp": "0x0",
            "transactions": transactions,
        });
        BlockEvidence::parse(&block.to_string(), &Value::from(receipts.clone()).to_string(), None)
            .map_err(|error| format!("{name}: {error}"))?;
        read += 1;
    }
    assert!(read > 1);
    Ok(())
}

fn api_log_errors(data: &Path) -> Result<(), Failed> {
    for (name, _, response) in examples(data, "eth_getLogs")? {
        replay("eth_getLogs", &response, async |source| {
            let to = source.tip().await.unwrap();
            let address = source.parse_address("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed").unwrap();
            let mut watch = WatchSet::default();
            let (origin, state) = (WatchOrigin::Config, WatchState::Watching);
            watch.put_address(WatchEntry { address, reference: None, from: Height(0), origin, state, history: None });
            source.profile().assets.iter().for_each(|asset| watch.put_asset(asset.clone()));
            match (source.transfers(to.height, &to, &watch).await, response.get("error")) {
                // An error is answered by reading the receipts instead; there are no transfers in that block.
                (Ok(transfers), Some(_)) => assert_eq!(transfers, [], "{name}"),
                (Err(error), Some(_)) => assert_ne!(error.kind, SourceErrorKind::Fatal, "{name}: {error}"),
                // Logs of a block that was not asked for are decoded, and refused.
                (Err(error), None) => assert!(error.to_string().contains("got one of"), "{name}: {error}"),
                (Ok(_), None) => panic!("{name}: foreign logs were taken"),
            }
        });
    }
    Ok(())
}
