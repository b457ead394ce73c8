//! Reads every block by BDK's emitter and counts the outputs. Says the count.
//! BENCH_RPC, BENCH_USER, BENCH_PASSWORD.

use bdk_bitcoind_rpc::bitcoincore_rpc::{Auth, Client, RpcApi};
use bdk_bitcoind_rpc::{Emitter, NO_EXPECTED_MEMPOOL_TXS};
use bdk_core::{BlockId, CheckPoint};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let of = std::env::var;
    let client = Client::new(&of("BENCH_RPC")?, Auth::UserPass(of("BENCH_USER")?, of("BENCH_PASSWORD")?))?;
    let genesis = CheckPoint::new(BlockId { height: 0, hash: client.get_block_hash(0)? });
    let mut emitter = Emitter::new(&client, genesis, 1, NO_EXPECTED_MEMPOOL_TXS);
    let mut outputs = 0;
    while let Some(event) = emitter.next_block()? {
        outputs += event.block.txdata.iter().map(|transaction| transaction.output.len()).sum::<usize>();
    }
    println!("{outputs}");
    Ok(())
}
