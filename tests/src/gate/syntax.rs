//! As much of Rust's syntax as the checks need, on top of rustc's own tokens.
//!
//! Comments and strings are no tokens, so a path in either never counts. Macro bodies are tokens, so a path there does.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::str::FromStr;

/// Something that a file mentions, with the line (from 1) and the module it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Segments from the crate's root: `["order", "ids", "ShardId"]`.
    pub path: Vec<String>,
    /// From 1.
    pub line: usize,
    /// Inside an item under `#[cfg(test)]`.
    pub in_test: bool,
}

/// What one file mentions.
#[derive(Clone, Debug, Default)]
pub struct Mentions {
    /// Paths that start at `crate` or `super`, written out.
    pub paths: Vec<Mention>,
    /// Lines with the word `unsafe`.
    pub unsafe_lines: Vec<usize>,
}

/// The module that a source file under `src/` is: `io/uring/ring.rs` is `["io", "uring", "ring"]`, `io/mod.rs` `["io"]`,
/// `lib.rs` the root.
pub fn module_of(path_in_src: &str) -> Vec<String> {
    let mut parts: Vec<String> = path_in_src.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Reads the text of the file that is `module`.
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
            TokenTree::Group(group) => {
                let attribute = at > 0 && is_punct(&tokens[at - 1], '#');
                if attribute && is_cfg_test(&group.stream()) {
                    test_item = true;
                }
                let brace = group.delimiter() == Delimiter::Brace;
                // `mod name { ... }` is a module of its own, which is what `super` inside it counts from.
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
                if (word == "crate" || word == "super") && is_path_sep(&tokens, at + 1) {
                    at = read_tree(&tokens, at, Vec::new(), module, line, in_test || test_item, out);
                } else {
                    at += 1;
                }
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

/// Reads `crate::a::{b, c::d}` from `at` on; gives the place behind it.
fn read_tree(
    tokens: &[TokenTree],
    mut at: usize,
    mut path: Vec<String>,
    module: &[String],
    line: usize,
    in_test: bool,
    out: &mut Mentions,
) -> usize {
    let mut up = 0;
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(word)) => {
                match word.to_string().as_str() {
                    "crate" | "self" => {}
                    "super" => up += 1,
                    other => {
                        if up > 0 {
                            path = module[..module.len().saturating_sub(up)].to_vec();
                            up = 0;
                        }
                        path.push(other.to_owned());
                    }
                }
                at += 1;
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                if up > 0 {
                    path = module[..module.len().saturating_sub(up)].to_vec();
                }
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut i = 0;
                while i < inner.len() {
                    let line = inner[i].span().start().line;
                    i = read_tree(&inner, i, path.clone(), module, line, in_test, out);
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
        path = module[..module.len().saturating_sub(up)].to_vec();
    }
    if !path.is_empty() {
        out.paths.push(Mention { path, line, in_test });
    }
    at
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}

fn is_path_sep(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at..at + 2), Some([a, b]) if is_punct(a, ':') && is_punct(b, ':'))
}

fn is_cfg_test(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str, module: &[&str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|s| (*s).to_owned()).collect();
        mentions(text, &module).expect("tokens").paths.iter().map(|m| m.path.join("::")).collect()
    }

    #[test]
    fn a_nested_use_is_written_out() {
        let text = "use crate::{io::{Reader as R, uring::*}, error::Result};";
        assert_eq!(paths(text, &["cache"]), ["io::Reader", "io::uring", "error::Result"]);
    }

    #[test]
    fn super_counts_from_the_module_it_stands_in() {
        assert_eq!(paths("use super::super::io::Reader;", &["cache", "claim"]), ["io::Reader"]);
        assert_eq!(paths("mod inner { use super::x; }", &["cache"]), ["cache::x"]);
        assert_eq!(paths("fn f() { super::evict::go() }", &["cache", "claim"]), ["cache::evict::go"]);
    }

    #[test]
    fn comments_and_strings_mention_nothing_but_macros_do() {
        let text = "// use crate::io;\n/// [`crate::io`]\nfn f() { let _ = \"crate::io\"; vec![crate::store::x()] }";
        assert_eq!(paths(text, &["order"]), ["store::x"]);
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
    fn the_word_unsafe_is_found_by_line_and_not_inside_other_words() {
        let found = mentions("#![deny(unsafe_code)]\nfn f() {\n    unsafe { g() }\n}", &[]).expect("tokens");
        assert_eq!(found.unsafe_lines, [3]);
    }

    #[test]
    fn a_file_knows_its_module() {
        assert_eq!(module_of("io/uring/ring.rs"), ["io", "uring", "ring"]);
        assert_eq!(module_of("io/mod.rs"), ["io"]);
        assert!(module_of("lib.rs").is_empty());
    }
}
