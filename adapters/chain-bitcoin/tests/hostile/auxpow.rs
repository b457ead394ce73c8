//! Merge-mined blocks (Namecoin, Dogecoin and others) hold another chain's proof between header and transactions, whose first
//! field is a coinbase: a reader that does not know of it sees "one transaction" there.

use crate::data::network;
use crate::made::{block, tx};
use bitcoin::OutPoint;
use bitcoin::block::Version;
use bitcoin::consensus::encode::serialize;
use bitcoin::hashes::Hash;
use confirmd_chain_bitcoin::{Block, NETWORKS};
use confirmd_hostile::cases;
use fastrand::Rng;

/// "Mined by another chain", beside a chain id in the upper half.
const AUXPOW: i32 = 0x100;

/// The parent's coinbase, its block's hash, two merkle branches with their places, and the parent's header.
fn proof(rng: &mut Rng) -> Vec<u8> {
    let mut random = |count: usize| (0..count).map(|_| rng.u8(..)).collect::<Vec<u8>>();
    let script = random(24);
    let coinbase = serialize(&tx(OutPoint::null(), false, &[(25, script), (0, vec![0x6a])]));
    let (mut one, mut two) = (vec![2u8], vec![1u8]);
    one.extend(random(64));
    two.extend(random(32));
    [coinbase, random(32), one, vec![0; 4], two, vec![0; 4], random(80)].concat()
}

pub(crate) fn refused() {
    let mut rng = Rng::with_seed(19_200);
    for n in 0..cases(300) {
        let mut mined = block(u8::try_from(n % 5).unwrap());
        let chain_id = i32::from(rng.u8(1..100)) << 16;
        mined.header.version = Version::from_consensus(AUXPOW | chain_id | 1);
        let whole = serialize(&mined);
        let (header, transactions) = whole.split_at(80);
        assert!(Block::decode_as(&mined.block_hash(), &whole, network("mainnet")).is_ok(), "without a proof it is a block");
        let with_proof = [header, &proof(&mut rng), transactions].concat();
        for network in NETWORKS {
            let error = Block::decode_as(&mined.block_hash(), &with_proof, network).unwrap_err();
            assert!(!error.to_string().is_empty());
        }
        // The first one that was ever mined begins its proof like this: one transaction, which has no outputs.
        let minimal = [header, &[1u8, 0, 0, 0][..], &[1], &[0; 32], &[0xff; 4], &[0], &[0xff; 4], &[0], &[0; 4]].concat();
        assert!(Block::decode_as(&mined.block_hash(), &minimal, network("mainnet")).is_err());
        // Even where the header says so itself, a list of one transaction must be that transaction.
        let mut lie = mined.header;
        lie.merkle_root = bitcoin::TxMerkleNode::from_byte_array([0; 32]);
        let lied = [&serialize(&lie)[..], &minimal[80..]].concat();
        assert!(Block::decode_as(&lie.block_hash(), &lied, network("mainnet")).is_err());
    }
}
