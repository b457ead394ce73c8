//! S15, S16 and S19: addresses, amounts, maturity.

use super::super::scene::{Scene, rows, same};
use super::super::{Act, SourceHarness};
use crate::conform::{Broken, Verdict, hold};
use confirmd_core::Amount;

/// 2^53 + 1: the first whole number that a double can't hold.
const BEYOND_DOUBLES: u64 = 9_007_199_254_740_993;

pub(crate) async fn s15_spellings(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::begin(harness).await?;
    let groups = &scene.facts.spellings;
    hold!(groups.iter().any(|group| group.len() > 1), "the harness names no address that can be spelled in two ways");
    let mut canonical = Vec::new();
    for group in groups {
        let read = |text: &String| scene.source.parse_address(text).map_err(|error| Broken::new(error.to_string()));
        let addresses = group.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = addresses.first() else { continue };
        for (address, text) in addresses.iter().zip(group) {
            let alike = address.bytes() == first.bytes() && address.as_str() == first.as_str();
            hold!(alike, "{text:?} is read as {address} ({:?}), {group:?} should all be {first}", address.bytes());
        }
        let again = read(&first.as_str().to_owned())?;
        hold!(again == *first && again.as_str() == first.as_str(), "the canonical {first} is read as {again}");
        hold!(!canonical.contains(first), "two addresses of the harness are read as {first}");
        canonical.push(first.clone());
    }
    Ok(())
}

pub(crate) async fn s15_matched(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    let mut seen = Vec::new();
    for number in 0..8 {
        let (text, address) = (scene.harness.address(number), scene.address(number)?);
        hold!(address.as_str() == text, "the canonical {text:?} is read as {:?}", address.as_str());
        hold!(!seen.contains(&address), "two addresses of the harness are read as {address}");
        seen.push(address);
    }
    for transfer in scene.read(&scene.watch(&[0, 1])?).await? {
        let (to, numbers) = (&transfer.payment.address, [scene.address(0)?, scene.address(1)?]);
        let known = numbers.iter().any(|address| address == to && address.as_str() == to.as_str());
        hold!(known, "a payment is to {to}, which is not how the watched address is spelled");
    }
    Ok(())
}

pub(crate) async fn s15_refused(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::begin(harness).await?;
    let refused = &scene.facts.refused;
    hold!(refused.len() > 1, "the harness names fewer than two texts that must be refused");
    let own = scene.harness.address(0);
    let nonsense = [
        String::new(),
        " ".into(),
        format!(" {own}"),
        format!("{own} "),
        format!("{own}\0"),
        format!("{own}{own}"),
        "ß".repeat(64),
        "1".repeat(100_000),
    ];
    let given = refused.iter().map(|refused| (refused.text.clone(), refused.because));
    for (text, because) in given.chain(nonsense.into_iter().map(|text| (text, "nonsense"))) {
        let shown: String = text.chars().take(100).collect();
        match scene.source.parse_address(&text) {
            Ok(address) => return Err(Broken::new(format!("{shown:?} ({because}) is accepted as {address}"))),
            Err(error) => {
                hold!(!error.problem.is_empty() && !error.network.is_empty(), "{shown:?} is refused without a reason");
                hold!(error.to_string().len() < 2_000, "the reason against {shown:?} repeats all of a text without bounds");
            }
        }
    }
    Ok(())
}

pub(crate) async fn s16_amounts(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::begin(harness).await?;
    scene.mine(1).await?;
    let (smallest, largest) = (scene.facts.smallest, scene.facts.largest);
    let more = smallest.checked_add(Amount::from(1)).unwrap_or(largest);
    let edges = [Amount::from(BEYOND_DOUBLES), Amount::from(u64::MAX), Amount::from(u64::from(u32::MAX) + 1)];
    for amount in [smallest, more, largest].into_iter().chain(edges).filter(|amount| *amount <= largest) {
        scene.pay_amounts(&[(0, amount)]).await?;
    }
    scene.mine(2).await?;
    scene.holds_all(&[0], "exact amounts, near the tip").await?;
    scene.bury().await?;
    scene.holds_all(&[0], "exact amounts, far below the tip").await
}

pub(crate) async fn s19_locked(harness: &dyn SourceHarness) -> Verdict {
    let mut scene = Scene::begin(harness).await?;
    scene.mine(1).await?;
    scene.act(Act::PayLocked { to: scene.harness.address(0) }).await?;
    scene.pay(1, 1).await?;
    scene.mine(2).await?;
    for place in ["near the tip", "far below the tip"] {
        let locked = scene.read(&scene.watch(&[0])?).await?;
        hold!(!locked.is_empty(), "{place}: what the chain locks was not read");
        for transfer in &locked {
            let (found, due) = (transfer.maturity, scene.facts.maturity);
            hold!(due.is_some() && found == due, "{place}: a locked payment waits for {found:?}, the chain asks for {due:?}");
        }
        let free = scene.read(&scene.watch(&[1])?).await?;
        same(&rows(&free), &scene.all(&[1])?, place)?;
        hold!(free.iter().all(|t| t.maturity.is_none()), "{place}: an ordinary payment waits: {free:?}");
        scene.bury().await?;
    }
    Ok(())
}

pub(crate) async fn s19_free(harness: &dyn SourceHarness) -> Verdict {
    let scene = Scene::with_payments(harness).await?;
    for transfer in scene.read(&scene.watch(&[0, 1])?).await? {
        hold!(transfer.maturity.is_none(), "an ordinary payment waits for {:?}: {transfer:?}", transfer.maturity);
    }
    Ok(())
}
