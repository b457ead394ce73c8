//! A source with one mistake.

use async_trait::async_trait;
use confirmd_core::*;
use confirmd_testkit::ScriptedChain;
use confirmd_testkit::conform::source::ScriptedLab;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What an adapter's author gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    SaysWhatIsConfigured,
    NamesAnotherNetwork,
    CountsNoConnections,
    OneBlockAhead,
    RemembersTheTip,
    AbsenceIsAnError,
    AboveTheTipIsTheTip,
    StopsAtAnEmptySlot,
    ItsOwnParent,
    RemembersHeaders,
    EveryRange,
    EveryAddress,
    EveryAsset,
    NamesAnotherAsset,
    ForgetsWhatIsDelisted,
    ForgetsWhoIsLeaving,
    AbandonedBlocksToo,
    NewestFirst,
    LastOutputFirst,
    EachBlockTwice,
    OneKeyPerTransaction,
    KeyFromTheHeight,
    KeyFromThePosition,
    KeyFromTheBlock,
    OrphanedIsEmpty,
    BelievesAnEmptyAnswer,
    BelievesALostBlock,
    HalfTheBranch,
    DecoysToo,
    TroubleHalts,
    ForgetsTheWish,
    AsksForEver,
    WaitsForGoodCredentials,
    WaitsForPrunedBlocks,
    WaitsForDecodableAnswers,
    StuckAfterADrop,
    OneCallAtATime,
    HalfABlock,
    CaseMatters,
    RefusesNothing,
    SpellsPayeesAnotherWay,
    Doubles,
    ShowsTheSecretInErrors,
    ShowsTheSecretInDebug,
    LogsTheSecret,
    NothingFinalIsGenesis,
    TheTipIsFinal,
    ForgetsMaturity,
    EverythingMatures,
    KeyFromTheAnswer,
    KeyFromTheRange,
    KeyFromTheListing,
    KeyFromTheProcess,
    KeyFromTheRequest,
}
use Mistake::*;

pub(super) struct Wrong {
    mistake: Mistake,
    /// Everything there is.
    chain: ScriptedChain,
    honest: Arc<dyn ChainSource>,
    busy: AtomicBool,
    tip: Mutex<Option<BlockRef>>,
    headers: Mutex<BTreeMap<Height, BlockHeader>>,
    seen: Mutex<Vec<Transfer>>,
    /// Unlike any other's.
    number: u32,
    calls: Mutex<u32>,
}

impl std::fmt::Debug for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wrong").field("url", &self.is(ShowsTheSecretInDebug).then_some(ScriptedLab::SECRET)).finish()
    }
}

impl Wrong {
    pub(super) fn source(mistake: Mistake, chain: ScriptedChain, honest: Arc<dyn ChainSource>) -> Arc<dyn ChainSource> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        Arc::new(Self {
            mistake,
            chain,
            honest,
            busy: AtomicBool::new(false),
            tip: Mutex::default(),
            headers: Mutex::default(),
            seen: Mutex::default(),
            number: NUMBER.fetch_add(1, Relaxed),
            calls: Mutex::default(),
        })
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    fn error(&self, error: SourceError) -> SourceError {
        if self.is(LogsTheSecret) {
            tracing::warn!(url = ScriptedLab::SECRET, "no answer");
        }
        let passes = matches!(error.kind, SourceErrorKind::Transient { .. });
        let says = |piece: &str| error.context.contains(piece);
        match self.mistake {
            TroubleHalts if passes => SourceError::fatal(error.context),
            ForgetsTheWish if passes => SourceError::transient(error.context),
            WaitsForGoodCredentials if says("credentials") => SourceError::transient(error.context),
            WaitsForPrunedBlocks if says("no longer has") => SourceError::transient(error.context),
            WaitsForDecodableAnswers if says("decode") => SourceError::transient(error.context),
            ShowsTheSecretInErrors => SourceError { context: format!("{}: {}", ScriptedLab::SECRET, error.context), ..error },
            _ => error,
        }
    }

    /// The honest call, with what goes wrong around any call.
    async fn call<T>(&self, call: impl Future<Output = Result<T, SourceError>> + Send) -> Result<T, SourceError> {
        let one_at_a_time = self.is(StuckAfterADrop) || self.is(OneCallAtATime);
        if one_at_a_time && self.busy.swap(true, Relaxed) {
            return Err(SourceError::transient("another call is under way"));
        }
        // A call that is dropped is no longer under way, where somebody thought of it.
        struct Free<'a>(&'a AtomicBool);
        impl Drop for Free<'_> {
            fn drop(&mut self) {
                self.0.store(false, Relaxed);
            }
        }
        let _free = self.is(OneCallAtATime).then(|| Free(&self.busy));
        let answer = call.await;
        for _ in 0..20 {
            if self.is(AsksForEver) && answer.is_err() {
                drop(self.honest.tip().await);
            }
        }
        if self.is(StuckAfterADrop) {
            self.busy.store(false, Relaxed);
        }
        answer.map_err(|error| self.error(error))
    }

    fn all(&self, from: Height, to: Height) -> Vec<Transfer> {
        self.chain.payments().into_iter().filter(|t| t.block.height >= from && t.block.height <= to).collect()
    }

    fn rekeyed(&self, mut found: Vec<Transfer>, from: Height, watch: &WatchSet) -> Vec<Transfer> {
        let calls = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls
        };
        let small = |height: u64| u32::try_from(height % 1_000).unwrap();
        for (place, transfer) in (0u32..).zip(&mut found) {
            let added = match self.mistake {
                KeyFromTheHeight => small(transfer.block.height.0),
                KeyFromThePosition => transfer.position * 100,
                KeyFromTheBlock => transfer.block.hash.as_str().bytes().map(u32::from).sum::<u32>() * 7,
                KeyFromTheAnswer => place,
                KeyFromTheRange => small(from.0),
                KeyFromTheListing => u32::from(watch.assets().any(|asset| asset.delisted)) + u32::try_from(watch.len()).unwrap(),
                KeyFromTheProcess => self.number,
                KeyFromTheRequest => calls,
                _ => 0,
            };
            transfer.key.output_index += added * 1_000;
            if self.is(OneKeyPerTransaction) {
                transfer.key.output_index = 0;
            }
        }
        found
    }

    fn altered(&self, mut found: Vec<Transfer>) -> Vec<Transfer> {
        match self.mistake {
            NewestFirst => found.reverse(),
            LastOutputFirst => {
                found.sort_by_key(|t| (t.block.height, t.position, std::cmp::Reverse(t.key.output_index)));
            }
            EachBlockTwice => found = found.iter().flat_map(|t| [t.clone(), t.clone()]).collect(),
            AbandonedBlocksToo => {
                let mut seen = self.seen.lock().unwrap();
                let gone = seen.iter().filter(|t| !found.iter().any(|now| now.key == t.key)).cloned();
                found = gone.chain(found.clone()).collect();
                *seen = found.clone();
            }
            Doubles => {
                for transfer in &mut found {
                    let double: f64 = transfer.payment.amount.to_string().parse().unwrap();
                    transfer.payment.amount = format!("{double:.0}").parse().unwrap();
                }
            }
            SpellsPayeesAnotherWay => {
                for transfer in &mut found {
                    let address = &transfer.payment.address;
                    transfer.payment.address = Address::new(address.bytes(), address.as_str().to_uppercase());
                }
            }
            NamesAnotherAsset => {
                let id = &self.profile().assets.first().unwrap().asset.id;
                let other = AssetId::new(format!("{id}1")).unwrap();
                found.iter_mut().for_each(|t| t.payment.asset = other.clone());
            }
            ForgetsMaturity => found.iter_mut().for_each(|t| t.maturity = None),
            EverythingMatures => found.iter_mut().for_each(|t| t.maturity = std::num::NonZeroU32::new(100)),
            _ => {}
        }
        found
    }
}

#[async_trait]
impl ChainSource for Wrong {
    fn profile(&self) -> &ChainProfile {
        self.honest.profile()
    }

    async fn identify(&self) -> Result<ChainId, SourceError> {
        if self.is(SaysWhatIsConfigured) {
            return Ok(self.profile().chain.clone());
        }
        if self.is(NamesAnotherNetwork) {
            return Ok(ChainId::new("scripted:mistaken").unwrap());
        }
        self.call(self.honest.identify()).await
    }

    async fn tip(&self) -> Result<BlockRef, SourceError> {
        let tip = self.call(self.honest.tip()).await?;
        Ok(match self.mistake {
            OneBlockAhead => BlockRef { height: tip.height.next(), ..tip },
            RemembersTheTip => {
                let mut highest = self.tip.lock().unwrap();
                let best = highest.take().filter(|old| old.height > tip.height).unwrap_or(tip);
                highest.insert(best).clone()
            }
            _ => tip,
        })
    }

    async fn header_at(&self, height: Height) -> Result<Option<BlockHeader>, SourceError> {
        let header = self.call(self.honest.header_at(height)).await?;
        Ok(match (self.mistake, header) {
            (AbsenceIsAnError, None) => return Err(SourceError::transient("no such block")),
            (AboveTheTipIsTheTip, None) => self.honest.header_at(self.honest.tip().await?.height).await?,
            (ItsOwnParent, Some(header)) => Some(BlockHeader { parent: header.block.hash.clone(), ..header }),
            (RemembersHeaders, Some(header)) => Some(self.headers.lock().unwrap().entry(height).or_insert(header).clone()),
            (_, header) => header,
        })
    }

    async fn headers(&self, from: Height, to: Height) -> Result<Vec<BlockHeader>, SourceError> {
        let mut headers = self.call(self.honest.headers(from, to)).await?;
        match self.mistake {
            ItsOwnParent => headers.iter_mut().for_each(|header| header.parent = header.block.hash.clone()),
            StopsAtAnEmptySlot => {
                let expected = (from.0..).zip(&headers).take_while(|(height, header)| header.block.height.0 == *height).count();
                headers.truncate(expected);
            }
            RemembersHeaders => {
                let mut known = self.headers.lock().unwrap();
                headers.iter_mut().for_each(|h| *h = known.entry(h.block.height).or_insert_with(|| h.clone()).clone());
            }
            _ => {}
        }
        Ok(headers)
    }

    async fn finalized(&self, tag: FinalityTag) -> Result<Option<BlockRef>, SourceError> {
        let found = self.call(self.honest.finalized(tag)).await?;
        match (self.mistake, found) {
            (NothingFinalIsGenesis, None) => Ok(self.chain.best_block(Height(0))),
            (TheTipIsFinal, Some(_)) => Ok(Some(self.chain.tip_block())),
            (_, found) => Ok(found),
        }
    }

    async fn transfers(&self, from: Height, to: &BlockRef, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        if self.is(HalfTheBranch) {
            // Block by block, whatever branch it is of by then.
            self.call(self.honest.transfers(to.height, to, &WatchSet::default())).await?;
            tokio::task::yield_now().await;
            let wanted = |t: &Transfer| watch.get(t.payment.address.bytes()).is_some() && watch.asset(&t.payment.asset).is_some();
            return Ok(self.all(from, to.height).into_iter().filter(wanted).collect());
        }
        let mut wider = watch.clone();
        let mut start = from;
        match self.mistake {
            EveryRange => start = Height(0),
            EveryAddress => self.all(Height(0), to.height).into_iter().for_each(|t| {
                wider.put_address(WatchEntry {
                    address: t.payment.address,
                    reference: None,
                    from: Height(0),
                    origin: WatchOrigin::Config,
                    state: WatchState::Watching,
                    history: None,
                });
            }),
            EveryAsset => self.profile().assets.iter().for_each(|asset| wider.put_asset(asset.clone())),
            ForgetsWhatIsDelisted => watch.assets().filter(|a| a.delisted).for_each(|a| wider.forget_asset(&a.asset.id)),
            ForgetsWhoIsLeaving => watch.leaving().for_each(|entry| wider.forget_address(entry.address.bytes())),
            _ => {}
        }
        let answer = self.call(self.honest.transfers(start, to, &wider)).await;
        let known = |t: &Transfer| watch.get(t.payment.address.bytes()).is_some();
        let answer = match (self.mistake, answer) {
            (OrphanedIsEmpty, Err(error)) if error.kind == SourceErrorKind::Orphaned => Ok(Vec::new()),
            (BelievesAnEmptyAnswer, Err(error)) if error.context.contains("is empty") => Ok(Vec::new()),
            (BelievesALostBlock, Err(error)) if error.context.contains("does not know") => Ok(Vec::new()),
            (HalfABlock, Err(error)) if error.context.contains("neither was it") => {
                let mut all: Vec<_> = self.all(from, to.height).into_iter().filter(known).collect();
                all.pop();
                Ok(all)
            }
            (DecoysToo, Ok(_)) => Ok(self.all(from, to.height).into_iter().filter(known).collect()),
            (_, answer) => answer,
        };
        Ok(self.rekeyed(self.altered(answer?), from, watch))
    }

    fn parse_address(&self, text: &str) -> Result<Address, AddressError> {
        let parsed = self.honest.parse_address(text);
        match (self.mistake, parsed) {
            (CaseMatters, Ok(_)) => Ok(ScriptedChain::address(text)),
            (RefusesNothing, Err(_)) => Ok(ScriptedChain::address(text)),
            (_, parsed) => parsed,
        }
    }

    async fn inspect(&self) -> Result<Vec<EndpointStatus>, SourceError> {
        self.call(self.honest.inspect()).await
    }

    async fn transaction(&self, tx_id: &str, height: Option<Height>) -> Result<Option<ShownTransaction>, SourceError> {
        self.call(self.honest.transaction(tx_id, height)).await
    }

    fn connection(&self) -> u64 {
        if self.is(CountsNoConnections) { 0 } else { self.honest.connection() }
    }
}
