//! Mistake in a filter, and its position.

use crate::error::Error;

/// Characters of the filter that a message shows from the mistake on.
const SHOWN_MAX: usize = 30;

/// Mistake in a filter.
#[derive(Debug)]
pub(super) struct Mistake {
    /// Its first byte.
    pub(super) at: usize,
    pub(super) problem: String,
}

impl Mistake {
    /// The error of the filter `text`.
    pub(super) fn in_filter(self, text: &str) -> Error {
        let before = text.get(..self.at).unwrap_or(text);
        let rest = &text[before.len()..];
        let found = match rest.chars().next() {
            None => "at its end".to_owned(),
            Some(_) => {
                let shown: String = rest.chars().take(SHOWN_MAX).collect();
                format!("at character {}, before `{shown}`", before.chars().count() + 1)
            }
        };
        Error::config(format!("the filter has a mistake {found}: {}", self.problem))
    }
}
