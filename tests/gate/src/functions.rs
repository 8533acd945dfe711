//! Length of Rust functions.
//!
//! A function that does not fit a screen does several things, or is a list: the former is split, the latter has an
//! entry with its reason. Lines count from `fn` to the closing brace, comments and blank lines included.

use super::rust_files::RustFile;
use super::sources::Source;
use super::syntax::is_cfg_test;
use crate::violation::Violation;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::str::FromStr;

/// Lines of a function, of production and of programs that serve tests.
const LINES_MAX: usize = 80;

/// Lines of a function of a test. A test is a script without branches, and its data and its table of cases are part of
/// it, so it is longer than production code that does as much.
const TEST_LINES_MAX: usize = 120;

/// Longer function that is accepted.
struct Exception {
    path: &'static str,
    function: &'static str,
    /// Why its parts are better together.
    reason: &'static str,
}

/// All exceptions. One that is not needed is a violation.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        path: "loader/picture/src/jpeg/sequential.rs",
        function: "decode_scan",
        reason: "one loop over rows with borrowed parts of the workspace; it is on the hot path",
    },
    Exception {
        path: "loader/src/pipeline/epoch.rs",
        function: "start",
        reason: "the wiring of an epoch in the order of its stages",
    },
];

/// Checks every Rust source. `files` has the ones that only tests have.
pub fn check(sources: &[Source], files: &[RustFile<'_>]) -> Vec<Violation> {
    check_with(EXCEPTIONS, sources, files)
}

fn check_with(exceptions: &[Exception], sources: &[Source], files: &[RustFile<'_>]) -> Vec<Violation> {
    let of_tests: BTreeSet<&str> = files.iter().filter(|file| file.is_test).map(|file| file.path).collect();
    let mut long = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".rs")) {
        // Suites are outside of `src`, as is a build script.
        let is_suite = !source.path.contains("/src/") && !source.path.ends_with("build.rs");
        let is_test = is_suite || of_tests.contains(source.path.as_str());
        // A file that is not Rust is an error of the layering check.
        let functions = functions(&source.text, is_test);
        let is_long = |function: &Function| function.lines > max_of(function);
        long.extend(functions.into_iter().filter(is_long).map(|function| (source.path.as_str(), function)));
    }
    let is_listed =
        |path: &str, name: &str| exceptions.iter().any(|entry| entry.path == path && entry.function == name);
    let mut violations: Vec<Violation> = Vec::new();
    for (path, function) in long.iter().filter(|(path, function)| !is_listed(path, &function.name)) {
        violations.push(Violation {
            place: format!("{path}:{}", function.line),
            problem: format!("`{}` has {} lines, more than {}", function.name, function.lines, max_of(function)),
            fix: "split it by the tasks of its parts, or list it with its reason in \
                  tests/gate/src/functions.rs"
                .to_owned(),
        });
    }
    let is_needed =
        |entry: &&Exception| long.iter().any(|(path, function)| *path == entry.path && function.name == entry.function);
    violations.extend(exceptions.iter().filter(|entry| !is_needed(entry)).map(|entry| Violation {
        place: "tests/gate/src/functions.rs".to_owned(),
        problem: format!("`{}` of {} is short, or not there ({})", entry.function, entry.path, entry.reason),
        fix: "remove it from the exceptions".to_owned(),
    }));
    violations
}

fn max_of(function: &Function) -> usize {
    if function.in_test { TEST_LINES_MAX } else { LINES_MAX }
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// From 1.
    line: usize,
    /// From `fn` to the closing brace.
    lines: usize,
    in_test: bool,
}

fn functions(text: &str, in_test: bool) -> Vec<Function> {
    let mut out = Vec::new();
    if let Ok(tokens) = TokenStream::from_str(text) {
        walk(tokens, in_test, &mut out);
    }
    out
}

fn walk(tokens: TokenStream, in_test: bool, out: &mut Vec<Function>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    // From `#[cfg(test)]` or `#[test]` to the end of the item that follows it.
    let mut test_item = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "fn" => {
                if let Some((name, end)) = body_of(&tokens[at + 1..]) {
                    let line = word.span().start().line;
                    let in_test = in_test || test_item;
                    out.push(Function { name, line, lines: end + 1 - line, in_test });
                }
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                let text = group.stream();
                test_item |= is_cfg_test(&text) || text.to_string() == "test";
                walk(text, in_test || test_item, out);
            }
            TokenTree::Group(group) => {
                walk(group.stream(), in_test || test_item, out);
                test_item &= group.delimiter() != Delimiter::Brace;
            }
            TokenTree::Punct(p) if p.as_char() == ';' => test_item = false,
            _ => {}
        }
    }
}

/// Returns the name of the function after `fn`, and the line of its closing brace.
fn body_of(tokens: &[TokenTree]) -> Option<(String, usize)> {
    let TokenTree::Ident(name) = tokens.first()? else { return None };
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                return Some((name.to_string(), group.span_close().end().line));
            }
            // Declared only.
            TokenTree::Punct(p) if p.as_char() == ';' => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::rust_files::read;
    use super::*;

    fn problems(exceptions: &[Exception], files: &[(&str, String)]) -> Vec<String> {
        let sources = files.iter().map(|(path, text)| Source { path: (*path).to_owned(), text: text.clone() });
        let sources: Vec<Source> = sources.collect();
        let found = check_with(exceptions, &sources, &read(&sources).0);
        found.into_iter().map(|violation| format!("{}: {}", violation.place, violation.problem)).collect()
    }

    /// A function with `lines` lines.
    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}(f: fn(u8) -> u8)\nwhere u8: Copy\n{{{}}}", "\n".repeat(lines - 3))
    }

    #[test]
    fn a_function_of_more_lines_than_allowed_is_caught_with_its_path() {
        let text = format!("trait T {{ fn declared();\n{}\n{} }}", function("fits", 80), function("long", 81));
        let found = problems(&[], &[("gpu/src/copy.rs", text)]);
        assert_eq!(found, ["gpu/src/copy.rs:82: `long` has 81 lines, more than 80"]);
        assert_eq!(problems(&[], &[("ffi/build.rs", function("main", 81))]).len(), 1);
        let nested = format!("fn outer() {{ {} }}", function("inner", 81));
        assert_eq!(problems(&[], &[("ffi/src/a.rs", nested)]).len(), 2);
    }

    #[test]
    fn tests_may_be_longer_up_to_their_own_bound() {
        let inline = |lines| format!("#[cfg(test)]\nmod tests {{ #[test]\n{} }}\n", function("case", lines));
        for (lines, found) in [(120, 0), (121, 1)] {
            assert_eq!(problems(&[], &[("gpu/src/copy.rs", inline(lines))]).len(), found);
            assert_eq!(problems(&[], &[("tests/suite/store.rs", function("case", lines))]).len(), found);
            assert_eq!(problems(&[], &[("loader/src/io/tests/uring.rs", function("case", lines))]).len(), found);
        }
        let after = inline(100) + &function("production", 100);
        assert_eq!(problems(&[], &[("gpu/src/copy.rs", after)]).len(), 1);
    }

    #[test]
    fn an_exception_is_accepted_while_it_is_needed() {
        let exceptions = [Exception { path: "gpu/src/copy.rs", function: "long", reason: "a table" }];
        assert!(problems(&exceptions, &[("gpu/src/copy.rs", function("long", 81))]).is_empty());
        let found = problems(&exceptions, &[("gpu/src/copy.rs", function("long", 80))]);
        assert_eq!(found, ["tests/gate/src/functions.rs: `long` of gpu/src/copy.rs is short, or not there (a table)"]);
        assert_eq!(problems(&exceptions, &[("gpu/src/copy.rs", function("second", 81))]).len(), 2);
    }
}
