//! Scanner of an object with a long list. The text arrives in pieces: the whole text need not be in memory.

use super::Scanner;
use forebay_core::error::Result;
use std::ops::Range;

/// Receiver of the parts of an object with a list.
pub trait ObjectVisitor {
    /// Takes the item of the list at the start of `text`, and returns its length. `None` leaves the item to the
    /// scanner, which finds its end and calls [`item`](Self::item).
    fn known_item(&mut self, text: &[u8]) -> Option<usize>;

    /// Takes an item of the list.
    fn item(&mut self, item: &[u8]);

    /// Takes an entry. `key` has its quotes; `value` is `None` at the start of the list.
    fn entry(&mut self, key: &[u8], value: Option<&[u8]>);
}

/// Scanner of an object with a list. Its state is the position between two parts, so that the text may arrive in
/// pieces.
pub struct ObjectScanner {
    /// Key of the list, with its quotes.
    list: &'static [u8],
    position: Position,
    /// Bytes before the next piece.
    before: u64,
}

/// Position between two parts of the document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Start,
    /// Before an entry, or the end of an object without entries.
    FirstEntry,
    /// Before the comma after an entry, or the end of the object.
    AfterEntry,
    /// Before an item, or the end of a list without items.
    FirstItem,
    /// Before the comma after an item, or the end of the list.
    AfterItem,
    End,
}

/// Part that a step has found.
enum FoundPart {
    None,
    Item(Range<usize>),
    Entry(Range<usize>, Option<Range<usize>>),
}

impl ObjectScanner {
    /// Makes a scanner for an object with a list at the key `list`, which has its quotes.
    pub fn new(list: &'static [u8]) -> Self {
        Self { list, position: Position::Start, before: 0 }
    }

    /// Scans `text`, and returns the number of bytes that need not be given again. The remaining ones are the start of
    /// the next piece, unless `is_last`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] if the text `is_last` and not one object.
    pub fn scan(&mut self, text: &[u8], is_last: bool, visitor: &mut impl ObjectVisitor) -> Result<usize> {
        let mut at = 0;
        loop {
            let mut scanner = Scanner { bytes: text, at, before: self.before };
            match self.step(&mut scanner, visitor) {
                // A value at the end of the text may continue in the next piece.
                Ok((position, part)) if is_last || scanner.at < text.len() => {
                    let is_end = position == Position::End && self.position == Position::End;
                    match part {
                        FoundPart::None => {}
                        FoundPart::Item(item) => visitor.item(&text[item]),
                        FoundPart::Entry(key, value) => visitor.entry(&text[key], value.map(|value| &text[value])),
                    }
                    (self.position, at) = (position, scanner.at);
                    if is_end {
                        break;
                    }
                }
                Err(e) if is_last => return Err(e),
                Ok(_) | Err(_) => break,
            }
        }
        self.before += at as u64;
        Ok(at)
    }

    /// Moves over the next part, and returns the position after it.
    fn step(&self, scanner: &mut Scanner<'_>, visitor: &mut impl ObjectVisitor) -> Result<(Position, FoundPart)> {
        scanner.space();
        match self.position {
            Position::Start => {
                scanner.expect(b'{')?;
                Ok((Position::FirstEntry, FoundPart::None))
            }
            Position::FirstEntry if scanner.take(b'}') => Ok((Position::End, FoundPart::None)),
            Position::FirstEntry => self.entry(scanner),
            Position::AfterEntry if scanner.take(b'}') => Ok((Position::End, FoundPart::None)),
            Position::AfterEntry => {
                scanner.expect(b',')?;
                self.entry(scanner)
            }
            Position::FirstItem if scanner.take(b']') => Ok((Position::AfterEntry, FoundPart::None)),
            Position::FirstItem => item(scanner, visitor),
            Position::AfterItem if scanner.take(b']') => Ok((Position::AfterEntry, FoundPart::None)),
            Position::AfterItem => {
                scanner.expect(b',')?;
                scanner.space();
                item(scanner, visitor)
            }
            Position::End => {
                scanner.end()?;
                Ok((Position::End, FoundPart::None))
            }
        }
    }

    fn entry(&self, scanner: &mut Scanner<'_>) -> Result<(Position, FoundPart)> {
        let key = scanner.key()?;
        scanner.space();
        if &scanner.bytes[key.clone()] == self.list && scanner.take(b'[') {
            return Ok((Position::FirstItem, FoundPart::Entry(key, None)));
        }
        let value = scanner.value(1)?;
        Ok((Position::AfterEntry, FoundPart::Entry(key, Some(value))))
    }
}

fn item(scanner: &mut Scanner<'_>, visitor: &mut impl ObjectVisitor) -> Result<(Position, FoundPart)> {
    let rest = scanner.bytes.get(scanner.at..).unwrap_or_default();
    // One byte less, so that an item which the visitor has taken never ends the text: it is not taken again.
    let before_last = rest.split_last().map_or(rest, |(_, before)| before);
    if let Some(bytes) = visitor.known_item(before_last) {
        scanner.at += bytes;
        return Ok((Position::AfterItem, FoundPart::None));
    }
    Ok((Position::AfterItem, FoundPart::Item(scanner.value(2)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Parts(Vec<String>);

    impl ObjectVisitor for Parts {
        fn known_item(&mut self, text: &[u8]) -> Option<usize> {
            let known = b"{\"known\": 1}";
            text.starts_with(known).then(|| {
                self.0.push("known".to_owned());
                known.len()
            })
        }

        fn item(&mut self, item: &[u8]) {
            self.0.push(String::from_utf8_lossy(item).into_owned());
        }

        fn entry(&mut self, key: &[u8], value: Option<&[u8]>) {
            let value = value.map_or("list".into(), String::from_utf8_lossy);
            self.0.push(format!("{}={value}", String::from_utf8_lossy(key)));
        }
    }

    /// Scans `text` in pieces that grow by `step` bytes.
    fn scan(text: &[u8], step: usize) -> Result<Parts> {
        let mut scanner = ObjectScanner::new(b"\"l\"");
        let (mut parts, mut done, mut end) = (Parts::default(), 0, step.min(text.len()));
        loop {
            let is_last = end == text.len();
            done += scanner.scan(&text[done..end], is_last, &mut parts)?;
            if is_last {
                return Ok(parts);
            }
            end = (end + step).min(text.len());
        }
    }

    #[test]
    fn pieces_of_every_length_have_the_parts_of_the_whole() {
        for text in [
            r#" {"v": 2, "l": [1, {"known": 1}, "a]", {"known": 1}, {"b": [{}]}, 23 ], "n": 45, "l" : [], "l": 6 } "#,
            r#"{"l":[{"known": 1}]}"#,
            "{}",
            r#"{"l": []}"#,
        ] {
            let whole = scan(text.as_bytes(), usize::MAX >> 1).unwrap();
            for step in 1..text.len() {
                assert_eq!(scan(text.as_bytes(), step).unwrap(), whole, "{text} by {step}");
            }
        }
        let parts = scan(br#"{"l": [{"known": 1}, 2], "v": 3}"#, 5).unwrap();
        assert_eq!(parts.0, ["\"l\"=list", "known", "2", "\"v\"=3"]);
    }

    #[test]
    fn an_error_has_its_position_in_the_whole_text() {
        for text in ["{", "[]", "{\"l\": [1,]}", "{\"l\": [1}", "{} x", "{\"a\": 1,}", "", "{\"l\": [tru]}"] {
            let whole = scan(text.as_bytes(), usize::MAX >> 1).unwrap_err().to_string();
            for step in 1..=text.len() {
                assert_eq!(scan(text.as_bytes(), step).unwrap_err().to_string(), whole, "{text} by {step}");
            }
        }
    }
}
