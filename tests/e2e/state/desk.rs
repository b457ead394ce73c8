//! What an operator has at hand when a state is moved: files, folders, and the commands.

use anyhow::{Context, Result, ensure};
use e2e::{Config, Postgres, Service};
use std::path::{Path, PathBuf};

pub(super) const PASSWORD_ENV: &str = "CONFIRMD_E2E_POSTGRES_PASSWORD";

/// A configuration whose state is in PostgreSQL.
pub(super) fn in_postgres(config: Config, cluster: &Postgres) -> Config {
    let url = cluster.url(Postgres::SUPERUSER.0, "postgres");
    config.state(&format!("backend = \"postgres\"\nurl = \"{url}\"\npassword = {{ env = \"{PASSWORD_ENV}\" }}\nlease = \"3s\"\n"))
}

/// A place for an instance, without a state.
pub(super) fn place(config: &Config) -> Result<Service> {
    let mut service = Service::new(config)?;
    service.instance().env(PASSWORD_ENV, Postgres::SUPERUSER.1);
    Ok(service)
}

/// `state export` into a file of this name in the instance's folder.
pub(super) async fn export(service: &Service, name: &str) -> Result<PathBuf> {
    let file = service.instance_dir().join(name);
    let said = service.command(&["state", "export", text(&file)?]).await?;
    ensure!(said.contains("exported") && said.contains("1 chain"), "{said}");
    Ok(file)
}

/// `state import` of a file.
pub(super) async fn import(service: &Service, file: &Path, more: &[&str]) -> Result<()> {
    let args = [&["state", "import", text(file)?], more].concat();
    let said = service.command(&args).await?;
    ensure!(said.contains("imported 1 chain"), "{said}");
    Ok(())
}

/// An import that is refused, for these reasons, and leaves no state.
pub(super) async fn refused(service: &Service, file: &Path, more: &[&str], why: &[&str]) -> Result<()> {
    let args = [&["state", "import", text(file)?], more].concat();
    let (code, stdout, stderr) = service.attempt(&args).await?;
    ensure!(code == Some(1), "{args:?} ends with {code:?}\n{stdout}{stderr}");
    for part in ["nothing was imported"].iter().chain(why) {
        ensure!(stderr.contains(part), "{part:?} is not in {stderr}");
    }
    let (code, stdout, stderr) = service.attempt(&["status"]).await?;
    ensure!(code == Some(1) && stderr.contains("--init"), "there is a state: {stdout}{stderr}");
    Ok(())
}

/// `state verify` finds nothing.
pub(super) async fn verify(service: &Service) -> Result<()> {
    let said = service.command(&["state", "verify"]).await?;
    ensure!(said.contains("nothing is wrong"), "{said}");
    Ok(())
}

/// Both dumps say the same behind their heads.
pub(super) fn same(one: &Path, other: &Path) -> Result<()> {
    let (one, other) = (lines(one)?, lines(other)?);
    let differ = one.iter().zip(&other).skip(1).find(|(one, other)| one != other);
    ensure!(differ.is_none(), "the dumps differ: {differ:#?}");
    ensure!(one.len() == other.len() && one.len() > 10, "{} lines and {}", one.len(), other.len());
    Ok(())
}

pub(super) fn lines(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// What a dump's head says of the instance.
pub(super) fn running(file: &Path) -> Result<bool> {
    let head: serde_json::Value = serde_json::from_str(lines(file)?.first().context("no head")?)?;
    head["confirmd_state"]["running"].as_bool().context("the head says nothing of an instance")
}

/// How many records of a kind there are.
pub(super) fn count(file: &Path, kind: &str) -> Result<usize> {
    let begin = format!("{{\"{kind}\":");
    Ok(lines(file)?.iter().filter(|line| line.starts_with(&begin)).count())
}

pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
