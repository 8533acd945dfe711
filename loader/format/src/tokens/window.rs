//! Windows of tokens: samples with an equal number of tokens.

use serde::{Deserialize, Serialize};

/// Windows over consecutive tokens. The tokens after the last whole window are in no sample.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenWindow {
    /// Tokens of a window, at least 1.
    pub tokens: u32,
    /// Tokens from the start of a window to the start of the next one, at least 1. Fewer than `tokens`: they overlap.
    pub stride: u32,
}

impl TokenWindow {
    /// Number of windows over `tokens` tokens.
    pub fn count(self, tokens: u64) -> u64 {
        let rest = tokens.checked_sub(u64::from(self.tokens));
        rest.map_or(0, |rest| rest / u64::from(self.stride.max(1)) + 1)
    }

    /// Number of tokens from the start of the first of `windows` windows to the end of the last.
    pub fn span(self, windows: u64) -> u64 {
        let starts = windows.saturating_sub(1).saturating_mul(self.stride.into());
        if windows == 0 { 0 } else { starts.saturating_add(self.tokens.into()) }
    }
}
