//! The source contract, as far as looking at a node can judge it. Nothing is mined, paid or stored.

mod blocks;
mod payments;
mod texts;

use super::report::{Finding, Line};
use confirmd_core::{
    Address, BlockHeader, BlockRef, ChainSource, Height, SourceError, SourceErrorKind, Transfer, WatchEntry, WatchOrigin,
    WatchSet, WatchState, with_causes,
};
use std::future::Future;
use std::time::Duration;

/// A chain moves while it is looked at: what is found broken is looked at again so often.
const LOOKS: u32 = 3;
/// One rule takes a handful of calls, each with the source's own deadline.
const LIMIT: Duration = Duration::from_secs(180);

/// A source with what is looked for.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) source: &'a dyn ChainSource,
    /// Canonical.
    pub(crate) addresses: Vec<Address>,
    /// How many blocks below the tip are read.
    pub(crate) blocks: u64,
    /// Must be seen nowhere.
    pub(crate) secrets: Vec<String>,
}

/// The rules of `docs/contracts/source.md`, by their titles there.
const RULES: [(&str, &str); 20] = [
    ("S1", "Identity"),
    ("S2", "Tip"),
    ("S3", "Absence"),
    ("S4", "Links"),
    ("S5", "Scope"),
    ("S6", "Order"),
    ("S7", "Unique keys"),
    ("S8", "Stable keys"),
    ("S9", "An empty list is a statement"),
    ("S10", "Not a deposit"),
    ("S11", "Trouble that passes"),
    ("S12", "Trouble that stays"),
    ("S13", "Cancellation"),
    ("S14", "Whole blocks"),
    ("S15", "Addresses"),
    ("S16", "Amounts"),
    ("S17", "Secrets"),
    ("S18", "Finality"),
    ("S19", "Maturity"),
    ("S20", "Keys depend on nothing else"),
];

/// Judges every rule, in order.
pub(crate) async fn look(node: &Node<'_>) -> Vec<Line> {
    let mut lines = Vec::with_capacity(RULES.len());
    for rule in RULES {
        let finding = match tokio::time::timeout(LIMIT, repeated(|| node.judge(rule.0))).await {
            Ok(finding) => finding,
            Err(_) => Finding::no_answer(format!("not done within {LIMIT:?}")),
        };
        lines.push(Line::new(rule, finding));
    }
    lines
}

/// A reorg or a new block between two calls looks like a mistake once, not three times.
async fn repeated<F: Future<Output = Finding>>(judge: impl Fn() -> F) -> Finding {
    let mut finding = judge().await;
    for _ in 1..LOOKS {
        if finding.verdict != super::report::Verdict::Broken {
            break;
        }
        finding = judge().await;
    }
    finding
}

/// What a call that failed says of the rule it was made for.
fn failed(what: &str, error: &SourceError) -> Finding {
    let text = format!("{what}: {}", with_causes(error));
    match error.kind {
        SourceErrorKind::Transient { .. } => Finding::no_answer(text),
        SourceErrorKind::Orphaned | SourceErrorKind::Fatal => Finding::broken(text),
    }
}

/// Blocks to look at, on one branch.
struct Stretch {
    from: Height,
    tip: BlockRef,
    headers: Vec<BlockHeader>,
}

/// What the payments of a stretch are.
struct Read {
    stretch: Stretch,
    watch: WatchSet,
    transfers: Vec<Transfer>,
}

impl Node<'_> {
    async fn judge(&self, rule: &str) -> Finding {
        let judged = match rule {
            "S1" => self.identity().await,
            "S2" => self.tip().await,
            "S3" => self.absence().await,
            "S4" => self.links().await,
            "S5" => self.scope().await,
            "S6" => self.order().await,
            "S7" => self.unique().await,
            "S9" => self.orphaned().await,
            "S10" => self.no_deposit().await,
            "S13" => self.cancellation().await,
            "S15" => return self.spellings(),
            "S17" => return self.silence().await,
            "S18" => self.finality().await,
            "S20" => self.independence().await,
            unseen => return Finding::not_observed(unseen_because(unseen)),
        };
        judged.unwrap_or_else(|finding| finding)
    }

    /// The last blocks up to the tip.
    async fn stretch(&self) -> Result<Stretch, Finding> {
        let tip = self.source.tip().await.map_err(|error| failed("asking for the tip", &error))?;
        let from = Height(tip.height.minus(self.blocks.saturating_sub(1)).0.max(1).min(tip.height.0));
        let headers = self.source.headers(from, tip.height).await;
        let headers = headers.map_err(|error| failed(&format!("asking for the headers of {from} to {}", tip.height), &error))?;
        Ok(Stretch { from, tip, headers })
    }

    /// Addresses under their canonical texts, with every listed asset.
    fn watching(&self, addresses: &[Address]) -> WatchSet {
        let mut watch = WatchSet::default();
        self.source.profile().assets.iter().for_each(|asset| watch.put_asset(asset.clone()));
        for address in addresses {
            let (origin, state) = (WatchOrigin::Config, WatchState::Watching);
            watch.put_address(WatchEntry {
                address: address.clone(),
                reference: None,
                from: Height(0),
                origin,
                state,
                history: None,
            });
        }
        watch
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, Finding> {
        let answer = self.source.transfers(from, to, watch).await;
        answer.map_err(|error| failed(&format!("reading the payments of blocks {from} to {}", to.height), &error))
    }

    /// Reads the stretch; says so if there are fewer payments than the rule needs.
    async fn read(&self, needed: usize) -> Result<Read, Finding> {
        let stretch = self.stretch().await?;
        let watch = self.watching(&self.addresses);
        let transfers = self.transfers(stretch.from, &stretch.tip, &watch).await?;
        if transfers.len() < needed {
            let (found, known) = (transfers.len(), self.addresses.len());
            let (from, to) = (stretch.from, stretch.tip.height);
            return Err(Finding::not_observed(format!(
                "it needs {needed} payments, blocks {from} to {to} hold {found} to the {known} addresses looked for; name others with --address, or more --blocks"
            )));
        }
        Ok(Read { stretch, watch, transfers })
    }
}

/// Why looking can't judge a rule.
fn unseen_because(rule: &str) -> &'static str {
    match rule {
        "S8" => "it shows when a transaction is mined again; looking makes no reorg",
        "S11" | "S12" => "it shows in trouble; looking makes none",
        "S14" => "it shows when a node hands out a spoilt block; looking spoils none",
        "S16" => "it shows against what somebody paid; looking pays nothing",
        "S19" => "it shows against what the chain locked; looking locks nothing",
        _ => "looking can't tell",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use confirmd_testkit::{Pay, ScriptedChain, scripted_profile};

    #[test]
    fn the_rules_and_their_titles_are_those_of_the_contract() {
        let page = include_str!("../../../../../docs/contracts/source.md");
        for (rule, title) in RULES {
            assert!(page.contains(&format!("\n**{rule} {title}.**")), "{rule} {title}");
        }
        assert_eq!(page.lines().filter(|line| line.starts_with("**S")).count(), RULES.len());
    }

    async fn seen(chain: &ScriptedChain, addresses: &[&str]) -> Vec<(&'static str, super::super::report::Verdict)> {
        let addresses = addresses.iter().map(|text| ScriptedChain::address(text)).collect();
        let node = Node { source: chain, addresses, blocks: 10, secrets: Vec::new() };
        look(&node).await.into_iter().map(|line| (line.rule, line.verdict)).collect()
    }

    #[tokio::test]
    async fn payments_are_needed_to_judge_what_is_about_payments() {
        use super::super::report::Verdict::{Holds, NotObserved};
        let chain = ScriptedChain::new(scripted_profile("look", 1, 5));
        chain.mine([Pay::new("one", "alice", 5), Pay::new("two", "alice", 6)]);
        chain.mine_empty(3);
        let with = seen(&chain, &["alice"]).await;
        let without = seen(&chain, &["bob"]).await;
        for rule in ["S1", "S2", "S3", "S4", "S9", "S13"] {
            assert!(with.contains(&(rule, Holds)) && without.contains(&(rule, Holds)), "{rule}: {with:?} {without:?}");
        }
        for rule in ["S5", "S6", "S7", "S20"] {
            assert!(with.contains(&(rule, Holds)) && without.contains(&(rule, NotObserved)), "{rule}: {with:?} {without:?}");
        }
        for rule in ["S8", "S10", "S11", "S12", "S14", "S16", "S19"] {
            assert!(with.contains(&(rule, NotObserved)), "{rule}: {with:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_comes_and_goes_breaks_the_rule_of_scope() {
        use super::super::report::Verdict::Broken;
        let chain = ScriptedChain::new(scripted_profile("look", 1, 5));
        chain.mine([Pay::new("one", "alice", 5)]);
        chain.mine_empty(3);
        let node = Node { source: &chain, addresses: vec![ScriptedChain::address("alice")], blocks: 10, secrets: Vec::new() };
        let read = node.read(1).await.map_err(|finding| finding.text).unwrap();
        chain.answer_empty(1);
        assert_eq!(node.same_again(&read).await.unwrap_err().verdict, Broken);
    }
}
