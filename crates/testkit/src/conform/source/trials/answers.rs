//! S5 and S10: what belongs into an answer.

use super::super::scene::{Scene, entry, rows, same};
use super::super::{Act, SourceHarness};
use crate::Remine;
use crate::conform::{Verdict, hold};
use confirmd_core::{WatchSet, WatchState};

pub(crate) async fn s5_range(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    ranges(&scene, "near the tip").await?;
    scene.bury().await?;
    ranges(&scene, "far below the tip").await
}

/// Every range of the trial's blocks that begins or ends at a payment.
async fn ranges(scene: &Scene<'_>, place: &str) -> Verdict {
    let watch = scene.watch(&[0, 1])?;
    let last = scene.paid_heights().last().copied().unwrap_or(scene.first).next();
    for from in scene.first.0..=last.0 {
        for to in from..=last.0 {
            let (from, to) = (confirmd_core::Height(from), confirmd_core::Height(to));
            let found = rows(&scene.read_range(from, to, &watch).await?);
            same(&found, &scene.expected(&[0, 1], from, to)?, &format!("{from} to {to}, {place}"))?;
        }
    }
    Ok(())
}

pub(crate) async fn s5_watched(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for place in ["near the tip", "far below the tip"] {
        for numbers in [&[0][..], &[1], &[0, 1], &[2], &[0, 2, 3], &[]] {
            scene.holds_all(numbers, &format!("watching {numbers:?} {place}")).await?;
        }
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s5_listed(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::with_payments(harness).await?;
    for place in ["near the tip", "far below the tip"] {
        let mut unlisted = WatchSet::default();
        unlisted.put_address(entry(scene.address(0)?, WatchState::Watching));
        let found = rows(&scene.read(&unlisted).await?);
        same(&found, &[], &format!("with no asset listed, {place}"))?;
        // Listing the others than the one that is paid in changes nothing.
        for asset in scene.source.profile().assets.iter().skip(1) {
            unlisted.put_asset(asset.clone());
        }
        let found = rows(&scene.read(&unlisted).await?);
        same(&found, &[], &format!("with only other assets listed, {place}"))?;
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s5_leaving(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    let mut leaving = scene.watch(&[])?;
    leaving.put_address(entry(scene.address(0)?, WatchState::Removed));
    same(&rows(&scene.read(&leaving).await?), &scene.all(&[0])?, "a leaving address")?;
    let mut delisted = scene.watch(&[0])?;
    for asset in &scene.source.profile().assets {
        delisted.put_asset(confirmd_core::ListedAsset { delisted: true, ..asset.clone() });
    }
    same(&rows(&scene.read(&delisted).await?), &scene.all(&[0])?, "a delisted asset")
}

pub(crate) async fn s5_fork(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::begin(harness).await?;
    scene.mine(1).await?;
    scene.pay(0, 1).await?;
    scene.mine(1).await?;
    let stays = scene.all(&[0])?;
    scene.pay(0, 2).await?;
    scene.mine(2).await?;
    scene.holds_all(&[0], "before the fork").await?;
    scene.act(Act::Fork { depth: 2, remine: Remine::Drop }).await?;
    let found = rows(&scene.read(&scene.watch(&[0])?).await?);
    same(&found, &stays, "after a fork that dropped the second payment")
}

pub(crate) async fn s10_decoys(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::begin(harness).await?;
    scene.mine(1).await?;
    let to = scene.harness.address(0);
    scene.act(Act::PayDecoys { to: to.clone() }).await?;
    scene.pay(0, 1).await?;
    scene.mine(1).await?;
    scene.act(Act::PayDecoys { to }).await?;
    scene.mine(2).await?;
    for place in ["near the tip", "far below the tip"] {
        scene.holds_all(&[0], &format!("one payment among what looks like one, {place}")).await?;
        scene.bury().await?;
    }
    let found = scene.read(&scene.watch(&[0])?).await?;
    hold!(found.iter().all(|t| !t.payment.amount.is_zero()), "a transfer of nothing: {found:?}");
    Ok(())
}
