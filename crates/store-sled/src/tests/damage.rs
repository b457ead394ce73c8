use super::support::*;
use crate::SledStore;
use confirmd_core::*;
use std::path::Path;

/// Everything a store answers, or why it refuses.
type Answers = (Option<ChainState>, Vec<DepositRecord>, Vec<DeliveryRecord>, Vec<ConsumerStatus>);

async fn answers(path: &Path) -> Result<Answers, StoreError> {
    let store = SledStore::open(path, options(false)).await?;
    let deposits = store.deposits(&DepositFilter::default(), None, 1000).await?;
    let deliveries = store.list(&DeliveryFilter::default(), None, 1000).await?;
    let answers = (store.load(&chain()).await?, deposits, deliveries, store.consumers().await?);
    Ok(answers)
}

async fn sample() -> World {
    let mut world = World::new().await;
    let name = world.register("ledger", None).await;
    world.events(1..40).await;
    world.due(&name, 0).await;
    world.store.retry_later(&name, Position(3), attempt(1, 5), Timestamp(50)).await.unwrap();
    world.store.bury(&name, Position(4), attempt(9, 6)).await.unwrap();
    for n in 1..20 {
        world.settled(n, n, 1).await;
    }
    world.reopen().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_damage_is_refused_or_harmless_and_never_a_panic_or_another_state() {
    let world = sample().await;
    world.store.close().await.unwrap();
    let whole = answers(world.directory.path()).await.unwrap();
    let size = std::fs::metadata(world.directory.path().join("db")).unwrap().len();
    let mut random = 88172645463325252u64;
    let mut refused = 0;
    for trial in 0..40u64 {
        let scratch = tempfile::tempdir().unwrap();
        copy(world.directory.path(), scratch.path());
        let db = scratch.path().join("db");
        if trial < 8 {
            let cut = [100, 4096, 65_536, size / 2, size - 100, 1, 512, size / 4][usize::try_from(trial).unwrap()];
            std::fs::File::options().write(true).open(&db).unwrap().set_len(size - cut).unwrap();
        } else {
            let mut bytes = std::fs::read(&db).unwrap();
            // Mostly where there is data: a database file is mostly zeros.
            let used: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = used[usize::try_from(random % u64::try_from(used.len()).unwrap()).unwrap()];
            bytes[at] ^= 1 << (random >> 60 & 7);
            std::fs::write(&db, bytes).unwrap();
        }
        match answers(scratch.path()).await {
            Ok(found) => assert_eq!(found, whole, "trial {trial} opened with another state"),
            Err(StoreError::Refused { context, .. }) => {
                assert!(context.contains("--restored"), "trial {trial}: {context}");
                refused += 1;
            }
            Err(other) => panic!("trial {trial}: {other:?}"),
        }
    }
    assert!(refused >= 8, "only {refused} of 40 damages were noticed");
}

#[tokio::test]
async fn t8_a_flipped_bit_in_a_small_file_is_refused_or_harmless() {
    let world = sample().await;
    world.store.close().await.unwrap();
    let whole = answers(world.directory.path()).await.unwrap();
    for (part, bits) in [("conf", 64), ("commits", 640)] {
        for bit in (0..bits).step_by(13) {
            let scratch = tempfile::tempdir().unwrap();
            copy(world.directory.path(), scratch.path());
            let mut bytes = std::fs::read(scratch.path().join(part)).unwrap();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(scratch.path().join(part), bytes).unwrap();
            match answers(scratch.path()).await {
                Ok(found) => assert_eq!(found, whole, "bit {bit} of {part}"),
                Err(StoreError::Refused { .. }) => {}
                Err(other) => panic!("bit {bit} of {part}: {other:?}"),
            }
        }
    }
}

/// Changes the database behind the store's back.
fn behind_its_back(world: &World, change: impl FnOnce(&sled::Db)) {
    let db = sled::open(world.directory.path()).unwrap();
    change(&db);
    db.flush().unwrap();
}

/// The record of deposit 20, which is reported and not settled.
fn a_reported_one(db: &sled::Db) -> (crate::keys::Key, sled::IVec) {
    let key = crate::keys::held(crate::record::Kind::Reported, 1, &KeyDigest::of(&chain(), &key(20)));
    let value = db.get(&key).unwrap().unwrap();
    (key, value)
}

#[tokio::test]
async fn t8_a_record_that_fails_its_checksum_stops_the_start_and_is_named() {
    let world = sample().await;
    world.store.close().await.unwrap();
    behind_its_back(&world, |db| {
        let (key, mut value) = a_reported_one(db);
        let last = value.len() - 1;
        value[last] ^= 1;
        db.insert(key, value).unwrap();
    });
    let text = refusal(SledStore::open(world.directory.path(), options(false)).await);
    assert!(text.contains("a reported deposit") && text.contains("checksum"), "{text}");
}

#[tokio::test]
async fn t8_a_record_that_is_gone_or_an_older_one_stops_the_start() {
    for older in [false, true] {
        let mut world = sample().await;
        let before = {
            world.store.close().await.unwrap();
            let db = sled::open(world.directory.path()).unwrap();
            a_reported_one(&db)
        };
        world = world.reopen().await;
        world.commit(vec![reported(20, 21, 1)], vec![]).await;
        world.store.close().await.unwrap();
        behind_its_back(&world, |db| {
            if older {
                // With a checksum that is right.
                db.insert(before.0, before.1).unwrap();
            } else {
                db.remove(before.0).unwrap();
            }
        });
        let text = refusal(SledStore::open(world.directory.path(), options(false)).await);
        assert!(text.contains("missing or are older ones") && text.contains("--restored"), "{text}");
    }
}

#[tokio::test]
async fn t8_a_conf_that_is_not_what_was_written_stops_the_start() {
    let world = sample().await;
    world.store.close().await.unwrap();
    for bytes in [&b""[..], b"short", b"segment_size: 524288\nuse_compression: false\nversion: 0.34\nabcd"] {
        std::fs::write(world.directory.path().join("conf"), bytes).unwrap();
        let text = refusal(SledStore::open(world.directory.path(), options(false)).await);
        assert!(text.contains("`conf`") && text.contains("--restored"), "{text}");
    }
}
