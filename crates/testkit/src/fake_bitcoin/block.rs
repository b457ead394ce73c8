//! Making blocks and transactions that decode and check like mined ones.

use bitcoin::absolute::LockTime;
use bitcoin::block::{Header, Version};
use bitcoin::hashes::{Hash, sha256};
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, OutPoint, ScriptBuf, Sequence, Target, Transaction, TxIn, TxMerkleNode, TxOut, Txid,
    Witness, transaction,
};

use super::network::{REGTEST_BITS, coinbase_input};

/// What stands between the fixed parts of a new block.
pub(super) struct Template {
    pub(super) previous: BlockHash,
    pub(super) height: u32,
    pub(super) time: u32,
    pub(super) coinbase_script: ScriptBuf,
    /// Makes the coinbase, and so the block, unlike any other.
    pub(super) salt: u64,
    pub(super) transactions: Vec<Transaction>,
    pub(super) grind: bool,
}

pub(super) fn build(template: Template) -> Block {
    let mut txdata = vec![coinbase(&template)];
    txdata.extend(template.transactions);
    let header = Header {
        version: Version::from_consensus(0x2000_0000),
        prev_blockhash: template.previous,
        merkle_root: TxMerkleNode::all_zeros(),
        time: template.time,
        bits: CompactTarget::from_consensus(REGTEST_BITS),
        nonce: 0,
    };
    let mut block = Block { header, txdata };
    commit_to_witnesses(&mut block);
    block.header.merkle_root = block.compute_merkle_root().expect("invariant: a block has a coinbase");
    if template.grind {
        grind(&mut block.header);
    }
    block
}

fn coinbase(template: &Template) -> Transaction {
    let script_sig = Builder::new().push_int(i64::from(template.height)).push_slice(template.salt.to_le_bytes()).into_script();
    // Fees are not modelled: the coinbase pays the subsidy, which halves every 150 blocks.
    let subsidy = 5_000_000_000u64.checked_shr(template.height / 150).unwrap_or(0);
    Transaction {
        version: transaction::Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![coinbase_input(script_sig)],
        output: vec![TxOut { value: Amount::from_sat(subsidy), script_pubkey: template.coinbase_script.clone() }],
    }
}

/// Adds the BIP 141 commitment where a transaction has a witness.
fn commit_to_witnesses(block: &mut Block) {
    let segwit = |tx: &Transaction| tx.input.iter().any(|input| !input.witness.is_empty());
    if !block.txdata.iter().any(segwit) {
        return;
    }
    let reserved = [0u8; 32];
    let Some(root) = block.witness_root() else { return };
    let commitment = Block::compute_witness_commitment(&root, &reserved);
    let mut payload = vec![0xaa, 0x21, 0xa9, 0xed];
    payload.extend_from_slice(commitment.as_byte_array());
    let script_pubkey = ScriptBuf::new_op_return(PushBytesBuf::try_from(payload).unwrap_or_default());
    if let Some(coinbase) = block.txdata.first_mut() {
        coinbase.output.push(TxOut { value: Amount::ZERO, script_pubkey });
        if let Some(input) = coinbase.input.first_mut() {
            input.witness = Witness::from_slice(&[reserved]);
        }
    }
}

fn grind(header: &mut Header) {
    let target = Target::from_compact(header.bits);
    while header.validate_pow(target).is_err() {
        header.nonce = header.nonce.wrapping_add(1);
    }
}

/// A payment that spends an outpoint nobody else spends. Every other one is a segwit transaction.
pub(super) fn payment(number: u64, outputs: Vec<TxOut>) -> Transaction {
    let seed = sha256::Hash::hash(&number.to_be_bytes());
    let outpoint = OutPoint { txid: Txid::from_byte_array(seed.to_byte_array()), vout: 0 };
    let segwit = number.is_multiple_of(2);
    let signature = [0x30u8; 71];
    let key = [0x02u8; 33];
    let (script_sig, witness) = if segwit {
        (ScriptBuf::new(), Witness::from_slice(&[signature.as_slice(), key.as_slice()]))
    } else {
        let script = Builder::new().push_slice(signature).push_slice(key).into_script();
        (script, Witness::new())
    };
    let sequence = Sequence::ENABLE_RBF_NO_LOCKTIME;
    Transaction {
        version: transaction::Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn { previous_output: outpoint, script_sig, sequence, witness }],
        output: outputs,
    }
}
