//! Random damage to the directory of a closed or killed store: it opens with everything that was acknowledged, or it is refused.
//! `CONFIRMD_STATE_DAMAGES` says how many.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use crate::{Sled, copy, options};
use confirmd_core::StoreError;
use confirmd_store_sled::SledStore;
use confirmd_testkit::conform::store::{Everything, OpenStore, Sampled};
use confirmd_testkit::conform::{Broken, block_on};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const DAMAGES: &str = "CONFIRMD_STATE_DAMAGES";
const DAMAGES_DEFAULT: u64 = 150;
/// Commits before the older copy, and after it.
const COMMITS: (u64, u64) = (90, 90);

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::test("store_sled::t8_no_random_damage_to_the_state_loses_or_changes_anything_in_silence", || {
        let count = std::env::var(DAMAGES).ok().and_then(|count| count.parse().ok()).unwrap_or(DAMAGES_DEFAULT);
        let table = block_on(measure(count)).and_then(|table| table).map_err(|broken| Failed::from(broken.to_string()))?;
        println!("\n{}", table.text());
        match table.silent() {
            0 => Ok(()),
            silent => Err(Failed::from(format!("{silent} damages went unnoticed:\n{}", table.text()))),
        }
    })]
}

/// A state as it lies on the disk, an older copy of it, and what it answers.
struct Specimen {
    name: &'static str,
    now: PathBuf,
    older: PathBuf,
    sampled: Sampled,
    answers: Everything,
}

/// Numbers by chance, the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

#[derive(Default)]
struct Outcomes {
    harmless: u64,
    refused_at_open: u64,
    refused_later: u64,
    silent: Vec<String>,
}

#[derive(Default)]
struct Table(BTreeMap<&'static str, Outcomes>);

impl Table {
    fn silent(&self) -> usize {
        self.0.values().map(|outcomes| outcomes.silent.len()).sum()
    }

    fn text(&self) -> String {
        let mut text =
            "| damage | tried | harmless | refused at the start | refused when read | silent |\n|---|---|---|---|---|---|\n"
                .to_owned();
        let mut all = [0; 5];
        for (kind, found) in &self.0 {
            let silent = u64::try_from(found.silent.len()).unwrap();
            let tried = found.harmless + found.refused_at_open + found.refused_later + silent;
            let row = [tried, found.harmless, found.refused_at_open, found.refused_later, silent];
            all.iter_mut().zip(row).for_each(|(sum, part)| *sum += part);
            writeln!(text, "| {kind} | {} |", row.map(|n| n.to_string()).join(" | ")).unwrap();
        }
        writeln!(text, "| all | {} |", all.map(|n| n.to_string()).join(" | ")).unwrap();
        for why in self.0.values().flat_map(|outcomes| &outcomes.silent) {
            writeln!(text, "silent: {why}").unwrap();
        }
        text
    }
}

async fn measure(count: u64) -> Result<Table, Broken> {
    let root = scratch()?;
    let specimens = [killed(root.path()).await?, restarted(root.path()).await?, closed(root.path()).await?];
    let mut table = Table::default();
    for number in 0..count {
        let mut chance = Chance(number);
        let specimen = chance.pick(&specimens);
        let path = root.path().join("damaged");
        copy(&specimen.now, &path).map_err(Broken::tried("copying a state"))?;
        let (kind, what) = damage(&path, &specimen.older, &mut chance).map_err(Broken::tried("damaging a state"))?;
        let outcomes = table.0.entry(kind).or_default();
        match look(&path, specimen).await {
            Looked::Same => outcomes.harmless += 1,
            Looked::Refused { at_open: true } => outcomes.refused_at_open += 1,
            Looked::Refused { at_open: false } => outcomes.refused_later += 1,
            Looked::Wrong(wrong) => outcomes.silent.push(format!("damage {number}, {} state, {what}: {wrong}", specimen.name)),
        }
        std::fs::remove_dir_all(&path).map_err(Broken::tried("removing a state"))?;
    }
    Ok(table)
}

fn scratch() -> Result<tempfile::TempDir, Broken> {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.map_err(Broken::tried("making a directory"))
}

enum Looked {
    Same,
    Refused { at_open: bool },
    Wrong(String),
}

/// Opens twice and asks for everything: what an open repairs must hold, and what was refused must not be
/// opened with other answers the next time.
async fn look(path: &Path, specimen: &Specimen) -> Looked {
    let mut found = Looked::Same;
    for _ in 0..2 {
        match (look_once(path, specimen).await, &found) {
            (Looked::Wrong(wrong), _) => return Looked::Wrong(wrong),
            (looked, Looked::Same) => found = looked,
            _ => {}
        }
    }
    found
}

async fn look_once(path: &Path, specimen: &Specimen) -> Looked {
    let store = match SledStore::open(path, options(false)).await {
        Ok(store) => store,
        Err(error) => return refusal(&error, true),
    };
    match Everything::of(&store, &specimen.sampled).await {
        Ok(answers) if answers == specimen.answers => {}
        Ok(answers) => return Looked::Wrong(format!("other answers about: {}", specimen.answers.difference(&answers))),
        Err(error) => return refusal(&error, false),
    }
    match store.close().await {
        Ok(()) => Looked::Same,
        Err(error) => refusal(&error, false),
    }
}

/// A refusal counts as one only if it says what to do.
fn refusal(error: &StoreError, at_open: bool) -> Looked {
    let text = error.to_string();
    let helps = ["--restored", "--init", "run the version of confirmd"].iter().any(|remedy| text.contains(remedy));
    match error {
        StoreError::Refused { .. } if helps => Looked::Refused { at_open },
        other => Looked::Wrong(format!("an error without a remedy: {other:?}")),
    }
}

async fn answers(path: &Path, sampled: &Sampled) -> Result<Everything, Broken> {
    let at = path.with_extension("asked");
    copy(path, &at).map_err(Broken::tried("copying a state"))?;
    let store = Sled.open(&at, false).await.map_err(Broken::tried("opening a state"))?;
    Everything::of(&*store, sampled).await.map_err(Broken::tried("asking a whole state"))
}

/// Killed after a long life: nothing of the log is in a snapshot.
async fn killed(root: &Path) -> Result<Specimen, Broken> {
    let (live, now, older) = (root.join("live"), root.join("killed"), root.join("killed-older"));
    let mut sampled = Sampled::default();
    let store = Sled.open(&live, true).await.map_err(Broken::tried("making a state"))?;
    sampled.go_on(&*store, COMMITS.0).await?;
    copy(&live, &older).map_err(Broken::tried("copying a state"))?;
    sampled.go_on(&*store, COMMITS.1).await?;
    copy(&live, &now).map_err(Broken::tried("copying a state"))?;
    drop(store);
    let answers = answers(&now, &sampled).await?;
    Ok(Specimen { name: "killed", now, older, sampled, answers })
}

/// Closed, started again, and killed: one part of the log is in a snapshot, the other is not.
async fn restarted(root: &Path) -> Result<Specimen, Broken> {
    let (live, now, older) = (root.join("live-2"), root.join("restarted"), root.join("restarted-older"));
    let mut sampled = Sampled::default();
    let store = Sled.open(&live, true).await.map_err(Broken::tried("making a state"))?;
    sampled.go_on(&*store, COMMITS.0).await?;
    drop(store);
    copy(&live, &older).map_err(Broken::tried("copying a state"))?;
    let store = Sled.open(&live, false).await.map_err(Broken::tried("opening a state"))?;
    sampled.go_on(&*store, COMMITS.1).await?;
    copy(&live, &now).map_err(Broken::tried("copying a state"))?;
    drop(store);
    let answers = answers(&now, &sampled).await?;
    Ok(Specimen { name: "restarted", now, older, sampled, answers })
}

/// Closed as on a stop.
async fn closed(root: &Path) -> Result<Specimen, Broken> {
    let (now, older) = (root.join("closed"), root.join("closed-older"));
    let mut sampled = Sampled::default();
    for (commits, then) in [(COMMITS.0, Some(&older)), (COMMITS.1, None)] {
        let store = Sled.open(&now, true).await.map_err(Broken::tried("opening a state"))?;
        sampled.go_on(&*store, commits).await?;
        drop(store);
        if let Some(older) = then {
            copy(&now, older).map_err(Broken::tried("copying a state"))?;
        }
    }
    let answers = answers(&now, &sampled).await?;
    Ok(Specimen { name: "closed", now, older, sampled, answers })
}

/// The files of a state, by their names within it.
fn files(path: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.path().is_file() && entry.file_name() != "lock" {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Mostly the database, which is nearly everything there is.
fn some_file(path: &Path, chance: &mut Chance) -> std::io::Result<String> {
    if chance.below(10) < 6 {
        return Ok("db".to_owned());
    }
    Ok(chance.pick(&files(path)?).clone())
}

/// One random damage; its kind, and what exactly was done.
fn damage(path: &Path, older: &Path, chance: &mut Chance) -> std::io::Result<(&'static str, String)> {
    match chance.below(20) {
        0..=3 => {
            let file = some_file(path, chance)?;
            let size = std::fs::metadata(path.join(&file))?.len();
            let cut = u64::try_from(chance.below(usize::try_from(size).unwrap())).unwrap();
            std::fs::File::options().write(true).open(path.join(&file))?.set_len(cut)?;
            Ok(("a file is cut short", format!("{file} cut from {size} to {cut} bytes")))
        }
        4..=9 => change(path, chance, "a bit is flipped", |bytes, at, chance| {
            bytes[at] ^= 1 << chance.below(8);
            1
        }),
        10..=13 => change(path, chance, "bytes are overwritten", |bytes, at, chance| {
            let most = [1, 16, 512, 4096, 65_536, 600_000][chance.below(6)];
            let end = bytes.len().min(at + 1 + chance.below(most));
            let zero = chance.below(2) == 0;
            bytes[at..end].iter_mut().for_each(|byte| *byte = if zero { 0 } else { u8::try_from(chance.next() % 256).unwrap() });
            end - at
        }),
        14 => {
            let file = chance.pick(&files(path)?).clone();
            std::fs::remove_file(path.join(&file))?;
            Ok(("a file is missing", file))
        }
        15..=16 => swap(path, older, chance),
        17 => {
            let size = chance.below(200);
            let bytes: Vec<_> = (0..size).map(|_| u8::try_from(chance.next() % 256).unwrap()).collect();
            std::fs::write(path.join("conf"), bytes)?;
            Ok(("`conf` is overwritten", format!("{size} random bytes")))
        }
        18 => {
            let (ahead, text) = (chance.below(1000), std::fs::read_to_string(path.join("commits"))?);
            let moved: String = text.lines().map(|slot| crate::counter_slot(slot, |n| n + ahead)).collect();
            std::fs::write(path.join("commits"), moved)?;
            Ok(("the commit counter says more", format!("{ahead} more")))
        }
        _ => {
            let from = path.join("db");
            let (mut bytes, size) = (std::fs::read(&from)?, [1, 512, 4096, 524_288][chance.below(4)]);
            let copied: Vec<_> = bytes.iter().copied().skip(chance.below(bytes.len())).take(size).collect();
            let at = chance.below(bytes.len() - copied.len() + 1);
            bytes[at..at + copied.len()].copy_from_slice(&copied);
            std::fs::write(from, bytes)?;
            Ok(("a part of the database lies over another", format!("{size} bytes at {at}")))
        }
    }
}

fn change(
    path: &Path,
    chance: &mut Chance,
    kind: &'static str,
    how: impl Fn(&mut Vec<u8>, usize, &mut Chance) -> usize,
) -> std::io::Result<(&'static str, String)> {
    let file = some_file(path, chance)?;
    let mut bytes = std::fs::read(path.join(&file))?;
    let (mut at, size) = (chance.below(bytes.len()), bytes.len());
    // Where there is something: a database file is mostly zeros.
    at = bytes.iter().skip(at).position(|byte| *byte != 0).map_or(at, |further| at + further);
    if bytes.is_empty() {
        return Ok((kind, format!("{file} is empty")));
    }
    let changed = how(&mut bytes, at, chance);
    std::fs::write(path.join(&file), bytes)?;
    Ok((kind, format!("{changed} bytes at {at} of the {size} of {file}")))
}

/// Some files, but not all, as they were before. All of them would be an old copy, which nothing can tell from a state.
fn swap(path: &Path, older: &Path, chance: &mut Chance) -> std::io::Result<(&'static str, String)> {
    let kind = "files are swapped with older ones";
    let named = |names: Vec<String>, part: &str| {
        names.into_iter().filter(|name| name.starts_with(&format!("{part}."))).collect::<Vec<_>>()
    };
    let parts = ["db", "conf", "commits", "snap", "watched"];
    let chosen: Vec<_> = loop {
        let mask = chance.below(31) + 1;
        let chosen: Vec<_> = parts.iter().enumerate().filter(|(n, _)| mask >> n & 1 == 1).map(|(_, part)| *part).collect();
        // `conf` never changes, and the counter and the database make a state whatever the snapshot says.
        if !(chosen.contains(&"db") && chosen.contains(&"commits")) {
            break chosen;
        }
    };
    for part in &chosen {
        if *part == "snap" || *part == "watched" {
            for name in named(files(path)?, part) {
                std::fs::remove_file(path.join(name))?;
            }
            for name in named(files(older)?, part) {
                std::fs::copy(older.join(&name), path.join(&name))?;
            }
        } else {
            std::fs::copy(older.join(part), path.join(part))?;
        }
    }
    Ok((kind, chosen.join(", ")))
}
