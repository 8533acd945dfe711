//! Tags of a template that are replaced before it is compiled.
//!
//! * `{% generation %}` and `{% endgeneration %}`, an extension of `transformers`, are around a text that the model
//!   generates. They become a filter that puts a mark before the text of the block, and one after it.
//! * `{% set a.b = value %}` gets a filter that bounds how deep the value is: see [`nesting`](super::nesting).

use super::nesting;
use std::borrow::Cow;
use std::ops::Range;

/// Name of the filter.
pub(super) const FILTER: &str = "generated_block";

/// Marks at the ends of a block. They are no characters, so that no text has them in normal use.
pub(super) const MARKS: [char; 2] = ['\u{FDD0}', '\u{FDD1}'];

/// Replaces these tags; true if the template has blocks of generated text. Lines keep their numbers.
pub(super) fn replaced(template: &str) -> (String, bool) {
    let (mut text, mut rest, mut found) = (String::with_capacity(template.len()), template, false);
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        text.push_str(before);
        let close = match tag.as_bytes().get(1) {
            Some(b'%') => "%}",
            Some(b'{') => "}}",
            Some(b'#') => "#}",
            _ => {
                text.push('{');
                rest = &tag[1..];
                continue;
            }
        };
        let end = end_of(tag, close);
        let (tag, later) = tag.split_at(end);
        found |= close == "%}" && is_named(tag, "generation");
        let tag = if close == "%}" { block_tag(tag) } else { Cow::Borrowed(tag) };
        text.push_str(&tag);
        rest = later;
        if is_named(&tag, "raw") {
            let (raw, later) = rest.split_at(end_of_raw(rest));
            text.push_str(raw);
            rest = later;
        }
    }
    text.push_str(rest);
    (text, found)
}

/// Returns the end of a tag, which may have its closing characters inside of strings.
fn end_of(tag: &str, close: &str) -> usize {
    let (bytes, close_bytes) = (tag.as_bytes(), close.as_bytes());
    let (mut at, mut quote) = (2, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (None, _) if bytes[at..].starts_with(close_bytes) => return at + 2,
            (None, byte @ (b'"' | b'\'')) if close != "#}" => quote = Some(byte),
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            _ => {}
        }
        at += 1;
    }
    tag.len()
}

fn end_of_raw(text: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find("{%") {
        let start = from + at;
        if is_named(&text[start..start + end_of(&text[start..], "%}")], "endraw") {
            return start;
        }
        from = start + 2;
    }
    text.len()
}

fn is_named(tag: &str, name: &str) -> bool {
    parts_of(tag).is_some_and(|(_, found, _)| found == name)
}

/// Returns the control of white space at both ends of a tag, and its content.
fn parts_of(tag: &str) -> Option<(&str, &str, &str)> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    let sign = |text: Option<u8>| usize::from(matches!(text, Some(b'-' | b'+')));
    let first = sign(inner.bytes().next());
    let last = sign(inner.bytes().next_back().filter(|_| inner.len() > first));
    let end = inner.len() - last;
    Some((&inner[..first], inner[first..end].trim(), &inner[end..]))
}

fn block_tag(tag: &str) -> Cow<'_, str> {
    let lines = "\n".repeat(tag.matches('\n').count());
    match parts_of(tag) {
        // A variable that is set in a block ends with it.
        Some((before, "generation", after)) => {
            Cow::Owned(format!("{{%{before} filter {FILTER} %}}{{% with{lines} {after}%}}"))
        }
        Some((before, "endgeneration", after)) => {
            Cow::Owned(format!("{{%{before} endwith %}}{{% endfilter{lines} {after}%}}"))
        }
        Some((before, content, after)) => match assignment(content) {
            Some((name, value)) => {
                Cow::Owned(format!("{{%{before} set{name}= ({value})|{} {after}%}}", nesting::FILTER))
            }
            None => Cow::Borrowed(tag),
        },
        None => Cow::Borrowed(tag),
    }
}

/// Returns name and value of an assignment to a part of a namespace.
fn assignment(content: &str) -> Option<(&str, &str)> {
    let (name, value) = content.strip_prefix("set").filter(|rest| !rest.starts_with(is_name))?.split_once('=')?;
    // Without a name on its left the sign belongs to the filter of a block of text.
    let is_assigned = name.contains('.') && name.chars().all(|c| is_name(c) || " \t\r\n.,()".contains(c));
    is_assigned.then_some((name, value))
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Removes the marks from a text, and returns the ranges of the blocks in it, in order; `None` if the marks are not in
/// pairs.
pub(super) fn take_marks(marked: &str) -> Option<(String, Vec<Range<usize>>)> {
    let (mut text, mut blocks, mut depth, mut start) = (String::with_capacity(marked.len()), Vec::new(), 0_usize, 0);
    for piece in marked.split_inclusive(MARKS) {
        let Some(mark) = piece.chars().next_back().filter(|last| MARKS.contains(last)) else {
            text.push_str(piece);
            continue;
        };
        text.push_str(&piece[..piece.len() - mark.len_utf8()]);
        if mark == MARKS[0] {
            if depth == 0 {
                start = text.len();
            }
            depth += 1;
        } else {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                blocks.push(start..text.len());
            }
        }
    }
    (depth == 0).then_some((text, blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_blocks_become_a_filter() {
        let (text, has_blocks) = replaced("a{%- generation %}\nb{{ '%}' }}{% endgeneration -%} c");
        assert_eq!(text, "a{%- filter generated_block %}{% with %}\nb{{ '%}' }}{% endwith %}{% endfilter -%} c");
        assert!(has_blocks);
        for text in [
            "{# {% generation %} #}{% raw %}{% generation %}{% endraw %}{{ '{% generation %}' }}",
            "{% if a %}{ é {%",
            "{% set a = [1] %}{% set a.b %}c{% endset %}{% set a.b | replace(old='c') %}{% endset %}",
        ] {
            assert_eq!(replaced(text), (text.to_owned(), false));
        }
    }

    #[test]
    fn the_value_of_a_part_of_a_namespace_gets_a_filter() {
        for (text, expected) in [
            ("{%- set a.b = '=' if c else d -%}", "{%- set a.b = ( '=' if c else d)|bounded_depth -%}"),
            ("{% set (a.b, c) =\n1, 2 %}", "{% set (a.b, c) = (\n1, 2)|bounded_depth %}"),
            ("{%set a.b=[a.b]%}", "{% set a.b= ([a.b])|bounded_depth %}"),
        ] {
            assert_eq!(replaced(text), (expected.to_owned(), false));
        }
    }

    #[test]
    fn marks_are_taken_out_of_a_text() {
        let (text, blocks) = take_marks("aé\u{FDD0}b\u{FDD0}\u{FDD1}c\u{FDD1}d\u{FDD0}\u{FDD1}").unwrap();
        assert_eq!((&*text, blocks), ("aébcd", vec![3..5, 6..6]));
        assert_eq!(take_marks("\u{FDD1}"), None);
        assert_eq!(take_marks("\u{FDD0}"), None);
    }
}
