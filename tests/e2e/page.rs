//! The page in a real browser: what an operator sees and does at night.

use anyhow::{Context, Result, ensure};
use confirmd_testkit::alloy::primitives::{Address, U256};
use confirmd_testkit::receiver::Behaviour;
use confirmd_testkit::{EvmOptions, FakeEvm, Remine};
use e2e::{
    Browser, BrowserOptions, ChainSection, Config, Customer, Needs, SOON, Service, SinkSection, node_trial, workspace_root,
};
use libtest_mimic::Trial;
use serde_json::Value;

const CHAIN: &str = "eip155:31337";
const NAME: &str = "devnet";
const ALICE: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const BOB: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
/// Watched under a reference that wants to be markup, and turns text around.
const MALLORY: &str = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB";
/// As it stands in a TOML string.
const HOSTILE: &str = r#"<script>window.taken=1</script>\"'><img src=x onerror=window.taken=1> \u202Egnp.exe"#;
const WEI: u128 = 250_000_000_000_000_000;
const TAB: char = '\u{E004}';
const ENTER: char = '\u{E007}';
const SPACE: char = '\u{E00D}';
/// Set to write docs/images anew.
const WRITE: &str = "CONFIRMD_WRITE_SCREENSHOTS";
/// What the README shows.
const SHOWN: [&str; 4] = ["deposit", "halted", "dead-letters", "phone-dark"];

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Browser];
    vec![
        node_trial("page::a_wrong_url_is_mended_and_everything_that_failed_is_requeued_and_arrives", needs, mended),
        node_trial("page::a_halted_chain_is_resumed_after_a_preview_by_naming_its_reorg", needs, resumed),
        node_trial(
            "page::a_search_finds_a_deposit_by_its_reference_and_shows_its_life_whatever_the_reference_holds",
            needs,
            searched,
        ),
        node_trial("page::no_page_scrolls_sideways_on_a_phone_and_text_stands_out_in_both_schemes", needs, phone),
        node_trial("page::everything_can_be_read_and_ordered_without_javascript", needs, without_scripts),
        node_trial("page::requeueing_is_reached_and_pressed_by_keyboard_alone", needs, by_keyboard),
        node_trial("page::a_token_signs_in_and_one_that_may_only_read_sees_no_buttons", needs, signed_in),
    ]
}

/// A chain in the trial's own process, a customer, confirmd.
struct World {
    node: FakeEvm,
    customer: Customer,
    service: Service,
}

fn section(node: &FakeEvm) -> ChainSection {
    ChainSection::evm(NAME, 31_337, &node.url())
        .confirmations("default = 2")
        .reorg_depth(4)
        .line("fork_grace = \"10ms\"")
        .watch(ALICE, "customer-42")
        .watch(BOB, "customer-7")
        .watch(MALLORY, HOSTILE)
}

fn config(node: &FakeEvm, url: &str) -> Config {
    Config::new().chain(section(node)).sink(SinkSection::webhook("ledger", url).retry(&["20ms"]))
}

impl World {
    /// Stands at the tip.
    async fn start() -> Result<Self> {
        let node = FakeEvm::start(EvmOptions { chain_id: 31_337, ..EvmOptions::default() }).await?;
        node.mine(8);
        let customer = Customer::start().await?;
        let service = Service::start(&config(&node, &customer.url())).await?;
        let world = Self { node, customer, service };
        world.service.until_chain(NAME, "at the tip", |chain| chain["phase"] == "following").await?;
        Ok(world)
    }

    fn pay(&self, to: &str, wei: u128) -> Result<String> {
        let from: Address = "0x00000000000000000000000000000000000000aa".parse()?;
        Ok(self.node.transfer_native(from, to.parse()?, U256::from(wei)).to_string())
    }

    /// Five deposits that the customer answered with 502 until they were dead.
    async fn with_dead_letters() -> Result<Self> {
        let world = Self::start().await?;
        world.customer.receiver().always(Behaviour::Status(502));
        for number in 1..=5 {
            world.pay(if number % 2 == 0 { ALICE } else { BOB }, WEI * number)?;
        }
        world.node.mine(2);
        world.service.until_consumer("ledger", "five dead letters", |consumer| consumer["dead"] == 5).await?;
        Ok(world)
    }

    /// Halted by a reorg below the floor, which takes a settled and a reported deposit away; the reported one.
    async fn halted() -> Result<(Self, String)> {
        let world = Self::start().await?;
        let settled = world.pay(BOB, WEI * 3)?;
        world.node.mine(4);
        let reported = world.pay(ALICE, WEI)?;
        world.node.mine(2);
        for paid in [&settled, &reported] {
            world.customer.until_at(CHAIN, paid, 0, (1, true), SOON).await?;
        }
        world.node.fork(6, Remine::Drop);
        world.service.until_chain(NAME, "halted", |chain| chain["phase"] == "halted").await?;
        Ok((world, reported))
    }

    /// The address of a page.
    fn at(&self, path: &str) -> Result<String> {
        at(&self.service, path)
    }
}

fn at(service: &Service, path: &str) -> Result<String> {
    let file = std::fs::read_to_string(service.instance_dir().join("state/api-address"))?;
    Ok(format!("http://{}{path}", file.lines().next().context("no address")?))
}

/// Keeps what is seen for the documents, where that was asked for.
async fn keep(browser: &Browser, name: &str) -> Result<()> {
    if SHOWN.contains(&name) && std::env::var_os(WRITE).is_some() {
        let picture = browser.screenshot().await?;
        std::fs::write(workspace_root().join("docs/images").join(format!("{name}.png")), picture)?;
    }
    Ok(())
}

/// Nothing was blocked and no script failed.
async fn ensure_quiet(browser: &Browser) -> Result<()> {
    let complaints = browser.complaints().await?;
    ensure!(complaints.is_empty(), "the browser complains: {complaints:#?}");
    Ok(())
}

async fn mended() -> Result<()> {
    let mut world = World::with_dead_letters().await?;
    let browser = Browser::start(BrowserOptions::default()).await?;
    browser.open(&world.at("/")?).await?;
    browser.until_shown("A person is needed.").await?;
    browser.until_shown("ledger has 5 dead letters").await?;
    keep(&browser, "overview").await?;
    browser.press("Deliveries").await?;
    browser.until_shown("ledger: 5 deliveries").await?;
    ensure!(browser.text("#dead ~ .card h3").await?.contains("all 502"), "{}", browser.text("main").await?);
    keep(&browser, "dead-letters").await?;

    // The URL was wrong: the operator corrects it and starts confirmd again. A page left open would complain of that rightly.
    ensure_quiet(&browser).await?;
    browser.open("about:blank").await?;
    let right = Customer::start().await?;
    world.service.terminate().await?;
    world.service.configure(&config(&world.node, &right.url()))?;
    world.service.run().await?;
    browser.open(&world.at("/deliveries?consumer=ledger")?).await?;
    browser.press("Requeue all 5 of ledger").await?;
    browser.until_shown("5 deliveries were queued again.").await?;
    right.until("five deposits", SOON, |ledger, _| ledger.rows().len() == 5).await?;
    // The page learns of it by itself.
    browser.until_shown("Everything is delivered.").await?;
    browser.until_shown("None. Every event is delivered or still being tried.").await?;
    right.ensure_once()?;
    browser.press("Overview").await?;
    browser.until_shown("All is well.").await?;
    browser.until_drawn(".card .plot.blue path.line").await?;
    ensure_quiet(&browser).await?;
    world.service.terminate().await
}

async fn resumed() -> Result<()> {
    let (mut world, reverted) = World::halted().await?;
    let browser = Browser::start(BrowserOptions::default()).await?;
    browser.open(&world.at("/")?).await?;
    browser.until_shown("below the floor").await?;
    keep(&browser, "halted").await?;
    browser.press(&format!("Resume {NAME}…")).await?;
    browser.until_shown("This is a preview; nothing has changed yet.").await?;
    let status = world.service.chain(NAME).await?;
    let seen = status["halt"]["reorg"]["hash"].as_str().context("the halt names no block")?.to_owned();
    ensure!(browser.text("main").await?.contains(&seen), "the reorg's block is not named: {}", browser.text("main").await?);
    keep(&browser, "resume").await?;
    // Without the acknowledgement nothing is sent.
    browser.press(&format!("Accept this reorg and resume {NAME}")).await?;
    ensure!(browser.address().await?.ends_with("/resume"), "it was sent without an acknowledgement");
    ensure!(world.service.chain(NAME).await?["phase"] == "halted");
    browser.click("input[name=accept]").await?;
    browser.press(&format!("Accept this reorg and resume {NAME}")).await?;
    browser.until_shown("It goes on.").await?;
    browser.until_shown("following").await?;
    world.customer.until_at(CHAIN, &reverted, 0, (2, false), SOON).await?;
    browser.until_drawn("#chain .plot.red rect.bar").await?;
    keep(&browser, "chain").await?;
    // There is nothing to resume any more, and the page says so.
    browser.open(&world.at(&format!("/chains/{NAME}/resume"))?).await?;
    browser.until_shown("is not halted").await?;
    world.service.terminate().await
}

async fn searched() -> Result<()> {
    let mut world = World::start().await?;
    let (tx, evil) = (world.pay(ALICE, WEI)?, world.pay(MALLORY, 1)?);
    world.pay(BOB, WEI * 3)?;
    world.node.mine(1);
    world.service.until_chain(NAME, "three seen", |chain| chain["pending"] == 3).await?;
    world.node.mine(6);
    for paid in [&tx, &evil] {
        world.customer.until_at(CHAIN, paid, 0, (1, true), SOON).await?;
    }
    let browser = Browser::start(BrowserOptions::default()).await?;
    browser.open(&world.at("/deposits")?).await?;
    browser.until_shown("customer-7").await?;
    keep(&browser, "deposits").await?;
    browser.fill("#q", "customer-42\n").await?;
    browser.until_gone("customer-7").await?;
    ensure!(browser.text("tbody").await?.contains("0.25 ETH"), "{}", browser.text("main").await?);
    browser.click("tbody a").await?;
    browser.until_shown(&tx).await?;
    let life = browser.text(".timeline").await?;
    ensure!(["seen", "confirmed", "the rule asks for 2", "sequence 1"].iter().all(|word| life.contains(word)), "{life}");
    keep(&browser, "deposit").await?;
    // By address, by transaction, by key.
    for sought in [ALICE.to_owned(), tx.clone(), format!("{tx}:0")] {
        browser.open(&world.at("/deposits")?).await?;
        browser.fill("#q", &format!("{sought}\n")).await?;
        browser.until_shown("0.25 ETH").await?;
        browser.until_gone("0.75 ETH").await?;
    }
    browser.open(&world.at("/deposits?q=nobody")?).await?;
    browser.until_shown("Why did a transaction produce nothing?").await?;

    // What others wrote stays text, and does not turn the line around.
    for path in
        ["/deposits".to_owned(), "/addresses".into(), format!("/deposits/{NAME}/{evil}/0"), "/deposits?q=%3Cscript%3E".into()]
    {
        browser.open(&world.at(&path)?).await?;
        if !path.contains('?') {
            browser.until_shown("<script>window.taken=1</script>\"'><img").await?;
            browser.until_shown("U+202E").await?;
        }
        ensure!(browser.run("return window.taken === undefined").await? == true, "{path} ran what it was told");
        ensure!(!browser.has("main img, main script").await?, "{path} holds markup of others");
    }
    ensure_quiet(&browser).await?;
    world.service.terminate().await
}

/// Pages as they are looked at on a phone, with what is widest on each.
fn pages(dead: &str, tx: &str) -> Vec<String> {
    let mut paths: Vec<String> = ["/", "/deposits", "/deposits?q=nobody", "/deliveries", "/addresses"].map(str::to_owned).into();
    paths.extend([format!("/chains/{NAME}"), format!("/deposits/{NAME}/{tx}/0"), format!("/deliveries/{dead}")]);
    paths
}

async fn dead_one(world: &World) -> Result<Value> {
    let dead = world.service.get("/v1/deliveries?state=dead&limit=1").await?.1;
    Ok(dead["items"][0].clone())
}

/// What lies outside of the page's width.
const WIDE: &str = "const width = document.documentElement.clientWidth; \
    if (document.documentElement.scrollWidth <= width) return ''; \
    return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > width + 1).map(e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 60)).join('\\n') || 'something';";

/// Texts whose contrast with their ground is below 4.5 (3 for large ones).
const FAINT: &str = include_str!("page/contrast.js");

async fn phone() -> Result<()> {
    let mut world = World::with_dead_letters().await?;
    let dead = dead_one(&world).await?;
    let (event, tx) = (dead["event"].as_str().context("no event")?, dead["tx_id"].as_str().context("no transaction")?);
    let browser = Browser::start(BrowserOptions { size: (360, 740), ..BrowserOptions::default() }).await?;
    for dark in [false, true] {
        browser.prefer_dark(dark).await?;
        for path in pages(event, tx) {
            browser.open(&world.at(&path)?).await?;
            let width = browser.run("return document.documentElement.clientWidth").await?;
            ensure!(width == 360, "the window is {width} wide");
            let wide = browser.run(WIDE).await?;
            ensure!(wide == "", "{path} scrolls sideways:\n{wide}");
            let faint = browser.run(FAINT).await?;
            ensure!(faint == "", "{path} (dark: {dark}) has faint text:\n{faint}");
        }
        browser.open(&world.at("/")?).await?;
        browser.until_shown("5 dead letters").await?;
        keep(&browser, if dark { "phone-dark" } else { "phone" }).await?;
    }
    ensure_quiet(&browser).await?;
    world.service.terminate().await
}

async fn without_scripts() -> Result<()> {
    let mut world = World::with_dead_letters().await?;
    let browser = Browser::start(BrowserOptions { javascript: false, ..BrowserOptions::default() }).await?;
    browser.open(&world.at("/")?).await?;
    for shown in ["A person is needed.", "5 dead letters", "following", "reload for newer figures"] {
        browser.until_shown(shown).await?;
    }
    ensure!(!browser.has("html.js").await?, "scripts ran");
    browser.press("Deposits").await?;
    browser.until_shown("customer-42").await?;
    browser.press("Addresses").await?;
    browser.until_shown(ALICE).await?;
    browser.press("Deliveries").await?;
    browser.until_shown("all 502").await?;
    world.customer.receiver().behave();
    browser.press("Requeue these 5").await?;
    browser.until_shown("5 deliveries were queued again.").await?;
    world.customer.until("five deposits", SOON, |ledger, _| ledger.rows().len() == 5).await?;
    world.service.terminate().await
}

/// Goes on with Tab until what has the focus is named so; what has it must be seen to.
async fn tab_to(browser: &Browser, name: &str) -> Result<()> {
    const FOCUSED: &str = "const it = document.activeElement, style = getComputedStyle(it); \
        return [it.getAttribute('aria-label') || it.textContent.trim(), it === document.body || (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2)];";
    for _ in 0..60 {
        browser.key(TAB).await?;
        let focused = browser.run(FOCUSED).await?;
        ensure!(focused[1] == true, "the focus on {} is not visible", focused[0]);
        if focused[0].as_str().is_some_and(|text| text == name) {
            return Ok(());
        }
    }
    anyhow::bail!("Tab never reaches {name:?}: {}", browser.text("main").await?)
}

async fn by_keyboard() -> Result<()> {
    let mut world = World::with_dead_letters().await?;
    let dead = dead_one(&world).await?;
    let event = dead["event"].as_str().context("no event")?;
    let browser = Browser::start(BrowserOptions::default()).await?;
    browser.open(&world.at("/")?).await?;
    browser.key(TAB).await?;
    ensure!(browser.run("return document.activeElement.textContent").await? == "To the content");
    tab_to(&browser, "Deliveries").await?;
    browser.key(ENTER).await?;
    browser.until_shown("all 502").await?;
    world.customer.receiver().behave();
    // One of the list.
    tab_to(&browser, &format!("Requeue {event} for ledger")).await?;
    browser.key(ENTER).await?;
    browser.until_shown("1 delivery was queued again.").await?;
    world.customer.until("one deposit", SOON, |ledger, _| ledger.rows().len() == 1).await?;
    browser.until_shown("ledger: 4 deliveries").await?;
    // A selection: all of the page by one box.
    tab_to(&browser, "Select all of this page").await?;
    browser.key(SPACE).await?;
    tab_to(&browser, "Requeue the selected ones").await?;
    browser.key(ENTER).await?;
    browser.until_shown("4 deliveries were queued again.").await?;
    world.customer.until("five deposits", SOON, |ledger, _| ledger.rows().len() == 5).await?;
    world.customer.ensure_once()?;
    ensure_quiet(&browser).await?;
    world.service.terminate().await
}

async fn signed_in() -> Result<()> {
    let node = FakeEvm::start(EvmOptions { chain_id: 31_337, ..EvmOptions::default() }).await?;
    node.mine(8);
    let customer = Customer::start().await?;
    let config = config(&node, &customer.url());
    let mut service = Service::new(&config)?;
    let tokens = "[api]\nadmin_token = { env = \"PAGE_ADMIN\" }\nread_token = { env = \"PAGE_READ\" }\n";
    service.instance().configure(|folder| config.render(folder).replace("[api]\n", tokens))?;
    service.instance().env("PAGE_ADMIN", "a".repeat(32)).env("PAGE_READ", "r".repeat(32));
    service.run().await?;

    let browser = Browser::start(BrowserOptions::default()).await?;
    browser.open(&at(&service, "/addresses?chain=devnet")?).await?;
    browser.until_shown("Token").await?;
    browser.fill("#token", "wrong-wrong-wrong-wrong\n").await?;
    browser.until_shown("This token is not one of this instance.").await?;
    browser.fill("#token", &format!("{}\n", "r".repeat(32))).await?;
    // Signed in, where it was to go.
    browser.until_shown(ALICE).await?;
    ensure!(browser.run("return document.cookie").await? == "", "a script can read the session");
    browser.until_shown("read only").await?;
    for path in ["/", "/deliveries?consumer=ledger", "/addresses", "/chains/devnet"] {
        browser.open(&at(&service, path)?).await?;
        browser.until_shown("Sign out").await?;
        ensure!(
            !browser.has("form[method=post]:not([action='/logout'])").await?,
            "{path} has an order for whoever may only read"
        );
    }
    browser.press("Sign out").await?;
    browser.until_shown("Token").await?;
    browser.fill("#token", &format!("{}\n", "a".repeat(32))).await?;
    browser.until_shown("Pause ledger").await?;
    browser.fill("input[name=why]", "migration").await?;
    browser.press("Pause ledger").await?;
    browser.until_shown("Paused: migration").await?;
    browser.press("Resume ledger").await?;
    browser.until_gone("Paused: migration").await?;
    // Addresses come and go.
    browser.press("Addresses").await?;
    browser.press("Watch further addresses").await?;
    browser.fill("#entries", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb, customer-8").await?;
    browser.press("Watch").await?;
    browser.until_shown("Watched, from height").await?;
    browser.press("Remove 0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb").await?;
    browser.until_shown("1 address takes no new deposits").await?;
    service.terminate().await
}
