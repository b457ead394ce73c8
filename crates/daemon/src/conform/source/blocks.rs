//! S1 to S4, S9 and S18: what a node says of its blocks.

use super::{Finding, Node, failed};
use confirmd_core::{BlockHash, BlockRef, FinalityTag, Height, SourceErrorKind, with_causes};

type Judged = Result<Finding, Finding>;

/// Above the tip, and further than the chain grows while it is looked at.
const ABOVE: u64 = 1_000;

/// A hash that no block has: another last digit.
fn made_up(hash: &BlockHash) -> Result<BlockHash, Finding> {
    let mut text = hash.as_str().to_owned();
    let last = text.pop();
    text.push(if last == Some('0') { '1' } else { '0' });
    BlockHash::new(text).map_err(|error| Finding::not_observed(format!("no hash could be made up: {error}")))
}

impl Node<'_> {
    pub(super) async fn identity(&self) -> Judged {
        let expected = &self.source.profile().chain;
        for _ in 0..2 {
            let found = self.source.identify().await.map_err(|error| failed("asking what the node serves", &error))?;
            if found != *expected {
                return Err(Finding::broken(format!("the node serves {found}, the configuration says {expected}")));
            }
        }
        Ok(Finding::holds(format!("the node serves {expected}")))
    }

    pub(super) async fn tip(&self) -> Judged {
        let tip = self.source.tip().await.map_err(|error| failed("asking for the tip", &error))?;
        let header = self.source.header_at(tip.height).await.map_err(|error| failed("asking for its header", &error))?;
        match header {
            Some(header) if header.block == tip => Ok(Finding::holds(format!("{tip} is the header at its height"))),
            Some(header) => Err(Finding::broken(format!("the tip is {tip}, the header at its height is {}", header.block))),
            None => Err(Finding::broken(format!("the tip is {tip}, and there is no header at its height"))),
        }
    }

    pub(super) async fn absence(&self) -> Judged {
        let tip = self.source.tip().await.map_err(|error| failed("asking for the tip", &error))?;
        for height in [tip.height.plus(ABOVE), tip.height.plus(ABOVE * ABOVE)] {
            let what = format!("asking for a header at {height}, above the tip");
            match self.source.header_at(height).await {
                Ok(None) => {}
                Ok(Some(header)) => return Err(Finding::broken(format!("{what}, gave {}", header.block))),
                // The node answers otherwise: what passes is not the error, and absence is none.
                Err(error) if self.source.tip().await.is_ok() => {
                    return Err(Finding::broken(format!("{what}, is an error: {}", with_causes(&error))));
                }
                Err(error) => return Err(failed(&what, &error)),
            }
        }
        let above = self.source.headers(tip.height, tip.height.plus(ABOVE)).await;
        let above = above.map_err(|error| failed("asking for headers beyond the tip", &error))?;
        match above.iter().find(|header| header.block.height.0 >= tip.height.0 + ABOVE) {
            Some(header) => Err(Finding::broken(format!("beyond the tip {} there is a header {}", tip.height, header.block))),
            None => Ok(Finding::holds(format!("nothing above {}, and no error", tip.height))),
        }
    }

    pub(super) async fn links(&self) -> Judged {
        let stretch = self.stretch().await?;
        let headers = &stretch.headers;
        for (lower, upper) in headers.iter().zip(headers.iter().skip(1)) {
            if upper.parent != lower.block.hash {
                return Err(Finding::broken(format!(
                    "{} names {} as its parent, not {}",
                    upper.block, upper.parent, lower.block
                )));
            }
            if upper.block.height <= lower.block.height {
                return Err(Finding::broken(format!("{} comes behind {}", upper.block, lower.block)));
            }
        }
        for header in [headers.first(), headers.get(headers.len() / 2), headers.last()].into_iter().flatten() {
            let at = header.block.height;
            let alone =
                self.source.header_at(at).await.map_err(|error| failed(&format!("asking for the header at {at}"), &error))?;
            if alone.as_ref() != Some(header) {
                return Err(Finding::broken(format!("asked alone, the header at {at} is {alone:?}, among others {header:?}")));
            }
        }
        match headers.last() {
            Some(last) if headers.len() > 1 && last.block == stretch.tip => {
                Ok(Finding::holds(format!("{} headers link up to {}", headers.len(), stretch.tip)))
            }
            Some(_) if headers.len() > 1 => Err(Finding::broken(format!("the headers do not end at the tip {}", stretch.tip))),
            _ => Err(Finding::not_observed(format!("there are no two blocks up to {}", stretch.tip))),
        }
    }

    pub(super) async fn orphaned(&self) -> Judged {
        let stretch = self.stretch().await?;
        let tip = &stretch.tip;
        let unknown = made_up(&tip.hash)?;
        let middle = Height(stretch.from.0 + tip.height.since(stretch.from) / 2);
        let mut wrong = vec![
            BlockRef { height: tip.height, hash: unknown.clone() },
            BlockRef { height: middle, hash: unknown.clone() },
            BlockRef { height: tip.height.plus(3), hash: unknown },
        ];
        // The tip's hash under another height.
        wrong.extend((tip.height > stretch.from).then(|| BlockRef { height: tip.height.minus(1), hash: tip.hash.clone() }));
        for to in &wrong {
            for (watch, looking) in [(self.watching(&self.addresses), "the addresses"), (self.watching(&[]), "nothing")] {
                let from = stretch.from.min(to.height);
                let answer = self.source.transfers(from, to, &watch).await;
                let what = format!("payments up to {to}, which no block is, looking for {looking}");
                match answer {
                    Ok(found) => return Err(Finding::broken(format!("{what}: answered {} payments", found.len()))),
                    Err(error) if error.kind == SourceErrorKind::Orphaned => {}
                    Err(error) if error.kind == SourceErrorKind::Fatal => {
                        return Err(Finding::broken(format!("{what}: fatal, not orphaned: {}", with_causes(&error))));
                    }
                    Err(error) => return Err(failed(&what, &error)),
                }
            }
        }
        Ok(Finding::holds(format!("{} made-up blocks are orphaned", wrong.len())))
    }

    pub(super) async fn finality(&self) -> Judged {
        let mut seen = Vec::new();
        for tag in [FinalityTag::Safe, FinalityTag::Finalized] {
            let ask = async || self.source.finalized(tag).await.map_err(|error| failed("asking what is final", &error));
            let Some(first) = ask().await? else { continue };
            let header = self.source.header_at(first.height).await.map_err(|error| failed("asking for its header", &error))?;
            if header.as_ref().is_none_or(|header| header.block != first) {
                return Err(Finding::broken(format!("{tag:?} is {first}, the best chain has {header:?}")));
            }
            let tip = self.source.tip().await.map_err(|error| failed("asking for the tip", &error))?;
            if first.height > tip.height {
                return Err(Finding::broken(format!("{tag:?} is {first}, above the tip {tip}")));
            }
            let second = ask().await?;
            if second.as_ref().is_none_or(|second| second.height < first.height) {
                return Err(Finding::broken(format!("{tag:?} was {first}, then {second:?}")));
            }
            seen.push(format!("{tag:?} is {first}"));
        }
        match seen.is_empty() {
            true => Err(Finding::not_observed("the chain has no finality of its own, or the node does not know it yet")),
            false => Ok(Finding::holds(format!("{}, on the best chain", seen.join(", ").to_lowercase()))),
        }
    }
}
