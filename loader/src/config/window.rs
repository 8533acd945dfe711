//! Windows of tokens, which are the samples of files of token ids instead of documents.

use super::limits::require;
use super::options::{OptionInfo, options};
use crate::error::Result;
use crate::format::tokens;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

options! {
    /// Windows of tokens. A JSON document may have the number of tokens alone.
    #[derive(Copy, PartialEq, Eq)]
    pub struct TokenWindow {
        /// Tokens of a sample.
        pub tokens: u32 = 0,
        /// Tokens from the start of a window to the start of the next one. None: `tokens`.
        pub stride: Option<u32> = None,
    }
}

impl TokenWindow {
    pub(super) fn validate(&self) -> Result<()> {
        require(self.tokens >= 1, "window.tokens is required and must be at least 1 token")?;
        require(self.stride != Some(0), "window.stride must be at least 1 token, or None for `tokens`")
    }
}

impl From<u32> for TokenWindow {
    fn from(tokens: u32) -> Self {
        Self { tokens, stride: None }
    }
}

impl From<TokenWindow> for tokens::TokenWindow {
    fn from(window: TokenWindow) -> Self {
        Self { tokens: window.tokens, stride: window.stride.unwrap_or(window.tokens) }
    }
}

/// Windows as a number of tokens or as an object, or null.
pub(super) fn window_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TokenWindow>, D::Error> {
    struct Window;
    impl<'de> Visitor<'de> for Window {
        type Value = Option<TokenWindow>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number of tokens, or an object such as {\"tokens\": 2048, \"stride\": 1024}")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_u64<E: serde::de::Error>(self, tokens: u64) -> Result<Self::Value, E> {
            let tokens = u32::try_from(tokens).map_err(|_| E::invalid_value(Unexpected::Unsigned(tokens), &self))?;
            Ok(Some(tokens.into()))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            TokenWindow::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    from.deserialize_any(Window)
}

#[cfg(test)]
mod tests {
    use crate::config::LoaderConfig;

    #[test]
    fn a_window_is_a_number_an_object_or_null() {
        let window = |text: &str| LoaderConfig::from_json(&format!("{{\"window\": {text}}}")).map(|read| read.window);
        assert_eq!(window("null").expect("null"), None);
        assert_eq!(window("2048").expect("a number"), Some(2048.into()));
        assert_eq!(window("{\"tokens\": 8}").expect("an object"), Some(8.into()));
        let with_stride = window("{\"tokens\": 8, \"stride\": 4}").expect("an object").expect("a window");
        assert_eq!((with_stride.tokens, with_stride.stride), (8, Some(4)));
        for (text, message) in [
            ("-1", "read: window: invalid type: integer `-1`, expected a number of tokens, or an object such as {"),
            ("5000000000", "read: window: invalid value: integer `5000000000`, expected a number of tokens"),
            ("[8, 4]", "read: window: invalid type: sequence, expected a number of tokens, or an object such as {"),
            ("{\"tokens\": 8, \"strid\": 4}", "window.strid: unknown field `strid`: did you mean `stride`?"),
        ] {
            let e = window(text).expect_err(text).to_string();
            assert!(e.contains(message), "{text}: {e}");
        }
    }
}
