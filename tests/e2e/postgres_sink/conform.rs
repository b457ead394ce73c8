//! The sink contract, rule by rule; the other side is a server behind a proxy that cuts.

use super::bench::{self, DATABASE, PASSWORD, ROLE};
use async_trait::async_trait;
use confirmd_core::{EventId, Sink};
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::sink::{Arrival, Duplicates, PeerDoes, SinkHarness, SinkRig};
use e2e::{At, Cut, Postgres, WireProxy};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

const DEADLINE: Duration = Duration::from_secs(4);
/// What a message that carries events holds.
const EVENT: &str = "evt_";
const COMMIT: &str = "COMMIT";

pub(super) struct Database;

struct Rig {
    cluster: Postgres,
    proxy: WireProxy,
    admin: Client,
}

fn failed<T>(outcome: anyhow::Result<T>) -> Result<T, Broken> {
    outcome.map_err(|error| Broken::new(format!("the cluster's driver failed: {error:#}")))
}

#[async_trait]
impl SinkHarness for Database {
    async fn start(&self) -> Result<Box<dyn SinkRig>, Broken> {
        let cluster = failed(bench::cluster(&[]).await)?;
        let proxy = failed(WireProxy::start(cluster.port()).await)?;
        let admin = failed(cluster.admin(DATABASE).await)?;
        Ok(Box::new(Rig { cluster, proxy, admin }))
    }

    fn unable(&self, does: PeerDoes) -> Option<String> {
        let why = match does {
            PeerDoes::Throttle(_) => "a database asks for no time",
            PeerDoes::BreakOff | PeerDoes::AnswerWithoutEnd => "the answer to a commit has no parts",
            _ => return None,
        };
        Some(why.to_owned())
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned()]
    }

    fn poison(&self) -> Option<Vec<u8>> {
        Some(b"{\"id\":\"evt_\"}".to_vec())
    }

    fn duplicates(&self) -> Duplicates {
        Duplicates::SinkSeesToIt
    }
}

impl Rig {
    async fn rule(&self, room: Option<i64>, says: Option<&str>) -> Result<(), Broken> {
        let set = "update ledger.rule set room = (select count(*) from ledger.posting) + $1, says = $2";
        self.admin.execute(set, &[&room, &says]).await.map(drop).map_err(Broken::tried("setting the ledger's rule"))
    }

    async fn password(&self, word: &str) -> Result<(), Broken> {
        let set = format!("alter role {ROLE} password '{word}'");
        self.admin.batch_execute(&set).await.map_err(Broken::tried("changing the role's password"))
    }
}

#[async_trait]
impl SinkRig for Rig {
    async fn sink(&mut self) -> Result<Arc<dyn Sink>, Broken> {
        let keys = bench::keys(self.proxy.port(), &format!("{}s", DEADLINE.as_secs()));
        Ok(Arc::new(failed(bench::sink(&keys, Some(bench::feed(1, 1_790_000_000))))?))
    }

    async fn peer(&mut self, does: PeerDoes) -> Result<(), Broken> {
        self.proxy.repair();
        self.rule(None, None).await?;
        self.password(PASSWORD).await?;
        match does {
            PeerDoes::TakeThenBreak(room) => self.rule(i64::try_from(room).ok(), None).await?,
            PeerDoes::Refuse => {
                let says = format!("no room for you, whose word is {PASSWORD}, at {}", self.cluster.url(ROLE, DATABASE));
                self.rule(Some(0), Some(&says)).await?;
            }
            PeerDoes::Gone => {
                self.password("another").await?;
                let end = format!("select pg_terminate_backend(pid) from pg_stat_activity where usename = '{ROLE}'");
                self.admin.batch_execute(&end).await.map_err(Broken::tried("ending the role's sessions"))?;
            }
            PeerDoes::Down => self.proxy.refuse(),
            PeerDoes::Close => self.proxy.cut(At::Text(EVENT), Cut::Before, false),
            PeerDoes::Hang => self.proxy.cut(At::Text(EVENT), Cut::SilenceBefore, false),
            PeerDoes::TakeAndFail => self.proxy.cut(At::Text(COMMIT), Cut::After, true),
            PeerDoes::TakeAndHang => self.proxy.cut(At::Text(COMMIT), Cut::SilenceAfter, true),
            _ => {}
        }
        Ok(())
    }

    async fn arrived(&mut self) -> Result<Vec<Arrival>, Broken> {
        self.effects().await
    }

    async fn effects(&mut self) -> Result<Vec<Arrival>, Broken> {
        let made = bench::recorded(&self.admin).await;
        if failed(made)?.0 == 0 {
            return Ok(Vec::new());
        }
        // A posting whose event is not on record would be an effect without its transaction.
        let ask = "select p.event_id, e.body from ledger.posting p left join confirmd.event e on e.id = p.event_id order by p.n";
        let rows = self.admin.query(ask, &[]).await.map_err(Broken::tried("reading the postings"))?;
        let arrival = |row: &tokio_postgres::Row| {
            let id = EventId::new(row.get::<_, &str>(0)).map_err(Broken::tried("reading an event's id"))?;
            let body =
                row.get::<_, Option<&str>>(1).ok_or_else(|| Broken::new(format!("{id} was posted and is not on record")))?;
            Ok(Arrival { id, body: body.as_bytes().to_vec() })
        };
        rows.iter().map(arrival).collect()
    }

    fn answered_bytes(&self) -> u64 {
        0
    }
}
