//! litecoind on regtest, with blocks of raw transactions that anyone can spend: no wallet, no signing.

use super::driver::{free_port, node_program};
use super::figure::{Figure, measured};
use super::subject::Node;
use crate::http::Http;
use anyhow::{Context, Result};
use bitcoin::absolute::LockTime;
use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, transaction};
use confirmd_chain_bitcoin::{Destination, NETWORKS, Network};
use serde_json::{Value, json};
use std::process::Command;

/// `bench:bench`, in base64.
const BASIC: &str = "YmVuY2g6YmVuY2g=";
/// A script that is satisfied by nothing.
const ANYONE: [u8; 1] = [0x51];
/// Coinbases mature after 100 blocks.
const MATURITY: u64 = 100;
const SMALL_TXS: usize = 20;
const LARGE_TXS: usize = 4_000;
/// One payment of so many goes to a watched address.
const WATCHED_EVERY: u64 = 100;
/// Watched addresses.
pub const WATCHED: u64 = 100;
const PAYMENT: u64 = 1_000;
const HASHES: u64 = 500;

/// A chain that is ready to be read.
#[derive(Debug)]
pub struct UtxoChain {
    /// litecoind.
    pub node: Node,
    /// The highest block.
    pub tip: u64,
    /// Payments to watched addresses.
    pub deposits: u64,
    network: &'static Network,
    payments: u64,
}

impl UtxoChain {
    /// Makes a chain of `small` blocks of 21 transactions and `large` ones of 4,001.
    pub fn make(small: u64, large: u64) -> Result<Self> {
        let port = free_port()?;
        let program = node_program("litecoind")?;
        let folder = crate::process::scratch("litecoind")?;
        let mut command = Command::new(program);
        command
            .arg("-regtest")
            .arg(format!("-datadir={}", folder.path().display()))
            .args(["-server", "-listen=0", "-connect=0", "-dnsseed=0", "-discover=0", "-upnp=0", "-rest", "-printtoconsole=0"])
            .args(["-rpcbind=127.0.0.1", "-rpcallowip=127.0.0.1", "-rpcuser=bench", "-rpcpassword=bench", "-disablewallet"])
            .args([format!("-rpcport={}", port).as_str(), "-vbparams=mweb:4000000000:4100000000"]);
        let node = Node::start("litecoind", command, folder, port, BASIC)?;
        let network = NETWORKS.iter().find(|network| network.name == "litecoin-regtest").context("no litecoin-regtest")?;
        let mut chain = Self { node, tip: 0, deposits: 0, network, payments: 0 };
        chain.fill(small, large)?;
        Ok(chain)
    }

    fn fill(&mut self, small: u64, large: u64) -> Result<()> {
        let mut http = self.node.http()?;
        let home = Destination::P2wsh(sha256::Hash::hash(&ANYONE).to_byte_array());
        let (address, home) = (home.text(self.network), ScriptBuf::from_bytes(home.script()));
        let mined = call(&mut http, "generatetoaddress", json!([MATURITY + 1, address]))?;
        let first = call(&mut http, "getblock", json!([mined.get(0), 2]))?;
        let txid: Txid = first.pointer("/tx/0/txid").and_then(Value::as_str).context("no coinbase")?.parse()?;
        let mut coin = (OutPoint { txid, vout: 0 }, 50 * 100_000_000);
        let step = (small / large.max(1)).max(1);
        for block in 0..small + large {
            let count = if block % (step + 1) == step { LARGE_TXS } else { SMALL_TXS };
            let raw: Vec<String> = (0..count).map(|_| self.spend(&mut coin, &home)).collect();
            call(&mut http, "generateblock", json!([address, raw]))?;
        }
        let tip = call(&mut http, "getblockcount", json!([]))?;
        self.tip = tip.as_u64().context("no height")?;
        Ok(())
    }

    /// One input, change and two payments; the change is the next one's input.
    fn spend(&mut self, coin: &mut (OutPoint, u64), home: &ScriptBuf) -> String {
        let input = TxIn {
            previous_output: coin.0,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(&[ANYONE]),
        };
        let rest = coin.1 - 2 * PAYMENT;
        let output = vec![TxOut { value: Amount::from_sat(rest), script_pubkey: home.clone() }, self.payment(), self.payment()];
        let made = Transaction { version: transaction::Version::TWO, lock_time: LockTime::ZERO, input: vec![input], output };
        *coin = (OutPoint { txid: made.compute_txid(), vout: 0 }, rest);
        bitcoin::consensus::encode::serialize_hex(&made)
    }

    fn payment(&mut self) -> TxOut {
        self.payments += 1;
        let watched = self.payments.is_multiple_of(WATCHED_EVERY);
        self.deposits += u64::from(watched);
        let to = if watched {
            watched_script(self.payments / WATCHED_EVERY % WATCHED)
        } else {
            Destination::P2wpkh(hash(0x60, self.payments))
        };
        TxOut { value: Amount::from_sat(PAYMENT), script_pubkey: ScriptBuf::from_bytes(to.script()) }
    }

    /// Every raw block by the REST interface, one after another, and nothing done with it.
    pub fn floor(&self) -> Result<Figure> {
        measured(self.node.pid(), || {
            let mut http = self.node.http()?;
            let mut from = 1;
            while from <= self.tip {
                let to = self.tip.min(from + HASHES - 1);
                let batch: Vec<Value> =
                    (from..=to).map(|height| json!({ "id": height, "method": "getblockhash", "params": [height] })).collect();
                let answers: Vec<Value> = serde_json::from_slice(&http.post(&Value::from(batch).to_string())?)?;
                for answer in answers {
                    let hash = answer.get("result").and_then(Value::as_str).context("no hash")?;
                    http.get(&format!("/rest/block/{hash}.bin"))?;
                }
                from = to + 1;
            }
            Ok((http.requests, 0))
        })
    }

    /// A chain section for confirmd.
    #[must_use]
    pub fn section(&self) -> String {
        let mut text = format!(
            "[chains.bench]\nkind = \"bitcoin\"\nnetwork = \"litecoin-regtest\"\n\
             rpc = [{{ url = \"http://{}\", user = \"bench\", password = {{ env = \"BENCH_NODE_PASSWORD\" }} }}]\n\
             confirmations = {{ default = 1 }}\nreorg_depth = 24\nstart = 1\n",
            self.node.host
        );
        for n in 0..WATCHED {
            text.push_str(&format!("[[chains.bench.watch]]\naddress = \"{}\"\n", watched_script(n).text(self.network)));
        }
        text
    }
}

fn watched_script(n: u64) -> Destination {
    Destination::P2wpkh(hash(0x77, n))
}

fn hash(first: u8, n: u64) -> [u8; 20] {
    let mut hash = [first; 20];
    hash.iter_mut().rev().zip(n.to_le_bytes()).for_each(|(to, from)| *to = from);
    hash
}

fn call(http: &mut Http, method: &str, params: Value) -> Result<Value> {
    let body = http.post(&json!({ "id": 1, "method": method, "params": params }).to_string())?;
    let mut answer: Value = serde_json::from_slice(&body)?;
    let result = answer.get_mut("result").map(Value::take).filter(|result| !result.is_null());
    result.with_context(|| format!("{method}: {answer}"))
}
