//! What an operator should know of the node.

use crate::network::Network;
use crate::node::Node;
use confirmd_core::{EndpointStatus, Height, SourceError};
use serde::Deserialize;

/// `getnetworkinfo`, as far as it is used.
#[derive(Debug, Deserialize)]
struct NetworkInfo {
    subversion: String,
    #[serde(default)]
    connections: u64,
}

/// One line a subject, about the endpoint that is read from now; then one line for each endpoint, where there are several.
pub(crate) async fn inspect(node: &Node, network: &Network) -> Result<Vec<EndpointStatus>, SourceError> {
    let info = node.chain_info().await?;
    let genesis = node.hash_at(Height(0)).await?.map(|hash| hash.to_string());
    let mut lines = Vec::new();
    let mut say = |subject: &str, ok: bool, text: String| lines.push(EndpointStatus { subject: subject.to_owned(), ok, text });

    let same = genesis.as_deref() == Some(network.genesis) && info.chain == network.node_name;
    say(
        "network",
        same,
        if same {
            format!("{} (the node calls it {:?})", network.title, info.chain)
        } else {
            let found = genesis.as_deref().unwrap_or("none");
            format!(
                "the node's network is {:?} with genesis block {found}, not {}; correct network or rpc",
                info.chain, network.title
            )
        },
    );

    let headers = info.headers.unwrap_or(info.blocks);
    match info.behind(network) {
        None => say("sync", true, format!("{} blocks, {headers} headers", info.blocks)),
        Some(problem) => say("sync", false, format!("{problem}; deposits wait until it has caught up")),
    }
    match (info.pruned, info.prune_height) {
        (false, _) => say("pruning", true, "off: every block can be read".to_owned()),
        (true, Some(height)) => {
            say(
                "pruning",
                true,
                format!("on: blocks below {height} are gone; a rescan or a start below it needs a node with prune=0"),
            );
        }
        (true, None) => say("pruning", true, "on: old blocks are gone; a rescan of them needs a node with prune=0".to_owned()),
    }
    let filters = match node.filtered_to().await? {
        Some(height) if node.scans().await? => {
            format!("compact block filters up to block {height}: old blocks that can't match are not read")
        }
        _ => "none to look through: with bitcoind 25 or later and blockfilterindex=1, only old blocks that may match are read"
            .to_owned(),
    };
    say("filters", true, filters);
    if let Some(NetworkInfo { subversion, connections }) = node.optional("getnetworkinfo", ()).await {
        let alone = connections == 0 && !network.on_demand;
        let software: String = subversion.chars().filter(|c| !c.is_control()).take(120).collect();
        let advice = if alone { "; without peers it learns of no block: check its network" } else { "" };
        say("node", !alone, format!("{software}, {connections} peers{advice}"));
    }

    let health = node.rpc.health();
    if health.len() > 1 {
        for endpoint in health {
            let ok = endpoint.failures_in_a_row == 0;
            let state = match endpoint.last_error {
                Some(error) if !ok => format!("has failed {} times in a row: {error}", endpoint.failures_in_a_row),
                _ if endpoint.active => "is read from".to_owned(),
                _ => "stands by".to_owned(),
            };
            say("endpoint", ok, format!("{} {state}", endpoint.url));
        }
    }
    Ok(lines)
}
