//! The instance runner, shown on a program whose behaviour is known.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Instance, node_trial};
use libtest_mimic::Trial;

const SOON: Duration = Duration::from_secs(20);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        node_trial("instance::lines_are_seen_as_they_come_and_kept_after_a_kill", &[], lines),
        node_trial("instance::a_program_that_ends_without_the_line_fails_at_once", &[], ends_early),
        node_trial("instance::a_program_is_terminated_and_started_again_in_its_folder", &[], terminated),
    ]
}

fn shell(config: &str) -> Result<Instance> {
    let config = config.to_owned();
    Instance::of_program(Path::new("/bin/sh"), move |_| config)
}

async fn lines() -> Result<()> {
    let mut instance = shell("greeting")?;
    instance.env("GREETED", "world");
    instance.start(&["-c", "echo $(cat confirmd.toml) $GREETED; echo oops >&2; exec sleep 1000"])?;
    let line = instance.stdout()?.wait_for("the greeting", SOON, |line| line.contains("greet")).await?;
    ensure!(line == "greeting world");
    instance.stderr()?.wait_for("the complaint", SOON, |line| line == "oops").await?;
    ensure!(instance.start(&["-c", "true"]).is_err(), "started twice");
    let pid = instance.pid()?;
    ensure!(!instance.kill()?.success());
    ensure!(!Path::new(&format!("/proc/{pid}")).exists());
    ensure!(instance.stdout()?.until_end(SOON).await? == ["greeting world"]);
    Ok(())
}

async fn ends_early() -> Result<()> {
    let mut instance = shell("")?;
    instance.start(&["-c", "echo one; echo two"])?;
    let missing = instance.stdout()?.wait_for("a third line", SOON, |line| line == "three").await;
    ensure!(format!("{:#}", missing.unwrap_err()).contains("one\ntwo"));
    instance.stdout()?.wait_for("the last line", SOON, |line| line == "two").await?;
    ensure!(instance.wait(SOON).await?.success());
    let output = instance.command(&["-c", "echo aside; exit 3"]).await?;
    ensure!(output.status.code() == Some(3) && output.stdout == b"aside\n");
    Ok(())
}

async fn terminated() -> Result<()> {
    let mut instance = shell("")?;
    let script = "trap 'echo bye; exit 7' TERM; echo >>starts; echo ready $(wc -l <starts); while :; do sleep 0.01; done";
    for start in 1..=2 {
        instance.start(&["-c", script])?;
        instance.stdout()?.wait_for("ready", SOON, |line| line == format!("ready {start}")).await?;
        ensure!(instance.terminate(SOON).await?.code() == Some(7));
        ensure!(instance.stdout()?.until_end(SOON).await?.last().is_some_and(|line| line == "bye"));
    }
    Ok(())
}
