#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use super::*;
use proptest::prelude::*;

const NEVER: Timestamp = Timestamp(u64::MAX);

fn key(n: u8) -> KeyDigest {
    KeyDigest([n; 16])
}

fn out(queue: &mut DeliveryQueue, now: u64) -> Vec<u64> {
    queue.take_due(Timestamp(now), 100).into_iter().map(|(position, _)| position.0).collect()
}

/// Three events of key 1, one of key 2; the first of each key goes out.
fn filled() -> DeliveryQueue {
    let mut queue = DeliveryQueue::new(Position(1));
    assert!(queue.offer(Position(1), Some(key(1))));
    assert!(!queue.offer(Position(2), Some(key(1))));
    assert!(queue.offer(Position(3), Some(key(2))));
    assert!(!queue.offer(Position(4), Some(key(1))));
    queue
}

#[test]
fn g8_the_next_event_of_a_key_waits_until_the_one_before_is_delivered() {
    let mut queue = filled();
    assert!(out(&mut queue, 0).is_empty());
    queue.acknowledge(&[Position(3)]);
    assert!(out(&mut queue, 0).is_empty());
    queue.acknowledge(&[Position(1)]);
    assert_eq!(out(&mut queue, 0), [2]);
    queue.acknowledge(&[Position(2)]);
    assert_eq!(out(&mut queue, 0), [4]);
}

#[test]
fn g8_a_retrying_event_holds_only_its_own_key() {
    let mut queue = filled();
    assert_eq!(queue.retry_later(Position(1), Timestamp(50)), Some(1));
    assert_eq!(queue.next_due(), Some(Timestamp(50)));
    assert!(queue.offer(Position(5), Some(key(3))));
    assert!(out(&mut queue, 49).is_empty());
    assert_eq!(queue.take_due(Timestamp(50), 9), [(Position(1), 2)]);
    assert_eq!(queue.next_due(), None);
}

#[test]
fn g6_a_dead_event_blocks_its_key_and_a_requeue_frees_the_tail_in_order() {
    let mut queue = filled();
    assert_eq!(queue.bury(Position(1)), Some(1));
    assert_eq!(queue.bury(Position(1)), None);
    assert_eq!(queue.get(Position(2)).map(|(state, _, by)| (state, by)), Some((DeliveryState::Blocked, Some(Position(1)))));
    assert_eq!(queue.counts(), QueueCounts { waiting: 3, retrying: 0, dead: 1, blocked: 2 });
    assert!(out(&mut queue, u64::MAX).is_empty());
    assert_eq!(queue.requeue(&[Position(4)]), 3);
    assert_eq!(queue.take_due(Timestamp(0), 9), [(Position(1), 1)]);
    assert_eq!(queue.counts(), QueueCounts { waiting: 4, ..QueueCounts::default() });
}

#[test]
fn g8_a_replayed_event_waits_while_a_later_one_of_its_key_is_out() {
    let mut queue = filled();
    queue.acknowledge(&[Position(1), Position(2)]);
    let later = out(&mut queue, 0);
    assert!(later.contains(&4), "{later:?}");
    assert_eq!(queue.replay(Position(1), key(1), 3, None), 1);
    assert!(out(&mut queue, 0).is_empty());
    queue.release(Position(4));
    assert_eq!(out(&mut queue, 0), [1]);
    queue.acknowledge(&[Position(1)]);
    assert_eq!(out(&mut queue, 0), [4]);
    assert_eq!(queue.replay(Position(99), key(1), 0, None), 0, "what is not read yet comes anyway");
}

#[test]
fn a_paced_replay_of_a_dead_key_comes_due_at_its_time() {
    let mut queue = filled();
    queue.bury(Position(1));
    assert_eq!(queue.replay(Position(1), key(1), 1, Some(Timestamp(70))), 3);
    assert!(out(&mut queue, 69).is_empty());
    assert_eq!(queue.next_due(), Some(Timestamp(70)));
    assert_eq!(queue.take_due(Timestamp(70), 9), [(Position(1), 1)]);
}

#[test]
fn an_event_given_up_lets_the_rest_of_its_key_go_on() {
    let mut queue = filled();
    queue.bury(Position(1));
    assert!(queue.skip(Position(1)));
    assert!(!queue.skip(Position(1)));
    assert_eq!(out(&mut queue, 0), [2]);
    assert!(queue.skip(Position(9)), "an event that was not read yet can be given up too");
    queue.pass_to(Position(9));
    assert!(!queue.offer(Position(9), Some(key(9))));
    assert_eq!(queue.get(Position(9)), None);
}

#[test]
fn g8_an_event_given_up_while_it_is_out_still_holds_its_key_until_the_attempt_ends() {
    for end in 0..3 {
        let mut queue = filled();
        assert!(queue.skip(Position(1)));
        assert_eq!(queue.get(Position(1)), None);
        assert!(out(&mut queue, 0).is_empty());
        match end {
            0 => queue.acknowledge(&[Position(1)]),
            1 => assert_eq!(queue.retry_later(Position(1), NEVER), None),
            _ => queue.release(Position(1)),
        }
        assert_eq!(out(&mut queue, 0), [2]);
    }
}

#[test]
fn what_was_handed_out_and_never_reported_is_taken_back() {
    let mut queue = filled();
    queue.release_all();
    assert_eq!(out(&mut queue, 0), [1, 3]);
    queue.release(Position(3));
    assert_eq!(queue.next_due(), Some(Timestamp(0)));
    assert_eq!(out(&mut queue, 0), [3]);
}

#[test]
fn delivered_events_cost_nothing_at_rest() {
    let mut queue = DeliveryQueue::new(Position(1));
    for position in 1..=1000 {
        assert!(queue.offer(Position(position), Some(KeyDigest(u128::from(position).to_be_bytes()))));
        queue.acknowledge(&[Position(position)]);
    }
    assert_eq!(queue.take_changes(), QueueChanges { cursor: Position(1001), put: vec![], gone: vec![] });
}

#[test]
fn a_full_queue_takes_no_fresh_event_and_dead_ones_do_not_count() {
    let mut queue = DeliveryQueue::new(Position(1));
    for position in 1..=u64::try_from(OPEN_MAX).unwrap() {
        assert!(queue.has_room());
        queue.offer(Position(position), Some(KeyDigest(u128::from(position).to_be_bytes())));
    }
    assert!(!queue.has_room());
    queue.bury(Position(7));
    assert!(queue.has_room());
}

#[test]
fn e12_a_retry_time_from_a_clock_that_jumped_is_brought_forward() {
    let state = OpenState::Retrying { at: Timestamp(1 << 60) };
    let open = OpenDelivery { key: key(1), state, attempts: 3, attempts_ever: 3 };
    let mut queue = DeliveryQueue::restore(Position(9), [(Position(4), open)], [], Timestamp(1000));
    assert_eq!(queue.next_due(), Some(Timestamp(1000)));
    assert_eq!(queue.take_due(Timestamp(1000), 9), [(Position(4), 4)]);
}

#[derive(Debug, Clone)]
enum Op {
    Offer(u8),
    Due(usize),
    Ack(usize),
    Retry(usize, u64),
    Bury(usize),
    Release(usize),
    Requeue(usize),
    Skip(u64),
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u8..4).prop_map(Op::Offer),
        4 => (1usize..4).prop_map(Op::Due),
        3 => any::<usize>().prop_map(Op::Ack),
        2 => (any::<usize>(), 0u64..100).prop_map(|(n, at)| Op::Retry(n, at)),
        1 => any::<usize>().prop_map(Op::Bury),
        1 => any::<usize>().prop_map(Op::Release),
        1 => any::<usize>().prop_map(Op::Requeue),
        1 => (0u64..60).prop_map(Op::Skip),
        1 => Just(Op::Restart),
    ]
}

/// What a store would hold, and what a consumer sees.
#[derive(Default)]
struct Model {
    next: u64,
    keys: BTreeMap<Position, u8>,
    stored: BTreeMap<Position, OpenDelivery>,
    skipped: BTreeSet<Position>,
    ended: BTreeSet<Position>,
    out: Vec<Position>,
}

impl Model {
    fn save(&mut self, queue: &mut DeliveryQueue) -> Position {
        let changes = queue.take_changes();
        self.stored.extend(changes.put);
        for gone in changes.gone {
            assert!(self.stored.remove(&gone).is_some(), "a record that was never written is removed");
        }
        changes.cursor
    }

    fn hand_out(&mut self, position: Position) {
        assert!(!self.ended.contains(&position), "{position} was delivered or given up before");
        let key = self.keys[&position];
        let earlier = self.keys.range(..position).filter(|(_, k)| **k == key);
        assert!(earlier.clone().all(|(p, _)| self.ended.contains(p)), "{position} overtook its key");
        assert!(earlier.clone().all(|(p, _)| !self.out.contains(p)), "two of one key are out");
        assert!(!self.out.contains(&position));
        self.out.push(position);
    }

    fn pick(&mut self, n: usize) -> Option<Position> {
        (!self.out.is_empty()).then(|| self.out.remove(n % self.out.len()))
    }
}

proptest! {
    #[test]
    fn g6_g8_nothing_is_lost_and_no_key_is_overtaken_whatever_happens(ops in proptest::collection::vec(op(), 1..120)) {
        let mut model = Model { next: 1, ..Model::default() };
        let mut queue = DeliveryQueue::new(Position(1));
        for op in ops {
            match op {
                Op::Offer(k) => {
                    let position = Position(model.next);
                    model.next += 1;
                    model.keys.insert(position, k);
                    if queue.offer(position, Some(key(k))) {
                        model.hand_out(position);
                    }
                }
                Op::Due(limit) => {
                    for (position, _) in queue.take_due(Timestamp(50), limit) {
                        model.hand_out(position);
                    }
                }
                Op::Ack(n) => {
                    if let Some(position) = model.pick(n) {
                        queue.acknowledge(&[position]);
                        queue.acknowledge(&[position]);
                        model.ended.insert(position);
                    }
                }
                Op::Retry(n, at) => drop(model.pick(n).map(|position| queue.retry_later(position, Timestamp(at)))),
                Op::Bury(n) => drop(model.pick(n).map(|position| queue.bury(position))),
                Op::Release(n) => drop(model.pick(n).map(|position| queue.release(position))),
                Op::Requeue(n) => {
                    let dead = queue.dead();
                    if !dead.is_empty() {
                        prop_assert!(queue.requeue(&[dead[n % dead.len()]]) > 0);
                    }
                }
                Op::Skip(position) => {
                    let position = Position(position.min(model.next - 1));
                    if queue.skip(position) {
                        model.skipped.insert(position);
                        model.ended.insert(position);
                    }
                }
                Op::Restart => {
                    let cursor = model.save(&mut queue);
                    let skipped = model.skipped.iter().copied();
                    queue = DeliveryQueue::restore(cursor, model.stored.clone(), skipped, NEVER);
                    model.out.clear();
                }
            }
        }
        // Whatever happened, everything that has not ended is still there.
        let left: Vec<_> = queue.positions_from(Position(0)).collect();
        let expected: Vec<_> = model.keys.keys().filter(|p| !model.ended.contains(p)).copied().collect();
        prop_assert_eq!(left, expected);
        let counts = queue.counts();
        let states: Vec<_> = queue.positions_from(Position(0)).filter_map(|p| queue.get(p)).map(|(s, ..)| s).collect();
        let count = |wanted: DeliveryState| states.iter().filter(|s| **s == wanted).count();
        prop_assert_eq!(counts.dead, count(DeliveryState::Dead));
        prop_assert_eq!(counts.blocked, count(DeliveryState::Blocked));
        prop_assert_eq!(counts.waiting, states.len() - counts.dead);
        let retrying = queue.positions_from(Position(0)).filter_map(|p| queue.get(p));
        prop_assert_eq!(counts.retrying, retrying.filter(|(_, o, _)| matches!(o.state, OpenState::Retrying { .. })).count());
    }
}
