//! Transactions and what they do.

use alloy::consensus::{SignableTransaction, TxEip1559, TxEnvelope, TxLegacy};
use alloy::primitives::{Address, B256, Bytes, Log, Signature, TxKind, U256, keccak256};

/// Wei per gas of every transaction.
pub(super) const GAS_PRICE: u128 = 2_000_000_000;

/// What a transaction does. Nothing checks that its parts agree.
#[derive(Debug, Clone, PartialEq)]
pub struct TxSpec {
    /// The sender.
    pub from: Address,
    /// The recipient; None creates a contract.
    pub to: Option<Address>,
    /// Wei.
    pub value: U256,
    /// Call data.
    pub input: Bytes,
    /// The receipt's status. A failed transaction has no logs.
    pub succeeds: bool,
    /// The receipt's logs.
    pub logs: Vec<Log>,
    /// What its trace shows below the top frame.
    pub calls: Vec<Call>,
    /// Gas used.
    pub gas_used: u64,
}

impl TxSpec {
    /// A successful call without value.
    pub fn new(from: Address, to: Address) -> Self {
        Self {
            from,
            to: Some(to),
            value: U256::ZERO,
            input: Bytes::new(),
            succeeds: true,
            logs: Vec::new(),
            calls: Vec::new(),
            gas_used: 21_000,
        }
    }

    /// With this much wei.
    pub fn value(self, value: U256) -> Self {
        Self { value, ..self }
    }

    /// With these logs.
    pub fn logs(self, logs: Vec<Log>) -> Self {
        Self { logs, ..self }
    }

    /// With these calls below the top frame.
    pub fn calls(self, calls: Vec<Call>) -> Self {
        Self { calls, ..self }
    }

    /// Failed: status 0.
    pub fn failed(self) -> Self {
        Self { succeeds: false, ..self }
    }

    pub(super) fn receipt_logs(&self) -> &[Log] {
        if self.succeeds { &self.logs } else { &[] }
    }
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the EVM's own names")]
pub enum CallKind {
    Call,
    Create,
    Create2,
    DelegateCall,
    CallCode,
    StaticCall,
    SelfDestruct,
}

impl CallKind {
    /// As callTracer writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "CALL",
            Self::Create => "CREATE",
            Self::Create2 => "CREATE2",
            Self::DelegateCall => "DELEGATECALL",
            Self::CallCode => "CALLCODE",
            Self::StaticCall => "STATICCALL",
            Self::SelfDestruct => "SELFDESTRUCT",
        }
    }

    /// Whether a frame of this kind moves its value.
    pub fn moves_value(self) -> bool {
        matches!(self, Self::Call | Self::Create | Self::Create2 | Self::SelfDestruct)
    }
}

/// A frame of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its kind.
    pub kind: CallKind,
    /// The caller.
    pub from: Address,
    /// The callee, created contract or beneficiary.
    pub to: Address,
    /// Wei.
    pub value: U256,
    /// Why it was reverted, if it was.
    pub error: Option<String>,
    /// Its own calls, in order.
    pub calls: Vec<Call>,
}

impl Call {
    /// A plain, successful CALL.
    pub fn new(from: Address, to: Address, value: U256) -> Self {
        Self { kind: CallKind::Call, from, to, value, error: None, calls: Vec::new() }
    }

    /// Of another kind.
    pub fn kind(self, kind: CallKind) -> Self {
        Self { kind, ..self }
    }

    /// Reverted, with everything below it.
    pub fn reverted(self) -> Self {
        Self { error: Some("execution reverted".to_owned()), ..self }
    }

    /// With these calls of its own.
    pub fn calls(self, calls: Vec<Call>) -> Self {
        Self { calls, ..self }
    }
}

/// The topic of ERC-20's `Transfer(address,address,uint256)`.
pub fn transfer_topic() -> B256 {
    keccak256("Transfer(address,address,uint256)")
}

/// An ERC-20 transfer's log: three topics and 32 bytes.
pub fn transfer_log(token: Address, from: Address, to: Address, amount: U256) -> Log {
    let topics = vec![transfer_topic(), from.into_word(), to.into_word()];
    Log::new_unchecked(token, topics, Bytes::from(amount.to_be_bytes::<32>()))
}

/// A `Transfer` of a token that indexes nothing: one topic and 96 bytes.
pub fn three_in_data_log(token: Address, from: Address, to: Address, amount: U256) -> Log {
    let mut data = Vec::with_capacity(96);
    data.extend_from_slice(from.into_word().as_slice());
    data.extend_from_slice(to.into_word().as_slice());
    data.extend_from_slice(&amount.to_be_bytes::<32>());
    Log::new_unchecked(token, vec![transfer_topic()], Bytes::from(data))
}

/// A transaction that was sent.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) hash: B256,
    pub(super) envelope: TxEnvelope,
    pub(super) nonce: u64,
    pub(super) spec: TxSpec,
}

impl Sent {
    /// Legacy for odd nonces, EIP-1559 for even ones, so that both encodings are met.
    pub(super) fn new(chain_id: u64, nonce: u64, spec: TxSpec) -> Self {
        let to = spec.to.map_or(TxKind::Create, TxKind::Call);
        let gas_limit = spec.gas_used.saturating_mul(2);
        let (value, input) = (spec.value, spec.input.clone());
        let signature = Signature::test_signature();
        let envelope = if nonce.is_multiple_of(2) {
            let tx = TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: GAS_PRICE,
                max_priority_fee_per_gas: GAS_PRICE / 2,
                to,
                value,
                access_list: Default::default(),
                input,
            };
            TxEnvelope::Eip1559(tx.into_signed(signature))
        } else {
            let chain_id = Some(chain_id);
            let tx = TxLegacy { chain_id, nonce, gas_price: GAS_PRICE, gas_limit, to, value, input };
            TxEnvelope::Legacy(tx.into_signed(signature))
        };
        Self { hash: *envelope.tx_hash(), envelope, nonce, spec }
    }

    pub(super) fn created(&self) -> Option<Address> {
        self.spec.to.is_none().then(|| self.spec.from.create(self.nonce))
    }
}
