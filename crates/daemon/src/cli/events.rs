//! `confirmd events` and `confirmd cursor`

use super::args::{CursorCommand, EventsArgs};
use super::{print, table};
use confirmd_api::view::{CursorStart, EventsQuery, PutCursor};
use confirmd_api::{Cursor, Operator};

/// How long one question waits while following, in seconds.
const WAIT: u32 = 30;

/// One event a line; the place to go on from goes to stderr.
pub(super) async fn run(operator: &dyn Operator, args: EventsArgs) -> anyhow::Result<()> {
    let mut query = EventsQuery { after: args.after.map(Cursor::new), cursor: args.cursor, ..EventsQuery::default() };
    let mut left = args.limit;
    loop {
        query.limit = super::deposits::page_limit(args.follow, left);
        let page = operator.events(&query).await?;
        if page.gap > 0 && query.after.is_some() {
            print::to_stderr(&format!("{} between are not in history any more", print::counted(page.gap, "event", "events")));
        }
        page.events.iter().for_each(|event| print::line(event.get()));
        left = left.saturating_sub(u32::try_from(page.events.len()).unwrap_or(u32::MAX));
        (query.after, query.cursor) = (Some(page.next.clone()), None);
        if !args.follow && (page.events.is_empty() || left == 0) {
            print::to_stderr(&format!("go on with --after {}", page.next.as_str()));
            return Ok(());
        }
        query.wait = args.follow.then_some(WAIT);
    }
}

pub(super) async fn cursor(operator: &dyn Operator, command: CursorCommand) -> anyhow::Result<()> {
    match command {
        CursorCommand::List(args) => {
            let cursors = operator.cursors().await?;
            if args.json {
                return cursors.iter().try_for_each(print::json);
            }
            let state = |expired: bool| if expired { "EXPIRED" } else { "in use" }.to_owned();
            let rows: Vec<Vec<String>> = cursors
                .into_iter()
                .map(|one| vec![one.name.to_string(), state(one.expired), one.used_at, one.after.as_str().to_owned()])
                .collect();
            print::line(&table::render(&["cursor", "state", "last used", "after"], &rows));
        }
        CursorCommand::Put { name, after, now, json } => {
            let put = PutCursor { after: after.map(Cursor::new), start: now.then_some(CursorStart::Now) };
            let cursor = operator.put_cursor(&name, put).await?;
            if json.json {
                return print::json(&cursor);
            }
            print::line(&format!("{name} stands behind {}; what follows is kept while it is used", cursor.after.as_str()));
        }
        CursorCommand::Remove { name, json } => {
            operator.remove_cursor(&name).await?;
            if json.json {
                return print::json(&serde_json::json!({ "name": name }));
            }
            print::line(&format!("{name} is forgotten and holds nothing any more"));
        }
    }
    Ok(())
}
