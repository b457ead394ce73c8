use super::support::*;
use confirmd_core::*;

async fn one(world: &World, n: u64) -> DepositRecord {
    let filter = DepositFilter { tx_id: Some(key(n).tx_id.as_str().to_owned()), ..DepositFilter::default() };
    let mut found = world.store.deposits(&filter, None, 9).await.unwrap();
    assert_eq!(found.len(), 1);
    found.pop().unwrap()
}

fn numbers(records: &[DepositRecord]) -> Vec<u64> {
    records.iter().map(|record| record.key.tx_id.as_str().trim_start_matches("0xt").parse().unwrap()).collect()
}

#[tokio::test]
async fn a_deposit_is_followed_from_pending_over_reverted_to_settled() {
    let mut world = World::new().await;
    world.at(10);
    world.found(1, 5).await;
    let seen = one(&world, 1).await;
    assert_eq!((seen.state, seen.sequence, seen.event), (DepositState::Pending, Sequence(0), None));
    assert_eq!((seen.reference.as_deref(), seen.asset.clone(), seen.seen_at), (Some("customer-1"), asset(), Timestamp(10)));
    world.at(20);
    world.confirmed(1, 5, 1).await;
    let found = one(&world, 1).await;
    assert_eq!((found.state, found.sequence, found.event), (DepositState::Confirmed, Sequence(1), Some(Position(1))));
    world.at(30);
    world.reverted(1, 5, 2).await;
    let found = one(&world, 1).await;
    assert_eq!((found.state, found.sequence, found.event), (DepositState::Reverted, Sequence(2), Some(Position(2))));
    world.commit(vec![Change::OrphanedDropped(key(1)), pending(1, 8, 2)], vec![]).await;
    let found = one(&world, 1).await;
    assert_eq!((found.state, found.block.clone(), found.event), (DepositState::Pending, block(8), Some(Position(2))));
    world.confirmed(1, 8, 3).await;
    world.at(40);
    world.settled(1, 8, 3).await;
    let world = world.reopen().await;
    let found = one(&world, 1).await;
    assert_eq!((found.state, found.sequence, found.event), (DepositState::Settled, Sequence(3), Some(Position(3))));
    assert_eq!((found.seen_at, found.changed_at), (Timestamp(10), Timestamp(40)));
}

#[tokio::test]
async fn a_pending_deposit_whose_block_is_gone_is_orphaned_and_stays_so_below_the_floor() {
    let mut world = World::new().await;
    world.found(1, 5).await;
    world.commit(vec![Change::PendingDropped(key(1)), orphaned(1, 5, 0)], vec![]).await;
    assert_eq!(one(&world, 1).await.state, DepositState::Orphaned);
    world.commit(vec![Change::OrphanedDropped(key(1))], vec![]).await;
    assert_eq!(one(&world, 1).await.state, DepositState::Orphaned);
}

#[tokio::test]
async fn found_confirmed_and_settled_in_one_commit_is_settled() {
    let mut world = World::new().await;
    let receipt = world.commit(vec![archived(1, 5, 1)], vec![event_of(&chain(), 1, 5, 1)]).await;
    let found = one(&world, 1).await;
    assert_eq!((found.state, found.sequence, found.event), (DepositState::Settled, Sequence(1), receipt.first_event));
    assert_eq!((found.amount, found.reference.as_deref()), (Amount::from(2), Some("customer-1")));
    let above = world.store.settled_above(&chain(), Height(0)).await.unwrap();
    assert_eq!(above[0].event.as_ref().map(|event| event.position), receipt.first_event);
}

#[tokio::test]
async fn taken_back_and_confirmed_anew_in_one_commit_is_confirmed() {
    let mut world = World::new().await;
    world.events(1..2).await;
    let changes = vec![
        Change::ReportedDropped(key(1)),
        orphaned(1, 1, 2),
        Change::OrphanedDropped(key(1)),
        pending(1, 2, 2),
        Change::PendingDropped(key(1)),
        reported(1, 2, 3),
    ];
    world.commit(changes, vec![event_of(&chain(), 1, 1, 2), event_of(&chain(), 1, 2, 3)]).await;
    let found = one(&world, 1).await;
    assert_eq!((found.state, found.sequence, found.event), (DepositState::Confirmed, Sequence(3), Some(Position(3))));
    assert_eq!(found.block, block(2));
}

#[tokio::test]
async fn deposits_are_listed_newest_first_in_pages_by_every_filter() {
    let mut world = World::new().await;
    for n in 1..=25 {
        world.at(1_000 + n / 2);
        world.found(n, n).await;
    }
    for n in 1..=12 {
        world.confirmed(n, n, 1).await;
    }
    let mut all: Vec<DepositRecord> = Vec::new();
    loop {
        let page = world.store.deposits(&DepositFilter::default(), all.last(), 4).await.unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert!(all.windows(2).all(|pair| pair[0].seen_at >= pair[1].seen_at));
    let mut seen = numbers(&all);
    seen.sort_unstable();
    assert_eq!(seen, (1..=25).collect::<Vec<_>>());
    let list = |filter: DepositFilter| {
        let store = &world.store;
        async move {
            let mut found = numbers(&store.deposits(&filter, None, 100).await.unwrap());
            found.sort_unstable();
            found
        }
    };
    let none = DepositFilter::default();
    assert_eq!(list(DepositFilter { address: Some("0xa3".into()), ..none.clone() }).await, [3, 13, 23]);
    assert_eq!(list(DepositFilter { reference: Some("customer-4".into()), ..none.clone() }).await, [4, 14, 24]);
    let confirmed = DepositFilter { state: Some(DepositState::Confirmed), ..none.clone() };
    assert_eq!(list(confirmed.clone()).await, (1..=12).collect::<Vec<_>>());
    assert_eq!(list(DepositFilter { address: Some("0xa3".into()), ..confirmed }).await, [3]);
    assert_eq!(list(DepositFilter { chain: Some(chain()), ..none.clone() }).await.len(), 25);
    assert!(list(DepositFilter { chain: Some(ChainId::new("eip155:9").unwrap()), ..none }).await.is_empty());
}

#[tokio::test]
async fn an_event_is_found_by_its_id() {
    let mut world = World::new().await;
    world.events(1..3).await;
    let wanted = event_of(&chain(), 2, 2, 1);
    let found = world.store.event(&wanted.id).await.unwrap().unwrap();
    assert_eq!((found.position, &found.event, &*found.body), (Position(2), &wanted, &*wanted.to_body()));
    assert_eq!(world.store.event(&event_of(&chain(), 3, 3, 1).id).await.unwrap(), None);
}

#[tokio::test]
async fn t10_t13_retention_removes_what_ended_and_nobody_waits_for_and_never_a_sequence() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.at(1_000);
    world.events(1..8).await;
    for n in 1..6 {
        world.settled(n, n, 1).await;
    }
    let due = world.due(&name, 0).await;
    assert_eq!(due.len(), 7);
    world.store.bury(&name, Position(2), attempt(9, 7)).await.unwrap();
    world.store.skip(&name, Position(3), Timestamp(9)).await.unwrap();
    let delivered: Vec<_> = [1, 3, 4, 5, 6, 7].map(Position).into();
    world.store.acknowledge(&name, &delivered).await.unwrap();
    world.at(9_000);
    world.events(8..9).await;
    // Dead: 2. Still revertible: 6 and 7. Undelivered and young: 8.
    assert_eq!(world.store.prune(Timestamp(7_500)).await.unwrap(), 4);
    assert_eq!(world.store.prune(Timestamp(7_500)).await.unwrap(), 0);
    let mut world = world.reopen().await;
    let mut left = numbers(&world.store.deposits(&DepositFilter::default(), None, 99).await.unwrap());
    left.sort_unstable();
    assert_eq!(left, [2, 6, 7, 8]);
    assert_eq!(world.store.event(&event_of(&chain(), 1, 1, 1).id).await.unwrap(), None);
    let skipped = DeliveryFilter { state: Some(DeliveryState::Skipped), ..DeliveryFilter::default() };
    assert!(world.store.list(&skipped, None, 9).await.unwrap().is_empty());
    let keys: Vec<_> = (1..10).map(key).collect();
    let archived = world.store.settled_among(&chain(), &keys).await.unwrap();
    assert_eq!(archived.len(), 5);
    assert!(archived.values().all(|archived| archived.sequence == Sequence(1)));
    // What is left can still go out, and a late consumer begins at what is left.
    assert_eq!(world.store.requeue(&name, &[]).await.unwrap(), 1);
    assert_eq!(world.due(&name, 0).await, [2, 8]);
    let late = world.register("late", Some(ConsumerStart::Beginning)).await;
    assert_eq!(world.due(&late, 0).await, [2, 6, 7, 8]);
    world.store.acknowledge(&name, &[Position(2), Position(8)]).await.unwrap();
    world.store.acknowledge(&late, &[2, 6, 7, 8].map(Position)).await.unwrap();
    world.settled(6, 6, 1).await;
    world.settled(7, 7, 1).await;
    world.at(20_000);
    assert_eq!(world.store.prune(Timestamp(15_000)).await.unwrap(), 3);
    world = world.reopen().await;
    assert_eq!(world.store.load(&chain()).await.unwrap().unwrap(), world.state);
    assert_eq!(numbers(&world.store.deposits(&DepositFilter::default(), None, 99).await.unwrap()), [8]);
}

#[tokio::test]
async fn t9_t10_a_consumer_that_does_not_read_holds_retention() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    let paused = world.register("paused", None).await;
    world.store.pause(&paused, Some("because".into())).await.unwrap();
    world.events(1..700).await;
    for n in 1..700 {
        world.settled(n, n, 1).await;
    }
    world.at(10_000_000);
    loop {
        let due = world.due(&name, 0).await;
        if due.is_empty() {
            break;
        }
        world.store.acknowledge(&name, &due.into_iter().map(Position).collect::<Vec<_>>()).await.unwrap();
    }
    assert_eq!(world.store.prune(Timestamp(9_000_000)).await.unwrap(), 0);
    assert_eq!(world.store.purge(&paused).await.unwrap(), 699);
    assert_eq!(world.store.prune(Timestamp(9_000_000)).await.unwrap(), 699);
    assert!(world.store.deposits(&DepositFilter::default(), None, 9).await.unwrap().is_empty());
}
