//! Stores in memory, with and without a mistake.

use super::broken_store::BrokenStore;
use async_trait::async_trait;
use confirmd_core::StoreError;
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::store::{Damage, Store, StoreHarness, StoreRig, StoreTest};
use confirmd_testkit::{MemoryDisk, MemoryStore};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    WritesAConflictsEvents,
    WritesInTwoParts,
    LosesTheLastCommitInACrash,
    LosesTheLastCommitInAPowerCut,
    ForgetsWatchedAddresses,
    ForgetsHaltsInANewStart,
    HandsOutInReverse,
    HandsOutAKeyTwice,
    LosesWhatWasOut,
    ChangesTheBody,
    ListsNoDeadLetters,
    MixesChains,
    ScansWhatIsSettled,
    CountsABuryTwice,
    AcknowledgesTheNextToo,
    CountsARequeueTwice,
    AcknowledgesForEverybody,
    LetsASecondOwnerIn,
    IgnoresTheVersion,
    MakesAStoreUnasked,
    OpensDamage,
    GuessesAStart,
    StartsEverybodyNow,
    DropsConsumersNotConfigured,
    PrunesUndelivered,
    PrunesTheYoung,
    HandsOutBeforeTheSync,
    GoesOnAfterAFailure,
    TakesAFailureForAConflict,
    PrunesSequences,
    ReadsTheFirstEventTwice,
    ExpiresNoCursor,
    HoldsNothingForCursors,
    TellsNoReorgs,
    ForgetsSmallPayments,
    IgnoresThePace,
    EndsAtTheFirstPage,
}

pub(crate) struct MemoryHarness(pub(crate) Option<Mistake>);

struct MemoryRig {
    disk: MemoryDisk,
    mistake: Option<Mistake>,
    /// The disk as it was before the last commit.
    before: Arc<Mutex<MemoryDisk>>,
    undamaged: Option<MemoryDisk>,
}

#[async_trait]
impl StoreHarness for MemoryHarness {
    async fn start(&self) -> Result<Box<dyn StoreRig>, Broken> {
        let disk = MemoryDisk::default();
        let before = Arc::new(Mutex::new(disk.copy()));
        Ok(Box::new(MemoryRig { disk, mistake: self.0, before, undamaged: None }))
    }

    fn unable(&self, _: StoreTest) -> Option<String> {
        None
    }

    fn cases(&self) -> u32 {
        40
    }
}

impl MemoryRig {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

#[async_trait]
impl StoreRig for MemoryRig {
    async fn open(&mut self, init: bool) -> Result<Arc<dyn Store>, StoreError> {
        if self.is(Mistake::OpensDamage)
            && let Some(undamaged) = self.undamaged.take()
        {
            // As if the checksum had not been looked at.
            self.disk = undamaged;
        }
        let init = init || self.is(Mistake::MakesAStoreUnasked);
        let inner = match MemoryStore::open(&self.disk, init) {
            Err(StoreError::Refused { context, .. }) if self.is(Mistake::LetsASecondOwnerIn) && context.contains("in use") => {
                MemoryStore::open(&self.disk.copy(), init)?
            }
            inner => inner?,
        };
        match self.mistake {
            None => Ok(Arc::new(inner)),
            Some(mistake) => Ok(Arc::new(BrokenStore::new(inner, self.disk.clone(), Arc::clone(&self.before), mistake))),
        }
    }

    async fn crash(&mut self) -> Result<(), Broken> {
        self.disk = match self.is(Mistake::LosesTheLastCommitInACrash) {
            true => self.before.lock().unwrap().copy(),
            false => self.disk.copy(),
        };
        Ok(())
    }

    async fn power_cut(&mut self) -> Result<(), Broken> {
        self.disk = match self.is(Mistake::LosesTheLastCommitInAPowerCut) {
            true => self.before.lock().unwrap().copy(),
            false => self.disk.copy(),
        };
        Ok(())
    }

    async fn fail_next_commit(&mut self) -> Result<(), Broken> {
        self.disk.fail_next_commit(true);
        Ok(())
    }

    fn damages(&self) -> Vec<Damage> {
        let damage = |what: &str| Damage { what: what.to_owned(), must_be_refused: true };
        vec![damage("a checksum fails"), damage("the format is unknown")]
    }

    async fn damage(&mut self, number: usize) -> Result<(), Broken> {
        self.undamaged = Some(self.disk.copy());
        match number {
            0 => self.disk.damage(),
            _ => self.disk.age(),
        }
        Ok(())
    }
}
