//! A process in several lives, recorded, and its disk after a power cut at many points.

use super::disk::{Chance, Disk, Model};
use super::recording::{Record, Recording};
use super::{Scratch, recorded, scratch};
use crate::conform::{Broken, Verdict, hold};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a recording is made and cut.
#[derive(Debug, Clone, Copy)]
pub struct Cuts {
    /// How often the process is started, one life after the other, on the same directory.
    pub lives: u32,
    /// Points at which the power goes, for each model.
    pub points: u64,
    /// What chance follows from.
    pub seed: u64,
}

/// What came of the cuts.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Operations recorded.
    pub operations: u64,
    /// Of each model, how many points were tried.
    pub points: BTreeMap<Model, u64>,
    /// Of each model, what the judge said of the points that came back wrong.
    pub wrong: BTreeMap<Model, Vec<String>>,
}

impl Tally {
    /// Points of a model that came back wrong.
    pub fn wrong_of(&self, model: Model) -> usize {
        self.wrong.get(&model).map_or(0, Vec::len)
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} operations recorded", self.operations)?;
        for (model, points) in &self.points {
            write!(f, "; {model:?}: {} of {points} wrong", self.wrong_of(*model))?;
        }
        Ok(())
    }
}

/// Starts this program `lives` times, each life prepared by `prepare` (given the directory that is recorded and the life's number), and
/// asks `judge` about the disk at each point and under each model, with everything said on stdout before the power went.
///
/// # Errors
/// If the recording can't be made, or something went past it.
pub fn record_and_cut(
    cuts: Cuts,
    prepare: impl Fn(&mut Command, &Path, u32),
    mut judge: impl FnMut(&Path, &str) -> Verdict,
) -> Result<Tally, Broken> {
    let scratch = scratch().map_err(Broken::tried("making a directory"))?;
    let log = scratch.path().join("recording");
    let files = scratch.path().join("files");
    for life in 0..cuts.lives {
        let mut command = recorded(scratch.path(), &log)?;
        prepare(&mut command, &files, life);
        let ended = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
        let ended = ended.map_err(Broken::tried("starting the recorded process"))?;
        let text = String::from_utf8_lossy(&ended.stderr);
        hold!(ended.status.success(), "life {life} of the recorded process ended with {}: {text}", ended.status);
    }
    let inode = std::fs::metadata(&files).map_err(Broken::tried("looking at the directory"))?.ino();
    let seen = everything_was_seen(&log, inode, &files, &scratch)?;
    let mut chance = Chance::new(cuts.seed);
    let points = choose(cuts.points, &seen, &mut chance);
    let mut tally = Tally { operations: seen.operations, ..Tally::default() };
    let (mut recording, mut disk) = (Recording::open(&log)?, Disk::default());
    let mut number = 0;
    loop {
        if points.contains(&number) {
            for model in Model::ALL {
                let image = scratch.path().join("image");
                disk.rebuild(inode, model, &mut chance, &image)?;
                *tally.points.entry(model).or_default() += 1;
                if let Err(wrong) = judge(&image, &String::from_utf8_lossy(&disk.said)) {
                    tally.wrong.entry(model).or_default().push(format!("after operation {number}: {wrong}"));
                }
                std::fs::remove_dir_all(&image).map_err(Broken::tried("removing an image"))?;
            }
        }
        let Some(record) = recording.next()? else { return Ok(tally) };
        disk.take(record);
        number += 1;
    }
}

/// What a recording holds: how many operations, and after which of them something was said or a process began.
#[derive(Debug, Default)]
struct Seen {
    operations: u64,
    said: Vec<u64>,
    begun: Vec<u64>,
}

/// With every operation kept, the rebuilt disk is the real one.
fn everything_was_seen(log: &Path, inode: u64, files: &Path, scratch: &Scratch) -> Result<Seen, Broken> {
    let (mut recording, mut disk) = (Recording::open(log)?, Disk::default());
    let mut seen = Seen::default();
    while let Some(record) = recording.next()? {
        seen.operations += 1;
        match record {
            Record::Said(_) => seen.said.push(seen.operations),
            Record::Begun => seen.begun.push(seen.operations),
            _ => {}
        }
        disk.take(record);
    }
    let image = scratch.path().join("image");
    disk.rebuild(inode, Model::All, &mut Chance::new(0), &image)?;
    let same = same(files, &image).map_err(Broken::tried("comparing the rebuilt disk"))?;
    hold!(same, "something was written past the recorder: the rebuilt disk is not the real one");
    std::fs::remove_dir_all(&image).map_err(Broken::tried("removing an image"))?;
    Ok(seen)
}

/// Operations after a start within which a database recovers.
const RECOVERY: u64 = 60;

/// Of three points, one lies right behind something that was said (nothing was synced since), one shortly after a start, one anywhere.
fn choose(count: u64, seen: &Seen, chance: &mut Chance) -> BTreeSet<u64> {
    let mut points = BTreeSet::new();
    let all = seen.operations.saturating_add(1);
    let mut one_of = |of: &[u64], within: u64| {
        let size = u64::try_from(of.len()).unwrap_or(0);
        let drawn = usize::try_from(chance.next().checked_rem(size).unwrap_or(0)).unwrap_or(0);
        let further = chance.next().checked_rem(within).unwrap_or(0);
        of.get(drawn).map_or(further, |point| point.saturating_add(further)).min(seen.operations)
    };
    // A point may be drawn twice; the bound ends what can't.
    for number in 0..count.saturating_mul(50) {
        if u64::try_from(points.len()).unwrap_or(u64::MAX) >= count.min(all) {
            break;
        }
        points.insert(match number % 3 {
            0 => one_of(&seen.said, 1),
            1 => one_of(&seen.begun, RECOVERY),
            _ => one_of(&[], all),
        });
    }
    points
}

fn same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let names = |path: &Path| -> std::io::Result<BTreeSet<_>> {
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    };
    let found = names(one)?;
    if found != names(other)? {
        return Ok(false);
    }
    for name in found {
        let (one, other) = (one.join(&name), other.join(&name));
        let equal = if one.is_dir() { same(&one, &other)? } else { std::fs::read(one)? == std::fs::read(other)? };
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}
