//! `confirmd reload`

use super::print;
use confirmd_api::Operator;

pub(super) async fn run(operator: &dyn Operator, json: bool) -> anyhow::Result<()> {
    let reloaded = operator.reload().await?;
    if json {
        return print::json(&reloaded);
    }
    if reloaded.parts.is_empty() {
        print::line("the configuration is as it was; nothing was changed");
    }
    for part in &reloaded.parts {
        print::line(&format!("{}: {}", part.key, part.change.as_str()));
    }
    Ok(())
}
