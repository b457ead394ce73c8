//! Amounts as PostgreSQL's `numeric`, exactly (G12).

use bytes::{BufMut, BytesMut};
use confirmd_core::Amount;
use std::error::Error;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// An amount on its way into or out of a `numeric` column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numeric(pub(crate) Amount);

/// Decimal digits in one digit of the wire form.
const GROUP: usize = 4;

impl ToSql for Numeric {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let text = self.0.to_string();
        let padded = format!("{}{text}", "0".repeat((GROUP - text.len() % GROUP) % GROUP));
        let groups = padded.as_bytes().chunks(GROUP);
        let digits = groups.map(|group| group.iter().fold(0_i16, |value, digit| value * 10 + i16::from(digit - b'0')));
        let digits: Vec<i16> = digits.skip_while(|digit| *digit == 0).collect();
        let count = i16::try_from(digits.len())?;
        out.put_i16(count);
        // The weight of the first digit, in powers of 10,000; sign plus; no digits behind the point.
        out.put_i16(count.saturating_sub(1).max(0));
        out.put_u16(0);
        out.put_u16(0);
        digits.into_iter().for_each(|digit| out.put_i16(digit));
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }

    to_sql_checked!();
}

impl FromSql<'_> for Numeric {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let words: Vec<u16> =
            raw.chunks_exact(2).filter_map(|word| <[u8; 2]>::try_from(word).ok().map(u16::from_be_bytes)).collect();
        let [count, weight, sign, _scale, digits @ ..] = words.as_slice() else { return Err("a numeric is cut short".into()) };
        let (places, count) = (usize::from(*weight) + 1, usize::from(*count));
        if *sign != 0 || digits.len() != count || (count > 0 && (count > places || places > 20)) {
            return Err("not a whole number of base units".into());
        }
        let mut text: String = digits.iter().map(|digit| format!("{digit:04}")).collect();
        text.push_str(&"0".repeat(if count == 0 { 0 } else { (places - count) * GROUP }));
        let significant = text.trim_start_matches('0');
        Ok(Self(if significant.is_empty() { Amount::ZERO } else { significant.parse()? }))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }
}
