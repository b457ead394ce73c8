//! The database as it was at one moment, while it goes on: before a commit changes a record, what it was is set aside.
//!
//! Whoever reads takes from the database first and from what was set aside second. A record that was changed before it was read was set
//! aside before that, so it is found there; one that is changed afterwards was read as it was.

use crate::keys::Key;
use crate::reader::{Reader, Rows};
use crate::record::unseal;
use confirmd_core::StoreError;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

/// What may be set aside, in bytes of memory. Beyond it the moment is given up, not the instance.
const BYTES_MAX: usize = 256 << 20;
/// What an entry takes beside its bytes.
const ENTRY_BYTES: usize = 96;

/// Records as they were before they were changed; `None`: there was none.
#[derive(Debug, Default)]
struct Images {
    rows: BTreeMap<Box<[u8]>, Option<sled::IVec>>,
    bytes: usize,
    given_up: bool,
}

/// What was set aside since one moment.
#[derive(Debug)]
pub(crate) struct BeforeImages {
    images: Mutex<Images>,
    bytes_max: usize,
}

/// The next records of a range, and from where the range goes on, if it does.
pub(crate) type Rest<T> = (Vec<T>, Option<Key>);

impl Default for BeforeImages {
    fn default() -> Self {
        Self::bounded(BYTES_MAX)
    }
}

impl BeforeImages {
    /// Sets at most so many bytes aside.
    pub(crate) fn bounded(bytes_max: usize) -> Self {
        Self { images: Mutex::default(), bytes_max }
    }

    /// Sets aside what these writes are about to change.
    pub(crate) fn keep(&self, rows: &Rows, reader: &Reader) -> Result<(), StoreError> {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, _) in rows.iter() {
            if images.given_up || images.rows.contains_key(key) {
                continue;
            }
            let old = reader.raw(key)?;
            images.bytes += key.len() + old.as_ref().map_or(0, |old| old.len()) + ENTRY_BYTES;
            images.rows.insert(key.into(), old);
            if images.bytes > self.bytes_max {
                images.rows.clear();
                images.given_up = true;
            }
        }
        Ok(())
    }

    /// One record as it was.
    pub(crate) fn get<T: DeserializeOwned>(&self, reader: &Reader, key: &Key) -> Result<Option<T>, StoreError> {
        let found = reader.raw(key.as_ref())?;
        let images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match images.rows.get(key.as_ref()) {
            Some(image) => image.clone(),
            None => found,
        };
        drop(images);
        found.map(|bytes| unseal(key.as_ref(), &bytes)).transpose()
    }

    /// Records with keys from `from` to below `to` as they were, at most some `limit`.
    pub(crate) fn page(
        &self,
        reader: &Reader,
        from: &Key,
        to: &Key,
        limit: usize,
    ) -> Result<Rest<(sled::IVec, sled::IVec)>, StoreError> {
        let mut found = BTreeMap::new();
        for row in reader.raw_range(from, to).take(limit) {
            let (key, value) = row?;
            found.insert(key, value);
        }
        // Behind the last one read the database has more.
        let last = found.last_key_value().map(|(key, _)| key.clone()).filter(|_| found.len() >= limit);
        let end = match &last {
            Some(last) => Bound::Included(last.as_ref()),
            None => Bound::Excluded(to.as_ref()),
        };
        let images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        if images.given_up {
            return Err(StoreError::Invalid(
                "more was committed meanwhile than could be set aside: the export can't be of one moment; try again when less goes on, or stop the instance first"
                    .to_owned(),
            ));
        }
        for (key, image) in images.rows.range::<[u8], _>((Bound::Included(from.as_ref()), end)) {
            match image {
                Some(image) => drop(found.insert(sled::IVec::from(&**key), image.clone())),
                None => drop(found.remove(&**key)),
            }
        }
        drop(images);
        Ok((found.into_iter().collect(), last.map(|last| Key::behind(&last))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::keys;
    use crate::tests::support::{World, block};
    use confirmd_core::{BlockHash, Height};

    #[tokio::test]
    async fn beyond_its_bound_what_was_set_aside_is_given_up_with_what_to_do() {
        let world = World::new().await;
        let reader = world.store.reader();
        let mut rows = Rows::default();
        (0..20).for_each(|height| rows.put(keys::trail(9, Height(height)), &block(height).hash).unwrap());
        let (all, few) = (BeforeImages::default(), BeforeImages::bounded(1_000));
        for images in [&all, &few] {
            images.keep(&rows, &reader).unwrap();
        }
        let prefix = keys::of_chain(crate::record::Kind::Trail, 9);
        assert!(all.page(&reader, &prefix, &prefix.end(), 5).unwrap().0.is_empty());
        assert_eq!(all.get::<BlockHash>(&reader, &keys::trail(9, Height(3))).unwrap(), None);
        let error = few.page(&reader, &prefix, &prefix.end(), 5).unwrap_err();
        assert!(matches!(&error, StoreError::Invalid(text) if text.contains("stop the instance first")), "{error}");
        assert!(few.images.lock().unwrap().rows.is_empty(), "what was given up still takes memory");
    }
}
