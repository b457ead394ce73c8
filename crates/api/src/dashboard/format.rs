//! How values look.

use super::fields::segment;
use crate::view::DepositView;
use confirmd_core::{BlockRef, ChainName, DeliveryState, DepositState, Timestamp};
use maud::{Markup, html};
use serde::Serialize;

/// The word an enum has in the API.
pub(super) fn word(of: &impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// A text of somebody else's: set apart from its surroundings in direction, and what would be invisible is shown by its number.
pub(super) fn foreign(text: &str) -> Markup {
    let mut parts: Vec<Result<String, char>> = Vec::new();
    for character in text.chars() {
        match (is_hidden(character), parts.last_mut()) {
            (true, _) => parts.push(Err(character)),
            (false, Some(Ok(part))) => part.push(character),
            (false, _) => parts.push(Ok(character.to_string())),
        }
    }
    html! {
        bdi {
            @for part in &parts {
                @match part {
                    Ok(text) => { (text) }
                    Err(hidden) => { span.hidden-character { "U+" (format!("{:04X}", u32::from(*hidden))) } }
                }
            }
        }
    }
}

/// Controls, and what turns the direction of text around or joins without being seen.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(u32::from(character), 0xAD | 0x61C | 0x180E | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xE0000..=0xE007F)
}

/// A long hash or address, its middle left out; the whole of it is the title, and is what is copied from its own page.
pub(super) fn short(text: &str) -> Markup {
    let count = text.chars().count();
    if count <= 20 {
        return html! { code { (text) } };
    }
    let head: String = text.chars().take(10).collect();
    let tail: String = text.chars().skip(count.saturating_sub(8)).collect();
    html! { code title=(text) { (head) "…" (tail) } }
}

/// A block.
pub(super) fn block(block: &BlockRef) -> Markup {
    html! { span.number { (grouped(block.height.0)) } " " (short(block.hash.as_str())) }
}

/// Thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len().saturating_add(digits.len() / 3));
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && digits.len().saturating_sub(place) % 3 == 0 {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// `1 delivery`, `2 deliveries`.
pub(super) fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { more })
}

/// A time as far away as it is.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// How long ago, with the time itself as the title.
pub(super) fn ago(text: &str, now: Timestamp) -> Markup {
    match Timestamp::from_rfc3339(text) {
        Some(at) => html! { time datetime=(text) title=(text) { (span(now.since(at).as_secs())) " ago" } },
        None => html! { (text) },
    }
}

/// The time itself, without the letters that machines need.
pub(super) fn time(text: &str) -> Markup {
    let plain = text.replace('T', " ").replace('Z', "");
    html! { time datetime=(text) { (plain) } }
}

/// In coins, exactly, with the symbol.
pub(super) fn amount(deposit: &DepositView) -> Markup {
    html! {
        span.number title={ (deposit.amount) " base units" } { (coins(&deposit.amount.to_string(), deposit.asset.decimals)) }
        " " (foreign(&deposit.asset.symbol))
    }
}

fn coins(units: &str, decimals: u8) -> String {
    let decimals = usize::from(decimals);
    let padded = format!("{units:0>width$}", width = decimals.saturating_add(1));
    let (whole, part) = padded.split_at(padded.len().saturating_sub(decimals));
    match part.trim_end_matches('0') {
        "" => whole.to_owned(),
        part => format!("{whole}.{part}"),
    }
}

/// A state: a colour and always the word.
pub(super) fn badge(class: &str, text: &str) -> Markup {
    html! { span.badge.(class) { (text) } }
}

pub(super) fn deposit_state(state: DepositState) -> Markup {
    let class = match state {
        DepositState::Pending => "wait",
        DepositState::Confirmed | DepositState::Settled => "good",
        DepositState::Orphaned | DepositState::BelowMinimum => "quiet",
        DepositState::Reverted => "bad",
    };
    badge(class, &word(&state))
}

pub(super) fn delivery_state(state: DeliveryState) -> Markup {
    let class = match state {
        DeliveryState::Queued => "quiet",
        DeliveryState::Retrying | DeliveryState::Blocked => "wait",
        DeliveryState::Delivered => "good",
        DeliveryState::Dead => "bad",
        DeliveryState::Skipped => "quiet",
    };
    badge(class, &word(&state))
}

/// Where the life of a deposit is shown.
pub(super) fn deposit_path(chain: &ChainName, tx_id: &str, output_index: u32) -> String {
    format!("/deposits/{}/{}/{output_index}", segment(chain.as_str()), segment(tx_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_well_and_stay_exact() {
        assert_eq!(coins("1000000000000000005", 18), "1.000000000000000005");
        assert_eq!((coins("5", 8), coins("500000000", 8), coins("7", 0)), ("0.00000005".into(), "5".into(), "7".into()));
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".into(), "1\u{2009}234\u{2009}567".into()));
        assert_eq!((span(59), span(3_660), span(90_000)), ("59 s".into(), "1 h 1 min".into(), "1 d 1 h".into()));
        assert_eq!(counted(1, "delivery", "deliveries"), "1 delivery");
    }

    #[test]
    fn what_hides_or_turns_text_is_shown_by_its_number() {
        let shown = foreign("ab\u{202E}cd\u{200B}<b>\"'").into_string();
        assert!(shown.contains("U+202E") && shown.contains("U+200B"), "{shown}");
        assert!(!shown.contains('\u{202E}') && !shown.contains("<b>") && shown.starts_with("<bdi>"), "{shown}");
    }
}
