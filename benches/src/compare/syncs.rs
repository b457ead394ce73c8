//! B11: syncs of the disk by ticks and acknowledgements, counted.

use super::evm_chain::{EvmChain, WATCHED};
use super::instance::{Instance, Metrics, webhook_sink};
use super::receiver::{Answer, Receiver};
use super::report::Goal;
use super::tracer::Tracer;
use crate::process::scratch;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

const BLOCKS: u64 = 30;
/// Polls without a new block that are waited for.
const IDLE_POLLS: u64 = 40;
/// Deposits of one block, whose acknowledgements may share syncs.
const AT_ONCE: u64 = 400;
const LOOK: Duration = Duration::from_millis(10);

/// Idle ticks, blocks without a payment, blocks with one, a block with many.
pub fn syncs(confirmd: &Path) -> Result<Goal> {
    let mut chain = EvmChain::make(10)?;
    let receiver = Receiver::start(Answer::After(Duration::ZERO), false)?;
    let folder = scratch("syncs")?;
    // The reorg window holds everything: no tick settles anything.
    let sections = format!(
        "{}{}",
        chain.section_with(WATCHED, 1_000, "poll_interval = \"50ms\"\n"),
        webhook_sink("hook", receiver.port, 16)
    );
    let mut instance = Instance::start(confirmd, folder.path(), &sections)?;
    instance.until("the first blocks were delivered", LOOK, delivered_up_to(chain.tip))?;
    let mut http = chain.node.http()?;
    let tracer = Tracer::attach(instance.pid())?;

    let asked = instance.metrics()?.requests();
    instance.until("idle ticks went by", LOOK, |metrics| metrics.requests() >= asked + IDLE_POLLS)?;
    let idle = tracer.syncs()?;

    let mut empty_max = 0;
    let before = tracer.syncs()?;
    for _ in 0..BLOCKS {
        let before = tracer.syncs()?;
        chain.mine(&mut http)?;
        instance.until("an empty block was read", LOOK, delivered_up_to(chain.tip))?;
        empty_max = empty_max.max(tracer.syncs()? - before);
    }
    let empty = tracer.syncs()? - before;

    let before = tracer.syncs()?;
    for block in 0..BLOCKS {
        chain.pay(&mut http, block)?;
        chain.mine(&mut http)?;
        instance.until("a payment was delivered", LOOK, delivered_up_to(chain.tip))?;
    }
    let paid = tracer.syncs()? - before;

    let before = tracer.syncs()?;
    chain.pay_many(&mut http, AT_ONCE)?;
    chain.mine(&mut http)?;
    instance.until("many payments were delivered", LOOK, delivered_up_to(chain.tip))?;
    let many = tracer.syncs()? - before;
    println!("B11 syncs by strace: {idle} in {IDLE_POLLS} idle requests; {empty} for {BLOCKS} blocks without a payment;");
    println!(
        "    {paid} for {BLOCKS} blocks with one payment, which is acknowledged; {many} for one block with {AT_ONCE} payments"
    );
    let counter = tracer.counter()?;
    println!(
        "    beside {counter} of the store's counter, and {} sync_file_range by the database, which wait for no disk's cache",
        tracer.ranges()?
    );
    drop(tracer);
    instance.kill()?;
    Ok(Goal::new("B11")
        .at_most("syncs of idle ticks", idle, 0, "")
        .at_most(&format!("of {BLOCKS} ticks with an empty block"), empty, BLOCKS, "")
        .at_most("most of one of them", empty_max, 1, "")
        .at_most(&format!("of {BLOCKS} ticks with a payment and its acknowledgement"), paid, 2 * BLOCKS, "")
        .at_most(
            &format!("of a tick with {AT_ONCE} payments and their acknowledgements, 16 at a time"),
            many,
            1 + AT_ONCE / 2,
            "",
        ))
}

/// Everything up to this block was read, and delivered.
fn delivered_up_to(height: u64) -> impl FnMut(&Metrics) -> bool {
    move |metrics| metrics.height() >= height && metrics.sum("confirmd_deliveries{") == 0 && metrics.following()
}
