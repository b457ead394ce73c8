//! The recorder's own trial: sled with nothing but its own `flush` must be seen to lose what it answered.

use confirmd_testkit::conform::power_cut::{Cuts, Model, power_can_be_cut, record_and_cut};
use confirmd_testkit::conform::{Broken, Verdict};
use libtest_mimic::{Failed, Trial};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const STATE: &str = "POWER_CUT_PLAIN_SLED";
const COMMITS: u64 = 60;
const KEY: &[u8] = b"commits";

/// Commits to a plain sled database and says so, if this process was started for that.
pub(crate) fn commit_if_recorded() -> Option<ExitCode> {
    let directory = std::env::var_os(STATE)?;
    Some(match commit(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    })
}

fn commit(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let db = sled::Config::new().path(directory).flush_every_ms(None).open()?;
    for n in 1..=COMMITS {
        db.insert(KEY, n.to_be_bytes().to_vec())?;
        db.flush()?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "committed {n}")?;
        out.flush()?;
    }
    std::process::exit(0)
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = Trial::test("power_cut::the_recorder_sees_what_the_flush_of_sled_alone_loses", || {
        let cuts = Cuts { lives: 1, points: 20, seed: 1 };
        let prepare = |command: &mut std::process::Command, files: &Path, _| {
            command.env(STATE, files.join("state"));
        };
        let tally = record_and_cut(cuts, prepare, judge);
        let tally = tally.map_err(|broken| Failed::from(broken.to_string()))?;
        println!("sled's flush alone: {tally}");
        let noticed = [Model::None, Model::Half, Model::Torn].iter().all(|model| tally.wrong_of(*model) >= 10);
        match noticed && tally.wrong_of(Model::All) == 0 {
            true => Ok(()),
            false => Err(Failed::from(format!("commits that were never synced were not seen to be lost: {tally}"))),
        }
    });
    vec![match power_can_be_cut() {
        Ok(()) => trial,
        Err(why) => trial.with_kind(why).with_ignored_flag(true),
    }]
}

fn judge(image: &Path, said: &str) -> Verdict {
    let answered = said.lines().filter_map(|line| line.strip_prefix("committed ")?.parse::<u64>().ok()).next_back().unwrap_or(0);
    if answered == 0 {
        // While it is being made it may not even open, which nobody was promised.
        return Ok(());
    }
    let open = || {
        let db = sled::Config::new().path(image.join("state")).flush_every_ms(None).open()?;
        Ok::<_, sled::Error>(db.get(KEY)?.and_then(|value| value.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))))
    };
    let found = std::panic::catch_unwind(open).map_err(|_| Broken::new("sled gave up"))?;
    let found = found.map_err(Broken::tried("opening"))?.unwrap_or(0);
    match found >= answered {
        true => Ok(()),
        false => Err(Broken::new(format!("{answered} commits were answered, {found} are there"))),
    }
}
