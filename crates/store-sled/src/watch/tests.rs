#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use crate::steps::Threads;
use crate::tests::support::*;
use crate::{OpenOptions, SledStore};
use confirmd_core::*;
use proptest::prelude::*;
use std::path::Path;

/// Logs of three addresses: everything happens after a few commits.
async fn open_small(path: &Path, threads: Threads) -> SledStore {
    SledStore::open(path, OpenOptions { watch_log_max: 3, threads, ..options(true) }).await.unwrap()
}

fn named(number: u8, reference: Option<&str>, state: WatchState) -> WatchEntry {
    WatchEntry {
        address: Address::new(
            vec![7; usize::from(number % 5)].into_iter().chain([number]).collect::<Vec<_>>(),
            format!("a{number}"),
        ),
        reference: reference.map(Into::into),
        from: Height(u64::from(number)),
        origin: WatchOrigin::Command,
        state,
        history: None,
    }
}

fn files(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(super::PREFIX)).collect();
    names.sort();
    names
}

async fn all(store: &SledStore, page: usize) -> Vec<WatchEntry> {
    let (mut all, mut after): (Vec<WatchEntry>, Option<Vec<u8>>) = (Vec::new(), None);
    loop {
        let more = store.watched(&chain(), after.as_deref(), page).await.unwrap();
        let Some(last) = more.last() else { return all };
        after = Some(last.address.bytes().to_vec());
        all.extend(more);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<(u8, Option<String>)>),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => prop::collection::vec((0_u8..40, prop::option::of("[a-z]{0,6}")), 1..6).prop_map(Step::Commit),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn t3_whatever_is_added_and_forgotten_the_list_is_what_the_change_sets_add_up_to(
        steps in prop::collection::vec(step(), 1..40),
        own_threads in any::<bool>(),
    ) {
        let threads = if own_threads { Threads::Own } else { Threads::Callers };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let directory = tempfile::tempdir().unwrap();
            let mut store = open_small(directory.path(), threads).await;
            let mut state = ChainState::default();
            for step in steps {
                let Step::Commit(puts) = step else {
                    store.close().await.unwrap();
                    store = open_small(directory.path(), threads).await;
                    continue;
                };
                let mut set = ChangeSet::new(chain(), state.version);
                set.changes.extend(puts.iter().map(|(number, reference)| match reference {
                    Some(text) if text.len() == 6 => Change::WatchPut(named(*number, None, WatchState::Removed)),
                    Some(text) => Change::WatchPut(named(*number, Some(text), WatchState::Watching)),
                    None => Change::WatchForgotten(named(*number, None, WatchState::Watching).address.bytes().into()),
                }));
                store.commit(set.clone()).await.unwrap();
                state.apply(&set);
            }
            if state.version > StateVersion(0) {
                assert_eq!(store.load(&chain()).await.unwrap().unwrap(), state);
            }
            let mut wanted: Vec<_> = state.watch.addresses().collect();
            wanted.sort_by(|a, b| a.address.cmp(&b.address));
            for page in [1, 3, 100] {
                assert_eq!(all(&store, page).await, wanted);
            }
        });
    }
}

#[tokio::test]
async fn a_million_changes_of_few_addresses_leave_few_files_and_no_forgotten_ones() {
    let directory = tempfile::tempdir().unwrap();
    let store = open_small(directory.path(), Threads::Callers).await;
    let mut version = StateVersion(0);
    for round in 0..300_u64 {
        let mut set = ChangeSet::new(chain(), version);
        set.changes = (0..4).map(|n| Change::WatchPut(watch(round * 4 + n))).collect();
        set.changes.extend((0..4).map(|n| Change::WatchForgotten(watch(round * 4 + n).address.bytes().into())));
        version = store.commit(set).await.unwrap().version;
    }
    assert!(store.watched(&chain(), None, 10).await.unwrap().is_empty());
    assert!(files(directory.path()).len() < 20, "{:?}", files(directory.path()));
    drop(store);
}

#[tokio::test]
async fn a_deposit_of_history_bears_its_addresss_reference_wherever_that_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = open_small(directory.path(), Threads::Callers).await;
    let mut version = StateVersion(0);
    for n in 0..10 {
        let mut set = ChangeSet::new(chain(), version);
        set.changes = vec![Change::WatchPut(watch(n))];
        version = store.commit(set).await.unwrap().version;
    }
    let mut set = ChangeSet::new(chain(), version);
    set.changes = (0..10).map(|n| pending(n, 5, 0)).collect();
    store.commit(set).await.unwrap();
    let found = store.deposits(&DepositFilter::default(), None, 100).await.unwrap();
    assert_eq!(found.len(), 10);
    for deposit in found {
        let number = u64::from_be_bytes(deposit.address.bytes().try_into().unwrap());
        assert_eq!(deposit.reference.as_deref(), Some(format!("customer-{number}").as_str()));
    }
}

/// A store with a log and several segments, closed.
async fn sample(path: &Path) -> ChainState {
    let store = open_small(path, Threads::Callers).await;
    let mut state = ChainState::default();
    for n in 0..23 {
        let mut set = ChangeSet::new(chain(), state.version);
        set.changes = vec![Change::WatchPut(watch(n)), Change::WatchPut(watch(n / 2))];
        store.commit(set.clone()).await.unwrap();
        state.apply(&set);
    }
    store.close().await.unwrap();
    state
}

#[tokio::test]
async fn t8_any_flipped_bit_cut_or_loss_of_a_list_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let whole = sample(directory.path()).await;
    let names = files(directory.path());
    assert!(names.iter().any(|name| name.ends_with("log")) && names.iter().any(|name| name.ends_with("segment")), "{names:?}");
    for name in names {
        let bytes = std::fs::read(directory.path().join(&name)).unwrap();
        let mut damages = vec![None, Some(bytes[..bytes.len() - 1].to_vec()), Some(vec![])];
        damages.extend((0..bytes.len() * 8).step_by(61).map(|bit| {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            Some(flipped)
        }));
        for damaged in damages {
            let scratch = tempfile::tempdir().unwrap();
            copy(directory.path(), scratch.path());
            match damaged {
                Some(bytes) => std::fs::write(scratch.path().join(&name), bytes).unwrap(),
                None => std::fs::remove_file(scratch.path().join(&name)).unwrap(),
            }
            let loaded = match SledStore::open(scratch.path(), options(false)).await {
                Ok(store) => store.load(&chain()).await,
                Err(error) => Err(error),
            };
            match loaded {
                Ok(found) => panic!("{name} was damaged, the state is whole: {}", found.as_ref() == Some(&whole)),
                Err(StoreError::Refused { context, .. }) => assert!(context.contains("--restored"), "{context}"),
                Err(other) => panic!("{name}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn t1_what_was_appended_and_never_committed_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let whole = sample(directory.path()).await;
    let log = files(directory.path()).into_iter().find(|name| name.ends_with("log")).unwrap();
    let log = directory.path().join(log);
    let committed = std::fs::read(&log).unwrap();
    std::fs::write(&log, [committed.as_slice(), &[3, 3, 1, 2, 3]].concat()).unwrap();
    std::fs::write(directory.path().join("watched.1.999.segment"), "half of a merge").unwrap();
    let store = SledStore::open(directory.path(), options(false)).await.unwrap();
    assert_eq!(store.load(&chain()).await.unwrap().unwrap(), whole);
    assert_eq!(std::fs::read(&log).unwrap(), committed);
    assert!(!directory.path().join("watched.1.999.segment").exists());
    drop(store);
}

#[tokio::test]
async fn t8_a_list_that_is_older_than_the_database_is_refused() {
    let (directory, older) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let state = sample(directory.path()).await;
    copy(directory.path(), older.path());
    let store = SledStore::open(directory.path(), options(false)).await.unwrap();
    let mut set = ChangeSet::new(chain(), state.version);
    set.changes = vec![Change::WatchPut(watch(77))];
    store.commit(set).await.unwrap();
    store.close().await.unwrap();
    for name in files(older.path()) {
        std::fs::copy(older.path().join(&name), directory.path().join(&name)).unwrap();
    }
    let text = refusal(SledStore::open(directory.path(), options(false)).await);
    assert!(text.contains("has lost what was committed last") && text.contains("--restored"), "{text}");
}
