//! The customer's side: a receiver whose ledger is waited for and compared.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use confirmd_testkit::receiver::{Ledger, OperationalRequest, Received};
use confirmd_testkit::{Receiver, ReceiverOptions};

use crate::SOON;

/// The variable that holds the secret of every webhook in a trial.
pub(super) const SECRET_ENV: &str = "CONFIRMD_E2E_SECRET";
/// Signs requests between two programs of one trial, nothing else.
pub(super) const SECRET: &str = "whsec_ZW5kLXRvLWVuZC10cmlhbHMtb2YtY29uZmlybWQtMDE=";

/// `(sequence, stands)` of a row of the ledger.
pub type Sequence = (u64, bool);

/// A receiver of webhooks that keeps a ledger by the documented rule. Steer it by [`Customer::receiver`].
#[derive(Debug, Clone)]
pub struct Customer {
    receiver: Receiver,
}

impl Customer {
    /// Starts with an empty ledger.
    pub async fn start() -> Result<Self> {
        Self::with_secret(SECRET).await
    }

    /// As [`Customer::start`], with a secret of its own.
    pub async fn with_secret(secret: &str) -> Result<Self> {
        let options = ReceiverOptions { secrets: vec![secret.to_owned()], now: None };
        Ok(Self { receiver: Receiver::start(options).await.context("start the receiver")? })
    }

    /// As [`Customer::start`], for whoever is on call: operational events are taken, too, and kept apart.
    pub async fn on_call() -> Result<Self> {
        let customer = Self::start().await?;
        customer.receiver.take_operational();
        Ok(customer)
    }

    /// Where webhooks go.
    pub fn url(&self) -> String {
        self.receiver.url()
    }

    /// The receiver itself: behaviour, ledger and requests.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// A copy of the ledger.
    pub fn ledger(&self) -> Ledger {
        self.receiver.ledger()
    }

    /// Waits until ledger and requests are as wanted; the error shows both.
    pub async fn until(&self, what: &str, deadline: Duration, holds: impl Fn(&Ledger, &[Received]) -> bool) -> Result<()> {
        if tokio::time::timeout(deadline, self.receiver.wait_for(holds)).await.is_err() {
            bail!("the customer did not see {what} within {deadline:?}\n{}", self.describe());
        }
        Ok(())
    }

    /// Waits until the ledger's row of a key is at this sequence and stands or not.
    pub async fn until_at(
        &self,
        chain: &str,
        tx_id: &str,
        output_index: u64,
        wanted: Sequence,
        deadline: Duration,
    ) -> Result<()> {
        let at = |ledger: &Ledger| ledger.row(chain, tx_id, output_index).map(|row| (row.sequence, row.stands));
        let what = format!("{tx_id}:{output_index} at {wanted:?}");
        self.until(&what, deadline, |ledger, _| at(ledger) == Some(wanted)).await
    }

    /// Waits until the requests with operational events are as wanted; the error shows them.
    pub async fn until_operational(&self, what: &str, holds: impl Fn(&[OperationalRequest]) -> bool) -> Result<()> {
        if tokio::time::timeout(SOON, self.receiver.wait_for_operational(holds)).await.is_err() {
            bail!("whoever is on call did not hear of {what} within {SOON:?}\n{}", self.describe());
        }
        Ok(())
    }

    /// The types that were accepted, and how often: an id that was accepted again counts again.
    pub fn operational_times(&self) -> BTreeMap<String, usize> {
        let mut times = BTreeMap::new();
        for request in self.receiver.operational().iter().filter(|request| request.is_accepted()) {
            *times.entry(request.kind().to_owned()).or_default() += 1;
        }
        times
    }

    /// The types and sequences that were accepted for a key, in the order of arrival, repeats included.
    pub fn history(&self, chain: &str, tx_id: &str, output_index: u64) -> Vec<u64> {
        let requests = self.receiver.requests();
        let events = requests.iter().filter(|request| accepted(request)).filter_map(|request| request.event.as_ref().ok());
        let of_key =
            events.filter(|event| event.chain == chain && event.key.tx_id == tx_id && event.key.output_index == output_index);
        of_key.map(|event| event.sequence).collect()
    }

    /// Every promise held so far: nothing was wrong with any request, and each id came with one body.
    pub fn ensure_sound(&self) -> Result<()> {
        let ledger = self.ledger();
        ensure!(ledger.problems().is_empty(), "broken promises: {:#?}\n{}", ledger.problems(), self.describe());
        let mut bodies = BTreeMap::new();
        for request in self.receiver.requests() {
            let first = bodies.entry(request.id.clone()).or_insert_with(|| request.body.clone());
            ensure!(*first == request.body, "{} came with two bodies", request.id);
        }
        Ok(())
    }

    /// Sound, and no event was accepted twice: right wherever no answer was lost.
    pub fn ensure_once(&self) -> Result<()> {
        self.ensure_sound()?;
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for request in self.receiver.requests().iter().filter(|request| accepted(request)) {
            *times.entry(request.id.clone()).or_default() += 1;
        }
        let twice: Vec<_> = times.into_iter().filter(|(_, times)| *times > 1).collect();
        ensure!(twice.is_empty(), "accepted more than once: {twice:?}\n{}", self.describe());
        Ok(())
    }

    /// Rows and requests, for errors.
    pub fn describe(&self) -> String {
        let mut text = String::from("rows:");
        for (key, row) in self.ledger().rows() {
            let (chain, tx_id, output) = (&key.chain, &key.tx_id, key.output_index);
            let (sequence, stands, amount, height) = (row.sequence, row.stands, row.amount, row.height);
            text.push_str(&format!("\n  {chain} {tx_id}:{output} sequence {sequence} stands {stands} {amount} at {height}"));
        }
        text.push_str("\nrequests:");
        for request in self.receiver.requests() {
            let what = match &request.event {
                Ok(event) => format!("{:?} {} {}:{}", event.kind, event.sequence, event.key.tx_id, event.key.output_index),
                Err(why) => why.clone(),
            };
            text.push_str(&format!("\n  {} {} {what}, answered {:?}", request.number, request.id, request.answered));
        }
        for request in self.receiver.operational() {
            text.push_str(&format!("\n  {} {}, answered {:?}", request.id, request.event, request.answered));
        }
        text
    }
}

fn accepted(request: &Received) -> bool {
    request.answered.is_some_and(|status| (200..300).contains(&status))
}
