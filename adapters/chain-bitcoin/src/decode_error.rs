//! Why bytes are not the block that was asked for.

use bitcoin::BlockHash;

/// What is wrong with a block's bytes. Offsets and counts are in bytes from the block's beginning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within a field.
    #[error("the block ends at byte {length}, within a field of {wanted} bytes that begins at byte {at}")]
    Truncated {
        /// Where the field begins.
        at: usize,
        /// How long it is.
        wanted: usize,
        /// How many bytes there are.
        length: usize,
    },
    /// A list claims more items than the rest of the block can hold.
    #[error("a list of {count} at byte {at} does not fit into the {left} bytes behind it")]
    Count {
        /// Where the list's length stands.
        at: usize,
        /// The claimed length.
        count: u64,
        /// Bytes behind it.
        left: usize,
    },
    /// A number is written longer than necessary, which no node does.
    #[error("the number at byte {at} is not in its shortest form")]
    NotShortest {
        /// Where it stands.
        at: usize,
    },
    /// Bytes are left over.
    #[error("{bytes} bytes are left behind the block's last field")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A transaction's flag byte that the network does not know.
    #[error("transaction {position} has the flags {flags:#04x}, which this network does not know")]
    Flags {
        /// The transaction's index.
        position: u32,
        /// The flag byte.
        flags: u8,
    },
    /// A transaction breaks a rule of the format.
    #[error("transaction {position} {problem}")]
    Transaction {
        /// The transaction's index.
        position: u32,
        /// What is wrong.
        problem: &'static str,
    },
    /// The block breaks a rule of the format.
    #[error("the block {0}")]
    Block(&'static str),
    /// Another block than the one asked for.
    #[error("the node sent block {found}")]
    OtherBlock {
        /// What was sent.
        found: BlockHash,
    },
    /// The transactions are not the header's.
    #[error("the transactions do not have the header's merkle root")]
    MerkleRoot,
    /// The list of transactions was padded with repetitions, which keep the merkle root.
    #[error("the list of transactions repeats itself")]
    Repeated,
}
