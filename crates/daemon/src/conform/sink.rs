//! The receiver's rules, R1 to R17 of `docs/consumers.md`, as far as a sequence of test events can judge them.

use super::event::{Deposit, TestChain};
use super::ledger::LedgerUrl;
use super::report::{Finding, Line, Verdict};
use confirmd_core::{Amount, Delivery, Forgery, Sink, SinkError, SinkErrorKind, TextIdError, Timestamp, with_causes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rules, by their titles in `docs/consumers.md`.
const RULES: [(&str, &str); 17] = [
    ("R1", "A right event is taken"),
    ("R2", "A wrong secret is refused"),
    ("R3", "An altered body is refused"),
    ("R4", "A missing signature is refused"),
    ("R5", "An old timestamp is refused"),
    ("R6", "An unknown version is refused"),
    ("R7", "A refusal is not remembered"),
    ("R8", "A repetition is taken"),
    ("R9", "A late event is taken"),
    ("R10", "Repetitions at the same time are taken"),
    ("R11", "The effect comes before the answer"),
    ("R12", "A repetition moves nothing"),
    ("R13", "A late event moves nothing"),
    ("R14", "What was refused moved nothing"),
    ("R15", "A new epoch moves nothing"),
    ("R16", "Every part of the key counts"),
    ("R17", "Amounts are exact"),
];

/// What is graded.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// As configured.
    pub(crate) sink: Arc<dyn Sink>,
    /// The same with one thing wrong; empty where this kind of sink proves nothing.
    pub(crate) forged: Vec<(Forgery, Arc<dyn Sink>)>,
    /// The kind's name.
    pub(crate) kind: &'static str,
    pub(crate) ledger: Option<LedgerUrl>,
}

/// How one request ended.
enum Answer {
    Taken,
    Refused(String),
    /// Nobody said anything: time-out, no connection.
    Silence(String),
}

/// Sends the sequence and judges every rule, in order. `run` is another number each time.
pub(crate) async fn torture(receiver: &Receiver, run: u64, now: Timestamp) -> Result<Vec<Line>, TextIdError> {
    let (chain, elsewhere) = (TestChain::new(run, now)?, TestChain::new(!run, now)?);
    let mut grading = Grading { receiver, chain, elsewhere, findings: BTreeMap::new() };
    if grading.takes_a_right_event().await? {
        grading.repetitions().await?;
        grading.late_events().await?;
        grading.at_the_same_time().await?;
        grading.epochs().await?;
        grading.keys().await?;
        grading.amounts().await?;
        grading.forgeries().await?;
        grading.versions().await?;
    }
    Ok(grading.lines())
}

struct Grading<'a> {
    receiver: &'a Receiver,
    chain: TestChain,
    /// A second chain.
    elsewhere: TestChain,
    findings: BTreeMap<&'static str, Finding>,
}

type Done = Result<(), TextIdError>;

fn answer(outcome: Result<(), &SinkError>) -> Answer {
    match outcome {
        Ok(()) => Answer::Taken,
        Err(error) if error.status.is_some() || !matches!(error.kind, SinkErrorKind::Transient { .. }) => {
            Answer::Refused(with_causes(error))
        }
        Err(error) => Answer::Silence(with_causes(error)),
    }
}

impl Grading<'_> {
    /// The first that is found of a rule stays, unless something worse follows.
    fn found(&mut self, rule: &'static str, finding: Finding) {
        let worse = match self.findings.get(rule).map(|earlier| earlier.verdict) {
            None => true,
            Some(Verdict::Broken) => false,
            Some(Verdict::NoAnswer) => finding.verdict == Verdict::Broken,
            Some(Verdict::Holds | Verdict::NotObserved) => matches!(finding.verdict, Verdict::Broken | Verdict::NoAnswer),
        };
        if worse {
            self.findings.insert(rule, finding);
        }
    }

    async fn send_over(sink: &dyn Sink, delivery: &Delivery) -> Answer {
        let outcome = sink.deliver(std::slice::from_ref(delivery)).await;
        answer(outcome.as_ref().copied().map_err(|error| &error.error))
    }

    async fn send(&self, delivery: &Delivery) -> Answer {
        Self::send_over(self.receiver.sink.as_ref(), delivery).await
    }

    /// It must be taken; `what` names it.
    async fn taken(&mut self, rule: &'static str, delivery: &Delivery, what: &str) {
        let finding = match self.send(delivery).await {
            Answer::Taken => Finding::holds(format!("{what}: taken")),
            Answer::Refused(why) => Finding::broken(format!("{what}: {why}")),
            Answer::Silence(why) => Finding::no_answer(format!("{what}: {why}")),
        };
        self.found(rule, finding);
    }

    /// It must not be taken; `what` names it.
    async fn refused(&mut self, rule: &'static str, sink: &dyn Sink, delivery: &Delivery, what: &str) {
        let finding = match Self::send_over(sink, delivery).await {
            Answer::Taken => Finding::broken(format!("{what}: taken")),
            Answer::Refused(_) => Finding::holds(format!("{what}: refused")),
            Answer::Silence(why) => Finding::no_answer(format!("{what}: {why}")),
        };
        self.found(rule, finding);
    }

    /// The ledger must have credited so much for the deposit; `when` says what came before.
    async fn credited(&mut self, rule: &'static str, deposit: &Deposit, expected: Amount, when: &str) {
        let Some(ledger) = &self.receiver.ledger else {
            return self.found(rule, Finding::not_observed("name the ledger with --ledger URL"));
        };
        let finding = match ledger.credited(deposit.key()).await {
            Ok(credited) if credited == expected => Finding::holds(format!("{when}: credited is {credited}")),
            Ok(credited) => Finding::broken(format!("{when}: credited is {credited}, {expected} is right")),
            Err(error) => Finding::no_answer(format!("{when}: {error:#}")),
        };
        self.found(rule, finding);
    }

    /// False if nothing gets through: the rest would only repeat it.
    async fn takes_a_right_event(&mut self) -> Result<bool, TextIdError> {
        let deposit = self.chain.deposit(1, 0)?;
        let event = deposit.event(self.chain.epoch(), 1, Amount::from(25))?;
        self.taken("R1", &event, "test.confirmed, sequence 1").await;
        let through = self.findings.get("R1").is_some_and(|finding| finding.verdict == Verdict::Holds);
        if through {
            self.credited("R11", &deposit, Amount::from(25), "right after the answer to a deposit of 25").await;
        }
        Ok(through)
    }

    async fn repetitions(&mut self) -> Done {
        let (deposit, epoch) = (self.chain.deposit(1, 0)?, self.chain.epoch());
        let event = deposit.event(epoch, 1, Amount::from(25))?;
        for attempt in 2..=3 {
            let again = Delivery { attempt, ..event.clone() };
            self.taken("R8", &again, &format!("attempt {attempt} of sequence 1")).await;
        }
        self.credited("R12", &deposit, Amount::from(25), "after three attempts of one deposit of 25").await;
        Ok(())
    }

    async fn late_events(&mut self) -> Done {
        let (deposit, epoch) = (self.chain.deposit(1, 0)?, self.chain.epoch());
        let (first, second) = (deposit.event(epoch, 1, Amount::from(25))?, deposit.event(epoch, 2, Amount::from(25))?);
        self.taken("R1", &second, "test.reverted, sequence 2").await;
        self.credited("R11", &deposit, Amount::ZERO, "right after the answer to its revert").await;
        self.taken("R9", &first, "sequence 1 once more, behind sequence 2").await;
        self.credited("R13", &deposit, Amount::ZERO, "when sequence 1 came again behind its revert").await;
        let third = deposit.event(epoch, 3, Amount::from(30))?;
        self.taken("R1", &third, "test.confirmed, sequence 3, of another amount").await;
        self.taken("R9", &second, "sequence 2 once more, behind sequence 3").await;
        self.credited("R13", &deposit, Amount::from(30), "when its revert came again behind a deposit of 30").await;
        // The other way round from the beginning.
        let turned = self.chain.deposit(2, 0)?;
        let (first, second) = (turned.event(epoch, 1, Amount::from(40))?, turned.event(epoch, 2, Amount::from(40))?);
        self.taken("R9", &second, "sequence 2 of a deposit never heard of").await;
        self.taken("R9", &first, "its sequence 1, behind sequence 2").await;
        self.credited("R13", &turned, Amount::ZERO, "when a revert came before its deposit of 40").await;
        Ok(())
    }

    async fn at_the_same_time(&mut self) -> Done {
        let deposit = self.chain.deposit(3, 0)?;
        let event = deposit.event(self.chain.epoch(), 1, Amount::from(50))?;
        let answers = futures::future::join_all((0..4).map(|_| self.send(&event))).await;
        let taken = answers.iter().filter(|answer| matches!(answer, Answer::Taken)).count();
        if taken == 0 {
            let why = answers.into_iter().find_map(|answer| match answer {
                Answer::Refused(why) | Answer::Silence(why) => Some(why),
                Answer::Taken => None,
            });
            self.found("R10", Finding::broken(format!("of four at once none was taken: {}", why.unwrap_or_default())));
        }
        self.taken("R10", &event, &format!("of four at once {taken} were taken; once more")).await;
        self.credited("R12", &deposit, Amount::from(50), "after four attempts at once of a deposit of 50").await;
        Ok(())
    }

    async fn epochs(&mut self) -> Done {
        let (deposit, epoch) = (self.chain.deposit(4, 0)?, self.chain.epoch());
        let amount = Amount::from(60);
        self.taken("R1", &deposit.event(epoch, 1, amount)?, "test.confirmed of a first epoch").await;
        self.taken("R1", &deposit.event(epoch.saturating_add(1), 1, amount)?, "the same of a second epoch").await;
        self.credited("R15", &deposit, amount, "when a rebuilt state reported a deposit of 60 again").await;
        self.taken("R9", &deposit.event(epoch, 2, amount)?, "a revert of the first epoch, behind the second").await;
        self.credited("R15", &deposit, amount, "when an older epoch's revert came late").await;
        Ok(())
    }

    async fn keys(&mut self) -> Done {
        let epoch = self.chain.epoch();
        let (one, other) = (self.chain.deposit(5, 0)?, self.chain.deposit(5, 1)?);
        let elsewhere = self.elsewhere.deposit(5, 0)?;
        // Amounts of their own, so that one key for all of them shows.
        let all = [
            (&one, 70, "output 0 of a transaction"),
            (&other, 71, "output 1 of the same transaction"),
            (&elsewhere, 72, "output 0 of a transaction of that id on another chain"),
        ];
        for (deposit, amount, what) in all {
            self.taken("R1", &deposit.event(epoch, 1, Amount::from(amount))?, what).await;
        }
        for (deposit, amount, what) in all {
            self.credited("R16", deposit, Amount::from(amount), &format!("{what}, which pays {amount}")).await;
        }
        Ok(())
    }

    async fn amounts(&mut self) -> Done {
        for (number, amount) in [(6, Amount::from(9_007_199_254_740_993)), (7, Amount::MAX)] {
            let deposit = self.chain.deposit(number, 0)?;
            let event = deposit.event(self.chain.epoch(), 1, amount)?;
            self.taken("R1", &event, &format!("a deposit of {amount}")).await;
            self.credited("R17", &deposit, amount, "after a large deposit").await;
        }
        Ok(())
    }

    async fn forgeries(&mut self) -> Done {
        if self.receiver.forged.is_empty() {
            for rule in ["R2", "R3", "R4", "R5"] {
                let why = format!("the kind {:?} has nothing that could be forged", self.receiver.kind);
                self.found(rule, Finding::not_observed(why));
            }
        }
        for (forgery, sink) in &self.receiver.forged {
            let (rule, number, what) = match forgery {
                Forgery::WrongSecret => ("R2", 8, "signed with another secret"),
                Forgery::AlteredBody => ("R3", 9, "with the signature of another body"),
                Forgery::NoSignature => ("R4", 10, "without a signature"),
                Forgery::OldTimestamp => ("R5", 11, "signed an hour ago"),
            };
            let deposit = self.chain.deposit(number, 0)?;
            let event = deposit.event(self.chain.epoch(), 1, Amount::from(80))?;
            self.refused(rule, sink.as_ref(), &event, what).await;
            self.credited("R14", &deposit, Amount::ZERO, &format!("after a deposit of 80 {what}")).await;
            self.taken("R7", &event, &format!("the event that came {what}, now as it should be")).await;
        }
        Ok(())
    }

    async fn versions(&mut self) -> Done {
        let deposit = self.chain.deposit(12, 0)?;
        let (epoch, amount) = (self.chain.epoch(), Amount::from(90));
        let event = deposit.with_version(epoch, 1, amount, 2)?;
        let sink = Arc::clone(&self.receiver.sink);
        self.refused("R6", sink.as_ref(), &event, "version 2 of the format").await;
        self.credited("R14", &deposit, Amount::ZERO, "after a deposit of 90 in version 2").await;
        self.taken("R7", &deposit.event(epoch, 1, amount)?, "the event that came in version 2, now in version 1").await;
        Ok(())
    }

    fn lines(mut self) -> Vec<Line> {
        let not_sent = || Finding::not_observed("nothing more was sent, since not even a right event was taken");
        RULES.iter().map(|rule| Line::new(*rule, self.findings.remove(rule.0).unwrap_or_else(not_sent))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_and_their_titles_are_those_of_the_consumers_page() {
        let page = include_str!("../../../../docs/consumers.md");
        for (rule, title) in RULES {
            assert!(page.contains(&format!("\n| **{rule}** | {title} |")), "{rule} {title}");
        }
        assert_eq!(page.lines().filter(|line| line.starts_with("| **R")).count(), RULES.len());
    }
}
