//! Text of a source file that is written for people: comments, strings, names of items, prose.
//!
//! A small lexer that knows comments and strings of the languages in this repository, and nothing else of them.

use super::sources::Source;

/// Part of a file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From 1.
    pub line: usize,
    /// One line of text at most; names are split into words.
    pub text: String,
    /// True for the first line of a documentation comment.
    pub opens_doc: bool,
}

/// Text of one file.
#[derive(Clone, Debug)]
pub struct Prose<'a> {
    /// Path of the file.
    pub path: &'a str,
    /// Its pieces, in their order.
    pub pieces: Vec<Piece>,
}

/// Returns the text of every file.
pub fn read(sources: &[Source]) -> Vec<Prose<'_>> {
    sources.iter().map(|Source { path, text }| Prose { path, pieces: pieces(path, text) }).collect()
}

/// Syntax of one language, as far as comments and strings go.
struct Language {
    line_comment: &'static str,
    block_comment: Option<(&'static str, &'static str)>,
    /// Opening delimiters of strings, the longer ones first.
    strings: &'static [&'static str],
    /// Words that come before the name of an item.
    items: &'static [&'static str],
    /// True if a string that forms a whole statement is documentation.
    has_docstrings: bool,
}

const RUST: Language = Language {
    line_comment: "//",
    block_comment: Some(("/*", "*/")),
    strings: &["r##\"", "r#\"", "\""],
    items: &["fn", "struct", "enum", "trait", "type", "mod", "const", "static"],
    has_docstrings: false,
};
const C: Language = Language { items: &["struct", "enum"], strings: &["\""], ..RUST };
const PYTHON: Language = Language {
    line_comment: "#",
    block_comment: None,
    strings: &["\"\"\"", "'''", "\"", "'"],
    items: &["def", "class"],
    has_docstrings: true,
};
const SHELL: Language = Language { strings: &["\"", "'"], items: &[], has_docstrings: false, ..PYTHON };

/// Returns the pieces of the file at `path`, none for a kind of file that is not checked.
fn pieces(path: &str, text: &str) -> Vec<Piece> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.').map_or(name, |(_, extension)| extension) {
        "md" => markdown(text),
        "rs" => lex(text, &RUST),
        "c" | "h" => lex(text, &C),
        "py" | "pyi" => lex(text, &PYTHON),
        "sh" | "toml" | "Makefile" => lex(text, &SHELL),
        _ => Vec::new(),
    }
}

/// Returns the lines outside code blocks.
fn markdown(text: &str) -> Vec<Piece> {
    let mut in_fence = false;
    let mut pieces = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence && !line.starts_with("    ") {
            pieces.push(Piece { line: index + 1, text: without_code_spans(line), opens_doc: false });
        }
    }
    pieces
}

fn lex(text: &str, language: &Language) -> Vec<Piece> {
    let mut lexer = Lexer { language, pieces: Vec::new(), line: 1, rest: text, code: String::new(), in_doc: false };
    lexer.run();
    lexer.pieces
}

struct Lexer<'a> {
    language: &'a Language,
    pieces: Vec<Piece>,
    line: usize,
    rest: &'a str,
    /// Code of the current line up to here, strings left out.
    code: String,
    /// True if the line before was a documentation comment.
    in_doc: bool,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) {
        while let Some(next) = self.rest.chars().next() {
            let language = self.language;
            let at_comment = self.rest.starts_with(language.line_comment)
                // `$#` of a shell is no comment.
                && !self.code.ends_with(['$', '{']);
            if at_comment {
                let comment = self.rest.lines().next().unwrap_or_default();
                self.rest = &self.rest[comment.len()..];
                self.comment(comment);
            } else if let Some((_, end)) = language.block_comment.filter(|(start, _)| self.rest.starts_with(start)) {
                let len = self.rest.find(end).map_or(self.rest.len(), |at| at + end.len());
                self.text(len, false);
            } else if let Some(start) = self.string_start() {
                self.string(start);
            } else if next == '\'' {
                // A character of Rust or C, or a lifetime.
                let mut inner = self.rest[1..].chars();
                let len = match (inner.next(), inner.next()) {
                    (Some('\\'), _) => self.rest[2..].find('\'').map_or(1, |at| at + 3).min(self.rest.len()),
                    (Some(c), Some('\'')) => c.len_utf8() + 2,
                    _ => 1,
                };
                self.code.push('\'');
                self.rest = &self.rest[len..];
            } else if next == '\n' {
                self.end_line();
            } else {
                self.code.push(next);
                self.rest = &self.rest[next.len_utf8()..];
            }
        }
        self.end_line();
    }

    fn string_start(&self) -> Option<&'static str> {
        let start = self.language.strings.iter().find(|start| self.rest.starts_with(**start))?;
        // The `r` of a raw string is no end of a name.
        let is_raw = start.starts_with('r');
        (!is_raw || !self.code.ends_with(|c: char| c.is_alphanumeric() || c == '_')).then_some(*start)
    }

    fn comment(&mut self, comment: &str) {
        let body = comment.strip_prefix(self.language.line_comment).unwrap_or(comment);
        let doc = body.strip_prefix(['/', '!']).filter(|_| self.language.line_comment == "//");
        let text = doc.unwrap_or(body).trim();
        let opens_doc = doc.is_some() && !self.in_doc;
        self.pieces.push(Piece { line: self.line, text: without_code_spans(text), opens_doc });
        self.in_doc = doc.is_some();
    }

    fn string(&mut self, start: &'static str) {
        let is_raw = start.starts_with('r');
        let quote = start.trim_start_matches('r').trim_start_matches('#');
        let end = if is_raw { format!("\"{}", "#".repeat(start.len() - 2)) } else { quote.to_owned() };
        let is_multi_line =
            is_raw || quote.len() == 3 || self.language.line_comment == "//" || !self.language.has_docstrings;
        let body = &self.rest[start.len()..];
        let mut at = 0;
        let mut escaped = false;
        let len = loop {
            let Some(c) = body[at..].chars().next() else { break body.len() };
            if !escaped && body[at..].starts_with(&end) || c == '\n' && !is_multi_line {
                break at;
            }
            escaped = c == '\\' && !escaped && !is_raw;
            at += c.len_utf8();
        };
        let prefix = self.code.trim();
        let is_doc = self.language.has_docstrings
            && quote.len() == 3
            && prefix.chars().all(|c| matches!(c, 'r' | 'f' | 'b' | 'R'));
        self.rest = body;
        self.text(len, is_doc);
        self.rest = self.rest.strip_prefix(end.as_str()).unwrap_or(self.rest);
        self.code.push('"');
    }

    /// Adds the next `len` bytes, line by line.
    fn text(&mut self, len: usize, is_doc: bool) {
        let (text, rest) = self.rest.split_at(len);
        let mut opens_doc = is_doc;
        for (index, line) in text.split('\n').enumerate() {
            let line = line.trim();
            if !line.is_empty() {
                self.pieces.push(Piece { line: self.line + index, text: without_code_spans(line), opens_doc });
                opens_doc = false;
            }
        }
        self.line += text.matches('\n').count();
        self.rest = rest;
    }

    fn end_line(&mut self) {
        let mut words = self.code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            if self.language.items.contains(&word)
                && let Some(name) = words.next()
            {
                self.pieces.push(Piece { line: self.line, text: words_of(name), opens_doc: false });
            }
        }
        if !self.code.trim().is_empty() {
            self.in_doc = false;
        }
        self.code.clear();
        self.line += 1;
        self.rest = self.rest.strip_prefix('\n').unwrap_or(self.rest);
    }
}

/// Splits a name in any of the usual cases into words.
fn words_of(name: &str) -> String {
    let mut words = String::new();
    let mut before_is_lower = false;
    for c in name.chars() {
        if c == '_' || c.is_uppercase() && before_is_lower {
            words.push(' ');
        }
        if c != '_' {
            words.extend(c.to_lowercase());
        }
        before_is_lower = c.is_lowercase();
    }
    words
}

/// Removes the text between backticks.
fn without_code_spans(text: &str) -> String {
    let mut parts = text.split('`');
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let (Some(_code), after) = (parts.next(), parts.next()) {
        out.push('`');
        out.push_str(after.unwrap_or_default());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &str, text: &str) -> Vec<(usize, String, bool)> {
        pieces(path, text).into_iter().map(|p| (p.line, p.text, p.opens_doc)).collect()
    }

    fn piece(line: usize, text: &str, opens_doc: bool) -> (usize, String, bool) {
        (line, text.to_owned(), opens_doc)
    }

    #[test]
    fn comments_strings_and_names_of_rust_are_found() {
        let text = "/// Ring of slots.\n/// Second line.\n\
                    pub fn take_slot<'a>() { // why `x` here\n    f(\"a // b\", '\"', r#\"raw \"q\" \"#);\n}";
        let expected = [
            piece(1, "Ring of slots.", true),
            piece(2, "Second line.", false),
            piece(3, "why ` here", false),
            piece(3, "take slot", false),
            piece(4, "a // b", false),
            piece(4, "raw \"q\"", false),
        ];
        assert_eq!(texts("a.rs", text), expected);
    }

    #[test]
    fn a_docstring_of_python_opens_documentation_and_a_plain_string_does_not() {
        let text =
            "def next_batch(x='it'):\n    \"\"\"Returns it.\n\n    More.\"\"\"\n    y = \"\"\"text\"\"\"  # note\n";
        let expected = [
            piece(1, "it", false),
            piece(1, "next batch", false),
            piece(2, "Returns it.", true),
            piece(4, "More.", false),
            piece(5, "text", false),
            piece(5, "note", false),
        ];
        assert_eq!(texts("a.py", text), expected);
    }

    #[test]
    fn code_in_markdown_is_no_prose() {
        let text = "A `word` here.\n\n```python\nx = 1\n```\n    indented\nEnd.";
        assert_eq!(texts("a.md", text), [piece(1, "A ` here.", false), piece(2, "", false), piece(7, "End.", false)]);
    }

    #[test]
    fn the_body_of_a_c_comment_is_read_line_by_line() {
        assert_eq!(texts("a.h", "/**\n * First.\n */\nint x;")[1], piece(2, "* First.", false));
    }
}
