//! Reading checked records, and collecting the writes of one commit.

use crate::damage::{REMEDY, refused_by, refused_io};
use crate::keys::{self, Key};
use crate::record::{Kind, seal, unseal};
use confirmd_core::StoreError;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Reads records. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reader {
    db: sled::Db,
    path: PathBuf,
    #[cfg(test)]
    reads: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl std::fmt::Debug for Reader {
    // The database's own Debug prints everything in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Reader {
    /// Over an open database in `path`.
    pub(crate) fn new(db: sled::Db, path: &Path) -> Self {
        Self {
            db,
            path: path.to_owned(),
            #[cfg(test)]
            reads: std::sync::Arc::default(),
        }
    }

    /// The database, for who writes.
    pub(crate) fn db(&self) -> &sled::Db {
        &self.db
    }

    /// One record; `None` if there is none.
    pub(crate) fn get<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, StoreError> {
        self.count_read();
        let value = self.db.get(key).map_err(|error| self.failed(error))?;
        value.map(|bytes| unseal(key.as_ref(), &bytes)).transpose()
    }

    /// Whether there is a record.
    pub(crate) fn has(&self, key: &Key) -> Result<bool, StoreError> {
        self.count_read();
        self.db.contains_key(key).map_err(|error| self.failed(error))
    }

    /// A record as it lies there.
    pub(crate) fn raw(&self, key: &[u8]) -> Result<Option<sled::IVec>, StoreError> {
        self.db.get(key).map_err(|error| self.failed(error))
    }

    /// Every record of a kind as it lies there.
    pub(crate) fn raw_scan(&self, kind: Kind) -> impl Iterator<Item = Result<(sled::IVec, sled::IVec), StoreError>> + '_ {
        self.db.scan_prefix(keys::all(kind)).map(|row| row.map_err(|error| self.failed(error)))
    }

    /// Records with keys from `from` to below `to` as they lie there, in order.
    pub(crate) fn raw_range(
        &self,
        from: &Key,
        to: &Key,
    ) -> impl Iterator<Item = Result<(sled::IVec, sled::IVec), StoreError>> + '_ {
        let range = (from.as_ref() < to.as_ref()).then(|| self.db.range(from.as_ref()..to.as_ref()));
        range.into_iter().flatten().map(|row| row.map_err(|error| self.failed(error)))
    }

    /// Every record whose key begins with `prefix`, in order of the keys.
    pub(crate) fn scan<'a, T: DeserializeOwned>(
        &'a self,
        prefix: &Key,
    ) -> impl Iterator<Item = Result<(sled::IVec, T), StoreError>> + use<'a, T> {
        self.db.scan_prefix(prefix).map(move |row| self.checked(row))
    }

    /// Records with keys from `from` to below `to`, in order.
    pub(crate) fn range<'a, T: DeserializeOwned>(
        &'a self,
        from: &Key,
        to: &Key,
    ) -> impl DoubleEndedIterator<Item = Result<(sled::IVec, T), StoreError>> + use<'a, T> {
        // A range from behind its end is empty, not an error.
        let range = (from.as_ref() < to.as_ref()).then(|| self.db.range(from.as_ref()..to.as_ref()));
        range.into_iter().flatten().map(move |row| self.checked(row))
    }

    /// Keys that begin with `prefix`, in order, at most `most`.
    pub(crate) fn keys(&self, prefix: &Key, most: usize) -> Result<Vec<sled::IVec>, StoreError> {
        self.db.scan_prefix(prefix).keys().take(most).map(|key| key.map_err(|error| self.failed(error))).collect()
    }

    /// Where the store is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Records read so far.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn checked<T: DeserializeOwned>(&self, row: sled::Result<(sled::IVec, sled::IVec)>) -> Result<(sled::IVec, T), StoreError> {
        self.count_read();
        let (key, bytes) = row.map_err(|error| self.failed(error))?;
        let value = unseal(&key, &bytes)?;
        Ok((key, value))
    }

    fn failed(&self, error: sled::Error) -> StoreError {
        let path = self.path.display();
        match error {
            sled::Error::Io(error) => refused_io("reading the database in", &self.path, error),
            error => refused_by(format!("the state in {path} is damaged: the database could not be read; {REMEDY}"), error),
        }
    }

    fn count_read(&self) {
        #[cfg(test)]
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Writes of one commit.
#[derive(Debug, Default)]
pub(crate) struct Rows(BTreeMap<sled::IVec, Option<Vec<u8>>>);

impl Rows {
    /// Writes or replaces a record.
    pub(crate) fn put<T: Serialize>(&mut self, key: Key, value: &T) -> Result<(), StoreError> {
        let sealed = seal(key.as_ref(), value)?;
        self.0.insert(key.into(), Some(sealed));
        Ok(())
    }

    /// Whether a commit would write nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For the database.
    pub(crate) fn into_batch(self) -> sled::Batch {
        let mut batch = sled::Batch::default();
        for (key, value) in self.0 {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        batch
    }

    /// Keys and what is written under them; `None` removes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.as_deref()))
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, key: impl Into<sled::IVec>) {
        self.0.insert(key.into(), None);
    }
}
