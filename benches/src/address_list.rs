//! A list of addresses on its way into a store, and back out of it.

use crate::block::Sample;
use crate::process::memory_kb;
use crate::usage::{Usage, Used};
use anyhow::{Context, Result, ensure};
use confirmd_api::import::LineReader;
use confirmd_api::view::WatchRequest;
use confirmd_chain_bitcoin::{NETWORKS, Network, parse_address};
use confirmd_core::{
    BlockHash, BlockRef, ChainId, ChainState, Change, ChangeSet, Height, StateStore, StateVersion, WatchEntry, WatchOrigin,
    WatchState,
};
use confirmd_store_sled::{OpenOptions, SledStore};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Addresses in a commit, as an import makes them.
const COMMIT: usize = 5_000;

/// What an import took.
#[derive(Debug, Clone, Copy)]
pub struct Imported {
    /// Addresses.
    pub count: usize,
    /// From the first byte read to the last commit.
    pub used: Used,
    /// Resident memory after the first tenth, in kB.
    pub early_kb: u64,
    /// Resident memory at its highest, in kB.
    pub peak_kb: u64,
}

/// The list as a file of JSON lines, the way an operator has it.
pub fn write_lines(sample: &Sample, count: usize, path: &Path) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut problem = None;
    sample.entries(count, |entry| {
        let reference = entry.reference.as_deref().unwrap_or_default();
        let line = writeln!(out, r#"{{"chain":"bitcoin","address":"{}","reference":"{reference}"}}"#, entry.address);
        problem = problem.take().or(line.err());
    })?;
    problem.map_or(Ok(()), Err)?;
    Ok(out.flush()?)
}

fn network() -> Result<&'static Network> {
    Network::by_name("mainnet").with_context(|| format!("no mainnet among {} networks", NETWORKS.len()))
}

/// Reads the file as it arrives from a client, parses each address, and commits it to a new store.
pub async fn import(lines: &Path, state: &Path) -> Result<Imported> {
    let store = SledStore::open(state, OpenOptions { init: true, ..OpenOptions::default() }).await?;
    let network = network()?;
    let chain = network.chain_id();
    let mut version = begin(&store, &chain).await?;
    let total = File::open(lines)?.metadata()?.len();
    let (mut file, mut reader, mut waiting) = (File::open(lines)?, LineReader::default(), Vec::new());
    let (mut part, mut read, mut count, mut early_kb) = (vec![0; 64 << 10], 0, 0, None);
    let usage = Usage::now()?;
    loop {
        let length = file.read(&mut part)?;
        match part.get(..length).unwrap_or_default() {
            [] => reader.end(&mut waiting)?,
            data => reader.push(data, &mut waiting)?,
        }
        while waiting.len() >= COMMIT || (length == 0 && !waiting.is_empty()) {
            let rest = waiting.split_off(COMMIT.min(waiting.len()));
            let taken = std::mem::replace(&mut waiting, rest);
            count += taken.len();
            version = commit(&store, &chain, version, network, taken).await?;
        }
        read += u64::try_from(length)?;
        if early_kb.is_none() && read >= total / 10 {
            early_kb = Some(memory_kb("self", "VmRSS")?);
        }
        if length == 0 {
            break;
        }
    }
    let used = usage.used()?;
    let peak_kb = memory_kb("self", "VmHWM")?;
    store.close().await?;
    Ok(Imported { count, used, early_kb: early_kb.unwrap_or_default(), peak_kb })
}

async fn begin(store: &SledStore, chain: &ChainId) -> Result<StateVersion> {
    let mut set = ChangeSet::new(chain.clone(), StateVersion(0));
    let hash = BlockHash::new("00".repeat(32))?;
    set.changes.push(Change::TrailPushed(BlockRef { height: Height(800_000), hash }));
    Ok(store.commit(set).await?.version)
}

async fn commit(
    store: &SledStore,
    chain: &ChainId,
    base: StateVersion,
    network: &Network,
    part: Vec<WatchRequest>,
) -> Result<StateVersion> {
    let mut set = ChangeSet::new(chain.clone(), base);
    for WatchRequest { address, reference, .. } in part {
        set.changes.push(Change::WatchPut(WatchEntry {
            address: parse_address(&address, network)?,
            reference,
            from: Height(800_001),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: None,
        }));
    }
    Ok(store.commit(set).await?.version)
}

/// Opens a store and loads the chain, as a start does.
pub async fn load(state: &Path) -> Result<(ChainState, Used)> {
    let usage = Usage::now()?;
    let store = SledStore::open(state, OpenOptions::default()).await?;
    let loaded = store.load(&network()?.chain_id()).await?.context("the store is empty")?;
    let used = usage.used()?;
    store.close().await?;
    Ok((loaded, used))
}

/// What the list is measured against: a key of the database per address. Fills it and reads it after a start.
pub fn a_key_each(lines: &Path, count: usize, state: &Path) -> Result<(Used, Used)> {
    let network = network()?;
    let open = || sled::Config::new().path(state).flush_every_ms(None).cache_capacity(128 << 20).open();
    let (database, text) = (open()?, std::fs::read_to_string(lines)?);
    let file = File::open(state.join("db"))?;
    let (mut reader, mut requests) = (LineReader::default(), Vec::new());
    reader.push(text.as_bytes(), &mut requests)?;
    requests.truncate(count);
    ensure!(requests.len() == count, "the file has {} lines", requests.len());
    let usage = Usage::now()?;
    for part in requests.chunks(COMMIT) {
        let mut batch = sled::Batch::default();
        for request in part {
            let address = parse_address(&request.address, network)?;
            let value = format!("{}{}", address.as_str(), request.reference.as_deref().unwrap_or_default());
            batch.insert([&[0x15, 0, 0, 0, 1], address.bytes()].concat(), value.into_bytes());
        }
        database.apply_batch(batch)?;
        database.flush()?;
        file.sync_data()?;
    }
    let filled = usage.used()?;
    drop(database);
    let usage = Usage::now()?;
    let database = open()?;
    let found = database.iter().filter(Result::is_ok).count();
    let loaded = usage.used()?;
    ensure!(found == count, "{found} of {count} keys are there");
    Ok((filled, loaded))
}
