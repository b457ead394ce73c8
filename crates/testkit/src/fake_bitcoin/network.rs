//! The networks a fake node can serve.

use bitcoin::absolute::LockTime;
use bitcoin::block::{Header, Version};
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::opcodes::all::OP_CHECKSIG;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode, TxOut,
    Witness, transaction,
};

/// Every hash below the target of these bits is enough: half of all hashes.
pub(super) const REGTEST_BITS: u32 = 0x207f_ffff;

/// The chain whose genesis block the node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FakeNetwork {
    /// Bitcoin's regtest.
    #[default]
    Regtest,
    /// Litecoin's regtest, without MWEB. Its proof of work is scrypt, which is not ground here.
    LitecoinRegtest,
}

impl FakeNetwork {
    pub(super) fn genesis(self) -> Block {
        match self {
            Self::Regtest => genesis_block(Network::Regtest),
            Self::LitecoinRegtest => litecoin_genesis(),
        }
    }

    pub(super) fn user_agent(self) -> (&'static str, u32) {
        match self {
            Self::Regtest => ("/Satoshi:29.0.0/", 290_000),
            Self::LitecoinRegtest => ("/LitecoinCore:0.21.2.1/", 210_201),
        }
    }
}

fn litecoin_genesis() -> Block {
    let message = "NY Times 05/Oct/2011 Steve Jobs, Apple\u{2019}s Visionary, Dies at 56";
    let key = "040184710fa689ad5023690c80f3a49c8f13f8d45b8c857fbcbc8bc4a8e4d3eb4b\
               10f4d4604fa08dce601aaf0f470216fe1b51850b4acf21b179c45070ac7b03a9";
    let script_sig =
        Builder::new().push_int(486_604_799).push_slice([4u8]).push_slice(bytes(message.as_bytes().to_vec())).into_script();
    let script_pubkey =
        Builder::new().push_slice(bytes(const_hex::decode(key).unwrap_or_default())).push_opcode(OP_CHECKSIG).into_script();
    let coinbase = Transaction {
        version: transaction::Version::ONE,
        lock_time: LockTime::ZERO,
        input: vec![coinbase_input(script_sig)],
        output: vec![TxOut { value: Amount::from_sat(5_000_000_000), script_pubkey }],
    };
    let merkle_root = TxMerkleNode::from_raw_hash(coinbase.compute_txid().to_raw_hash());
    let header = Header {
        version: Version::ONE,
        prev_blockhash: BlockHash::all_zeros(),
        merkle_root,
        time: 1_296_688_602,
        bits: CompactTarget::from_consensus(REGTEST_BITS),
        nonce: 0,
    };
    Block { header, txdata: vec![coinbase] }
}

pub(super) fn coinbase_input(script_sig: ScriptBuf) -> TxIn {
    TxIn { previous_output: OutPoint::null(), script_sig, sequence: Sequence::MAX, witness: Witness::new() }
}

fn bytes(bytes: Vec<u8>) -> PushBytesBuf {
    PushBytesBuf::try_from(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn litecoins_regtest_starts_at_its_own_genesis_block() {
        assert_eq!(
            litecoin_genesis().block_hash().to_string(),
            "530827f38f93b43ed12af0b3ad25a288dc02ed74d6d7857862df51fc56c416f9"
        );
    }
}
