//! S5 to S7, S10, S13 and S20: what a node says of payments.

use super::{Finding, Node, Read, failed};
use confirmd_core::{Address, DepositKey, Transfer};
use futures::FutureExt;
use std::collections::{BTreeSet, HashSet};

type Judged = Result<Finding, Finding>;

/// So many addresses are read alone.
const ALONE_MAX: usize = 8;

fn place(transfer: &Transfer) -> (u64, u32, u32) {
    (transfer.block.height.0, transfer.position, transfer.key.output_index)
}

fn named(transfer: &Transfer) -> String {
    format!("{}:{} in block {}", transfer.key.tx_id, transfer.key.output_index, transfer.block.height)
}

fn difference(one: &[Transfer], other: &[Transfer]) -> String {
    let lacking = |from: &[Transfer], in_: &[Transfer]| {
        from.iter().find(|transfer| !in_.contains(transfer)).map_or_else(|| "none".to_owned(), named)
    };
    format!(
        "{} and {} payments; only in the first: {}; only in the second: {}",
        one.len(),
        other.len(),
        lacking(one, other),
        lacking(other, one)
    )
}

impl Node<'_> {
    /// In range, on the branch, watched, listed; the same again; the sum of its parts.
    pub(super) async fn scope(&self) -> Judged {
        let read = self.read(1).await?;
        let Read { stretch, watch, transfers } = &read;
        for transfer in transfers {
            let header = stretch.headers.iter().find(|header| header.block.height == transfer.block.height);
            if header.is_none_or(|header| header.block != transfer.block) {
                let branch = header.map_or_else(|| "nothing".to_owned(), |header| header.block.to_string());
                return Err(Finding::broken(format!("{} is in {}, the branch has {branch}", named(transfer), transfer.block)));
            }
            if watch.get(transfer.payment.address.bytes()).is_none() {
                return Err(Finding::broken(format!(
                    "{} pays {}, which is not watched",
                    named(transfer),
                    transfer.payment.address
                )));
            }
            if watch.asset(&transfer.payment.asset).is_none() {
                return Err(Finding::broken(format!(
                    "{} pays in {}, which is not listed",
                    named(transfer),
                    transfer.payment.asset
                )));
            }
        }
        self.same_again(&read).await?;
        let nobody = self.transfers(stretch.from, &stretch.tip, &self.watching(&[])).await?;
        if let Some(transfer) = nobody.first() {
            return Err(Finding::broken(format!("nobody was looked for, and {} was answered", named(transfer))));
        }
        Ok(Finding::holds(format!(
            "{} payments in blocks {} to {}, the same again and in parts",
            transfers.len(),
            stretch.from,
            stretch.tip.height
        )))
    }

    /// The range once more, whole and split in two at several places.
    pub(super) async fn same_again(&self, read: &Read) -> Result<(), Finding> {
        let Read { stretch, watch, transfers } = read;
        let again = self.transfers(stretch.from, &stretch.tip, watch).await?;
        if again != *transfers {
            return Err(Finding::broken(format!("read twice: {}", difference(transfers, &again))));
        }
        let count = stretch.headers.len();
        let cuts: BTreeSet<usize> = [0, count / 4, count / 2, count.saturating_sub(2)].into_iter().collect();
        for header in cuts.into_iter().filter(|cut| cut + 1 < count).filter_map(|cut| stretch.headers.get(cut)) {
            let mut parts = self.transfers(stretch.from, &header.block, watch).await?;
            parts.extend(self.transfers(header.block.height.next(), &stretch.tip, watch).await?);
            if parts != *transfers {
                let at = header.block.height;
                return Err(Finding::broken(format!(
                    "whole, and in two parts cut behind {at}: {}",
                    difference(transfers, &parts)
                )));
            }
        }
        Ok(())
    }

    pub(super) async fn order(&self) -> Judged {
        let Read { transfers, .. } = self.read(2).await?;
        for (one, next) in transfers.iter().zip(transfers.iter().skip(1)) {
            if place(one) > place(next) {
                return Err(Finding::broken(format!("{} comes before {}", named(one), named(next))));
            }
        }
        Ok(Finding::holds(format!("{} payments by height, position and output", transfers.len())))
    }

    pub(super) async fn unique(&self) -> Judged {
        let Read { transfers, .. } = self.read(2).await?;
        let mut seen: HashSet<&DepositKey> = HashSet::new();
        match transfers.iter().find(|transfer| !seen.insert(&transfer.key)) {
            Some(twice) => Err(Finding::broken(format!("{} stands twice in one answer", named(twice)))),
            None => Ok(Finding::holds(format!("{} keys, each once", transfers.len()))),
        }
    }

    /// Can be seen broken, never seen kept.
    pub(super) async fn no_deposit(&self) -> Judged {
        let Read { transfers, .. } = self.read(0).await?;
        match transfers.iter().find(|transfer| transfer.payment.amount.is_zero()) {
            Some(nothing) => Err(Finding::broken(format!("{} pays nothing", named(nothing)))),
            None => Err(Finding::not_observed("it shows against what only looks like a deposit; looking makes none")),
        }
    }

    /// Calls are dropped at their first await and a moment later; then several run at once.
    pub(super) async fn cancellation(&self) -> Judged {
        let Read { stretch, watch, transfers } = self.read(0).await?;
        let (from, tip) = (stretch.from, &stretch.tip);
        for moment_ms in [0, 1, 5, 20] {
            let moment = std::time::Duration::from_millis(moment_ms);
            drop(self.source.transfers(from, tip, &watch).now_or_never());
            drop(tokio::time::timeout(moment, self.source.transfers(from, tip, &watch)).await);
            drop(tokio::time::timeout(moment, self.source.headers(from, tip.height)).await);
        }
        let (one, two, headers) = futures::join!(
            self.transfers(from, tip, &watch),
            self.transfers(from, tip, &watch),
            self.source.headers(from, tip.height),
        );
        let headers = headers.map_err(|error| failed("asking for headers after dropped calls", &error))?;
        for found in [one?, two?] {
            if found != transfers {
                return Err(Finding::broken(format!("before and after dropped calls: {}", difference(&transfers, &found))));
            }
        }
        if headers != stretch.headers {
            return Err(Finding::broken("after dropped calls the headers are others"));
        }
        Ok(Finding::holds("after dropped calls, three at a time, the answers are the same"))
    }

    /// Each address alone, and block by block: the same keys.
    pub(super) async fn independence(&self) -> Judged {
        let Read { stretch, transfers, .. } = self.read(1).await?;
        let paid: BTreeSet<&Address> = transfers.iter().map(|transfer| &transfer.payment.address).collect();
        for address in paid.iter().copied().take(ALONE_MAX) {
            let alone = self.transfers(stretch.from, &stretch.tip, &self.watching(std::slice::from_ref(address))).await?;
            let among: Vec<_> = transfers.iter().filter(|transfer| transfer.payment.address == *address).cloned().collect();
            if alone != among {
                return Err(Finding::broken(format!("{address} among others, and alone: {}", difference(&among, &alone))));
            }
        }
        let assets = &self.source.profile().assets;
        for asset in assets.iter().filter(|_| assets.len() > 1) {
            let mut watch = self.watching(&self.addresses);
            assets.iter().filter(|other| other.asset.id != asset.asset.id).for_each(|other| watch.forget_asset(&other.asset.id));
            let alone = self.transfers(stretch.from, &stretch.tip, &watch).await?;
            let among: Vec<_> = transfers.iter().filter(|transfer| transfer.payment.asset == asset.asset.id).cloned().collect();
            if alone != among {
                return Err(Finding::broken(format!(
                    "{} among others, and alone: {}",
                    asset.asset.symbol,
                    difference(&among, &alone)
                )));
            }
        }
        let (payments, addresses) = (transfers.len(), paid.len());
        Ok(Finding::holds(format!(
            "{payments} keys are the same with {addresses} addresses and {} assets read alone",
            assets.len()
        )))
    }
}
