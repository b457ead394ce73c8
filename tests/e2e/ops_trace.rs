//! Traces: one from the block to the delivery, whatever happens in between, and nothing waits for whoever collects them.

mod collector;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use collector::{Collector, Taken};
use confirmd_testkit::receiver::Behaviour;
use e2e::{Config, Needs, Postgres, SOON, Service, node_trial};
use libtest_mimic::Trial;

use crate::evm_world::{ALICE, BOB, CHAIN, NAME, World, bare_chain, chain, ledger, pay, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("ops_trace::one_trace_leads_from_the_block_over_a_refused_attempt_to_the_delivery", needs, one),
        node_trial("ops_trace::a_process_killed_between_commit_and_delivery_leaves_one_trace_with_the_next", needs, killed),
        node_trial(
            "ops_trace::an_instance_killed_after_its_commit_leaves_one_trace_with_the_one_that_delivers",
            &[Needs::Anvil, Needs::Postgres],
            shared,
        ),
        node_trial("ops_trace::a_deposit_taken_back_has_a_trace_that_names_the_one_it_answers", needs, reverted),
        node_trial("ops_trace::a_collector_that_is_down_delays_nothing_and_is_said_once", needs, down),
        node_trial("ops_trace::traces_are_turned_on_and_off_and_get_another_token_by_a_reload", needs, reloaded),
    ]
}

fn section(collector: &Collector) -> String {
    format!("\n[telemetry]\notlp = \"{}\"\n", collector.url())
}

async fn world(collector: &Collector, policy: &str) -> Result<World> {
    let (anvil, token, customer) = stage().await?;
    // Nobody gives an attempt up that hangs until its process is killed.
    let sink = ledger(&customer).line("timeout = \"120s\"");
    let config = Config::new().chain(chain(&anvil, &token, policy, 8)).sink(sink).text(&section(collector));
    World::of(anvil, token, customer, &config).await
}

fn named<'a>(spans: &'a [Taken], tx: &str, name: &str) -> Vec<&'a Taken> {
    spans.iter().filter(|taken| taken.is(name) && taken.says("confirmd.tx") == tx).collect()
}

/// Every span of one trace.
fn of_trace(spans: Vec<Taken>, trace_id: &[u8]) -> Vec<Taken> {
    spans.into_iter().filter(|taken| taken.span.trace_id == trace_id).collect()
}

/// The only span of a name.
fn the<'a>(trace: &'a [Taken], name: &str) -> Result<&'a Taken> {
    let mut found = trace.iter().filter(|taken| taken.is(name));
    let first = found.next().with_context(|| format!("no {name} in {trace:#?}"))?;
    ensure!(found.next().is_none(), "more than one {name} in {trace:#?}");
    Ok(first)
}

/// Waits until the trace of a transaction's event of this kind has so many spans, and returns it whole.
async fn traced(collector: &Collector, tx: &str, kind: &str, spans: usize) -> Result<Vec<Taken>> {
    let trace_of = |all: &[Taken]| named(all, tx, kind).first().map(|taken| taken.span.trace_id.clone());
    let count = |all: &[Taken], trace: &[u8]| all.iter().filter(|taken| taken.span.trace_id == trace).count();
    let whole = |all: &[Taken], _| trace_of(all).is_some_and(|trace| count(all, &trace) >= spans);
    collector.until(&format!("{kind} of {tx} with {spans} spans"), whole).await?;
    let trace_id = trace_of(&collector.spans()).context("it was there a moment ago")?;
    Ok(of_trace(collector.spans(), &trace_id))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One whole, and every other span belongs to it.
fn ensure_one_tree(trace: &[Taken]) -> Result<()> {
    let (wholes, parts): (Vec<_>, Vec<_>) = trace.iter().partition(|taken| taken.span.parent_span_id.is_empty());
    let [whole] = wholes.as_slice() else { anyhow::bail!("{} wholes in {trace:#?}", wholes.len()) };
    let ids: BTreeSet<&[u8]> = trace.iter().map(|taken| taken.span.span_id.as_slice()).collect();
    ensure!(ids.len() == trace.len(), "an id twice in {trace:#?}");
    ensure!(parts.iter().all(|part| part.span.parent_span_id == whole.span.span_id), "{trace:#?}");
    Ok(())
}

/// Neither who was paid, nor how the operator calls them, nor how much.
fn ensure_discreet(spans: &[Taken]) -> Result<()> {
    let shown = format!("{spans:?}").to_lowercase();
    for private in [&ALICE[2..], &BOB[2..], "alice", "bob", "5777777777"] {
        ensure!(!shown.contains(private), "{private} stands in {shown}");
    }
    Ok(())
}

async fn one() -> Result<()> {
    let collector = Collector::start().await?;
    let mut world = world(&collector, "default = 2").await?;
    world.customer.receiver().next(1, Behaviour::Status(500));
    let paid = pay(&world.anvil, 1, ALICE, 5_777_777_777).await?;
    let block = world.mine(1).await?;
    // It is read, and not deep enough.
    collector.until("the block", |spans, _| !named(spans, &paid, "block").is_empty()).await?;
    ensure!(world.customer.receiver().requests().is_empty());
    world.mine(1).await?;
    let trace = traced(&collector, &paid, "deposit.confirmed", 6).await?;
    ensure!(trace.len() == 6, "{trace:#?}");
    ensure_one_tree(&trace)?;
    let (whole, read) = (the(&trace, "deposit.confirmed")?, the(&trace, "block")?);
    for taken in [whole, read] {
        ensure!(taken.says("confirmd.chain") == CHAIN && taken.says("confirmd.chain.name") == NAME, "{taken:#?}");
        ensure!(taken.says("confirmd.block.hash") == block.hash, "{taken:#?}");
        ensure!(taken.says("confirmd.block.height") == block.height.to_string(), "{taken:#?}");
        ensure!(taken.service == "confirmd" && taken.says("confirmd.output_index") == "0", "{taken:#?}");
    }
    let (decide, commit) = (the(&trace, "decide")?, the(&trace, "commit")?);
    ensure!(decide.says("confirmd.confirmations") == "2" && decide.says("confirmd.rule.at_least") == "2", "{decide:#?}");
    ensure!(commit.says("confirmd.commit.events") == "1", "{commit:#?}");
    let times = [read, decide, commit].map(|taken| taken.span.start_time_unix_nano);
    ensure!(times.is_sorted() && whole.span.start_time_unix_nano <= times[0], "{trace:#?}");

    // What the customer saw of each attempt is that attempt's span, in the trace that the event's id names.
    let requests = world.customer.receiver().requests();
    let attempts: Vec<&Taken> = trace.iter().filter(|taken| taken.is("deliver")).collect();
    ensure!(requests.len() == 2 && whole.says("confirmd.event") == requests[0].id, "{}", world.customer.describe());
    for (number, (attempt, request)) in attempts.iter().zip(&requests).enumerate() {
        let event = request.id.strip_prefix("evt_").context("an event's id")?;
        let wanted = format!("00-{event}-{}-01", hex(&attempt.span.span_id));
        ensure!(request.headers.get("traceparent").is_some_and(|header| *header == wanted), "{wanted}: {:?}", request.headers);
        ensure!(hex(&attempt.span.trace_id) == event && attempt.says("confirmd.consumer") == "ledger", "{attempt:#?}");
        ensure!(attempt.says("confirmd.attempt") == (number + 1).to_string(), "{attempt:#?}");
    }
    ensure!(requests[0].body == requests[1].body && requests[0].answered == Some(500), "{}", world.customer.describe());
    let [failed, taken] = attempts.as_slice() else { anyhow::bail!("{attempts:#?}") };
    ensure!(failed.says("confirmd.outcome") == "transient" && failed.says("http.response.status_code") == "500", "{failed:#?}");
    ensure!(failed.span.status.as_ref().is_some_and(|status| status.code == 2 && status.message.contains("500")), "{failed:#?}");
    ensure!(taken.says("confirmd.outcome") == "delivered" && taken.span.status.is_none(), "{taken:#?}");

    // What is recorded right before the end is there when the process has ended.
    let last = pay(&world.anvil, 2, BOB, 7).await?;
    world.mine(2).await?;
    world.service.terminate().await?;
    let spans = collector.spans();
    let whole = named(&spans, &last, "deposit.confirmed").first().map(|taken| taken.span.trace_id.clone());
    let trace = of_trace(spans.clone(), &whole.with_context(|| format!("{spans:#?}"))?);
    ensure!(trace.len() == 5 && the(&trace, "deliver")?.says("confirmd.outcome") == "delivered", "{trace:#?}");
    ensure_discreet(&spans)?;
    collector.ensure_sound()?;
    world.ensure_books_match().await
}

async fn killed() -> Result<()> {
    let collector = Collector::start().await?;
    let mut world = world(&collector, "default = 1").await?;
    world.customer.receiver().always(Behaviour::Hang);
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.anvil.mine(1).await?;
    world.customer.until("an attempt", SOON, |_, requests| requests.len() == 1).await?;
    // Everything up to the commit.
    let begun = traced(&collector, &paid, "deposit.confirmed", 4).await?;
    let trace_id = begun[0].span.trace_id.clone();
    ensure!(begun.len() == 4 && begun.iter().all(|taken| !taken.is("deliver")), "{begun:#?}");
    world.service.instance().kill()?;
    world.customer.receiver().behave();
    world.service.run().await?;
    world.told().await?;
    world.until(&paid, 0, 1).await?;
    let trace = traced(&collector, &paid, "deposit.confirmed", 5).await?;
    ensure_one_tree(&trace)?;
    let steps = ["block", "deposit.confirmed", "decide", "commit", "deliver"].map(|name| the(&trace, name));
    let steps: Vec<&Taken> = steps.into_iter().collect::<Result<_>>()?;
    ensure!(trace.len() == 5 && steps[4].says("confirmd.outcome") == "delivered", "{trace:#?}");
    ensure!(steps[..4].iter().all(|step| step.instance == steps[0].instance), "{trace:#?}");
    ensure!(steps[4].instance != steps[0].instance, "another process delivered: {trace:#?}");
    // The customer sees one trace, and an attempt of its own each time.
    let requests = world.customer.receiver().requests();
    let parents: BTreeSet<String> =
        requests.iter().filter_map(|request| Some(request.headers.get("traceparent")?.to_str().ok()?.to_owned())).collect();
    let of_trace = |parent: &String| parent.starts_with(&format!("00-{}-", hex(&trace_id)));
    ensure!(requests.len() == 2 && parents.len() == 2 && parents.iter().all(of_trace), "{parents:?}");
    ensure_discreet(&collector.spans())?;
    collector.ensure_sound()?;
    world.service.terminate().await
}

const PASSWORD_ENV: &str = "CONFIRMD_E2E_POSTGRES_PASSWORD";

async fn instance(config: &Config) -> Result<Service> {
    let mut service = Service::new(config)?;
    service.instance().env(PASSWORD_ENV, Postgres::SUPERUSER.1);
    service.run().await?;
    Ok(service)
}

async fn shared() -> Result<()> {
    let collector = Collector::start().await?;
    let (anvil, _, customer) = stage().await?;
    let cluster = Postgres::start().await?;
    let url = cluster.url(Postgres::SUPERUSER.0, "postgres");
    let state = format!("backend = \"postgres\"\nurl = \"{url}\"\npassword = {{ env = \"{PASSWORD_ENV}\" }}\nlease = \"3s\"\n");
    let sink = ledger(&customer).line("timeout = \"3s\"");
    let config = Config::new().chain(bare_chain(&anvil, "default = 1", 8)).sink(sink).state(&state).text(&section(&collector));
    // Alone at first, so that it is known which instance is which.
    let mut first = instance(&config).await?;
    first.until_told(NAME, &anvil.tip().await?).await?;
    let alone = pay(&anvil, 1, ALICE, 5).await?;
    anvil.mine(1).await?;
    let trace = traced(&collector, &alone, "deposit.confirmed", 5).await?;
    let name = trace[0].instance.clone();
    ensure!(trace.iter().all(|taken| taken.instance == name), "{trace:#?}");
    let mut second = instance(&config).await?;

    customer.receiver().always(Behaviour::Hang);
    let paid = pay(&anvil, 2, ALICE, 5).await?;
    anvil.mine(1).await?;
    let trace_id = traced(&collector, &paid, "deposit.confirmed", 1).await?[0].span.trace_id.clone();
    let commit_of = |all: &[Taken]| all.iter().find(|one| one.is("commit") && one.span.trace_id == trace_id).cloned();
    collector.until("the commit", |all, _| commit_of(all).is_some()).await?;
    let committed_by = commit_of(&collector.spans()).context("it was there a moment ago")?.instance;
    let killed = if committed_by == name { &mut first } else { &mut second };
    killed.instance().kill()?;
    customer.receiver().behave();
    customer.until_at(CHAIN, &paid, 0, (1, true), SOON).await?;
    let delivered = |taken: &Taken| taken.says("confirmd.outcome") == "delivered";
    let of_event = |all: &[Taken], _: usize| all.iter().any(|one| delivered(one) && one.span.trace_id == trace_id);
    collector.until("the delivery", of_event).await?;
    let trace = of_trace(collector.spans(), &trace_id);
    ensure_one_tree(&trace)?;
    let by: BTreeSet<&str> = trace.iter().filter(|taken| delivered(taken)).map(|taken| taken.instance.as_str()).collect();
    ensure!(by.len() == 1 && !by.contains(committed_by.as_str()), "{trace:#?}");
    customer.ensure_sound()?;
    collector.ensure_sound()
}

async fn reverted() -> Result<()> {
    let collector = Collector::start().await?;
    let mut world = world(&collector, "default = 1").await?;
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    let first = traced(&collector, &paid, "deposit.confirmed", 5).await?;
    world.anvil.reorg(1, &[]).await?;
    world.anvil.mine(1).await?;
    world.until(&paid, 0, 2).await?;
    let second = traced(&collector, &paid, "deposit.reverted", 4).await?;
    ensure_one_tree(&second)?;
    let (before, after) = (the(&first, "deposit.confirmed")?, the(&second, "deposit.reverted")?);
    let [link] = after.span.links.as_slice() else { anyhow::bail!("{after:#?}") };
    ensure!(link.trace_id == before.span.trace_id && link.span_id == before.span.span_id, "{link:?}\n{before:#?}");
    ensure!(before.span.links.is_empty() && after.says("confirmd.sequence") == "2", "{before:#?}\n{after:#?}");
    ensure!(the(&second, "decide")?.says("confirmd.rule").contains("left the best chain"), "{second:#?}");
    ensure!(the(&second, "deliver")?.says("confirmd.outcome") == "delivered", "{second:#?}");
    collector.ensure_sound()?;
    world.service.terminate().await
}

const TROUBLE: &str = "traces can't be exported";

async fn down() -> Result<()> {
    let collector = Collector::start().await?;
    collector.down().await?;
    let mut world = world(&collector, "default = 1").await?;
    let mut paid = Vec::new();
    for from in 1..4 {
        paid.push(pay(&world.anvil, from, ALICE, 5).await?);
        world.mine(1).await?;
    }
    // Everything is delivered; meanwhile there is one line.
    world.service.instance().stderr()?.wait_for("the trouble", SOON, |line| line.contains(TROUBLE)).await?;
    collector.refuse(Some(503))?;
    collector.up().await?;
    collector.until("tries", |_, requests| requests >= 2).await?;
    paid.push(pay(&world.anvil, 4, BOB, 5).await?);
    world.mine(1).await?;
    let log = world.service.log();
    let of_traces = |line: &&str| line.contains(" WARN ") && (line.contains("traces") || line.contains("collector"));
    ensure!(log.matches(TROUBLE).count() == 1 && log.lines().filter(of_traces).count() == 1, "{log}");
    ensure!(collector.spans().is_empty());
    // What was kept arrives.
    collector.refuse(None)?;
    for tx in &paid {
        let trace = traced(&collector, tx, "deposit.confirmed", 5).await?;
        ensure!(trace.len() == 5, "{trace:#?}");
    }
    world.service.instance().stderr()?.wait_for("the end of it", SOON, |line| line.contains("exported again")).await?;
    // Gone for good: what is not taken at the end is lost, and the end does not wait for it.
    collector.down().await?;
    pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    world.service.terminate().await?;
    let lost = |line: &str| line.contains("did not take everything before the end");
    world.service.instance().stderr()?.wait_for("the loss", SOON, lost).await?;
    ensure!(world.service.log().matches(TROUBLE).count() == 2, "{}", world.service.log());
    collector.ensure_sound()?;
    world.ensure_books_match().await
}

async fn reloaded() -> Result<()> {
    let collector = Collector::start().await?;
    let mut world = World::start("default = 1", 8).await?;
    let config =
        |world: &World| Config::new().chain(chain(&world.anvil, &world.token, "default = 1", 8)).sink(ledger(&world.customer));
    let untraced = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    ensure!(world.customer.receiver().requests().iter().all(|request| !request.headers.contains_key("traceparent")));

    let folder = e2e::scratch_dir()?;
    let file = folder.path().join("token");
    std::fs::write(&file, "Bearer first")?;
    let text =
        format!("{}service_name = \"deposits\"\nheaders = {{ authorization = {{ file = {file:?} }} }}\n", section(&collector));
    world.service.configure(&config(&world).text(&text))?;
    let told = world.service.command(&["reload"]).await?;
    ensure!(told == "telemetry: added\n", "{told}");
    let first = pay(&world.anvil, 2, ALICE, 5).await?;
    world.mine(1).await?;
    let trace = traced(&collector, &first, "deposit.confirmed", 5).await?;
    ensure!(trace.iter().all(|taken| taken.service == "deposits"), "{trace:#?}");
    ensure!(collector.tokens().iter().all(|token| token.as_deref() == Some("Bearer first")), "{:?}", collector.tokens());

    std::fs::write(&file, "Bearer second")?;
    let told = world.service.command(&["reload"]).await?;
    ensure!(told == "telemetry: changed\n", "{told}");
    let second = pay(&world.anvil, 3, ALICE, 5).await?;
    world.mine(1).await?;
    traced(&collector, &second, "deposit.confirmed", 5).await?;
    // One that it does not take is said, and nothing else suffers.
    collector.refuse(Some(401))?;
    pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    let refuses = |line: &str| line.contains("the collector refuses traces") && line.contains("401");
    world.service.instance().stderr()?.wait_for("the refusal", SOON, refuses).await?;
    collector.refuse(None)?;
    ensure!(collector.tokens().last().and_then(Option::as_deref) == Some("Bearer second"), "{:?}", collector.tokens());

    let broken = text.replace("http://", "grpc://");
    world.service.configure(&config(&world).text(&broken))?;
    let (code, _, stderr) = world.service.attempt(&["reload"]).await?;
    ensure!(code == Some(1) && stderr.contains("telemetry.otlp"), "{code:?} {stderr}");
    world.service.configure(&config(&world))?;
    let told = world.service.command(&["reload"]).await?;
    ensure!(told == "telemetry: removed\n", "{told}");
    let requests = collector.tokens().len();
    let last = pay(&world.anvil, 4, ALICE, 5).await?;
    world.mine(1).await?;
    world.service.terminate().await?;
    ensure!(collector.tokens().len() == requests);
    let spans = collector.spans();
    for tx in [&untraced, &last] {
        ensure!(named(&spans, tx, "deposit.confirmed").is_empty() && named(&spans, tx, "block").is_empty(), "{spans:#?}");
    }
    let seen = format!("{}{}", world.service.log(), format_args!("{spans:?}"));
    ensure!(!seen.contains("Bearer"), "a token is shown: {seen}");
    collector.ensure_sound()?;
    world.ensure_books_match().await
}
