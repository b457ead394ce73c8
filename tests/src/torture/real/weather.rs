//! A receiver that fails in every way a customer's server can.

use std::time::Duration;

use anyhow::Result;
use confirmd_testkit::receiver::Behaviour;
use tokio::sync::watch;

use super::dice::Dice;
use super::journal::Journal;
use crate::Customer;

const WHO: &str = "receiver";

/// Spoils one thing after another until the round's acts are over, then everything is well again.
pub(super) async fn spoil(
    customer: &Customer,
    dice: &mut Dice,
    journal: &Journal,
    mut over: watch::Receiver<bool>,
) -> Result<u64> {
    let receiver = customer.receiver();
    let mut faults = 0;
    loop {
        let wait = dice.time(20, 200);
        if tokio::time::timeout(wait, over.wait_for(|over| *over)).await.is_ok() {
            break;
        }
        faults += 1;
        if dice.chance(1, 6) {
            journal.note(WHO, "down");
            receiver.down().await?;
            dice.pause(50, 500).await;
            receiver.up().await?;
            journal.note(WHO, "up");
        } else {
            let (behaviour, times) = (any(dice), u32::try_from(dice.number(1, 4))?);
            journal.note(WHO, &format!("{times} times {behaviour:?}"));
            receiver.next(times, behaviour);
        }
    }
    receiver.behave();
    Ok(faults)
}

fn any(dice: &mut Dice) -> Behaviour {
    match dice.number(0, 9) {
        0 | 1 => Behaviour::ApplyThen(500),
        2 | 3 => Behaviour::ApplyThenHang,
        4 => Behaviour::ApplyThenFlood,
        5 => Behaviour::BreakOff,
        6 => Behaviour::Close,
        7 => Behaviour::Hang,
        8 => Behaviour::Status(*dice.pick(&[400, 404, 429, 500, 503])),
        // Some within the deadline of an attempt, some beyond it.
        _ => Behaviour::Delay(Duration::from_millis(dice.number(20, 500))),
    }
}
