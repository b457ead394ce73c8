//! Mistakes in a configuration, with the place in the file.

use confirmd_core::ConfigError;
use std::fmt;
use std::path::PathBuf;

/// One mistake: which key, what is wrong and what to do, and the line if the key stands in the file.
#[derive(Debug)]
pub struct ConfigFault {
    /// From 1.
    pub line: Option<usize>,
    /// Key and problem.
    pub error: ConfigError,
}

/// Why a configuration can't be used.
#[derive(Debug)]
pub struct ConfigFaults {
    /// The file.
    pub file: PathBuf,
    /// At least one, in the order they were found.
    pub faults: Vec<ConfigFault>,
}

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}", self.file.display())?;
            if let Some(line) = fault.line {
                write!(f, ":{line}")?;
            }
            match fault.error.key.as_str() {
                "" | "." => write!(f, ": {}", fault.error.problem)?,
                key => write!(f, ": {key}: {}", fault.error.problem)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigFaults {}
