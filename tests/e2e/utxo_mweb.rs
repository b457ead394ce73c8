//! Litecoin with MWEB active: every block decodes to what the node says of it, and peg-outs are deposits.

use anyhow::{Context, Result, ensure};
use confirmd_chain_bitcoin::{Block, Network};
use e2e::{BitcoinFamily, Litecoind, Needs, UtxoPlan, UtxoStage, base_units, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    vec![node_trial(
        "utxo_mweb::blocks_read_as_the_node_reads_them_and_peg_outs_are_told_and_taken_back",
        &[Needs::Litecoind],
        pegs,
    )]
}

const LITECOIN: u64 = 100_000_000;

async fn pegs() -> Result<()> {
    let mut node = Litecoind::start(true).await?;
    let customers = vec![node.new_address().await?, node.new_address_of("legacy").await?];
    node.activate_mweb().await?;
    let plan = UtxoPlan { confirmations: 2, start: Some(121), watch: customers.clone(), ..UtxoPlan::default() };
    let stage = UtxoStage::set(node, plan).await?;
    let node = &stage.node;

    node.peg_in(3 * LITECOIN).await?;
    let plain = stage.pay(&customers[1], 40_000_000).await?;
    node.mine(1).await?;
    // Two peg-outs in one block, one of them to an address that nobody watches.
    let stranger = node.new_address().await?;
    node.peg_out(&customers[0], LITECOIN).await?;
    node.peg_out(&stranger, LITECOIN / 4).await?;
    node.mine(1).await?;
    stage.told().await?;
    stage.ensure_history(&plain.0, plain.1, &[1])?;
    let first = hogex(node).await?;
    let output = *stage.outputs_to(&first, &customers[0]).await?.first().context("no peg-out")?;

    // A peg-out can be spent after six confirmations, and is told no earlier.
    node.mine(4).await?;
    stage.told().await?;
    stage.ensure_history(&first, output, &[])?;
    node.mine(1).await?;
    stage.told().await?;
    stage.ensure_history(&first, output, &[1])?;
    ensure!(stage.audit().await? == 2);

    // On another branch the HogEx spends another one: the peg-out comes back under another key.
    node.disconnect(7).await?;
    node.mine(9).await?;
    stage.told().await?;
    stage.ensure_history(&first, output, &[1, 2])?;
    node.mine(6).await?;
    ensure!(stage.audit().await? == 2);
    let ledger = stage.customer.ledger();
    let standing: Vec<_> = ledger.rows().iter().filter(|(_, row)| row.stands && row.address == customers[0]).collect();
    let [(key, row)] = standing.as_slice() else { anyhow::bail!("{}", stage.customer.describe()) };
    ensure!(key.tx_id != first && row.sequence == 1 && row.amount.to_string() == LITECOIN.to_string(), "{key:?} {row:?}");

    // A peg-in while another peg-out is on its way.
    node.peg_in(2 * LITECOIN).await?;
    node.mine(1).await?;
    node.peg_out(&customers[1], LITECOIN / 2).await?;
    node.mine(6).await?;
    ensure!(stage.audit().await? == 3);
    whole_chain(node).await?;
    stage.customer.ensure_once()
}

/// The id of the newest block's last transaction.
async fn hogex(node: &BitcoinFamily) -> Result<String> {
    let block = node.block(&node.tip().await?.hash, 1).await?;
    let ids = block["tx"].as_array().context("no transactions")?;
    Ok(ids.last().and_then(Value::as_str).context("no transactions")?.to_owned())
}

/// Every output of every block, as decoded from its bytes, is what `getblock 2` says of it.
async fn whole_chain(node: &BitcoinFamily) -> Result<()> {
    let network = Network::by_name("litecoin-regtest").context("no such network")?;
    let (mut extended, mut peg_outs) = (0, 0);
    for height in 0..=node.tip().await?.height {
        let hash = node.block_hash(height).await?.context("no block")?;
        let raw = node.block(&hash, 0).await?;
        let bytes = bytes(raw.as_str().context("not hex")?)?;
        let said = node.block(&hash, 2).await?;
        let block = Block::decode_as(&hash.parse()?, &bytes, network).with_context(|| format!("block {height}"))?;
        let transactions = said["tx"].as_array().context("no transactions")?;
        ensure!(block.txids.len() == transactions.len(), "block {height}");
        let mut outputs = block.outputs.iter();
        for (position, (id, said)) in block.txids.iter().zip(transactions).enumerate() {
            ensure!(said["txid"] == id.to_string(), "block {height}, transaction {position}");
            for said in said["vout"].as_array().context("no outputs")? {
                let found = outputs.next().with_context(|| format!("block {height}: an output less than {said}"))?;
                let script: String = found.script.iter().map(|byte| format!("{byte:02x}")).collect();
                let place = (usize::try_from(found.position)?, u64::from(found.vout));
                ensure!(place == (position, said["n"].as_u64().context("no n")?), "block {height}: {found:?}, {said}");
                ensure!(found.value == base_units(&said["value"])?, "block {height}: {found:?}, {said}");
                ensure!(said["scriptPubKey"]["hex"] == script, "block {height}: {found:?}, {said}");
            }
        }
        ensure!(outputs.next().is_none(), "block {height}: an output more");
        ensure!(block.extension.is_some() == said.get("mweb").is_some(), "block {height}");
        if let Some(extension) = &block.extension {
            let size = |list: &str| said["mweb"][list].as_array().map(Vec::len);
            ensure!(extension.height == height);
            ensure!(size("inputs") == Some(extension.inputs) && size("outputs") == Some(extension.outputs), "block {height}");
            ensure!(size("kernels") == Some(extension.kernels), "block {height}");
            (extended, peg_outs) = (extended + 1, peg_outs + extension.peg_outs.len());
        }
    }
    ensure!(extended > 20 && peg_outs == 3, "{extended} extension blocks, {peg_outs} peg-outs");
    Ok(())
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}
