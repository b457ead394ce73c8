//! The suite's first level: a scripted chain behind a node that is made of nothing but its faults. It checks the kit itself,
//! and is the smallest example of a harness.

mod harness;
mod node;
mod source;

use super::{Ability, SourceHarness, SourceLab};
use crate::ScriptedChain;
use crate::conform::Broken;
use async_trait::async_trait;
use confirmd_core::ChainSource;
use harness::ScriptedHarness;
use std::fmt;
use std::sync::Arc;

/// Puts something around the honest source: a mistake, say. The chain below is the whole truth, decoys included.
pub type Wrap = fn(ScriptedChain, Arc<dyn ChainSource>) -> Arc<dyn ChainSource>;

/// Starts scripted chains.
#[derive(Clone, Copy)]
pub struct ScriptedLab {
    wrap: Wrap,
}

impl fmt::Debug for ScriptedLab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedLab").finish_non_exhaustive()
    }
}

impl ScriptedLab {
    /// What the endpoint's URL carries, and a source must not show.
    pub const SECRET: &'static str = "5ecret-0f-the-script";

    /// With a source that keeps every rule.
    pub fn honest() -> Self {
        Self::wrapped(|_, honest| honest)
    }

    /// With something around that source.
    pub fn wrapped(wrap: Wrap) -> Self {
        Self { wrap }
    }
}

#[async_trait]
impl SourceLab for ScriptedLab {
    fn cannot(&self, _: Ability) -> Option<&'static str> {
        None
    }

    async fn start(&self) -> Result<Box<dyn SourceHarness>, Broken> {
        Ok(Box::new(ScriptedHarness::new(self.wrap)))
    }
}
