use super::support::*;
use confirmd_core::*;

fn consumer(name: &str) -> ConsumerName {
    ConsumerName::new(name).unwrap()
}

fn positions(of: &[u64]) -> Vec<Position> {
    of.iter().map(|n| Position(*n)).collect()
}

async fn listed_states(world: &World, name: &ConsumerName) -> Vec<(u64, DeliveryState)> {
    let filter = DeliveryFilter { consumer: Some(name.clone()), ..DeliveryFilter::default() };
    let records = world.store.list(&filter, None, 100).await.unwrap();
    records.iter().map(|record| (record.position.0, record.state)).collect()
}

async fn status(world: &World, name: &ConsumerName) -> ConsumerStatus {
    world.store.consumers().await.unwrap().into_iter().find(|status| status.name == *name).unwrap()
}

/// Three events of key 1 (confirmed, reverted, confirmed) and one of key 2, positions 1, 2, 4 and 3.
async fn one_key_three_times() -> (World, ConsumerName) {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.found(1, 5).await;
    assert_eq!(world.confirmed(1, 5, 1).await, Position(1));
    assert_eq!(world.reverted(1, 5, 2).await, Position(2));
    world.found(2, 6).await;
    world.confirmed(2, 6, 1).await;
    world.commit(vec![Change::OrphanedDropped(key(1)), pending(1, 7, 2)], vec![]).await;
    assert_eq!(world.confirmed(1, 7, 3).await, Position(4));
    (world, name)
}

#[tokio::test]
async fn t4_g6_events_come_out_in_order_and_again_after_a_restart_until_acknowledged() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.events(1..6).await;
    assert_eq!(world.due(&name, 0).await, [1, 2, 3, 4, 5]);
    assert!(world.due(&name, 0).await.is_empty(), "what is out is not handed out twice");
    world.store.acknowledge(&name, &positions(&[1, 3])).await.unwrap();
    world.store.acknowledge(&name, &positions(&[1, 3])).await.unwrap();
    let mut world = world.reopen().await;
    assert_eq!(world.due(&name, 0).await, [2, 4, 5]);
    world.store.acknowledge(&name, &positions(&[2, 4, 5])).await.unwrap();
    world = world.reopen().await;
    assert!(world.due(&name, 0).await.is_empty());
    assert_eq!(status(&world, &name).await.waiting, 0);
}

#[tokio::test]
async fn g7_every_attempt_carries_the_same_id_and_the_same_bytes() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.events(1..2).await;
    let first = world.store.due(&name, Timestamp(0), 9).await.unwrap();
    let body: std::sync::Arc<[u8]> = event_of(&chain(), 1, 1, 1).to_body().into();
    assert_eq!((first[0].attempt, &first[0].body), (1, &body));
    world.store.retry_later(&name, Position(1), attempt(1, 5), Timestamp(50)).await.unwrap();
    let world = world.reopen().await;
    assert_eq!(world.store.next_due(&name).await.unwrap(), Some(Timestamp(50)));
    assert!(world.due(&name, 49).await.is_empty());
    let second = world.store.due(&name, Timestamp(50), 9).await.unwrap();
    assert_eq!(second[0], Delivery { attempt: 2, ..first[0].clone() });
}

#[tokio::test]
async fn g8_the_next_event_of_a_key_waits_for_the_one_before_and_other_keys_do_not() {
    let (world, name) = one_key_three_times().await;
    assert_eq!(world.due(&name, 0).await, [1, 3]);
    world.store.retry_later(&name, Position(1), attempt(1, 1), Timestamp(100)).await.unwrap();
    world.store.acknowledge(&name, &positions(&[3])).await.unwrap();
    let world = world.reopen().await;
    assert!(world.due(&name, 99).await.is_empty());
    assert_eq!(world.due(&name, 100).await, [1]);
    world.store.acknowledge(&name, &positions(&[1])).await.unwrap();
    assert_eq!(world.due(&name, 100).await, [2]);
    let world = world.reopen().await;
    assert_eq!(world.due(&name, 100).await, [2]);
    world.store.acknowledge(&name, &positions(&[2])).await.unwrap();
    assert_eq!(world.due(&name, 100).await, [4]);
}

#[tokio::test]
async fn g6_a_dead_letter_is_visible_blocks_its_key_and_a_requeue_frees_the_tail() {
    use DeliveryState::{Blocked, Dead, Queued};
    let (world, name) = one_key_three_times().await;
    world.due(&name, 0).await;
    world.store.acknowledge(&name, &positions(&[3])).await.unwrap();
    world.store.bury(&name, Position(1), attempt(9, 7)).await.unwrap();
    world.store.bury(&name, Position(1), attempt(9, 7)).await.unwrap();
    let world = world.reopen().await;
    assert_eq!(listed_states(&world, &name).await, [(1, Dead), (2, Blocked), (4, Blocked)]);
    let found = status(&world, &name).await;
    assert_eq!((found.dead, found.blocked, found.waiting, found.retrying), (1, 2, 2, 0));
    let filter = DeliveryFilter { state: Some(Blocked), ..DeliveryFilter::default() };
    let blocked = world.store.list(&filter, None, 1).await.unwrap();
    assert_eq!(blocked[0].blocked_by, Some(event_of(&chain(), 1, 5, 1).id));
    let dead = &world.store.list(&DeliveryFilter { state: Some(Dead), ..filter }, None, 9).await.unwrap()[0];
    assert_eq!((dead.attempts, dead.last_attempt.clone()), (1, Some(attempt(9, 7))));
    assert!(world.due(&name, u64::MAX).await.is_empty());
    // Naming a blocked one requeues the key's whole tail, twice is as good as once.
    assert_eq!(world.store.requeue(&name, &positions(&[4])).await.unwrap(), 3);
    assert_eq!(world.store.requeue(&name, &positions(&[4])).await.unwrap(), 3);
    let world = world.reopen().await;
    assert_eq!(listed_states(&world, &name).await, [(1, Queued), (2, Queued), (4, Queued)]);
    let again = world.store.due(&name, Timestamp(0), 9).await.unwrap();
    assert_eq!((again.len(), again[0].position, again[0].attempt), (1, Position(1), 1));
    assert_eq!(world.store.attempts(&name, Position(1)).await.unwrap(), [attempt(9, 7)]);
}

#[tokio::test]
async fn an_empty_requeue_means_every_dead_letter_and_an_unknown_position_is_invalid() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.events(1..4).await;
    world.due(&name, 0).await;
    for n in 1..=2 {
        world.store.bury(&name, Position(n), attempt(9, 7)).await.unwrap();
    }
    assert!(matches!(world.store.requeue(&name, &positions(&[77])).await, Err(StoreError::Invalid(_))));
    assert_eq!(world.store.requeue(&name, &[]).await.unwrap(), 2);
    assert_eq!(world.store.requeue(&name, &[]).await.unwrap(), 0);
    assert_eq!(world.due(&name, 0).await, [1, 2]);
}

#[tokio::test]
async fn an_event_given_up_stays_on_record_and_the_rest_of_its_key_goes_on() {
    let (mut world, name) = one_key_three_times().await;
    world.due(&name, 0).await;
    world.store.bury(&name, Position(1), attempt(9, 7)).await.unwrap();
    world.store.skip(&name, Position(1), Timestamp(9)).await.unwrap();
    world.store.skip(&name, Position(1), Timestamp(9)).await.unwrap();
    world.store.acknowledge(&name, &positions(&[3])).await.unwrap();
    // One that was not even read yet, across a restart.
    world.found(3, 8).await;
    let ahead = world.confirmed(3, 8, 1).await;
    world.store.skip(&name, ahead, Timestamp(9)).await.unwrap();
    let world = world.reopen().await;
    let skipped = DeliveryFilter { state: Some(DeliveryState::Skipped), ..DeliveryFilter::default() };
    let records = world.store.list(&skipped, None, 9).await.unwrap();
    assert_eq!(records.iter().map(|record| record.position.0).collect::<Vec<_>>(), [1, ahead.0]);
    assert_eq!(world.due(&name, 0).await, [2]);
    world.store.acknowledge(&name, &positions(&[2])).await.unwrap();
    assert_eq!(world.due(&name, 0).await, [4]);
    let error = world.store.skip(&name, Position(2), Timestamp(9)).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid(_)) && error.to_string().contains("delivered"), "{error}");
}

#[tokio::test]
async fn g9_t6_what_happens_to_one_consumer_leaves_the_others_alone() {
    let mut world = World::new().await;
    let (one, two) = (world.register("one", None).await, world.register("two", None).await);
    world.events(1..4).await;
    world.due(&one, 0).await;
    world.due(&two, 0).await;
    world.store.acknowledge(&two, &positions(&[1, 2, 3])).await.unwrap();
    world.store.bury(&one, Position(1), attempt(9, 7)).await.unwrap();
    world.store.retry_later(&one, Position(2), attempt(1, 7), Timestamp(9)).await.unwrap();
    world.store.pause(&one, Some("410 Gone".into())).await.unwrap();
    world.events(4..5).await;
    let mut world = world.reopen().await;
    let (first, second) = (status(&world, &one).await, status(&world, &two).await);
    assert_eq!((first.waiting, first.retrying, first.dead, first.paused.as_deref()), (3, 1, 1, Some("410 Gone")));
    assert_eq!((second.waiting, second.retrying, second.dead, second.paused), (1, 0, 0, None));
    assert!(world.due(&one, u64::MAX).await.is_empty());
    assert_eq!(world.store.next_due(&one).await.unwrap(), None);
    assert_eq!(world.due(&two, 0).await, [4]);
    world.store.pause(&one, None).await.unwrap();
    assert_eq!(world.due(&one, u64::MAX).await, [2, 3, 4]);
    assert_eq!(world.store.purge(&one).await.unwrap(), 4);
    world = world.reopen().await;
    assert_eq!(world.store.consumers().await.unwrap().len(), 1);
    assert_eq!(world.due(&two, 0).await, [4]);
    assert!(matches!(world.store.due(&one, Timestamp(0), 1).await, Err(StoreError::Invalid(_))));
}

#[tokio::test]
async fn t9_a_consumer_new_to_a_store_with_events_starts_where_the_operator_says() {
    let mut world = World::new().await;
    let early = world.register("early", None).await;
    world.events(1..4).await;
    let spec = ConsumerSpec { name: consumer("late"), filter: ConsumerFilter::default(), start: None };
    let error = world.store.register(&spec).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid(_)));
    assert!(error.to_string().contains("start = \"now\"") && error.to_string().contains("[sinks.late]"), "{error}");
    let now = world.register("now", Some(ConsumerStart::Now)).await;
    let beginning = world.register("beginning", Some(ConsumerStart::Beginning)).await;
    world.events(4..5).await;
    let world = world.reopen().await;
    assert_eq!(world.due(&early, 0).await, [1, 2, 3, 4]);
    assert_eq!(world.due(&now, 0).await, [4]);
    assert_eq!(world.due(&beginning, 0).await, [1, 2, 3, 4]);
    // Registering again needs no start and takes back what was handed out.
    world.store.register(&ConsumerSpec { name: early.clone(), ..spec }).await.unwrap();
    assert_eq!(world.due(&early, 0).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn t9_records_move_to_a_new_name_but_never_over_anothers() {
    let mut world = World::new().await;
    let (old, other) = (world.register("old", None).await, world.register("other", None).await);
    world.events(1..4).await;
    world.due(&old, 0).await;
    world.store.retry_later(&old, Position(2), attempt(1, 7), Timestamp(9)).await.unwrap();
    world.store.acknowledge(&old, &positions(&[1, 3])).await.unwrap();
    assert!(matches!(world.store.rename(&old, &other).await, Err(StoreError::Invalid(_))));
    assert!(matches!(world.store.rename(&consumer("none"), &old).await, Err(StoreError::Invalid(_))));
    world.store.rename(&old, &consumer("new")).await.unwrap();
    let world = world.reopen().await;
    assert_eq!(world.due(&consumer("new"), 9).await, [2]);
    assert_eq!(world.store.attempts(&consumer("new"), Position(2)).await.unwrap(), [attempt(1, 7)]);
    assert!(matches!(world.store.due(&old, Timestamp(0), 1).await, Err(StoreError::Invalid(_))));
}

#[tokio::test]
async fn a_consumer_gets_only_what_its_filter_takes_and_the_rest_costs_nothing() {
    let mut world = World::new().await;
    let filter = ConsumerFilter { chains: [ChainId::new("eip155:10").unwrap()].into(), ..ConsumerFilter::default() };
    let spec = ConsumerSpec { name: consumer("ten"), filter, start: None };
    world.store.register(&spec).await.unwrap();
    world.events(1..6).await;
    let other = ChainId::new("eip155:10").unwrap();
    let mut set = ChangeSet::new(other.clone(), StateVersion(0));
    set.push_event(event_of(&other, 1, 1, 1));
    world.store.commit(set).await.unwrap();
    assert_eq!(status(&world, &spec.name).await.waiting, 1);
    assert_eq!(listed_states(&world, &spec.name).await, [(6, DeliveryState::Queued)]);
    assert_eq!(world.due(&spec.name, 0).await, [6]);
    world.store.acknowledge(&spec.name, &positions(&[6])).await.unwrap();
    let found = status(&world, &spec.name).await;
    assert_eq!((found.waiting, found.cursor), (0, Position(7)));
}

#[tokio::test]
async fn a_filter_that_takes_nothing_of_a_long_outbox_still_finds_its_event() {
    let mut world = World::new().await;
    let other = ChainId::new("eip155:10").unwrap();
    let filter = ConsumerFilter { chains: [other.clone()].into(), ..ConsumerFilter::default() };
    let spec = ConsumerSpec { name: consumer("ten"), filter, start: None };
    world.store.register(&spec).await.unwrap();
    world.commit(vec![], (0..2_500).map(|n| event_of(&chain(), n, 1, 1)).collect()).await;
    let mut set = ChangeSet::new(other.clone(), StateVersion(0));
    set.push_event(event_of(&other, 1, 1, 1));
    world.store.commit(set).await.unwrap();
    assert_eq!(world.due(&spec.name, 0).await, [2_501]);
}

#[tokio::test]
async fn what_was_released_is_due_at_once_with_the_same_attempt_number() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.events(1..3).await;
    world.due(&name, 0).await;
    world.store.release(&name, &positions(&[1, 2])).await.unwrap();
    assert_eq!(world.store.next_due(&name).await.unwrap(), Some(Timestamp(0)));
    let again = world.store.due(&name, Timestamp(0), 9).await.unwrap();
    assert_eq!(again.iter().map(|d| (d.position.0, d.attempt)).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
}

#[tokio::test]
async fn deliveries_handed_to_nobody_go_back() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.events(1..3).await;
    let writer = &world.store.writer;
    let asked = name.clone();
    drop(writer.run(move |core| core.due(&asked, Timestamp(0), 9)).await.unwrap());
    assert_eq!(world.due(&name, 0).await, [1, 2]);
}

#[tokio::test]
async fn e12_a_retry_time_from_a_clock_that_jumped_is_brought_forward_at_the_next_start() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.events(1..2).await;
    world.due(&name, 0).await;
    world.store.retry_later(&name, Position(1), attempt(1, 7), Timestamp(1 << 50)).await.unwrap();
    world.at(1_000);
    let world = world.reopen().await;
    assert_eq!(world.store.next_due(&name).await.unwrap(), Some(Timestamp(1_000 + 103_680_000)));
}

#[tokio::test]
async fn the_newest_fifty_attempts_are_kept_oldest_first() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.events(1..2).await;
    for n in 1..=60 {
        assert_eq!(world.due(&name, 0).await, [1]);
        world.store.retry_later(&name, Position(1), attempt(n, 7), Timestamp(0)).await.unwrap();
    }
    let kept: Vec<_> = world.store.attempts(&name, Position(1)).await.unwrap().iter().map(|attempt| attempt.number).collect();
    assert_eq!(kept, (11..=60).collect::<Vec<_>>());
}

#[tokio::test]
async fn deliveries_are_listed_in_pages_and_an_event_is_found_also_where_it_was_delivered() {
    let mut world = World::new().await;
    let (one, two) = (world.register("one", None).await, world.register("two", None).await);
    world.events(1..6).await;
    world.due(&one, 0).await;
    world.store.acknowledge(&one, &positions(&[2])).await.unwrap();
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|record: &DeliveryRecord| (record.consumer.clone(), record.position));
        let page = world.store.list(&DeliveryFilter::default(), after, 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let seen: Vec<_> = all.iter().map(|record| (record.consumer.as_str(), record.position.0)).collect();
    let expected = [("one", 1), ("one", 3), ("one", 4), ("one", 5), ("two", 1), ("two", 2), ("two", 3), ("two", 4), ("two", 5)];
    assert_eq!(seen, expected);
    let filter = DeliveryFilter { event: Some(event_of(&chain(), 2, 2, 1).id), ..DeliveryFilter::default() };
    let found = world.store.list(&filter, None, 9).await.unwrap();
    assert_eq!(found.iter().map(|record| record.state).collect::<Vec<_>>(), [DeliveryState::Delivered, DeliveryState::Queued]);
    assert_eq!(found[1].consumer, two);
}

#[tokio::test]
async fn delivered_events_leave_no_records_behind() {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    for n in 1..30 {
        world.events(n..n + 1).await;
        let due = world.due(&name, 0).await;
        world.store.acknowledge(&name, &positions(&due)).await.unwrap();
    }
    let reader = world.store.reader();
    for kind in [crate::record::Kind::Open, crate::record::Kind::Attempt, crate::record::Kind::Skipped] {
        assert!(reader.keys(&crate::keys::all(kind), 9).unwrap().is_empty());
    }
}
