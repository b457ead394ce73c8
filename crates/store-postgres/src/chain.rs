//! A chain's row and the small parts of its state: trail, floor, marks, halt, assets. What a commit is checked against.

use crate::error::{Failed, from_json, int, refused, to_json, uint};
use crate::session::Session;
use confirmd_core::{
    BlockHash, BlockRef, ChainId, ChainName, ChainState, Change, ChangeSet, FinalityTag, Halt, Height, ListedAsset, Rescan,
    RescanId, StateVersion, StoreError, Trail,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// A chain's number within this database.
pub(crate) type ChainNumber = i32;

/// The parts that stand in the chain's row. One that a later version added is refused: written back without it, it would be lost.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeadRow {
    pub(crate) name: Option<ChainName>,
    pub(crate) floor: Height,
    pub(crate) linked_from: Height,
    pub(crate) marks: Vec<(FinalityTag, Height)>,
    pub(crate) halt: Option<Halt>,
    /// Written by instances before migration 3, newer than what is in the table; the next commit moves them there.
    #[serde(default, skip_serializing)]
    pub(crate) rescans: Vec<Rescan>,
}

/// A chain's row.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) number: ChainNumber,
    pub(crate) version: StateVersion,
    head: String,
}

impl Found {
    pub(crate) fn head(&self) -> Result<HeadRow, StoreError> {
        from_json(&self.head, "a chain's head")
    }
}

/// Small parts by chain, as of some version: saves reading them again for every commit. The version says whether they still hold.
#[derive(Debug, Default)]
pub(crate) struct Heads(Mutex<HashMap<ChainId, ChainState>>);

impl Heads {
    pub(crate) fn take(&self, chain: &ChainId, version: StateVersion) -> Option<ChainState> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(chain).filter(|small| small.version == version)
    }

    pub(crate) fn put(&self, chain: ChainId, small: ChainState) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(chain, small);
    }
}

const FIND: &str = "select id, version, head from chain where chain = $1";
const LOCK: &str = "select id, version, head from chain where chain = $1 for update";
const CREATE: &str = "insert into chain (chain, version, head) values ($1, 0, $2) on conflict (chain) do nothing";
const UPDATE: &str = "update chain set version = $2, head = $3 where id = $1";
const TRAIL: &str = "select height, hash from trail where chain = $1";
const ASSETS: &str = "select listed from asset where chain = $1";
pub(crate) const PUT_TRAIL: &str = "insert into trail (chain, height, hash) select $1, * from unnest($2::bigint[], $3::text[])
on conflict (chain, height) do update set hash = excluded.hash";
const DROP_TRAIL: &str = "delete from trail where chain = $1 and height = any($2)";
pub(crate) const PUT_ASSETS: &str = "insert into asset (chain, asset, listed) select $1, * from unnest($2::text[], $3::text[])
on conflict (chain, asset) do update set listed = excluded.listed";
const DROP_ASSETS: &str = "delete from asset where chain = $1 and asset = any($2)";

const RESCANS: &str = "select rescan from rescan where chain = $1 order by id";
const PUT_RESCANS: &str = "insert into rescan (chain, id, rescan) select $1, * from unnest($2::bigint[], $3::text[])
on conflict (chain, id) do update set rescan = excluded.rescan";

/// The chain's row; `lock` holds it until the transaction ends.
pub(crate) async fn find(session: &Session, chain: &ChainId, lock: bool) -> Result<Option<Found>, Failed> {
    let row = session.query_opt(if lock { LOCK } else { FIND }, &[&chain.as_str()]).await?;
    Ok(row.map(|row| Found { number: row.get(0), version: StateVersion(uint(row.get(1))), head: row.get(2) }))
}

/// The chain's row, locked, made if it is new.
pub(crate) async fn lock(session: &Session, chain: &ChainId) -> Result<Found, Failed> {
    if let Some(found) = find(session, chain, true).await? {
        return Ok(found);
    }
    session.execute(CREATE, &[&chain.as_str(), &to_json(&HeadRow::default())?]).await?;
    let found = find(session, chain, true).await?;
    Ok(found.ok_or_else(|| {
        refused(format!("the row of {chain} was removed while it was made; nothing but confirmd may write here"))
    })?)
}

/// A chain's rescans, by number.
pub(crate) async fn rescans(
    session: &Session,
    number: ChainNumber,
    head: &HeadRow,
) -> Result<BTreeMap<RescanId, Rescan>, Failed> {
    let mut rescans = BTreeMap::new();
    for row in session.query(RESCANS, &[&number]).await? {
        let rescan: Rescan = from_json(row.get(0), "a rescan")?;
        rescans.insert(rescan.id, rescan);
    }
    rescans.extend(head.rescans.iter().map(|rescan| (rescan.id, rescan.clone())));
    Ok(rescans)
}

/// Writes rescans down.
pub(crate) async fn put_rescans<'a>(
    session: &Session,
    number: ChainNumber,
    rescans: impl Iterator<Item = &'a Rescan>,
) -> Result<(), Failed> {
    let (mut ids, mut texts) = (Vec::new(), Vec::new());
    for rescan in rescans {
        ids.push(int(rescan.id.0));
        texts.push(to_json(rescan)?);
    }
    if !ids.is_empty() {
        session.execute(PUT_RESCANS, &[&number, &ids, &texts]).await?;
    }
    Ok(())
}

/// The small parts of a chain's state for a commit, which writes the chain's head anew.
pub(crate) async fn small_to_advance(session: &Session, chain: &ChainId, found: &Found) -> Result<ChainState, Failed> {
    let head = found.head()?;
    put_rescans(session, found.number, head.rescans.iter()).await?;
    small_of(session, chain, found, head).await
}

/// The small parts of a chain's state.
pub(crate) async fn small(session: &Session, chain: &ChainId, found: &Found) -> Result<ChainState, Failed> {
    small_of(session, chain, found, found.head()?).await
}

async fn small_of(session: &Session, chain: &ChainId, found: &Found, head: HeadRow) -> Result<ChainState, Failed> {
    let rescans = rescans(session, found.number, &head).await?;
    let mut refs = Vec::new();
    for row in session.query(TRAIL, &[&found.number]).await? {
        let hash = BlockHash::new(row.get::<_, String>(1));
        let hash = hash.map_err(|_| refused(format!("a block hash in the trail of {chain} is none; put a backup back")))?;
        refs.push(BlockRef { height: Height(uint(row.get(0))), hash });
    }
    let mut small = ChainState {
        version: found.version,
        name: head.name,
        trail: Trail::restore(refs, head.floor, head.linked_from),
        marks: head.marks.into_iter().collect(),
        halt: head.halt,
        rescans,
        ..ChainState::default()
    };
    for row in session.query(ASSETS, &[&found.number]).await? {
        small.watch.put_asset(from_json::<ListedAsset>(row.get(0), "a listed asset")?);
    }
    Ok(small)
}

/// What a change set changes in the small parts.
#[derive(Debug, Default)]
pub(crate) struct SmallRows {
    trail_put: (Vec<i64>, Vec<String>),
    trail_gone: Vec<i64>,
    assets_put: (Vec<String>, Vec<String>),
    assets_gone: Vec<String>,
    rescans_put: Vec<Rescan>,
    version: i64,
    head: String,
}

/// Takes the small parts of a change set over.
pub(crate) fn advance(small: &mut ChainState, set: &ChangeSet) -> Result<SmallRows, StoreError> {
    let touched = touched(small, set);
    let mut part = ChangeSet::new(set.chain.clone(), set.base);
    part.changes = set.changes.iter().filter(|change| is_small(change)).cloned().collect();
    small.apply(&part);
    let mut rows = SmallRows { version: int(small.version.0), ..SmallRows::default() };
    for height in touched {
        match small.trail.hash_at(height) {
            Some(hash) => {
                rows.trail_put.0.push(int(height.0));
                rows.trail_put.1.push(hash.as_str().to_owned());
            }
            None => rows.trail_gone.push(int(height.0)),
        }
    }
    let assets = part.changes.iter().filter_map(|change| match change {
        Change::AssetPut(listed) => Some(&listed.asset.id),
        Change::AssetForgotten(id) => Some(id),
        _ => None,
    });
    for id in assets.collect::<BTreeSet<_>>() {
        match small.watch.asset(id) {
            Some(listed) => {
                rows.assets_put.0.push(id.as_str().to_owned());
                rows.assets_put.1.push(to_json(listed)?);
            }
            None => rows.assets_gone.push(id.as_str().to_owned()),
        }
    }
    rows.head = to_json(&HeadRow {
        name: small.name.clone(),
        floor: small.trail.floor(),
        linked_from: small.trail.linked_from(),
        marks: small.marks.iter().map(|(tag, height)| (*tag, *height)).collect(),
        halt: small.halt.clone(),
        rescans: Vec::new(),
    })?;
    let rescans = part.changes.iter().filter_map(|change| match change {
        Change::RescanPut(rescan) => Some(rescan.id),
        _ => None,
    });
    rows.rescans_put = rescans.collect::<BTreeSet<_>>().iter().filter_map(|id| small.rescans.get(id)).cloned().collect();
    Ok(rows)
}

impl SmallRows {
    pub(crate) async fn write(&self, session: &Session, chain: ChainNumber) -> Result<(), Failed> {
        if !self.trail_gone.is_empty() {
            session.execute(DROP_TRAIL, &[&chain, &self.trail_gone]).await?;
        }
        if !self.trail_put.0.is_empty() {
            session.execute(PUT_TRAIL, &[&chain, &self.trail_put.0, &self.trail_put.1]).await?;
        }
        if !self.assets_gone.is_empty() {
            session.execute(DROP_ASSETS, &[&chain, &self.assets_gone]).await?;
        }
        if !self.assets_put.0.is_empty() {
            session.execute(PUT_ASSETS, &[&chain, &self.assets_put.0, &self.assets_put.1]).await?;
        }
        put_rescans(session, chain, self.rescans_put.iter()).await?;
        session.execute(UPDATE, &[&chain, &self.version, &self.head]).await?;
        Ok(())
    }
}

/// Heights of the trail that a change set may change.
fn touched(small: &ChainState, set: &ChangeSet) -> BTreeSet<Height> {
    let mut touched = BTreeSet::new();
    for change in &set.changes {
        match change {
            Change::TrailCut(above) => touched.extend(small.trail.above(*above).map(|block| block.height)),
            Change::Reanchored(block) => {
                touched.extend(small.trail.above(block.height).map(|block| block.height));
                touched.insert(block.height);
            }
            Change::TrailPushed(block) | Change::TrailJumped(block) => drop(touched.insert(block.height)),
            Change::TrailForgot(height) => drop(touched.insert(*height)),
            _ => {}
        }
    }
    touched
}

fn is_small(change: &Change) -> bool {
    match change {
        Change::Named(_)
        | Change::TrailCut(_)
        | Change::TrailPushed(_)
        | Change::TrailJumped(_)
        | Change::TrailForgot(_)
        | Change::FloorRaised(_)
        | Change::Reanchored(_)
        | Change::MarkRaised(..)
        | Change::AssetPut(_)
        | Change::AssetForgotten(_)
        | Change::RescanPut(_)
        | Change::Halted(_)
        | Change::Resumed => true,
        Change::PendingPut(_)
        | Change::SmallSeen(_)
        | Change::PendingDropped(_)
        | Change::ReportedPut(_)
        | Change::ReportedDropped(_)
        | Change::OrphanedPut(_)
        | Change::OrphanedDropped(_)
        | Change::Archived(..)
        | Change::WatchPut(_)
        | Change::WatchForgotten(_) => false,
    }
}
