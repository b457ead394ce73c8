//! Three instances, one state, one node, one receiver.

use crate::evm_world::{ALICE, BOB, ETH, NAME, balance, bare_chain, credited, ledger, pay};
use anyhow::{Context, Result, ensure};
use e2e::{Anvil, ChainSection, Config, Customer, Postgres, Service};
use std::time::Duration;
use tokio_postgres::Client;

const PASSWORD_ENV: &str = "CONFIRMD_E2E_POSTGRES_PASSWORD";
/// Deliveries of an instance that is gone come to another one after so long.
pub(super) const LEASE: Duration = Duration::from_secs(3);
const READS: &str = "this instance reads the chain's node";
const OTHER_READS: &str = "another instance reads the chain's node";

pub(super) struct Shop {
    pub(super) anvil: Anvil,
    pub(super) cluster: Postgres,
    pub(super) customer: Customer,
    pub(super) services: Vec<Service>,
}

pub(super) fn config(chain: ChainSection, cluster: &Postgres, customer: &Customer) -> Config {
    let state = format!(
        "backend = \"postgres\"\nurl = \"{}\"\npassword = {{ env = \"{PASSWORD_ENV}\" }}\nlease = \"{}s\"\n",
        cluster.url(Postgres::SUPERUSER.0, "postgres"),
        LEASE.as_secs()
    );
    Config::new().chain(chain).sink(ledger(customer)).state(&state)
}

impl Shop {
    /// Three instances that run; one of them reads.
    pub(super) async fn open(chain: impl Fn(&Anvil, usize) -> ChainSection) -> Result<Self> {
        let anvil = Anvil::start().await?;
        anvil.mine(2).await?;
        let cluster = Postgres::start_with(&["max_connections=120"]).await?;
        let customer = Customer::start().await?;
        let mut services = Vec::new();
        for number in 0..3 {
            let mut service = Service::new(&config(chain(&anvil, number), &cluster, &customer))?;
            service.instance().env(PASSWORD_ENV, Postgres::SUPERUSER.1);
            service.run().await?;
            services.push(service);
        }
        let shop = Self { anvil, cluster, customer, services };
        shop.told().await?;
        Ok(shop)
    }

    pub(super) async fn usual() -> Result<Self> {
        Self::open(|anvil, _| bare_chain(anvil, "default = 2", 12)).await
    }

    pub(super) async fn admin(&self) -> Result<Client> {
        self.cluster.admin("postgres").await
    }

    /// Every instance knows the tip, and nothing waits.
    pub(super) async fn told(&self) -> Result<()> {
        let tip = self.anvil.tip().await?;
        for service in &self.services {
            service.until_told(NAME, &tip).await?;
        }
        Ok(())
    }

    /// The number of the instance that says it reads; its log since its last start tells.
    pub(super) fn busy(&self) -> Result<usize> {
        let reads = |service: &Service| {
            let log = service.log();
            log.rfind(READS).is_some_and(|reads| log.rfind(OTHER_READS).is_none_or(|other| other < reads))
        };
        self.services.iter().position(reads).context("no instance says that it reads")
    }

    pub(super) async fn pay(&self, number: usize, to: &str, wei: u128) -> Result<String> {
        pay(&self.anvil, number, to, wei).await
    }

    /// The customer's ledger is what the chain says; events of a key alternate; each was decided once.
    pub(super) async fn ensure_right(&self) -> Result<()> {
        self.customer.ensure_sound()?;
        for address in [ALICE, BOB] {
            let (on_chain, booked) = (balance(&self.anvil, address).await?, credited(&self.customer, address, ETH));
            ensure!(on_chain == booked, "{address}: chain {on_chain}, ledger {booked}\n{}", self.customer.describe());
        }
        // Sequences of a key are 1 to n: nothing was left out, and nothing decided twice.
        let gaps = "select id from confirmd_state.event e where (record::json->>'sequence')::bigint <>
            (select count(*) from confirmd_state.event o where o.digest = e.digest and o.position <= e.position)";
        let gaps = self.admin().await?.query(gaps, &[]).await?;
        ensure!(gaps.is_empty(), "events out of order: {gaps:?}");
        let left = self.admin().await?.query("select * from confirmd_state.delivery", &[]).await?;
        ensure!(left.is_empty(), "{} deliveries are left", left.len());
        Ok(())
    }
}
