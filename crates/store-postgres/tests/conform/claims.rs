//! Three handles on one store claim, send, forget, come late, give up and are cut off, by chance: no event is lost, and none is handed out before
//! the one below it of its key was sent.

use crate::cuts::chain;
use crate::kills::{Own, trial};
use crate::postgres::Postgres;
use crate::wire_proxy::{At, Cut};
use anyhow::{Context, Result, ensure};
use confirmd_core::{
    Address, Amount, Asset, AssetId, Attempt, AttemptOutcome, BlockHash, BlockRef, ChainName, ChangeSet, ConsumerFilter,
    ConsumerName, ConsumerSpec, Delivery, DepositKey, Event, EventId, Height, Outbox, Payment, Sequence, StateStore,
    StateVersion, Timestamp, Transfer, TxId,
};
use confirmd_store_postgres::PgStore;
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::time::Duration;

const KEYS: u64 = 12;
const SEQUENCES: u64 = 4;
const STEPS: u32 = 400;
const SEEDS: u64 = 6;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("g8_three_instances_that_fail_by_chance_lose_no_event_and_overtake_none", by_chance)]
}

fn event(store: &PgStore, key: u64, sequence: u64) -> Result<Event> {
    let chain = chain();
    let key = DepositKey { tx_id: TxId::new(format!("0x{key:064x}"))?, output_index: 0 };
    let asset = Asset { id: AssetId::native(&chain, 60)?, symbol: "ETH".into(), decimals: 18 };
    let payment = Payment { address: Address::new([7], "0x07"), asset: asset.id.clone(), amount: Amount::MAX, memo: None };
    let block = BlockRef { height: Height(sequence), hash: BlockHash::new(format!("0xb{sequence}"))? };
    Ok(Event {
        id: EventId::derive(&chain, &key, store.epoch(), Sequence(sequence)),
        chain,
        chain_name: ChainName::new("devnet")?,
        epoch: store.epoch(),
        sequence: Sequence(sequence),
        transfer: Transfer { key, payment, block, block_time: None, position: 0, from: None, maturity: None },
        asset,
        reference: None,
        confirmations: 1,
        decided_at: Timestamp(1),
        notice: None,
    })
}

/// What the receiver has, and what each instance has in hand.
struct World {
    own: Own,
    stores: Vec<PgStore>,
    hands: Vec<Vec<Delivery>>,
    sent: BTreeMap<DepositKey, u64>,
    now: u64,
    name: ConsumerName,
}

impl World {
    /// It is sent the moment it is handed out.
    fn receive(&mut self, delivery: &Delivery) -> Result<()> {
        let newest = self.sent.entry(delivery.key.clone()).or_default();
        ensure!(
            delivery.sequence.0 <= *newest + 1,
            "{:?} at {} is handed out, and {newest} was sent",
            delivery.key,
            delivery.sequence.0
        );
        *newest = delivery.sequence.0.max(*newest);
        Ok(())
    }

    async fn step(&mut self, dice: &mut fastrand::Rng) -> Result<()> {
        let who = dice.usize(..self.stores.len());
        self.now += dice.u64(..50);
        match dice.u8(..20) {
            0..8 => {
                let due = self.stores[who].due(&self.name, Timestamp(self.now), dice.usize(1..6)).await?;
                for delivery in &due {
                    self.receive(delivery)?;
                }
                self.hands[who].extend(due);
            }
            8..14 => {
                let some: Vec<_> = self.take(who, dice);
                let positions: Vec<_> = some.iter().map(|delivery| delivery.position).collect();
                self.stores[who].acknowledge(&self.name, &positions).await?;
            }
            14..16 => {
                for delivery in self.take(who, dice) {
                    let attempt = attempt(delivery.attempt, self.now);
                    match dice.bool() {
                        true => {
                            self.stores[who].retry_later(&self.name, delivery.position, attempt, Timestamp(self.now + 40)).await?
                        }
                        false => self.stores[who].bury(&self.name, delivery.position, attempt).await?,
                    }
                }
            }
            16 => {
                let positions: Vec<_> = self.take(who, dice).iter().map(|delivery| delivery.position).collect();
                self.stores[who].release(&self.name, &positions).await?;
            }
            // Its leases pass while it has things in hand; it comes back to them later.
            17 => {
                let lapse =
                    format!("update shared.delivery set lease_until = '-infinity' where owner = '{}'", self.stores[who].owner());
                self.own.sql(&lapse).await?;
            }
            // Killed: another one takes its place.
            18 => {
                self.hands[who].clear();
                // An opening that is cut off is refused, and tried again by whoever supervises.
                self.own.proxy.repair();
                let next = self.own.store(Duration::from_secs(10), |_| {}).await?;
                let gone = std::mem::replace(&mut self.stores[who], next);
                self.own
                    .sql(&format!("update shared.delivery set lease_until = '-infinity' where owner = '{}'", gone.owner()))
                    .await?;
                gone.abandon();
            }
            _ => {
                let cut = if dice.bool() { Cut::Before } else { Cut::After };
                self.own.proxy.cut(At::Statement(dice.u64(1..12)), cut, false);
            }
        }
        Ok(())
    }

    fn take(&mut self, who: usize, dice: &mut fastrand::Rng) -> Vec<Delivery> {
        let hand = &mut self.hands[who];
        dice.shuffle(hand);
        let rest = dice.usize(..=hand.len());
        hand.split_off(rest)
    }

    /// Everything dead is requeued, and one of them delivers the rest.
    async fn drain(&mut self) -> Result<()> {
        self.own.proxy.repair();
        self.own.sql("update shared.delivery set lease_until = '-infinity'").await?;
        for _ in 0..10 * KEYS * SEQUENCES {
            let dead = self
                .own
                .cluster
                .admin("postgres")
                .await?
                .query("select position from shared.delivery where state = 2", &[])
                .await?;
            let dead = dead.iter().map(|row| u64::try_from(row.get::<_, i64>(0)).map(confirmd_core::Position));
            let dead = dead.collect::<Result<Vec<_>, _>>()?;
            if !dead.is_empty() {
                self.stores[0].requeue(&self.name, &dead).await?;
            }
            self.now += 1_000;
            let due = self.stores[0].due(&self.name, Timestamp(self.now), 100).await?;
            if due.is_empty() && dead.is_empty() {
                return Ok(());
            }
            for delivery in &due {
                self.receive(delivery)?;
            }
            let positions: Vec<_> = due.iter().map(|delivery| delivery.position).collect();
            self.stores[0].acknowledge(&self.name, &positions).await?;
        }
        anyhow::bail!("it never ends")
    }
}

fn attempt(number: u32, now: u64) -> Attempt {
    let (outcome, at) = (AttemptOutcome::Transient, Timestamp(now));
    Attempt { number, at, outcome, status: None, error: "by chance".to_owned(), excerpt: None }
}

async fn by_chance() -> Result<()> {
    // More of them: CONFIRMD_SEEDS=200 cargo test -p confirmd-store-postgres --test conform -- by_chance
    let seeds = std::env::var("CONFIRMD_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        seeded(seed).await.with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

async fn seeded(seed: u64) -> Result<()> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let own = Own::new(Postgres::start_with(&["max_connections=100"]).await?).await?;
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(own.store(Duration::from_secs(10), |_| {}).await?);
    }
    let name = ConsumerName::new("ledger")?;
    stores[0].register(&ConsumerSpec { name: name.clone(), filter: ConsumerFilter::default(), start: None }).await?;
    let hands = vec![Vec::new(); 3];
    let mut world = World { own, stores, hands, sent: BTreeMap::new(), now: 1_000, name };
    let mut version = 0;
    for step in 0..STEPS {
        // Decisions come meanwhile.
        if step % (STEPS / u32::try_from(SEQUENCES)?) == 0 {
            let mut set = ChangeSet::new(chain(), StateVersion(version));
            let sequence = version + 1;
            for key in 0..KEYS {
                set.push_event(event(&world.stores[0], key, sequence)?);
            }
            world.stores[dice.usize(..3)].commit(set).await?;
            version += 1;
        }
        world.step(&mut dice).await.with_context(|| format!("step {step}"))?;
    }
    world.drain().await?;
    let all = world.sent.len() == usize::try_from(KEYS)? && world.sent.values().all(|newest| *newest == SEQUENCES);
    ensure!(all, "something was not sent: {:?}", world.sent);
    let left: i64 =
        world.own.cluster.admin("postgres").await?.query_one("select count(*) from shared.delivery", &[]).await?.get(0);
    ensure!(left == 0, "{left} deliveries are left");
    // Decided once, credited once, whatever was cut.
    world.own.ensure_once(KEYS * SEQUENCES).await
}
