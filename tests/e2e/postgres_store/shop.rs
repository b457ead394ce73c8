//! Three instances, one state, one node, one receiver.

use super::fleet::{self, PASSWORD_ENV, state};
use crate::evm_world::{ALICE, BOB, ETH, NAME, balance, bare_chain, credited, ledger, pay};
use anyhow::{Result, ensure};
use e2e::{Anvil, ChainSection, Config, Customer, Postgres, Service};
use tokio_postgres::Client;

pub(super) struct Shop {
    pub(super) anvil: Anvil,
    pub(super) cluster: Postgres,
    pub(super) customer: Customer,
    pub(super) services: Vec<Service>,
    /// Of the state.
    pub(super) database: &'static str,
}

pub(super) fn config(chain: ChainSection, cluster: &Postgres, customer: &Customer) -> Config {
    Config::new().chain(chain).sink(ledger(customer)).state(&state(&cluster.url(Postgres::SUPERUSER.0, "postgres")))
}

impl Shop {
    /// Three instances that run; one of them reads.
    pub(super) async fn open(chain: impl Fn(&Anvil, usize) -> ChainSection) -> Result<Self> {
        Self::configured(|anvil, cluster, customer, number| config(chain(anvil, number), cluster, customer)).await
    }

    /// The same with a configuration of one's own for each.
    pub(super) async fn configured(config: impl Fn(&Anvil, &Postgres, &Customer, usize) -> Config) -> Result<Self> {
        let anvil = Anvil::start().await?;
        anvil.mine(2).await?;
        Self::of(anvil, Postgres::start_with(&["max_connections=120"]).await?, config).await
    }

    /// On a node and a cluster that run.
    pub(super) async fn of(
        anvil: Anvil,
        cluster: Postgres,
        config: impl Fn(&Anvil, &Postgres, &Customer, usize) -> Config,
    ) -> Result<Self> {
        let customer = Customer::start().await?;
        let mut services = Vec::new();
        for number in 0..3 {
            let mut service = Service::new(&config(&anvil, &cluster, &customer, number))?;
            service.instance().env(PASSWORD_ENV, Postgres::SUPERUSER.1);
            service.run().await?;
            services.push(service);
        }
        let shop = Self { anvil, cluster, customer, services, database: "postgres" };
        shop.told().await?;
        Ok(shop)
    }

    pub(super) async fn usual() -> Result<Self> {
        Self::open(|anvil, _| bare_chain(anvil, "default = 2", 12)).await
    }

    pub(super) async fn admin(&self) -> Result<Client> {
        self.cluster.admin(self.database).await
    }

    /// Every instance knows the tip, and nothing waits.
    pub(super) async fn told(&self) -> Result<()> {
        let tip = self.anvil.tip().await?;
        for service in &self.services {
            service.until_told(NAME, &tip).await?;
        }
        Ok(())
    }

    /// The number of the instance that says it reads.
    pub(super) fn busy(&self) -> Result<usize> {
        fleet::busy(&self.services)
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
        fleet::ensure_events(&self.admin().await?).await
    }
}
