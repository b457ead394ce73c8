use super::support::*;
use confirmd_core::*;
use proptest::prelude::*;

#[tokio::test]
async fn t1_t7_a_change_set_made_from_an_older_version_changes_nothing() {
    let mut world = World::new().await;
    let stale = world.set(vec![pending(1, 5, 0)], vec![event_of(&chain(), 1, 5, 1)]);
    world.found(2, 5).await;
    let error = world.store.commit(stale).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { expected: StateVersion(1), found: StateVersion(2), .. }), "{error}");
    assert_eq!(world.store.load(&chain()).await.unwrap().unwrap(), world.state);
    let name = world.register("ledger", None).await;
    assert!(world.due(&name, 0).await.is_empty());
}

#[tokio::test]
async fn g1_an_event_that_was_decided_before_is_not_written_again() {
    let mut world = World::new().await;
    world.events(1..2).await;
    let (again, other) = (event_of(&chain(), 1, 1, 1), event_of(&chain(), 2, 2, 1));
    for events in [vec![again], vec![other.clone(), other]] {
        let error = world.store.commit(world.set(vec![pending(5, 5, 0)], events)).await.unwrap_err();
        assert!(matches!(&error, StoreError::Invalid(text) if text.contains("decided before")), "{error}");
        assert_eq!(world.store.load(&chain()).await.unwrap().unwrap(), world.state);
    }
    world.found(2, 2).await;
    assert_eq!(world.confirmed(2, 2, 1).await, Position(2));
}

#[tokio::test]
async fn a_chain_has_no_state_before_its_first_commit() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await.unwrap();
    assert_eq!(store.load(&chain()).await.unwrap(), None);
    assert!(store.chains().await.unwrap().is_empty());
    let mut set = ChangeSet::new(chain(), StateVersion(0));
    set.changes.push(Change::TrailPushed(block(1)));
    store.commit(set).await.unwrap();
    assert_eq!(store.chains().await.unwrap(), [chain()]);
}

#[tokio::test]
async fn t4_positions_are_gapless_over_all_chains_and_stay_so_after_a_restart() {
    let mut world = World::new().await;
    world.events(1..4).await;
    let other = ChainId::new("eip155:10").unwrap();
    let mut set = ChangeSet::new(other.clone(), StateVersion(0));
    set.push_event(event_of(&other, 1, 1, 1));
    set.push_event(event_of(&other, 2, 1, 1));
    assert_eq!(world.store.commit(set).await.unwrap().first_event, Some(Position(4)));
    let mut world = world.reopen().await;
    world.found(9, 9).await;
    assert_eq!(world.confirmed(9, 9, 1).await, Position(6));
    let name = world.register("ledger", Some(ConsumerStart::Beginning)).await;
    assert_eq!(world.due(&name, 0).await, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn t5_asking_for_settled_keys_costs_one_lookup_per_key_however_many_are_settled() {
    let mut world = World::new().await;
    let reader = world.store.reader();
    let mut cost = Vec::new();
    for settled in [10, 2_000] {
        let changes = (0..settled).map(|n| archived(n, n, 1)).collect();
        world.commit(changes, vec![]).await;
        let asked: Vec<_> = (5..8).chain(1_000_000..1_000_003).map(key).collect();
        let before = reader.reads();
        let found = world.store.settled_among(&chain(), &asked).await.unwrap();
        cost.push(reader.reads() - before);
        assert_eq!(found.keys().cloned().collect::<Vec<_>>(), (5..8).map(key).collect::<Vec<_>>());
        assert_eq!(found[&key(7)], Archived { height: Height(7), sequence: Sequence(1) });
        let before = reader.reads();
        world.found(5_000 + settled, 9).await;
        cost.push(reader.reads() - before);
    }
    assert_eq!(cost[0], 6);
    assert_eq!(cost[..2], cost[2..], "reads grew with the number of settled keys");
}

#[tokio::test]
async fn settled_deposits_above_a_height_come_with_their_event_as_long_as_history_holds_it() {
    let mut world = World::new().await;
    world.events(1..6).await;
    for n in 1..6 {
        world.settled(n, n, 1).await;
    }
    world.commit(vec![archived(8, 50, 2)], vec![]).await;
    let mut above = world.store.settled_above(&chain(), Height(3)).await.unwrap();
    above.sort_by_key(|settled| settled.archived.height);
    assert_eq!(above.len(), 2);
    for (settled, n) in above.iter().zip([4, 5]) {
        assert_eq!(settled.digest, KeyDigest::of(&chain(), &key(n)));
        assert_eq!(settled.event.as_ref().unwrap().event, event_of(&chain(), n, n, 1));
    }
    assert!(world.store.settled_above(&ChainId::new("eip155:9").unwrap(), Height(0)).await.unwrap().is_empty());
}

#[tokio::test]
async fn watched_addresses_come_in_pages_in_the_order_of_their_bytes() {
    let world = World::new().await;
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|entry: &WatchEntry| entry.address.bytes().to_vec());
        let page = world.store.watched(&chain(), after.as_deref(), 3).await.unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert_eq!(all, (0..10).map(watch).collect::<Vec<_>>());
}

#[tokio::test]
async fn t12_after_a_failed_sync_nothing_is_answered_until_the_store_is_opened_again() {
    let mut world = World::new().await;
    world.events(1..3).await;
    let name = world.register("ledger", Some(ConsumerStart::Beginning)).await;
    world.store.fail_next_sync().await;
    let set = world.set(vec![pending(9, 9, 0)], vec![event_of(&chain(), 9, 9, 1)]);
    let error = world.store.commit(set.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error}");
    // T11: the event of the failed commit is not handed out, nor is anything else.
    assert!(matches!(world.store.due(&name, Timestamp(0), 9).await, Err(StoreError::Unknown { .. })));
    assert!(matches!(world.store.load(&chain()).await, Err(StoreError::Unknown { .. })));
    assert!(matches!(world.store.settled_among(&chain(), &[key(1)]).await, Err(StoreError::Unknown { .. })));
    drop(world.store);
    let store = open(world.directory.path()).await.unwrap();
    let found = store.load(&chain()).await.unwrap().unwrap();
    let mut with = world.state.clone();
    with.apply(&set);
    assert!(found == world.state || found == with);
}

#[tokio::test]
async fn a_store_whose_write_failed_closes_and_lets_its_directory_go() {
    let world = World::new().await;
    world.store.fail_next_sync().await;
    let set = world.set(vec![pending(9, 9, 0)], vec![event_of(&chain(), 9, 9, 1)]);
    assert!(world.store.commit(set).await.is_err());
    let closed = tokio::time::timeout(std::time::Duration::from_secs(20), world.store.close()).await;
    let error = closed.expect("closing never ends").unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error}");
    open(world.directory.path()).await.unwrap();
}

#[tokio::test]
async fn commits_that_wait_together_are_all_durable_when_they_are_answered() {
    let mut world = World::new().await;
    let chains: Vec<_> = (1..40).map(|n| ChainId::new(format!("eip155:{n}000")).unwrap()).collect();
    let commits = chains.iter().map(|chain| {
        let mut set = ChangeSet::new(chain.clone(), StateVersion(0));
        set.changes.push(Change::TrailPushed(block(1)));
        set.push_event(event_of(chain, 1, 1, 1));
        world.store.commit(set)
    });
    let commits: Vec<_> = commits.collect();
    let mut positions = Vec::new();
    for commit in futures_like_join(commits).await {
        positions.push(commit.unwrap().first_event.unwrap().0);
    }
    positions.sort_unstable();
    assert_eq!(positions, (1..40).collect::<Vec<_>>());
    world = world.reopen().await;
    assert_eq!(world.store.chains().await.unwrap().len(), 40);
}

/// Polls all of them together, so that they reach the writer before the first is answered.
async fn futures_like_join<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(context)
            {
                *done = Some(output);
            }
        }
        match done.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(done.iter_mut().filter_map(Option::take).collect()),
            false => std::task::Poll::Pending,
        }
    })
    .await
}

fn change() -> impl Strategy<Value = Change> {
    let n = || 0u64..6;
    let h = || 0u64..40;
    prop_oneof![
        3 => h().prop_map(|h| Change::TrailPushed(block(h))),
        1 => h().prop_map(|h| Change::TrailJumped(block(h))),
        1 => h().prop_map(|h| Change::TrailCut(Height(h))),
        1 => h().prop_map(|h| Change::TrailForgot(Height(h))),
        1 => h().prop_map(|h| Change::FloorRaised(Height(h))),
        1 => h().prop_map(|h| Change::Reanchored(block(h))),
        1 => h().prop_map(|h| Change::MarkRaised(FinalityTag::Safe, Height(h))),
        3 => (n(), h(), 0u64..2).prop_map(|(n, h, s)| pending(n, h, s * 2)),
        2 => n().prop_map(|n| Change::PendingDropped(key(n))),
        3 => (n(), h(), 0u64..2).prop_map(|(n, h, s)| reported(n, h, s * 2 + 1)),
        2 => n().prop_map(|n| Change::ReportedDropped(key(n))),
        2 => (n(), h(), 0u64..2).prop_map(|(n, h, s)| orphaned(n, h, s * 2)),
        2 => n().prop_map(|n| Change::OrphanedDropped(key(n))),
        2 => (n(), h(), 1u64..4).prop_map(|(n, h, s)| archived(n, h, s)),
        2 => n().prop_map(|n| Change::WatchPut(watch(n))),
        1 => n().prop_map(|n| Change::WatchForgotten(address(n).bytes().into())),
        1 => Just(Change::AssetPut(listed())),
        1 => Just(Change::AssetForgotten(asset().id)),
        1 => h().prop_map(|h| Change::Halted(halt(h))),
        1 => Just(Change::Resumed),
        1 => (n(), h()).prop_map(|(n, h)| Change::RescanPut(rescan(n, h))),
    ]
}

fn halt(h: u64) -> Halt {
    let reason = match h % 3 {
        0 => HaltReason::TooDeep { floor: Height(h), recorded: block(h), seen: block(h + 1) },
        1 => HaltReason::WrongNetwork { expected: "a".into(), found: "b".into() },
        _ => HaltReason::BrokenContract { detail: "S7".into() },
    };
    Halt { reason, at: Timestamp(h) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn t3_load_equals_the_fold_of_any_history_of_change_sets(
        sets in proptest::collection::vec((proptest::collection::vec(change(), 0..12), any::<bool>()), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            let mut archive = std::collections::BTreeMap::new();
            for (changes, reopen) in sets {
                for change in &changes {
                    if let Change::Archived(key, archived) = change {
                        archive.insert(key.clone(), *archived);
                    }
                }
                let receipt = world.commit(changes, vec![]).await;
                assert_eq!(receipt, CommitReceipt { version: world.state.version, first_event: None });
                if reopen {
                    world = world.reopen().await;
                }
                assert_eq!(world.store.load(&chain()).await.unwrap().unwrap(), world.state);
            }
            let keys: Vec<_> = (0..8).map(key).collect();
            assert_eq!(world.store.settled_among(&chain(), &keys).await.unwrap(), archive);
        });
    }
}
