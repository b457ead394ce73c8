//! S6 and S7: order and unique keys.

use super::super::SourceHarness;
use super::super::scene::{Scene, rows, same};
use crate::conform::{Broken, Verdict, hold};
use confirmd_core::Transfer;
use std::collections::{BTreeMap, BTreeSet};

/// Many payments: several blocks, several transactions in a block, several outputs in a transaction where that can be.
async fn busy<'a>(harness: &'a dyn SourceHarness, outputs: &[(usize, u64)]) -> Result<Scene<'a>, Broken> {
    let mut scene = Scene::begin(harness).await?;
    for block in 0..3 {
        for tx in 0..4 {
            let outputs: Vec<_> = outputs.iter().map(|(to, units)| (*to, units + 100 * tx + 1_000 * block)).collect();
            scene.pay_many(&outputs).await?;
        }
        scene.mine(1).await?;
    }
    scene.mine(1).await?;
    Ok(scene)
}

pub(crate) async fn s6_blocks(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = busy(harness, &[(0, 1)]).await?;
    ordered(&scene, "near the tip").await?;
    scene.bury().await?;
    ordered(&scene, "far below the tip").await
}

pub(crate) async fn s6_outputs(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = busy(harness, &[(1, 9), (0, 5), (1, 7), (0, 5)]).await?;
    ordered(&scene, "near the tip").await?;
    scene.bury().await?;
    ordered(&scene, "far below the tip").await
}

async fn ordered(scene: &Scene<'_>, place: &str) -> Verdict {
    let found = scene.read(&scene.watch(&[0, 1])?).await?;
    let at = |t: &Transfer| (t.block.height, t.position, t.key.output_index);
    for pair in found.windows(2) {
        if let [one, next] = pair {
            hold!(at(one) <= at(next), "{place}: {:?} at {:?} comes before {:?} at {:?}", one.key, at(one), next.key, at(next));
        }
    }
    // Two transactions of one block have two positions, and one has one.
    let mut places: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for transfer in &found {
        places.entry((transfer.block.height, transfer.position)).or_default().insert(transfer.key.tx_id.clone());
    }
    let transactions: BTreeSet<_> = found.iter().map(|t| t.key.tx_id.clone()).collect();
    hold!(places.values().all(|txs| txs.len() == 1), "{place}: two transactions have one position: {places:?}");
    hold!(places.len() == transactions.len(), "{place}: one transaction has two positions: {places:?}");
    Ok(())
}

pub(crate) async fn s7_outputs(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = busy(harness, &[(0, 5), (1, 7), (0, 5), (0, 6)]).await?;
    for place in ["near the tip", "far below the tip"] {
        let found = scene.read(&scene.watch(&[0, 1])?).await?;
        unique(&found, place)?;
        same(&rows(&found), &scene.all(&[0, 1])?, &format!("several payments in one transaction, {place}"))?;
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s7_blocks(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = busy(harness, &[(0, 5)]).await?;
    for place in ["near the tip", "far below the tip"] {
        unique(&scene.read(&scene.watch(&[0, 1])?).await?, place)?;
        scene.bury().await?;
    }
    Ok(())
}

fn unique(found: &[Transfer], place: &str) -> Verdict {
    let mut seen = BTreeSet::new();
    for transfer in found {
        hold!(seen.insert(transfer.key.clone()), "{place}: {:?} stands twice in one answer", transfer.key);
    }
    Ok(())
}
