//! A disk as a file system may leave it when the power goes: what was synced is there; of the rest, each model keeps another part.

use super::recording::Record;
use crate::conform::Broken;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

/// The smallest part a drive writes whole.
const SECTOR: usize = 512;
/// Directories within directories; a store has few.
const DEPTH_MAX: u32 = 8;

/// Which of the operations that were not synced made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// None of them.
    None,
    /// Each by chance: a write, a change of size, a directory entry.
    Half,
    /// Like `Half`, but of each write, each 512-byte sector by chance.
    Torn,
    /// What went through `sync_file_range` within the size that was synced before: a drive whose cache survives.
    RangeSynced,
    /// All of them.
    All,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 5] = [Self::None, Self::Half, Self::Torn, Self::RangeSynced, Self::All];
}

#[derive(Debug, Clone)]
enum Change {
    Written { at: usize, data: Vec<u8>, range_synced_to: usize },
    Sized(usize),
}

#[derive(Debug, Clone, Default)]
struct Entry {
    removed: Option<String>,
    added: Option<(String, usize)>,
}

/// A file or a directory.
#[derive(Debug, Clone, Default)]
struct Node {
    directory: bool,
    content: Vec<u8>,
    changes: Vec<Change>,
    names: BTreeMap<String, usize>,
    entries: Vec<Entry>,
}

/// Everything below the recorded directories, synced and not.
#[derive(Debug, Default)]
pub(super) struct Disk {
    nodes: Vec<Node>,
    /// Numbers are used again; a new file is a new node.
    by_inode: HashMap<u64, usize>,
    /// What was said so far.
    pub(super) said: Vec<u8>,
}

/// By chance, from one seed.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

impl Disk {
    /// Takes one operation over.
    pub(super) fn take(&mut self, record: Record) {
        match record {
            Record::Made { parent, inode, name, directory } => {
                let node = self.nodes.len();
                self.nodes.push(Node { directory, ..Node::default() });
                self.by_inode.insert(inode, node);
                self.node(parent).entries.push(Entry { removed: None, added: Some((name, node)) });
            }
            Record::Removed { parent, name } => self.node(parent).entries.push(Entry { removed: Some(name), added: None }),
            Record::Renamed { parent, inode, from, to } => {
                let node = self.number(inode);
                self.node(parent).entries.push(Entry { removed: Some(from), added: Some((to, node)) });
            }
            Record::Written { inode, at, data } => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                self.node(inode).changes.push(Change::Written { at, data, range_synced_to: 0 });
            }
            Record::Sized { inode, size } => {
                self.node(inode).changes.push(Change::Sized(usize::try_from(size).unwrap_or(usize::MAX)));
            }
            Record::Synced { inode } => self.node(inode).sync(),
            Record::RangeSynced { inode, from, size } => self.node(inode).sync_range(from, size),
            Record::Begun => {}
            Record::Said(text) => self.said.extend(text),
        }
    }

    /// Writes what a power cut now leaves of the directory `inode` into `target`, and syncs it there.
    pub(super) fn rebuild(&mut self, inode: u64, model: Model, chance: &mut Chance, target: &Path) -> Result<(), Broken> {
        let number = self.number(inode);
        self.write_directory(number, model, chance, target, DEPTH_MAX).map_err(Broken::tried("rebuilding the disk"))
    }

    fn write_directory(
        &self,
        number: usize,
        model: Model,
        chance: &mut Chance,
        target: &Path,
        depth: u32,
    ) -> std::io::Result<()> {
        std::fs::create_dir_all(target)?;
        let Some(directory) = self.nodes.get(number) else { return Ok(()) };
        for (name, number) in directory.names_after(model, chance) {
            let path = target.join(name);
            match self.nodes.get(number) {
                Some(node) if node.directory && depth > 0 => self.write_directory(number, model, chance, &path, depth - 1)?,
                Some(node) => {
                    std::fs::write(&path, node.content_after(model, chance))?;
                    File::open(&path)?.sync_all()?;
                }
                None => {}
            }
        }
        File::open(target)?.sync_all()
    }

    fn number(&mut self, inode: u64) -> usize {
        let next = self.nodes.len();
        let number = *self.by_inode.entry(inode).or_insert(next);
        if number == next {
            self.nodes.push(Node { directory: true, ..Node::default() });
        }
        number
    }

    fn node(&mut self, inode: u64) -> &mut Node {
        let number = self.number(inode);
        self.nodes.get_mut(number).expect("invariant: nodes are only ever added")
    }
}

impl Node {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            apply(&change, &mut self.content);
        }
        for entry in std::mem::take(&mut self.entries) {
            entry.apply(&mut self.names);
        }
    }

    fn sync_range(&mut self, from: u64, size: u64) {
        let (from, size) = (usize::try_from(from).unwrap_or(0), usize::try_from(size).unwrap_or(0));
        // A size of zero means to the end of the file.
        let end = if size == 0 { usize::MAX } else { from.saturating_add(size) };
        let known = self.content.len();
        for change in &mut self.changes {
            if let Change::Written { at, data, range_synced_to } = change
                && from <= *at
                && at.saturating_add(data.len()) <= end
            {
                *range_synced_to = (*range_synced_to).max(known);
            }
        }
    }

    fn names_after(&self, model: Model, chance: &mut Chance) -> BTreeMap<String, usize> {
        let mut names = self.names.clone();
        for entry in &self.entries {
            let kept = match model {
                Model::None | Model::RangeSynced => false,
                Model::Half | Model::Torn => chance.coin(),
                Model::All => true,
            };
            if kept {
                entry.apply(&mut names);
            }
        }
        names
    }

    fn content_after(&self, model: Model, chance: &mut Chance) -> Vec<u8> {
        let mut content = self.content.clone();
        for change in &self.changes {
            match (model, change) {
                (Model::None, _) | (Model::RangeSynced, Change::Sized(_)) => {}
                (Model::All, change) => apply(change, &mut content),
                (Model::RangeSynced, Change::Written { at, data, range_synced_to }) => {
                    let kept = range_synced_to.saturating_sub(*at).min(data.len());
                    write(*at, data.get(..kept).unwrap_or_default(), &mut content);
                }
                (Model::Torn, Change::Written { at, data, .. }) => {
                    for (number, sector) in data.chunks(SECTOR).enumerate().filter(|_| chance.coin()) {
                        write(at.saturating_add(number * SECTOR), sector, &mut content);
                    }
                }
                (Model::Half | Model::Torn, change) if chance.coin() => apply(change, &mut content),
                (Model::Half | Model::Torn, _) => {}
            }
        }
        content
    }
}

impl Entry {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(name) = &self.removed {
            names.remove(name);
        }
        if let Some((name, node)) = &self.added {
            names.insert(name.clone(), *node);
        }
    }
}

fn apply(change: &Change, content: &mut Vec<u8>) {
    match change {
        Change::Written { at, data, .. } => write(*at, data, content),
        Change::Sized(size) => content.resize(*size, 0),
    }
}

fn write(at: usize, data: &[u8], content: &mut Vec<u8>) {
    if data.is_empty() {
        return;
    }
    let end = at.saturating_add(data.len());
    if content.len() < end {
        content.resize(end, 0);
    }
    if let Some(place) = content.get_mut(at..end) {
        place.copy_from_slice(data);
    }
}
