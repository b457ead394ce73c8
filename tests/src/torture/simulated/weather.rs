//! How well the other side does for a while: what becomes of a request to a node, and of a delivery to a receiver.

use std::time::Duration;

use confirmd_testkit::receiver::Behaviour;

use super::dice::Dice;

/// The state of a node's endpoint or of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Weather {
    /// Everything is answered.
    #[default]
    Calm,
    /// One in so many of a hundred goes wrong.
    Rough(u64),
    /// Everything goes wrong, though somebody is there.
    Storm,
    /// Nobody is there.
    Down,
}

impl Weather {
    /// The next one.
    pub(super) fn next(dice: &Dice) -> Self {
        match dice.below(10) {
            0..=3 => Self::Calm,
            4..=7 => Self::Rough(dice.between(5, 50)),
            8 => Self::Storm,
            _ => Self::Down,
        }
    }

    pub(super) fn strikes(self, dice: &Dice) -> bool {
        match self {
            Self::Calm => false,
            Self::Rough(chance) => dice.percent(chance),
            Self::Storm | Self::Down => true,
        }
    }
}

/// What becomes of one request to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeFault {
    None,
    /// The connection is closed without an answer.
    Close,
    /// Never answered.
    Hang,
    /// The answer takes long, and may come too late.
    Slow(Duration),
    /// Too many requests, with a wish for later.
    Throttled(u64),
    /// Some 5xx with a page for people.
    Page(u16),
    /// 200 with something that is no answer.
    Garbage,
    /// The answer ends in the middle.
    CutOff,
    /// Results are null.
    Null,
    /// Lists are empty, where the node was asked for one block's.
    Empty,
}

impl NodeFault {
    pub(super) fn next(weather: Weather, dice: &Dice) -> Self {
        if !weather.strikes(dice) {
            return Self::None;
        }
        match dice.below(10) {
            0 => Self::Close,
            1 => Self::Hang,
            2 => Self::Slow(dice.up_to_ms(8_000)),
            3 => Self::Throttled(dice.between(0, 20)),
            4 => Self::Page(dice.pick(&[500, 502, 503, 504]).copied().unwrap_or(500)),
            5 => Self::Garbage,
            6 => Self::CutOff,
            7 => Self::Null,
            8 => Self::Empty,
            _ => Self::None,
        }
    }
}

/// What a receiver does with one delivery.
pub(super) fn behaviour(weather: Weather, dice: &Dice) -> Behaviour {
    if !weather.strikes(dice) {
        return if dice.percent(20) { Behaviour::Delay(dice.up_to_ms(3_000)) } else { Behaviour::Apply };
    }
    match dice.below(16) {
        0 | 1 => Behaviour::Status(dice.pick(&[400, 401, 404, 500, 502, 503]).copied().unwrap_or(500)),
        2 | 3 => Behaviour::ApplyThen(500),
        4 => Behaviour::ApplyThen(404),
        5 | 6 => Behaviour::ApplyThenHang,
        7 => Behaviour::BreakOff,
        8 => Behaviour::Hang,
        9 | 10 => Behaviour::Close,
        11 => Behaviour::Status(410),
        12 => {
            let header = Some(("retry-after", dice.between(0, 90).to_string()));
            Behaviour::Answer { status: dice.pick(&[429, 503]).copied().unwrap_or(429), header, body: b"later".to_vec() }
        }
        13 => Behaviour::Delay(dice.up_to_ms(40_000)),
        14 => Behaviour::ApplyThenFlood,
        _ => Behaviour::Answer { status: 302, header: Some(("location", "/elsewhere".into())), body: Vec::new() },
    }
}
