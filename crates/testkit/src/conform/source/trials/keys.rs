//! S8 and S20: keys that last, and what they must not depend on.

use super::super::scene::{Scene, tried};
use super::super::{Act, SourceHarness};
use crate::Remine;
use crate::conform::{Broken, Verdict, hold};
use confirmd_core::{Address, Amount, AssetId, DepositKey, Transfer, WatchSet};
use std::collections::BTreeMap;

/// What each key stands for.
type Meanings = BTreeMap<DepositKey, (Address, AssetId, Amount)>;

fn meanings(transfers: &[Transfer]) -> Meanings {
    let payment = |t: &Transfer| (t.payment.address.clone(), t.payment.asset.clone(), t.payment.amount);
    transfers.iter().map(|t| (t.key.clone(), payment(t))).collect()
}

async fn read(scene: &Scene<'_>, numbers: &[usize]) -> Result<Meanings, Broken> {
    Ok(meanings(&scene.read(&scene.watch(numbers)?).await?))
}

/// Two transactions in a block, of several outputs where that can be.
async fn paid(harness: &dyn SourceHarness, several: bool) -> Result<Scene<'_>, Broken> {
    let mut scene = Scene::begin(harness).await?;
    scene.mine(1).await?;
    for n in [10, 20] {
        if several {
            scene.pay_many(&[(2, n), (0, n + 1), (1, n + 2), (0, n + 1)]).await?;
        } else {
            scene.pay(0, n + 1).await?;
            scene.pay(1, n + 2).await?;
        }
    }
    scene.mine(3).await?;
    Ok(scene)
}

pub(crate) async fn s8_higher(harness: &dyn SourceHarness) -> Verdict {
    mined_again(paid(harness, false).await?, Remine::Later(1)).await
}

pub(crate) async fn s8_same_height(harness: &dyn SourceHarness) -> Verdict {
    mined_again(paid(harness, false).await?, Remine::Keep).await
}

pub(crate) async fn s8_position(harness: &dyn SourceHarness) -> Verdict {
    mined_again(paid(harness, false).await?, Remine::AnotherPosition).await
}

pub(crate) async fn s8_outputs(harness: &dyn SourceHarness) -> Verdict {
    mined_again(paid(harness, true).await?, Remine::AnotherPosition).await
}

async fn mined_again(scene: Scene<'_>, remine: Remine) -> Verdict {
    let watch = scene.watch(&[0, 1])?;
    let before = scene.read(&watch).await?;
    hold!(!before.is_empty(), "nothing was read before the fork");
    scene.act(Act::Fork { depth: 3, remine }).await?;
    let after = scene.read(&watch).await?;
    let (kept, now) = (meanings(&before), meanings(&after));
    hold!(kept == now, "mined again ({remine:?}), the keys {kept:?} became {now:?}");
    let blocks = |found: &[Transfer]| found.iter().map(|t| t.block.hash.clone()).collect::<Vec<_>>();
    hold!(blocks(&before).iter().all(|hash| !blocks(&after).contains(hash)), "a block is named that the fork replaced");
    let places = |found: &[Transfer]| found.iter().map(|t| (t.block.height, t.position)).collect::<Vec<_>>();
    let moved = matches!(remine, Remine::Later(_) | Remine::AnotherPosition);
    hold!(!moved || places(&before) != places(&after), "the harness did not move the transactions ({remine:?})");
    Ok(())
}

pub(crate) async fn s20_watched(harness: &dyn SourceHarness) -> Verdict {
    others_watched(paid(harness, false).await?).await
}

pub(crate) async fn s20_outputs(harness: &dyn SourceHarness) -> Verdict {
    others_watched(paid(harness, true).await?).await
}

/// An address' keys are the same alone and among others.
async fn others_watched(mut scene: Scene<'_>) -> Verdict {
    for place in ["near the tip", "far below the tip"] {
        let together = read(&scene, &[0, 1, 2, 3]).await?;
        for number in [0, 1] {
            let alone = read(&scene, &[number]).await?;
            let address = scene.address(number)?;
            let own: Meanings =
                together.iter().filter(|(_, (to, ..))| *to == address).map(|(k, v)| (k.clone(), v.clone())).collect();
            hold!(!alone.is_empty(), "{place}: nothing was read for {address}");
            hold!(alone == own, "{place}: alone {address} has {alone:?}, among others {own:?}");
        }
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s20_listed(harness: &dyn SourceHarness) -> Verdict {
    let scene = paid(harness, false).await?;
    let all = read(&scene, &[0, 1]).await?;
    let mut first = WatchSet::default();
    scene.watch(&[0, 1])?.addresses().for_each(|entry| first.put_address(entry));
    scene.source.profile().assets.iter().take(1).for_each(|asset| first.put_asset(asset.clone()));
    let one = meanings(&scene.read(&first).await?);
    hold!(one == all, "with one asset listed the keys are {one:?}, with all {all:?}");
    Ok(())
}

pub(crate) async fn s20_ranges(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = paid(harness, false).await?;
    let near = read(&scene, &[0, 1]).await?;
    let watch = scene.watch(&[0, 1])?;
    let mut alone = Meanings::new();
    for height in scene.paid_heights() {
        alone.extend(meanings(&scene.read_range(height, height, &watch).await?));
    }
    hold!(alone == near, "read block by block the keys are {alone:?}, read together {near:?}");
    scene.bury().await?;
    let deep = read(&scene, &[0, 1]).await?;
    hold!(deep == near, "far below the tip the keys are {deep:?}, near it {near:?}");
    Ok(())
}

pub(crate) async fn s20_restart(harness: &dyn SourceHarness) -> Verdict {
    let scene = paid(harness, false).await?;
    let before = read(&scene, &[0, 1]).await?;
    let another = scene.harness.restarted().await?;
    let tip = scene.tip().await?;
    let again = another.transfers(scene.first, &tip, &scene.watch(&[0, 1])?).await.map_err(tried("transfers after a restart"))?;
    let again = meanings(&again);
    hold!(again == before, "after a restart the keys are {again:?}, before {before:?}");
    hold!(another.profile() == scene.source.profile(), "the profile is another one after a restart");
    Ok(())
}

pub(crate) async fn s20_reordered(harness: &dyn SourceHarness) -> Verdict {
    let scene = paid(harness, false).await?;
    let before = read(&scene, &[0, 1]).await?;
    scene.act(Act::Reorder).await?;
    let after = read(&scene, &[0, 1]).await?;
    hold!(after == before, "with answers in another order the keys are {after:?}, before {before:?}");
    Ok(())
}
