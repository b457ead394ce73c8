//! What every trial of several instances needs, whatever the chain.

use anyhow::{Context, Result, ensure};
use e2e::Service;
use std::time::Duration;
use tokio_postgres::Client;

pub(super) const PASSWORD_ENV: &str = "CONFIRMD_E2E_POSTGRES_PASSWORD";
/// Deliveries of an instance that is gone come to another one after so long.
pub(super) const LEASE: Duration = Duration::from_secs(3);
const READS: &str = "this instance reads the chain's node";
const OTHER_READS: &str = "another instance reads the chain's node";

/// The lines of `[state]` that lead to a database.
pub(super) fn state(url: &str) -> String {
    let lease = LEASE.as_secs();
    format!("backend = \"postgres\"\nurl = \"{url}\"\npassword = {{ env = \"{PASSWORD_ENV}\" }}\nlease = \"{lease}s\"\n")
}

/// Whether an instance says that it reads; its log since its last start tells.
pub(super) fn reads(service: &Service) -> bool {
    let log = service.log();
    log.rfind(READS).is_some_and(|reads| log.rfind(OTHER_READS).is_none_or(|other| other < reads))
}

/// The number of the instance that says it reads.
pub(super) fn busy(services: &[Service]) -> Result<usize> {
    services.iter().position(reads).context("no instance says that it reads")
}

/// The events of every key are decided once and alternate, and none waits.
pub(super) async fn ensure_events(admin: &Client) -> Result<()> {
    // Sequences of a key are 1 to n: nothing was left out, and nothing decided twice.
    let gaps = "select id from confirmd_state.event e where (record::json->>'sequence')::bigint <>
        (select count(*) from confirmd_state.event o where o.digest = e.digest and o.position <= e.position)";
    let gaps = admin.query(gaps, &[]).await?;
    ensure!(gaps.is_empty(), "events out of order: {gaps:?}");
    let left = admin.query("select * from confirmd_state.delivery", &[]).await?;
    ensure!(left.is_empty(), "{} deliveries are left", left.len());
    Ok(())
}
