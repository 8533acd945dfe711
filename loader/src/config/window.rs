//! Windows of tokens, which are the samples of files of token ids instead of documents, or packs of documents, or
//! batches by their tokens.

use super::limits::require;
use super::options::{OptionInfo, options};
use super::pack::PackConfig;
use super::token_batch::TokenBatch;
use crate::error::Result;
use crate::format::tokens;
use crate::order;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;

options! {
    /// Windows of tokens. A JSON document may have only the number of tokens.
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

/// Rows of a batch that are not `batch_size` documents: windows of tokens, packs, or as many rows as a limit of tokens
/// has room for. A JSON document has the options of one of them.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum LoaderWindow {
    /// Windows of tokens.
    Tokens(TokenWindow),
    /// Packs of documents.
    Pack(PackConfig),
    /// Batches under a limit of tokens.
    TokenBatch(TokenBatch),
}

/// Options of batches that are planned by the tokens of documents.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PackOptions<'a> {
    /// Packs of documents.
    Packs(&'a PackConfig),
    /// Batches under a limit of tokens.
    TokenBatches(&'a TokenBatch),
}

impl<'a> PackOptions<'a> {
    /// Numbers of tokens, as in `weights`.
    pub(crate) fn lengths(self) -> Option<&'a str> {
        match self {
            Self::Packs(pack) => pack.lengths.as_deref(),
            Self::TokenBatches(batch) => batch.lengths.as_deref(),
        }
    }

    /// Returns the arguments of the plan.
    ///
    /// # Errors
    ///
    /// `Config` for unknown methods.
    pub(crate) fn arguments(self) -> Result<order::PackConfig> {
        match self {
            Self::Packs(pack) => pack.packing(),
            Self::TokenBatches(batch) => batch.batching(),
        }
    }
}

impl LoaderWindow {
    pub(super) fn validate(&self) -> Result<()> {
        match self {
            Self::Tokens(window) => window.validate(),
            Self::Pack(pack) => pack.validate(),
            Self::TokenBatch(batch) => batch.validate(),
        }
    }
}

impl From<TokenWindow> for LoaderWindow {
    fn from(window: TokenWindow) -> Self {
        Self::Tokens(window)
    }
}

/// Windows that a JSON document has as a number of tokens or as an object.
pub(super) trait FromDocument: From<TokenWindow> {
    /// The forms, for errors.
    const FORMS: &'static str;

    /// Reads an object.
    fn of_object<'de, A: MapAccess<'de>>(map: A) -> Result<Self, A::Error>;
}

impl FromDocument for TokenWindow {
    const FORMS: &'static str = "a number of tokens, or an object such as {\"tokens\": 2048, \"stride\": 1024}";

    fn of_object<'de, A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(map))
    }
}

impl FromDocument for LoaderWindow {
    const FORMS: &'static str = "a number of tokens, or an object such as {\"tokens\": 2048, \"stride\": 1024}, \
                                 {\"length\": 4096} or {\"max_tokens\": 16384}";

    fn of_object<'de, A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        let has = |options: &[OptionInfo], name: &str| options.iter().any(|option| option.name == name);
        let mut map = Begun { read: VecDeque::new(), next: None, map };
        // Packs and batches share some options: their values are kept until a further one shows what the object is.
        while let Some(name) = map.map.next_key::<String>()? {
            let is_of = (has(PackConfig::OPTIONS, &name), has(TokenBatch::OPTIONS, &name));
            if is_of == (true, true) {
                let value = map.map.next_value()?;
                map.read.push_back((name, value));
                continue;
            }
            map.next = Some(name);
            let from = MapAccessDeserializer::new(map);
            return match is_of {
                (true, _) => PackConfig::deserialize(from).map(Self::Pack),
                (_, true) => TokenBatch::deserialize(from).map(Self::TokenBatch),
                _ => TokenWindow::deserialize(from).map(Self::Tokens),
            };
        }
        if map.read.is_empty() {
            TokenWindow::of_object(map).map(Self::Tokens)
        } else {
            PackConfig::deserialize(MapAccessDeserializer::new(map)).map(Self::Pack)
        }
    }
}

/// Object with some options that were read already, and the name of the next one.
struct Begun<A> {
    read: VecDeque<(String, serde_json::Value)>,
    next: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Begun<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let read = self.read.front().map(|(name, _)| name.clone());
        let Some(name) = read.or_else(|| self.next.take()) else { return self.map.next_key_seed(seed) };
        let name: StringDeserializer<A::Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        let Some((name, value)) = self.read.pop_front() else { return self.map.next_value_seed(seed) };
        seed.deserialize(value).map_err(|e| serde::de::Error::custom(format_args!("{name}: {e}")))
    }
}

/// Windows as a number of tokens or as an object, or null.
pub(super) fn window_or_null<'de, W: FromDocument, D: Deserializer<'de>>(from: D) -> Result<Option<W>, D::Error> {
    struct WindowVisitor<W>(PhantomData<W>);
    impl<'de, W: FromDocument> Visitor<'de> for WindowVisitor<W> {
        type Value = Option<W>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(W::FORMS)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_u64<E: serde::de::Error>(self, tokens: u64) -> Result<Self::Value, E> {
            let tokens = u32::try_from(tokens).map_err(|_| E::invalid_value(Unexpected::Unsigned(tokens), &self))?;
            Ok(Some(TokenWindow::from(tokens).into()))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            W::of_object(map).map(Some)
        }
    }
    from.deserialize_any(WindowVisitor(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::LoaderWindow;
    use crate::config::{LoaderConfig, PackForm};

    #[test]
    fn a_window_of_the_loader_may_have_the_options_of_packs() {
        let window = |text: &str| LoaderConfig::from_json(&format!("{{\"window\": {text}}}")).map(|read| read.window);
        let text = "{\"form\": \"segments\", \"length\": 8, \"max_sequences\": 3}";
        let Some(LoaderWindow::Pack(pack)) = window(text).expect("packs") else { panic!("no packs") };
        assert_eq!((pack.length, pack.max_sequences, pack.form), (8, Some(3), PackForm::Segments));
        assert_eq!((&*pack.method, &*pack.overflow, pack.pad_sequences_to), ("best_fit", "split", 1));
        for (text, message) in [
            ("{\"length\": 8, \"overflo\": 4}", "window.overflo: unknown field `overflo`: did you mean `overflow`?"),
            ("{\"length\": -1}", "window.length: invalid value: integer `-1`"),
            ("{\"length\": 8, \"form\": \"flat\"}", "window.form: unknown variant `flat`"),
        ] {
            let e = window(text).expect_err(text).to_string();
            assert!(e.contains(message), "{text}: {e}");
        }
        let stream = LoaderConfig::from_json(r#"{"streams": [{"window": {"length": 8}}]}"#).expect_err("of the loader");
        assert!(stream.to_string().contains("as in {\"window\": {\"length\": ...}}"), "{stream}");
    }

    #[test]
    fn options_that_packs_and_token_batches_share_belong_to_either_in_any_sequence() {
        let window = |text: &str| LoaderConfig::from_json(&format!("{{\"window\": {text}}}")).map(|read| read.window);
        for text in [
            "{\"max_tokens\": 64, \"overflow\": \"drop\", \"pad\": 3}",
            "{\"overflow\": \"drop\", \"pad\": 3, \"max_tokens\": 64}",
        ] {
            let Some(LoaderWindow::TokenBatch(batch)) = window(text).expect(text) else { panic!("{text}") };
            assert_eq!((batch.max_tokens, &*batch.overflow, batch.pad, batch.max_length), (64, "drop", 3, None));
        }
        let Some(LoaderWindow::Pack(pack)) = window("{\"pad\": 3, \"length\": 8}").expect("packs") else { panic!() };
        assert_eq!((pack.length, pack.pad), (8, 3));
        assert!(matches!(window("{\"pad\": 3}").expect("packs"), Some(LoaderWindow::Pack(_))));
        let e = window("{\"pad\": \"x\", \"max_tokens\": 64}").expect_err("a text").to_string();
        assert!(e.contains("window: pad: invalid type"), "{e}");
        let e = window("{\"max_tokens\": 64, \"form\": \"thd\"}").expect_err("of packs").to_string();
        assert!(e.contains("unknown field `form`"), "{e}");
    }

    #[test]
    fn options_of_packs_out_of_range_are_rejected_by_name() {
        for (text, message) in [
            ("{\"max_tokens\": 0}", "window.max_tokens is required"),
            ("{\"max_tokens\": 8, \"max_length\": 9}", "window.max_length must be from"),
            (
                "{\"max_tokens\": 8, \"max_length\": 6, \"pad_to_multiple_of\": 4}",
                "window.max_length must be a multiple",
            ),
            ("{\"max_tokens\": 8, \"pad_to_multiple_of\": 9}", "window.pad_to_multiple_of must be"),
            ("{\"max_tokens\": 8, \"overflow\": \"wrap\"}", "window.overflow"),
            ("{\"max_tokens\": 8}", "batch_size must be 1"),
            ("{\"length\": 0}", "window.length is required"),
            ("{\"length\": 8, \"max_sequences\": 0}", "window.max_sequences must be"),
            ("{\"length\": 8, \"pad_sequences_to\": 0}", "window.pad_sequences_to must be"),
            ("{\"length\": 8, \"pad_sequences_to\": 2}", "has no padding"),
            ("{\"length\": 8, \"method\": \"first_fit\"}", "window.method"),
            ("{\"length\": 8, \"overflow\": \"wrap\"}", "window.overflow"),
            ("{\"length\": 8, \"proportion_unit\": \"bytes\"}", "window.proportion_unit"),
            ("{\"max_tokens\": 8, \"proportion_unit\": \"bytes\"}", "window.proportion_unit"),
            ("{\"length\": 1073741824}", "at most 2,147,483,647 tokens"),
        ] {
            let text = format!("{{\"window\": {text}, \"batch_size\": 2, \"streams\": [{{\"local\": \"data\"}}]}}");
            let e = LoaderConfig::from_json(&text).expect("well-formed").validate().expect_err(&text).to_string();
            assert!(e.contains(message), "{text}: {e}");
        }
    }

    #[test]
    fn a_window_is_a_number_an_object_or_null() {
        let window = |text: &str| LoaderConfig::from_json(&format!("{{\"window\": {text}}}")).map(|read| read.window);
        assert!(window("null").expect("null").is_none());
        let tokens = |text: &str| match window(text).expect(text) {
            Some(LoaderWindow::Tokens(window)) => (window.tokens, window.stride),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!((tokens("2048"), tokens("{\"tokens\": 8}")), ((2048, None), (8, None)));
        assert_eq!(tokens("{\"tokens\": 8, \"stride\": 4}"), (8, Some(4)));
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
