#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use crate::KIND;
use crate::numeric::Numeric;
use bytes::BytesMut;
use confirmd_core::{Amount, ConsumerName, SinkContext};
use tokio_postgres::types::{FromSql, ToSql, Type};

#[test]
fn g12_amounts_are_exact_in_the_databases_own_form() {
    let mut all = vec!["0", "1", "9999", "10000", "10001", "100000000", "123456789012345678"]
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    all.push(Amount::MAX.to_string());
    all.push(format!("1{}", "0".repeat(77)));
    for text in all {
        let amount: Amount = text.parse().unwrap();
        let mut out = BytesMut::new();
        Numeric(amount).to_sql(&Type::NUMERIC, &mut out).unwrap();
        assert_eq!(Numeric::from_sql(&Type::NUMERIC, &out).unwrap().0, amount, "{text}");
    }
}

#[test]
fn the_example_builds_and_mistakes_are_refused_by_name() {
    let build = |text: &str| {
        let mut table: toml::Table = text.parse().unwrap();
        table.remove("kind");
        (KIND.build)(SinkContext { consumer: ConsumerName::new("ledger").unwrap() }, table)
    };
    build(KIND.example.strip_prefix("[sinks.books]").unwrap()).unwrap();
    let url = "url = 'postgres://u@127.0.0.1/x'\n";
    assert!(build("").unwrap_err().to_string().contains("url"));
    assert!(build(&format!("{url}table = 1")).unwrap_err().to_string().contains("table"));
    assert!(build(&format!("{url}schema = 'a b'")).unwrap_err().to_string().contains("schema"));
    assert_eq!(build(&format!("{url}on_confirmed = 'select 1'")).unwrap_err().key, "on_reverted");
    assert_eq!(build(&format!("{url}timeout = '0s'")).unwrap_err().key, "timeout");
    let error = build("url = 'postgres://u:hunter2@127.0.0.1/x'").unwrap_err();
    assert!(error.key == "url" && !error.to_string().contains("hunter2"), "{error}");
}
