//! Templates of chats, with the meaning that they have in `transformers`.

use std::fmt;
use std::ops::Range;

use forebay_core::error::{Error, Result};
use forebay_core::sync::OnceLock;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, Output, State};

use super::blocks;
use super::conversation::Conversation;
use super::date::Date;
use super::methods;
use super::nesting;
use super::python::{JsonStyle, json_of, text_of};

/// Name of the one template of an environment.
const NAME: &str = "chat";

/// Fuel for a conversation of at most `FUEL_BYTES` bytes; a longer one has as much for each such part. A template needs
/// some hundreds for a message, and one for each 64 bytes that it copies.
const FUEL: u64 = 2_000_000;
const FUEL_BYTES: usize = 64 << 10;

/// Classes of sizes of conversations, each twice as large as the class before it.
const CLASSES: usize = 15;

/// Most bytes of a text for each byte of the conversation, and for any conversation.
const BYTES_FACTOR: usize = 16;
const BYTES_MIN: usize = 1 << 20;

/// Most spaces of a level of an indented document.
const INDENT_MAX: usize = 64;

/// A template of chats. All threads use one.
pub struct ChatTemplate {
    /// The template with the fuel of each class of sizes. All but the first are made when they are needed.
    environments: [OnceLock<Environment<'static>>; CLASSES],
    name: String,
    has_blocks: bool,
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Text of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendering {
    /// The text.
    pub text: String,
    /// Bytes of the text that `{% generation %}` blocks have, in order.
    pub blocks: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// Compiles a template. `name` is for errors. `date` is the current day for the template, such as `2026-11-29`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](forebay_core::ErrorKind::Config): a template with a syntax error, which is named by its
    /// line; a text that is no date.
    pub fn new(name: &str, source: &str, date: Option<&str>) -> Result<Self> {
        let mut environment = environment(date.map(Date::parse).transpose()?);
        // As the lexer of Jinja does.
        let source = &*source.replace("\r\n", "\n").replace('\r', "\n");
        let (source, has_blocks) = blocks::replaced(source);
        environment.add_template_owned(NAME, source).map_err(|e| {
            let message = format!("the chat template is not valid: {}", reason_of(&e));
            Error::config(message).with("template", name).with("line", e.line().unwrap_or(0))
        })?;
        let environments: [OnceLock<_>; CLASSES] = Default::default();
        environments[0].get_or_init(|| environment);
        Ok(Self { environments, name: name.to_owned(), has_blocks })
    }

    /// Name of the template, for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if the template has `{% generation %}` blocks.
    pub fn has_blocks(&self) -> bool {
        self.has_blocks
    }

    /// Returns the text of the first `count` messages, at the end with the prompt of the model's next message if
    /// `has_prompt` is true.
    ///
    /// # Errors
    /// [`ErrorKind::Decode`](forebay_core::ErrorKind::Decode): a conversation that the template refuses, or that needs
    /// more steps or memory than its size explains; with the name of the template and its line.
    pub fn render(&self, conversation: &Conversation, count: usize, has_prompt: bool) -> Result<Rendering> {
        if self.has_blocks && conversation.has_marks() {
            let message =
                "the conversation has U+FDD0 or U+FDD1, which mark the blocks of its chat template: remove them";
            return Err(self.error(message.to_owned()));
        }
        let bytes = conversation.bytes();
        let template = self.environment_for(bytes)?.get_template(NAME).map_err(|e| self.error(reason_of(&e)))?;
        let text = template.render(conversation.context(count, has_prompt));
        let text = text.map_err(|e| {
            let message = match e.kind() {
                ErrorKind::OutOfFuel => {
                    "the chat template needs more steps or memory than the size of the conversation explains".to_owned()
                }
                _ => format!("the chat template refuses the conversation: {}", reason_of(&e)),
            };
            self.error(message).with("line", e.line().unwrap_or(0))
        })?;
        if text.len() > BYTES_MIN.max(bytes.saturating_mul(BYTES_FACTOR)) {
            return Err(self
                .error("the chat template makes a text that is too long".to_owned())
                .with("bytes", text.len()));
        }
        if !self.has_blocks {
            return Ok(Rendering { text, blocks: Vec::new() });
        }
        let (text, blocks) = blocks::take_marks(&text)
            .ok_or_else(|| self.error("the chat template cuts the text of its generation blocks".to_owned()))?;
        Ok(Rendering { text, blocks })
    }

    /// Returns the template with the fuel for a conversation of this size.
    fn environment_for(&self, bytes: usize) -> Result<&Environment<'static>> {
        let class = bytes.div_ceil(FUEL_BYTES).max(1).next_power_of_two().trailing_zeros().min(CLASSES as u32 - 1);
        let first = self.environments[0].get();
        let first = first.ok_or_else(|| Error::internal("a chat template has no environment"))?;
        Ok(self.environments[class as usize].get_or_init(|| {
            let mut environment = first.clone();
            environment.set_fuel(Some(FUEL << class));
            environment
        }))
    }

    /// Returns an error of a sample that names the template.
    pub(super) fn error(&self, message: String) -> Error {
        Error::decode(message).with("template", &self.name)
    }
}

fn reason_of(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) if error.kind() == ErrorKind::InvalidOperation => detail.to_owned(),
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// Returns an environment as `transformers` makes it, without a template.
fn environment(date: Option<Date>) -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    if let Ok(syntax) = syntax {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(|out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value| {
        match value.as_str() {
            Some(text) => out.write_str(text)?,
            None => out.write_str(&text_of(value)?)?,
        }
        Ok(())
    });
    environment.set_unknown_method_callback(methods::call);
    environment.add_filter(blocks::FILTER, |text: String| format!("{}{text}{}", blocks::MARKS[0], blocks::MARKS[1]));
    environment.add_filter(nesting::FILTER, nesting::bounded);
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", |value: Value| text_of(&value));
    environment.add_filter("trim", |value: Value| Ok(text_of(&value)?.trim_matches(methods::is_space).to_owned()));
    environment.add_test("sequence", |value: Value| methods::is_sequence(&value));
    environment.add_test("iterable", |value: Value| methods::is_iterable(&value));
    environment.add_function("raise_exception", |message: Value| -> std::result::Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, text_of(&message)?))
    });
    environment.add_function("strftime_now", move |format: &str| {
        let wrong = |message: &'static str| minijinja::Error::new(ErrorKind::InvalidOperation, message);
        let date = date.ok_or_else(|| {
            wrong("it asks for the current day: pass `date` to Chat, such as \"2026-11-29\", the same for all runs")
        })?;
        date.format(format).ok_or_else(|| wrong("it asks for a date in a form that is not known"))
    });
    environment
}

/// The filter `tojson` of `transformers`.
fn to_json(
    value: Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    named: Kwargs,
) -> std::result::Result<String, minijinja::Error> {
    let argument = |given: Option<Value>, name: &str| -> std::result::Result<Option<Value>, minijinja::Error> {
        let given = if given.is_some() { given } else { named.get::<Option<Value>>(name)? };
        Ok(given.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let is_ascii = argument(ensure_ascii, "ensure_ascii")?.is_some_and(|value| value.is_true());
    let sorts_keys = argument(None, "sort_keys")?.is_some_and(|value| value.is_true());
    let indent = match argument(indent, "indent")? {
        Some(text) if text.kind() == ValueKind::String => Some(text.as_str().unwrap_or_default().to_owned()),
        Some(count) => Some(" ".repeat(usize::try_from(count)?.min(INDENT_MAX))),
        None => None,
    };
    let separators = match argument(None, "separators")? {
        Some(pair) => {
            let text = |index: usize| text_of(&pair.get_item_by_index(index)?);
            [text(0)?, text(1)?]
        }
        None => [if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
    };
    named.assert_all_used()?;
    json_of(&value, &JsonStyle { is_ascii, indent, separators, sorts_keys })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered(source: &str, messages: serde_json::Value) -> Result<String> {
        let conversation = Conversation::of(&messages, None, &serde_json::Map::new())?;
        let template = ChatTemplate::new("test.jinja", source, Some("2026-11-29"))?;
        template.render(&conversation, conversation.count(), false).map(|rendering| rendering.text)
    }

    #[test]
    fn values_methods_and_white_space_are_pythons() {
        let source = "{% for m in messages %}\n    {% if m.n is not defined %}\n\
                      {{ m.content.strip() }}|{{ m.x }}|{{ true }}|{{ m | tojson }}\n    {% endif %}\n{% endfor %}\n\
                      {{ strftime_now('%d %b %Y') }}";
        // A key with null is absent.
        let messages = json!([{"role": "user", "content": "\u{1f} é<a>\n", "n": null, "x": [null, "a"]}]);
        let expected = "é<a>|[None, 'a']|True|{\"role\": \"user\", \"content\": \"\\u001f é<a>\\n\", \
                        \"x\": [null, \"a\"]}\n29 Nov 2026";
        assert_eq!(rendered(source, messages).unwrap(), expected);
    }

    #[test]
    fn line_ends_of_a_template_are_line_feeds() {
        let messages = json!([{"role": "user", "content": "a\r\n"}]);
        assert_eq!(
            rendered("x\r\n{% if true %}\r\n{{ messages[0].content }}y\rz{% endif %}", messages).unwrap(),
            "x\na\r\ny\nz"
        );
    }

    #[test]
    fn a_template_without_an_end_or_with_a_huge_text_is_refused() {
        let user = || json!([{"role": "user", "content": "a"}]);
        for source in [
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
            "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set y = {'a': ns.x} %}{%-set\nns.x=(y) if y -%}\
             {% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set a, ns.x = 1, (0, ns.x) %}{% endfor %}",
            "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = namespace(x=ns.x) %}{% endfor %}",
            "{% set ns = namespace() %}{% for i in range(99999) %}{% set ns.ns = ns %}{% endfor %}",
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "{{ 'aaaaaaaaaa' * 99999999 }}",
            "{% for a in range(20000) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }}{% endfor %}",
        ] {
            let e = rendered(source, user()).unwrap_err();
            assert_eq!(e.kind(), forebay_core::ErrorKind::Decode, "{source}: {e}");
            assert!(e.to_string().contains("test.jinja"), "{e}");
        }
    }

    #[test]
    fn lists_grow_in_a_namespace() {
        let source = "{% set ns = namespace(x=[], n=0) %}\
                      {% for i in range(2000) %}{% set ns.x = ns.x + [[i, {'a': i}]] %}{% set ns.n = ns.n + 1 %}\
                      {% endfor %}\
                      {{ ns.x | length }} {{ ns.n }} {{ ns.x[7] }}";
        let messages = json!([{"role": "user", "content": "a"}]);
        assert_eq!(rendered(source, messages).unwrap(), "2000 2000 [7, {'a': 7}]");
    }

    #[test]
    fn errors_name_the_template_its_line_and_its_message() {
        let e = ChatTemplate::new("a/chat_template.jinja", "x\n{% if %}", None).unwrap_err();
        assert!(e.to_string().contains("template a/chat_template.jinja, line 2"), "{e}");
        let e = rendered("\n\n{{ raise_exception('no ' ~ messages[0].role) }}", json!([{"role": "user"}])).unwrap_err();
        assert!(e.to_string().contains("no user (template test.jinja, line 3)"), "{e}");
        let conversation = Conversation::of(&json!([{"role": "user"}]), None, &serde_json::Map::new()).unwrap();
        let template = ChatTemplate::new("t", "{{ strftime_now('%Y') }}", None).unwrap();
        assert!(template.render(&conversation, 1, false).unwrap_err().to_string().contains("`date`"));
    }
}
