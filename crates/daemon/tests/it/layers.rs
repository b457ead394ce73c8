//! Which crate may know which: the dependency rule, over cargo's own view of the workspace.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};

fn metadata(arguments: &[&str]) -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(super::root().join("Cargo.toml"));
    command.other_options(arguments.iter().chain(&["--offline"]).map(|a| (*a).to_owned()).collect::<Vec<_>>());
    command.exec().unwrap()
}

/// Dependencies that end up in a binary: not those of tests.
fn shipped(package: &Package) -> BTreeSet<&str> {
    let normal = package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
    normal.map(|dependency| dependency.name.as_str()).collect()
}

/// Every package of the workspace by its folder from the root: `crates/core`, `adapters/chain-evm`.
fn members(metadata: &Metadata) -> BTreeMap<String, &Package> {
    let folder = |package: &&Package| {
        let folder = package.manifest_path.parent().unwrap();
        folder.strip_prefix(&metadata.workspace_root).unwrap().to_string()
    };
    metadata.workspace_packages().iter().map(|package| (folder(package), *package)).collect()
}

fn ours<'a>(dependencies: &BTreeSet<&'a str>, members: &BTreeMap<String, &Package>) -> BTreeSet<&'a str> {
    dependencies.iter().copied().filter(|name| members.values().any(|member| member.name.as_str() == *name)).collect()
}

const RUNTIMES: &[&str] =
    &["tokio", "hyper", "hyper-util", "hyper-rustls", "jsonrpsee", "axum", "sled", "tokio-postgres", "governor"];
/// Each keeps watcher state, outbox and history.
const STORES: &[&str] = &["confirmd-store-sled", "confirmd-store-postgres"];

#[test]
fn core_knows_no_other_crate_of_ours_no_runtime_and_no_io() {
    let metadata = metadata(&["--no-deps"]);
    let members = members(&metadata);
    let core = shipped(members["crates/core"]);
    assert!(ours(&core, &members).is_empty(), "{core:?}");
    for runtime in RUNTIMES {
        assert!(!core.contains(runtime), "core depends on {runtime}");
    }
}

#[test]
fn the_engine_knows_core_alone_no_database_and_no_http() {
    let metadata = metadata(&["--no-deps"]);
    let members = members(&metadata);
    let engine = shipped(members["crates/engine"]);
    assert_eq!(ours(&engine, &members), BTreeSet::from(["confirmd-core"]));
    for outside in RUNTIMES.iter().filter(|name| **name != "tokio").chain(&["http", "bitcoin", "alloy"]).chain(STORES) {
        assert!(!engine.contains(outside), "the engine depends on {outside}");
    }
}

#[test]
fn an_adapter_knows_core_and_the_way_to_a_node_or_server_only_never_another_adapter_the_engine_or_a_store() {
    let metadata = metadata(&["--no-deps"]);
    let members = members(&metadata);
    let adapters = members.iter().filter(|(folder, _)| folder.starts_with("adapters/") && *folder != "adapters/builtin");
    let mut seen = 0;
    for (folder, package) in adapters {
        let known = shipped(package);
        let ours = ours(&known, &members);
        assert!(
            ours.iter().all(|name| ["confirmd-core", "confirmd-rpc", "confirmd-postgres"].contains(name)),
            "{folder} knows {ours:?}"
        );
        assert!(!known.contains("sled"), "{folder} touches a database");
        // Only the operator's own database is an adapter's business.
        let postgres = known.contains("confirmd-postgres") || known.contains("tokio-postgres");
        assert!(!postgres || folder == "adapters/sink-postgres", "{folder} touches a database");
        seen += 1;
    }
    assert!(seen >= 5, "only {seen} adapters were found");
}

#[test]
fn the_way_to_postgresql_knows_core_alone_and_only_its_store_and_its_sink_go_it() {
    let metadata = metadata(&["--no-deps"]);
    let members = members(&metadata);
    assert_eq!(ours(&shipped(members["crates/postgres"]), &members), BTreeSet::from(["confirmd-core"]));
    for (folder, package) in &members {
        let known = shipped(package);
        let speaks = ["crates/postgres", "crates/store-postgres", "adapters/sink-postgres", "tests", "benches"];
        assert!(!known.contains("tokio-postgres") || speaks.contains(&folder.as_str()), "{folder} speaks to PostgreSQL");
        // The daemon reads what leads to a server; it speaks to none.
        let goes = known.contains("confirmd-postgres");
        assert!(!goes || speaks.contains(&folder.as_str()) || folder == "crates/daemon", "{folder} knows the way to PostgreSQL");
    }
}

#[test]
fn a_store_knows_core_and_never_another_store_the_engine_or_an_adapter() {
    let metadata = metadata(&["--no-deps"]);
    let members = members(&metadata);
    assert_eq!(ours(&shipped(members["crates/store-sled"]), &members), BTreeSet::from(["confirmd-core"]));
    let of_postgres = ours(&shipped(members["crates/store-postgres"]), &members);
    assert_eq!(of_postgres, BTreeSet::from(["confirmd-core", "confirmd-postgres"]));
}

#[test]
fn only_a_store_touches_the_database_and_only_builtin_and_the_daemon_know_the_adapters() {
    let metadata = metadata(&["--no-deps"]);
    let members = members(&metadata);
    for (folder, package) in &members {
        let known = shipped(package);
        if !folder.starts_with("crates/store-") && folder != "benches" {
            assert!(!known.contains("sled"), "{folder} depends on sled");
        }
        let store = STORES.iter().any(|store| known.contains(store));
        assert!(!store || ["crates/daemon", "tests", "benches"].contains(&folder.as_str()), "{folder} knows a store");
        let adapter = known.iter().any(|name| name.starts_with("confirmd-chain-") || name.starts_with("confirmd-sink-"));
        assert!(!adapter || ["adapters/builtin", "tests", "benches"].contains(&folder.as_str()), "{folder} knows an adapter");
        let testkit = known.contains("confirmd-testkit");
        assert!(!testkit || ["crates/daemon", "tests", "benches"].contains(&folder.as_str()), "{folder} ships the testkit");
    }
}

/// Names of everything reachable from the daemon by dependencies that are built into it, with these features.
fn tree(features: &[&str]) -> BTreeSet<String> {
    let mut arguments =
        vec!["tree", "--offline", "-p", "confirmd", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    arguments.extend(features);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = std::process::Command::new(cargo).current_dir(super::root()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_shipped_daemon_contains_nothing_that_only_tests_need() {
    let shipped = tree(&["--no-default-features"]);
    assert!(shipped.contains("confirmd-engine"), "{shipped:?}");
    for only_tests in ["confirmd-testkit", "proptest", "criterion", "tempfile", "libtest-mimic"] {
        assert!(!shipped.contains(only_tests), "the shipped daemon contains {only_tests}");
    }
    let with_demo = tree(&[]);
    assert!(with_demo.contains("confirmd-testkit"), "the demo brings its own nodes");
    // `confirmd conform` judges by itself: the kit's trials are for authors.
    for of_the_kit in ["proptest", "libtest-mimic", "criterion", "tempfile"] {
        assert!(!with_demo.contains(of_the_kit), "the daemon with its demo contains {of_the_kit}");
    }
}
