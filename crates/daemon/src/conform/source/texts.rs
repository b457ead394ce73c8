//! S15 and S17: which texts are addresses, and which must not be seen.

use super::{Finding, Node};
use confirmd_core::{BlockRef, FinalityTag, Height, SourceError};

/// One address of each of several networks. A chain takes those of one network at most.
const NETWORKS: [(&str, &str); 8] = [
    ("Bitcoin", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
    ("Bitcoin testnet", "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
    ("Bitcoin regtest", "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"),
    ("Litecoin", "ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9"),
    ("Ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"),
    ("Solana", "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"),
    ("Tron", "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"),
    ("the XRP Ledger", "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh"),
];

/// No network's.
const NO_ADDRESSES: [&str; 5] = [
    "",
    "confirmd conform",
    // Mistyped, each with a checksum that says so.
    "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5",
    "ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n8",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD",
];

impl Node<'_> {
    pub(super) fn spellings(&self) -> Finding {
        for address in &self.addresses {
            match self.source.parse_address(address.as_str()) {
                Ok(again) if again == *address && again.as_str() == address.as_str() => {}
                Ok(again) => return Finding::broken(format!("the canonical {address} is read as {again}")),
                Err(error) => return Finding::broken(format!("the canonical {address} is refused: {error}")),
            }
        }
        let taken: Vec<_> = NETWORKS.iter().filter(|(_, text)| self.source.parse_address(text).is_ok()).collect();
        if taken.len() > 1 {
            let names: Vec<_> = taken.iter().map(|(network, _)| *network).collect();
            return Finding::broken(format!("addresses of several networks are taken: {}", names.join(", ")));
        }
        if let Some(text) = NO_ADDRESSES.iter().find(|text| self.source.parse_address(text).is_ok()) {
            return Finding::broken(format!("{text:?} is taken for an address"));
        }
        let refused = NETWORKS.len() - taken.len() + NO_ADDRESSES.len();
        Finding::holds(format!("{} addresses are read back as they are, {refused} texts are refused", self.addresses.len()))
    }

    /// Whether what the source says, of itself and in errors, shows a secret.
    pub(super) async fn silence(&self) -> Finding {
        if self.secrets.is_empty() {
            return Finding::not_observed("the chain is configured without a secret");
        }
        let said = self.everything_said().await;
        match self.secrets.iter().find(|secret| said.iter().any(|text| text.contains(secret.as_str()))) {
            Some(secret) => {
                let (length, start) = (secret.chars().count(), secret.chars().take(2).collect::<String>());
                Finding::broken(format!("a secret of {length} characters that begins with {start:?} is shown"))
            }
            None => Finding::holds(format!("{} secrets are in none of {} texts", self.secrets.len(), said.len())),
        }
    }

    async fn everything_said(&self) -> Vec<String> {
        let source = self.source;
        let mut said = vec![format!("{source:?}"), format!("{source:#?}"), format!("{:?}", source.profile())];
        match source.inspect().await {
            Ok(lines) => said.extend(lines.iter().map(|line| format!("{line:?}"))),
            Err(error) => said.extend(texts_of(&error)),
        }
        let (watch, tip) = (self.watching(&[]), source.tip().await);
        let nowhere = tip.as_ref().ok().map(|tip| BlockRef { height: Height(tip.height.0.saturating_add(7)), ..tip.clone() });
        let errors = [
            source.identify().await.err(),
            source.finalized(FinalityTag::Finalized).await.err(),
            match &nowhere {
                Some(to) => source.transfers(to.height, to, &watch).await.err(),
                None => tip.err(),
            },
        ];
        errors.iter().flatten().for_each(|error| said.extend(texts_of(error)));
        said
    }
}

/// An error and its causes, in both forms.
fn texts_of(error: &SourceError) -> Vec<String> {
    let mut texts = vec![error.to_string(), format!("{error:?}")];
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        texts.extend([error.to_string(), format!("{error:?}")]);
        cause = error.source();
    }
    texts
}
