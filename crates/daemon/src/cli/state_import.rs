//! `confirmd state import`

use super::{print, state_export};
use crate::config::{Config, ConfigFile};
use anyhow::{Context as _, bail};
use confirmd_core::{
    Clock, ConsumerName, DumpReader, DumpRecord, DumpSummary, DumpedStore, EventId, Newest, Position, Registry, StoreError,
    SystemClock, Timestamp,
};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// Read at once.
const PIECE: usize = 256 * 1024;
/// Records written at once.
const PART: usize = 2_000;
/// Books that do not answer in time can't be compared.
const LIMIT: Duration = Duration::from_secs(15);
/// Between two lines about how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(2);

pub(super) async fn run(file: &Path, from: &Path, restored: bool, json: bool, registry: &Registry) -> anyhow::Result<()> {
    let config = Config::build(ConfigFile::read(file)?, registry)?;
    let books = if restored { Books::default() } else { Books::ask(&config).await? };
    let summary =
        read(&config, from, restored, books).await.with_context(|| format!("nothing was imported from {}", from.display()))?;
    if json {
        return print::json(&summary);
    }
    print::line(&format!(
        "imported {}{}; `confirmd run` goes on from there",
        state_export::counts(&summary),
        if restored { ", under a new epoch" } else { "" }
    ));
    Ok(())
}

async fn read(config: &Config, from: &Path, restored: bool, mut books: Books) -> anyhow::Result<DumpSummary> {
    let mut input: Box<dyn Read + Send> = match from == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(from).with_context(|| format!("read {}", from.display()))?),
    };
    let (mut reader, mut records) = (DumpReader::default(), Vec::new());
    let (mut import, mut count, mut told) = (None, 0_usize, Instant::now());
    let mut piece = vec![0; PIECE];
    loop {
        let length = input.read(&mut piece).with_context(|| format!("read {}", from.display()))?;
        if length == 0 {
            break;
        }
        let begin = records.len();
        reader.push(piece.get(..length).unwrap_or_default(), &mut records)?;
        if let Some(head) = reader.head().filter(|head| head.running && !restored) {
            bail!(
                "the dump of {} was made while an instance ran: what that decided afterwards is not in it, and would be decided again under the same ids. Stop the instance, export again and import that; if it is lost, this is an old copy: import it with --restored",
                head.exported_at
            );
        }
        records.iter().skip(begin).for_each(|record| books.look(record));
        if records.len() >= PART {
            count = count.saturating_add(records.len());
            let import = match &mut import {
                Some(import) => import,
                none => none.insert(crate::run::import_state(&config.file.state, restored).await?),
            };
            import.put(std::mem::take(&mut records)).await?;
        }
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            print::to_stderr(&format!("{count} records"));
        }
    }
    let summary = reader.end()?;
    books.compare(config.file.state.history.0, SystemClock.now())?;
    let mut import = match import {
        Some(import) => import,
        None => crate::run::import_state(&config.file.state, restored).await?,
    };
    import.put(records).await?;
    match import.finish().await {
        // It may be there: not what the caller says of every other error.
        Err(error @ StoreError::Unknown { .. }) => bail!("it is not known whether it was: {error}"),
        finished => finished?,
    }
    Ok(summary)
}

/// What consumers that keep books were told last, and what the dump says of it.
#[derive(Debug, Default)]
struct Books {
    asked: Vec<(ConsumerName, Newest, Option<EventId>)>,
    store: Option<DumpedStore>,
    first_event: Option<Position>,
}

impl Books {
    async fn ask(config: &Config) -> anyhow::Result<Self> {
        let mut books = Self::default();
        for sink in &config.sinks {
            let Some(asked) = sink.sink.books() else { continue };
            let newest = tokio::time::timeout(LIMIT, asked.newest()).await;
            let newest =
                newest.map_err(|_| anyhow::anyhow!("its books did not answer within {LIMIT:?}")).and_then(|newest| Ok(newest?));
            let newest = newest.with_context(|| {
                format!(
                    "sinks.{}: it keeps books, which must be compared with the dump; mend the way to it, or take it out for the import (`run` compares again)",
                    sink.name()
                )
            })?;
            books.asked.extend(newest.map(|newest| (sink.name().clone(), newest, None)));
        }
        Ok(books)
    }

    fn look(&mut self, record: &DumpRecord) {
        match record {
            DumpRecord::Store(store) => self.store = Some(store.clone()),
            DumpRecord::Event(event) => {
                self.first_event.get_or_insert(event.position);
                for (_, newest, found) in &mut self.asked {
                    if newest.position == event.position {
                        *found = Some(event.event.id.clone());
                    }
                }
            }
            _ => {}
        }
    }

    /// Refuses a dump that knows less than a consumer. An event older than history may have been forgotten.
    fn compare(&self, history: Duration, now: Timestamp) -> anyhow::Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        for (name, newest, found) in &self.asked {
            if newest.feed.store != store.id {
                bail!(
                    "sinks.{name}: it is fed by the state {}, the dump is of the state {}; if the other one is stopped for good, take the sink out for the import, then `confirmd consumer adopt {name}`",
                    newest.feed.store,
                    store.id
                );
            }
            let forgotten = newest.at < now.minus(history) && self.first_event.is_none_or(|first| newest.position < first);
            let known = match found {
                Some(event) => *event == newest.event,
                None => forgotten && newest.position < store.next_position,
            };
            if !known || newest.feed.epoch > store.epoch {
                bail!(
                    "sinks.{name}: it was told of event {} at place {}, which the dump does not hold: the state went on after the dump was made. Stop the instance and export again; if its state is lost, import with --restored: it takes a new epoch, and the next start takes over what the sink knows",
                    newest.event,
                    newest.position
                );
            }
        }
        Ok(())
    }
}
