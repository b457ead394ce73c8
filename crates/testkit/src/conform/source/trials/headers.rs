//! S1 to S4 and S18: who the node is, its tip, its headers, its finality.

use super::super::scene::{Scene, tried};
use super::super::{Act, SourceHarness};
use crate::Remine;
use crate::conform::{Broken, Verdict, hold};
use confirmd_core::{BlockHeader, FinalityTag, Height, SourceErrorKind};

const TAGS: [FinalityTag; 2] = [FinalityTag::Safe, FinalityTag::Finalized];

pub(crate) async fn s1_configured(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::begin(harness).await?;
    let found = scene.source.identify().await.map_err(tried("identify"))?;
    let configured = &scene.source.profile().chain;
    hold!(found == *configured, "identify says {found}, configured is {configured}");
    Ok(())
}

pub(crate) async fn s1_another_network(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    scene.source.identify().await.map_err(tried("identify"))?;
    scene.act(Act::ChangeNetwork).await?;
    let configured = &scene.source.profile().chain;
    match scene.source.identify().await {
        Ok(found) => hold!(found != *configured, "another network answers, and identify still says {found}"),
        Err(error) => hold!(error.kind == SourceErrorKind::Fatal, "another network answers: {:?}: {error}", error.kind),
    }
    scene.harness.repair().await?;
    s1_configured(harness).await
}

pub(crate) async fn s1_reconnect(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::begin(harness).await?;
    scene.source.tip().await.map_err(tried("tip"))?;
    let before = scene.source.connection();
    scene.source.tip().await.map_err(tried("tip"))?;
    hold!(scene.source.connection() == before, "connection moved though nothing happened");
    scene.act(Act::Reconnect).await?;
    // The first call may find the old connection closed.
    if scene.source.tip().await.is_err() {
        scene.source.tip().await.map_err(tried("tip after a reconnect"))?;
    }
    hold!(scene.source.connection() != before, "the connection was lost and made anew, and connection is still {before}");
    Ok(())
}

pub(crate) async fn s2_tip(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for blocks in [0, 1, 3] {
        scene.mine(blocks).await?;
        let (tip, network) = (scene.source.tip().await.map_err(tried("tip"))?, scene.tip().await?);
        hold!(tip == network, "tip is {tip}, the network's is {network}");
        is_header_at(&scene, &tip).await?;
    }
    Ok(())
}

async fn is_header_at(scene: &Scene<'_>, tip: &confirmd_core::BlockRef) -> Verdict {
    let header = scene.source.header_at(tip.height).await.map_err(tried("header_at the tip"))?;
    let at = header.as_ref().map(|header| &header.block);
    hold!(at == Some(tip), "tip is {tip}, header_at({}) is {at:?}", tip.height);
    Ok(())
}

pub(crate) async fn s2_lagging(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    let shown = scene.block(scene.tip().await?.height.minus(2)).await?;
    scene.source.tip().await.map_err(tried("tip"))?;
    scene.act(Act::Lag(2)).await?;
    let tip = scene.source.tip().await.map_err(tried("tip"))?;
    hold!(tip == shown, "the node shows {shown} as its last block, tip is {tip}");
    is_header_at(&scene, &tip).await
}

pub(crate) async fn s3_above(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    let tip = scene.tip().await?.height;
    for above in [1, 2, 1_000, 1_000_000] {
        let found = scene.source.header_at(tip.plus(above)).await.map_err(tried("header_at above the tip"))?;
        hold!(found.is_none(), "{above} above the tip there is {found:?}");
    }
    let found = scene.source.headers(tip.plus(1), tip.plus(3)).await.map_err(tried("headers above the tip"))?;
    hold!(found.is_empty(), "headers above the tip are {found:?}");
    let found = scene.source.headers(tip.minus(1), tip.plus(3)).await.map_err(tried("headers beyond the tip"))?;
    hold!(found.len() == 2, "headers from one below the tip to 3 above it are {}", found.len());
    Ok(())
}

pub(crate) async fn s3_empty_slot(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::begin(harness).await?;
    scene.mine(1).await?;
    let below = scene.tip().await?;
    scene.act(Act::SkipSlot).await?;
    scene.mine(2).await?;
    let slot = below.height.next();
    let found = scene.source.header_at(slot).await.map_err(tried("header_at an empty slot"))?;
    hold!(found.is_none(), "the slot at {slot} is empty, header_at says {found:?}");
    let next = scene.source.header_at(slot.next()).await.map_err(tried("header_at behind an empty slot"))?;
    let parent = next.map(|header| header.parent);
    hold!(parent.as_ref() == Some(&below.hash), "the block behind the empty slot links to {parent:?}, not to {below}");
    let span = scene.source.headers(below.height, slot.plus(2)).await.map_err(tried("headers over an empty slot"))?;
    hold!(span.len() == 3, "headers over an empty slot are {}, not the 3 blocks there are", span.len());
    Ok(())
}

pub(crate) async fn s4_link(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    agree(&scene).await?;
    scene.bury().await?;
    agree(&scene).await
}

pub(crate) async fn s4_fork(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    agree(&scene).await?;
    scene.act(Act::Fork { depth: 3, remine: Remine::Drop }).await?;
    agree(&scene).await
}

/// Headers of all heights agree with the network, one by one and together, and link.
async fn agree(scene: &Scene<'_>) -> Verdict {
    let (from, to) = (scene.first.minus(1), scene.tip().await?.height);
    let together = scene.source.headers(from, to).await.map_err(tried("headers"))?;
    let mut one_by_one: Vec<BlockHeader> = Vec::new();
    for height in (from.0..=to.0).map(Height) {
        let header = scene.source.header_at(height).await.map_err(tried("header_at"))?;
        let (header, network) =
            (header.ok_or_else(|| Broken::new(format!("no header at {height}")))?, scene.block(height).await?);
        hold!(header.block == network, "header_at({height}) is {}, the network has {network}", header.block);
        one_by_one.push(header);
    }
    hold!(together == one_by_one, "headers({from}, {to}) are not those that header_at gives: {together:?} and {one_by_one:?}");
    for pair in together.windows(2) {
        if let [parent, child] = pair {
            hold!(
                child.parent == parent.block.hash,
                "{} names {} as its parent, not {}",
                child.block,
                child.parent,
                parent.block
            );
        }
    }
    Ok(())
}

pub(crate) async fn s18_absence(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    // Where the chain has a finality, a node that does not know it yet.
    if scene.facts.finality {
        scene.act(Act::ForgetFinality).await?;
    }
    for tag in TAGS {
        let found = scene.source.finalized(tag).await.map_err(tried("finalized"))?;
        hold!(found.is_none(), "nothing is {} yet, finalized says {found:?}", tag.as_str());
    }
    Ok(())
}

pub(crate) async fn s18_mark(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for _ in 0..2 {
        let mark = scene.block(scene.tip().await?.height.minus(1)).await?;
        scene.act(Act::Finalize(mark.height)).await?;
        for tag in TAGS {
            let found = scene.source.finalized(tag).await.map_err(tried("finalized"))?;
            hold!(found.as_ref() == Some(&mark), "the chain calls {mark} {}, finalized says {found:?}", tag.as_str());
        }
        let at = scene.source.header_at(mark.height).await.map_err(tried("header_at"))?.map(|header| header.block);
        hold!(at.as_ref() == Some(&mark), "{mark} is final, header_at says {at:?}");
        scene.mine(2).await?;
    }
    Ok(())
}
