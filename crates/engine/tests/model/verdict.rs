//! What must be so in the end.

use super::node::ADDRESSES;
use super::oracle::{Book, Oracle};
use super::store::Gate;
use confirmd_core::{Address, ChainId, DepositKey, Payment};
use confirmd_testkit::ScriptedChain;
use confirmd_testkit::model::Standing;
use std::collections::{BTreeMap, BTreeSet};

type Holdings = BTreeMap<(ChainId, DepositKey), Payment>;

/// Every consumer got every event that concerns it; what it holds is what the model says, except for what it held when a state
/// was lost and the new one never told of: deposits orphaned meanwhile, which are listed.
pub(crate) fn consumers_hold_what_the_model_says(oracle: &Oracle) -> Result<(), String> {
    let mut standing = Holdings::new();
    for chain in &oracle.chains {
        for (key, deposit) in chain.model.deposits() {
            if matches!(deposit.standing, Standing::Reported | Standing::Settled) {
                standing.insert((chain.id.clone(), key.clone()), deposit.transfer.payment.clone());
            }
        }
    }
    for book in &oracle.books {
        let open = oracle.undelivered(book);
        if !open.is_empty() {
            return Err(format!("G6: {} lacks {open:?}", book.name));
        }
        if book.ledger != oracle.wanted(book) {
            return Err(format!("{} holds {:?}, wanted {:?}", book.name, book.ledger, oracle.wanted(book)));
        }
        compare(oracle, book, &standing)?;
    }
    Ok(())
}

fn compare(oracle: &Oracle, book: &Book, standing: &Holdings) -> Result<(), String> {
    let chains = &book.filter.chains;
    let told = |place: &(ChainId, DepositKey)| {
        let mut events = oracle.log.iter().filter(|(position, ..)| *position >= book.began);
        events.any(|(_, event, _)| event.decides() && event.chain == place.0 && event.transfer.key == place.1)
    };
    // What an operator gave up is not at the consumer; that is what giving up means.
    let missed = |place: &(ChainId, DepositKey)| -> Vec<bool> {
        let events = oracle.log.iter().filter(|(position, ..)| *position >= book.began);
        let of_key = events.filter(|(_, event, _)| event.decides() && event.chain == place.0 && event.transfer.key == place.1);
        of_key.map(|(position, ..)| book.missed(*position)).collect()
    };
    let ends_missed = |place: &(ChainId, DepositKey)| missed(place).last().copied().unwrap_or_default();
    let concerns =
        |place: &&(ChainId, DepositKey)| (chains.is_empty() || chains.contains(&place.0)) && told(place) && !ends_missed(place);
    let wanted: BTreeSet<_> = standing.keys().filter(concerns).cloned().collect();
    let held: BTreeMap<_, _> = book.ledger.standing().filter(|(place, _)| !ends_missed(place)).collect();
    // The run's list: credited before the loss, and never heard of since.
    let listed: BTreeSet<_> = held.keys().filter(|place| !told(place)).map(|place| (*place).clone()).collect();
    if let Some(place) = listed.iter().find(|place| book.before.rows().get(*place) != held.get(*place).copied()) {
        return Err(format!("{} is credited {place:?}, which no event tells", book.name));
    }
    if let Some(place) = listed.iter().find(|place| standing.contains_key(*place) && book.began.0 == 1) {
        return Err(format!("{} was never told of {place:?} again", book.name));
    }
    let found: BTreeSet<_> = held.keys().map(|place| (*place).clone()).filter(|place| !listed.contains(place)).collect();
    if found != wanted {
        return Err(format!("{} is credited {found:?}, the model says {wanted:?}", book.name));
    }
    for (place, row) in held.iter().filter(|(place, _)| !listed.contains(place)) {
        // Executed anew while the state was gone: the consumer keeps what it credited, until it compares.
        let kept = book.before.rows().get(*place).is_some_and(|before| before.stands && before.payment == row.payment);
        if standing.get(*place) != Some(&row.payment) && !kept && !missed(place).contains(&true) {
            return Err(format!("{} credits {:?} for {place:?}, not {:?}", book.name, row.payment, standing.get(*place)));
        }
    }
    Ok(())
}

/// Of payments below their minimum those of the followed branch are in the read model, as they sit there, and no others.
pub(crate) fn small_payments_are_written_down(oracle: &Oracle, gate: &Gate) -> Result<(), String> {
    for chain in &oracle.chains {
        let (recorded, wanted) = (gate.small(&chain.id), chain.small());
        if recorded != wanted {
            return Err(format!("{}: below their minimum are recorded {recorded:?}, the model says {wanted:?}", chain.id));
        }
    }
    Ok(())
}

/// Without configuration changes the chain alone says what stands: every payment of the best chain to an address of the
/// configuration, and what an accepted reorg left standing.
pub(crate) fn the_chain_itself_says_the_same(oracle: &Oracle) -> Result<(), String> {
    for chain in oracle.chains.iter().filter(|chain| !chain.node.ever_withheld()) {
        let ours = |address: &Address| [ADDRESSES[0], ADDRESSES[1]].iter().any(|text| *address == ScriptedChain::address(text));
        let payments = chain.node.chain.payments();
        let paid = payments.iter().filter(|transfer| ours(&transfer.payment.address));
        let paid: BTreeSet<&DepositKey> = paid.map(|transfer| &transfer.key).collect();
        let deposits = chain.model.deposits().iter();
        let standing = deposits.filter(|(_, deposit)| {
            matches!(deposit.standing, Standing::Reported | Standing::Settled) && ours(&deposit.transfer.payment.address)
        });
        let standing: BTreeSet<&DepositKey> = standing.map(|(key, _)| key).collect();
        let missing: Vec<_> = paid.difference(&standing).collect();
        let superfluous: Vec<_> = standing.difference(&paid).filter(|key| !chain.stranded.contains(**key)).collect();
        if !missing.is_empty() || !superfluous.is_empty() {
            return Err(format!("{}: the chain says that {missing:?} stand and {superfluous:?} do not", chain.id));
        }
    }
    Ok(())
}
