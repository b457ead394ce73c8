//! The same over real mainnet blocks.

use crate::subject::Subject;
use confirmd_hostile::cases;
use fastrand::Rng;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::path::Path;

/// Before and after Byzantium, with failed transactions, with withdrawals.
const BLOCKS: [u64; 3] = [4_370_006, 7_280_016, 17_053_184];

fn json_of(path: &Path) -> Value {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_reader(std::io::BufReader::new(GzDecoder::new(file))).unwrap()
}

fn subject(data: &Path, number: u64) -> Subject {
    let recorded = json_of(&data.join(format!("evm/ethereum_{number}_block_receipts.json.gz")));
    let traces = json_of(&data.join(format!("evm/ethereum_{number}_traces.json.gz")));
    let traces = traces.as_array().unwrap().iter().map(|top| json!({ "result": top })).collect();
    Subject::new(recorded["block"].clone(), recorded["receipts"].clone(), traces)
}

pub(crate) fn structure(data: &Path) {
    for number in BLOCKS {
        let mut subject = subject(data, number);
        assert!(subject.paid.len() > 10);
        for seed in 0..u64::from(cases(40)) {
            subject.try_structural_change(seed);
        }
    }
}

pub(crate) fn cut_anywhere(data: &Path) {
    for number in BLOCKS {
        let subject = subject(data, number);
        let whole = [subject.block.to_string(), subject.receipts.to_string(), subject.traces.to_string()];
        let mut rng = Rng::with_seed(number);
        for _ in 0..cases(30) {
            let part = rng.usize(..3);
            let mut texts = whole.clone();
            texts[part].truncate(rng.usize(..whole[part].len()));
            assert!(subject.read_texts(&texts[0], &texts[1], &texts[2]).is_err(), "block {number}, part {part}");
        }
    }
}
