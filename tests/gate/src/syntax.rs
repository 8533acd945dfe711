//! Paths and `unsafe` in Rust sources, read from tokens.
//!
//! Comments and strings are not tokens, so a path in them does not count. Macro bodies are tokens, so a path there
//! does; a parser of whole files, such as `syn`, would not look into them.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::str::FromStr;

/// Path that a file mentions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Segments: from the crate's root if the path started at `crate`, `self` or `super`, else as written.
    pub path: Vec<String>,
    /// From 1.
    pub line: usize,
    /// Inside an item under `#[cfg(test)]`.
    pub in_test: bool,
    /// Set in a `use` declaration.
    pub import: Option<Import>,
    /// Module that contains the mention: the file's, or an inline module of it.
    pub scope: Vec<String>,
}

/// Name that a `use` declaration gives to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// `*` for all names of a module.
    pub name: String,
    /// Part of a `pub use`, with any visibility.
    pub reexport: bool,
}

impl Mention {
    /// True in a `pub use`, with any visibility.
    pub fn is_reexport(&self) -> bool {
        self.import.as_ref().is_some_and(|import| import.reexport)
    }
}

/// Paths and `unsafe` of one file.
#[derive(Clone, Debug, Default)]
pub struct Mentions {
    /// Paths that start at `crate`, `self` or `super`.
    pub paths: Vec<Mention>,
    /// The remaining paths of two segments or more, and paths of one segment that a `use` declaration names. Most start
    /// at a type, an import or a separate crate.
    pub relative: Vec<Mention>,
    /// Lines with the word `unsafe`.
    pub unsafe_lines: Vec<usize>,
    /// Modules with their own file that are declared under `#[cfg(test)]`.
    pub test_modules: Vec<String>,
}

/// Returns the module of a source file under `src/`: `io/uring/ring.rs` is `["io", "uring", "ring"]`, `io/mod.rs`
/// `["io"]`, `lib.rs` the root.
pub fn module_of(path_in_src: &str) -> Vec<String> {
    let mut parts: Vec<String> = path_in_src.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Reads the text of the file of `module`.
///
/// # Errors
///
/// When the text is not made of Rust's tokens.
pub fn mentions(text: &str, module: &[String]) -> Result<Mentions, String> {
    let tokens = TokenStream::from_str(text).map_err(|e| format!("not Rust: {e}"))?;
    let mut out = Mentions::default();
    walk(tokens, module, false, &mut out);
    Ok(out)
}

fn walk(tokens: TokenStream, module: &[String], in_test: bool, out: &mut Mentions) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    // From `#[cfg(test)]` to the end of the item that follows it.
    let mut test_item = false;
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            // `pub(in super::super)` is a visibility and no use.
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Parenthesis
                    && matches!(tokens.get(at.wrapping_sub(1)), Some(TokenTree::Ident(word)) if word == "pub") =>
            {
                at += 1;
            }
            TokenTree::Group(group) => {
                let attribute = at > 0 && is_punct(&tokens[at - 1], '#');
                if attribute && is_cfg_test(&group.stream()) {
                    test_item = true;
                }
                let brace = group.delimiter() == Delimiter::Brace;
                // `mod name { ... }` is a separate module: `super` inside it is relative to it.
                let inner = match tokens.get(at.wrapping_sub(2)..at) {
                    Some([TokenTree::Ident(word), TokenTree::Ident(name)]) if brace && word == "mod" => {
                        [module, &[name.to_string()]].concat()
                    }
                    _ => module.to_vec(),
                };
                walk(group.stream(), &inner, in_test || test_item, out);
                if brace && !attribute {
                    test_item = false;
                }
                at += 1;
            }
            TokenTree::Ident(word) => {
                let line = word.span().start().line;
                if word == "unsafe" {
                    out.unsafe_lines.push(line);
                }
                if test_item && let Some(name) = declared_module(&tokens[at..]) {
                    out.test_modules.push(name);
                }
                let in_use = at > 0 && matches!(&tokens[at - 1], TokenTree::Ident(word) if word == "use");
                let continues_path = at > 1 && is_path_sep(&tokens, at - 2);
                if continues_path || !(in_use || is_path_sep(&tokens, at + 1)) {
                    at += 1;
                    continue;
                }
                let reexport = in_use.then(|| is_reexport(&tokens[..at]));
                let mut context = Context { module, line, in_test: in_test || test_item, reexport, found: Vec::new() };
                let is_absolute = word == "crate" || word == "super" || word == "self";
                at = read_tree(&tokens, at, Vec::new(), &mut context);
                if is_absolute { &mut out.paths } else { &mut out.relative }.append(&mut context.found);
            }
            TokenTree::Punct(p) => {
                if p.as_char() == ';' {
                    test_item = false;
                }
                at += 1;
            }
            TokenTree::Literal(_) => at += 1,
        }
    }
}

/// State of reading one tree of paths.
struct Context<'a> {
    module: &'a [String],
    line: usize,
    in_test: bool,
    /// Set in a `use` declaration: true for `pub use`.
    reexport: Option<bool>,
    found: Vec<Mention>,
}

/// Reads `crate::a::{b, c::d}` from `at` on and returns the index of the first token after it.
fn read_tree(tokens: &[TokenTree], mut at: usize, mut path: Vec<String>, context: &mut Context<'_>) -> usize {
    let module = context.module;
    let above = |levels: usize| module[..module.len().saturating_sub(levels)].to_vec();
    let mut up = 0;
    let mut is_glob = false;
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(word)) => {
                match word.to_string().as_str() {
                    "crate" => {}
                    // `self` at the end of a list is the module before it.
                    "self" if path.is_empty() => path = above(0),
                    "self" => {}
                    "super" => up += 1,
                    other => {
                        if up > 0 {
                            path = above(up);
                            up = 0;
                        }
                        path.push(other.to_owned());
                    }
                }
                at += 1;
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                if up > 0 {
                    path = above(up);
                }
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut i = 0;
                while i < inner.len() {
                    context.line = inner[i].span().start().line;
                    i = read_tree(&inner, i, path.clone(), context);
                    // To the next entry: `as name` and the comma.
                    while i < inner.len() && !is_punct(&inner[i], ',') {
                        i += 1;
                    }
                    i += 1;
                }
                return at + 1;
            }
            Some(TokenTree::Punct(p)) if p.as_char() == '*' => {
                at += 1;
                is_glob = true;
                break;
            }
            _ => break,
        }
        if !is_path_sep(tokens, at) {
            break;
        }
        at += 2;
    }
    if up > 0 {
        path = above(up);
    }
    let alias = match tokens.get(at..at + 2) {
        Some([TokenTree::Ident(word), TokenTree::Ident(name)]) if word == "as" => Some(name.to_string()),
        _ => None,
    };
    if let Some(last) = path.last() {
        let name = alias.unwrap_or_else(|| if is_glob { "*".to_owned() } else { last.clone() });
        let import = context.reexport.map(|reexport| Import { name, reexport });
        let (line, in_test, scope) = (context.line, context.in_test, module.to_vec());
        context.found.push(Mention { path, line, in_test, import, scope });
    }
    at
}

/// Returns the name in `mod name;`.
fn declared_module(tokens: &[TokenTree]) -> Option<String> {
    match tokens {
        [TokenTree::Ident(word), TokenTree::Ident(name), end, ..] if word == "mod" && is_punct(end, ';') => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// True if `before` ends in `pub use` or `pub(...) use`.
fn is_reexport(before: &[TokenTree]) -> bool {
    let [rest @ .., TokenTree::Ident(word)] = before else { return false };
    let last_is_pub = |tokens: &[TokenTree]| matches!(tokens.last(), Some(TokenTree::Ident(word)) if word == "pub");
    word == "use"
        && match rest {
            [rest @ .., TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => last_is_pub(rest),
            rest => last_is_pub(rest),
        }
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}

/// True for `::`, and not for the `:` of a type with `::` after it.
fn is_path_sep(tokens: &[TokenTree], at: usize) -> bool {
    match tokens.get(at..at + 2) {
        Some([TokenTree::Punct(a), b]) => a.as_char() == ':' && a.spacing() == Spacing::Joint && is_punct(b, ':'),
        _ => false,
    }
}

/// True for the attributes `cfg(test)` and `cfg(all(test, ...))`.
pub(super) fn is_cfg_test(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, module: &[&str]) -> Mentions {
        let module: Vec<String> = module.iter().map(|s| (*s).to_owned()).collect();
        mentions(text, &module).expect("tokens")
    }

    fn paths(text: &str, module: &[&str]) -> Vec<String> {
        read(text, module).paths.iter().map(|m| m.path.join("::")).collect()
    }

    #[test]
    fn an_import_has_the_name_that_the_file_uses() {
        let text = "pub use a::{b, c as d, self, e::*}; use f as g; use crate::h::i; fn f() { j::k() }";
        let found = read(text, &["m"]);
        let import = |mention: &Mention| {
            let name = mention.import.as_ref().map(|import| (import.name.clone(), import.reexport));
            (mention.path.join("::"), name)
        };
        let of = |path: &str, name: &str, reexport| (path.to_owned(), Some((name.to_owned(), reexport)));
        let mut relative: Vec<_> = found.relative.iter().map(import).collect();
        assert_eq!(relative.pop(), Some(("j::k".to_owned(), None)));
        let expected = [
            of("a::b", "b", true),
            of("a::c", "d", true),
            of("a", "a", true),
            of("a::e", "*", true),
            of("f", "g", false),
        ];
        assert_eq!(relative, expected);
        assert_eq!(found.paths.iter().map(import).collect::<Vec<_>>(), [of("h::i", "i", false)]);
    }

    #[test]
    fn a_file_that_only_tests_have_is_known_by_its_declaration() {
        let found = read("mod a; #[cfg(test)] mod b; #[cfg(all(test, unix))] pub(crate) mod c; mod d { }", &[]);
        assert_eq!(found.test_modules, ["b", "c"]);
    }

    #[test]
    fn a_nested_use_is_written_out() {
        let text = "use crate::{io::{Reader as R, uring::*}, error::Result};";
        assert_eq!(paths(text, &["cache"]), ["io::Reader", "io::uring", "error::Result"]);
    }

    #[test]
    fn super_is_relative_to_the_module_that_contains_it() {
        assert_eq!(paths("use super::super::io::Reader;", &["cache", "claim"]), ["io::Reader"]);
        assert_eq!(paths("pub(in super::super) fn f() {}", &["cache", "claim"]), [""; 0]);
        assert_eq!(paths("mod inner { use super::x; }", &["cache"]), ["cache::x"]);
        assert_eq!(paths("fn f() { super::evict::go() }", &["cache", "claim"]), ["cache::evict::go"]);
    }

    #[test]
    fn paths_in_macros_count_and_those_in_comments_and_strings_do_not() {
        let text = "// use crate::io;\n/// [`crate::io`]\nfn f() { let _ = \"crate::io\"; vec![crate::store::x()] }";
        assert_eq!(paths(text, &["order"]), ["store::x"]);
    }

    #[test]
    fn paths_after_the_colon_of_a_type_count() {
        let text = "struct A { b: crate::io::Reader } fn f(c: super::d::E, g: ::std::fs::File) {}";
        assert_eq!(paths(text, &["order", "ids"]), ["io::Reader", "order::d::E"]);
        assert!(read(text, &[]).relative.is_empty());
    }

    #[test]
    fn the_end_of_a_test_item_is_the_end_of_its_exemption() {
        let text =
            "#[cfg(test)]\nuse crate::a;\nuse crate::b;\n#[cfg(test)]\nmod tests { use crate::c; }\nuse crate::d;";
        let found = mentions(text, &[]).expect("tokens").paths;
        let in_test: Vec<(&str, bool)> = found.iter().map(|m| (m.path[0].as_str(), m.in_test)).collect();
        assert_eq!(in_test, [("a", true), ("b", false), ("c", true), ("d", false)]);
    }

    #[test]
    fn the_word_unsafe_is_found_by_line_and_not_inside_longer_words() {
        let found = mentions("#![deny(unsafe_code)]\nfn f() {\n    unsafe { g() }\n}", &[]).expect("tokens");
        assert_eq!(found.unsafe_lines, [3]);
    }

    #[test]
    fn the_path_of_a_file_determines_its_module() {
        assert_eq!(module_of("io/uring/ring.rs"), ["io", "uring", "ring"]);
        assert_eq!(module_of("io/mod.rs"), ["io"]);
        assert!(module_of("lib.rs").is_empty());
    }
}
