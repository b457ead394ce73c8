use super::support::*;
use crate::{OpenOptions, SledStore};
use confirmd_core::*;

#[tokio::test]
async fn t8_a_directory_that_was_never_initialised_is_refused_unless_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    for existing in [false, true] {
        let text = refusal(SledStore::open(&path, OpenOptions::default()).await);
        assert!(text.contains("--init") && text.contains("state"), "{text}");
        assert!(!SledStore::is_initialised(&path));
        assert_eq!(path.exists(), existing, "a refused open left something behind");
        std::fs::create_dir_all(&path).unwrap();
    }
    open(&path).await.unwrap().close().await.unwrap();
    assert!(SledStore::is_initialised(&path));
    SledStore::open(&path, OpenOptions::default()).await.unwrap();
}

#[tokio::test]
async fn the_epoch_and_the_instance_stay_and_a_new_state_has_others() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await.unwrap();
    let (epoch, instance) = (store.epoch(), store.instance());
    assert_eq!(epoch, Epoch(1_790_000_000));
    store.close().await.unwrap();
    let store = SledStore::open(directory.path(), OpenOptions::default()).await.unwrap();
    assert_eq!((store.epoch(), store.instance()), (epoch, instance.clone()));
    let other = tempfile::tempdir().unwrap();
    assert_ne!(open(other.path()).await.unwrap().instance(), instance);
}

#[tokio::test]
async fn t7_g11_a_second_owner_is_refused_and_told_who_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path()).await.unwrap();
    let text = refusal(open(directory.path()).await);
    assert!(text.contains(&directory.path().display().to_string()) && text.contains(&std::process::id().to_string()), "{text}");
    first.close().await.unwrap();
    open(directory.path()).await.unwrap();
}

#[tokio::test]
async fn a_closed_store_says_so_and_closes_twice() {
    let world = World::new().await;
    world.store.close().await.unwrap();
    world.store.close().await.unwrap();
    assert!(matches!(world.store.load(&chain()).await, Err(StoreError::Invalid(_))));
    assert!(matches!(world.store.settled_among(&chain(), &[]).await, Err(StoreError::Invalid(_))));
}

#[tokio::test]
async fn t8_a_missing_part_of_an_initialised_store_is_refused_by_name() {
    for part in ["db", "conf", "commits"] {
        let world = World::new().await;
        world.store.close().await.unwrap();
        std::fs::remove_file(world.directory.path().join(part)).unwrap();
        let text = refusal(open(world.directory.path()).await);
        assert!(text.contains(&format!("`{part}`")) && text.contains("start = HEIGHT"), "{text}");
    }
}

#[tokio::test]
async fn t8_a_database_behind_its_counter_is_refused() {
    let mut world = World::new().await;
    world.store.close().await.unwrap();
    let copy_dir = tempfile::tempdir().unwrap();
    copy(world.directory.path(), copy_dir.path());
    world = world.reopen().await;
    world.events(1..4).await;
    world.store.close().await.unwrap();
    std::fs::copy(copy_dir.path().join("db"), world.directory.path().join("db")).unwrap();
    for snapshot in std::fs::read_dir(world.directory.path()).unwrap() {
        let snapshot = snapshot.unwrap();
        if snapshot.file_name().to_string_lossy().starts_with("snap.") {
            std::fs::remove_file(snapshot.path()).unwrap();
        }
    }
    let text = refusal(open(world.directory.path()).await);
    assert!(text.contains("rolled back") && text.contains("--restored"), "{text}");

    // Said to be a copy, it goes on under a greater epoch, from then on as ever.
    let before = world.store.epoch();
    let options = OpenOptions { restored: true, ..OpenOptions::default() };
    let restored = SledStore::open(world.directory.path(), options).await.unwrap();
    let epoch = restored.epoch();
    assert!(epoch > before, "{epoch:?} after {before:?}");
    restored.close().await.unwrap();
    let again = open(world.directory.path()).await.unwrap();
    assert_eq!(again.epoch(), epoch);
}

#[tokio::test]
async fn t8_a_counter_of_another_store_is_refused() {
    let (one, two) = (World::new().await, World::new().await);
    one.store.close().await.unwrap();
    two.store.close().await.unwrap();
    std::fs::copy(one.directory.path().join("commits"), two.directory.path().join("commits")).unwrap();
    assert!(refusal(open(two.directory.path()).await).contains("two different states"));
}

#[tokio::test]
async fn t8_a_newer_format_of_the_store_is_refused_and_both_versions_are_named() {
    let world = World::new().await;
    world.store.close().await.unwrap();
    {
        let db = sled::open(world.directory.path()).unwrap();
        let key = crate::keys::meta();
        let meta: crate::rows::Meta = crate::record::unseal(key.as_ref(), &db.get(&key).unwrap().unwrap()).unwrap();
        let newer = crate::rows::Meta { format: 5, ..meta };
        db.insert(&key, crate::record::seal(key.as_ref(), &newer).unwrap()).unwrap();
        db.flush().unwrap();
    }
    let text = refusal(open(world.directory.path()).await);
    assert!(text.contains("format 5") && text.contains("format 4"), "{text}");
}

#[tokio::test]
async fn t2_a_snapshot_that_was_being_written_when_the_process_died_does_not_keep_the_store_shut() {
    let mut world = World::new().await;
    world.events(1..4).await;
    world.store.close().await.unwrap();
    // As sled names it; taken for the newest of all.
    std::fs::write(world.directory.path().join("snap.7FFFFFFFFFFFFFFF.generating"), "ha").unwrap();
    let store = open(world.directory.path()).await.unwrap();
    assert_eq!(store.load(&chain()).await.unwrap().unwrap(), world.state);
}

#[tokio::test]
async fn a_making_that_was_interrupted_behind_its_counter_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    for (part, bytes) in [("making", ""), ("commits", ""), ("snap.0000000000000010", "x")] {
        std::fs::write(directory.path().join(part), bytes).unwrap();
    }
    assert!(!SledStore::is_initialised(directory.path()));
    open(directory.path()).await.unwrap().close().await.unwrap();
    assert!(SledStore::is_initialised(directory.path()));
    assert!(!directory.path().join("making").exists());
}

#[tokio::test]
async fn an_interrupted_making_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("making"), "").unwrap();
    std::fs::write(directory.path().join("db"), "half").unwrap();
    assert!(!SledStore::is_initialised(directory.path()));
    let store = open(directory.path()).await.unwrap();
    assert!(store.chains().await.unwrap().is_empty());
    store.close().await.unwrap();
    assert!(SledStore::is_initialised(directory.path()));
}

#[tokio::test]
async fn a_path_that_can_not_be_a_directory_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let text = refusal(open(&directory.path().join("no/such/parent")).await);
    assert!(text.contains("state.path"), "{text}");
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let text = refusal(open(&file).await);
    assert!(text.contains("must name a directory"), "{text}");
}
