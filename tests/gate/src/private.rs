//! Private names of the Python package that a file reads although a different file owns them.
//!
//! A name with one underscore in front belongs to the file that defines it, and to classes that inherit from it there.
//! A reader elsewhere depends on how its owner works, which no import shows. `x._name` is refused where `x` is not
//! `self`, `cls` or `super()` and the file does not define the name, and so is `from m import _name` and a name in
//! `getattr`. Modules such as `_forebay` are no such names.

use super::sources::Source;
use crate::violation::Violation;
use std::collections::BTreeSet;

/// The package.
const PACKAGE: &str = "python/py_src/forebay/";

/// Folders with the names of the packages that they replace, where programs reach for private names as well.
const INHERITED: &[&str] = &["python/py_src/forebay/streaming/"];

/// Public in spite of the underscore, by the documentation of Python.
const DOCUMENTED: &[&str] = &["_asdict", "_exit", "_fields", "_getframe", "_make", "_replace"];

/// Names of libraries that have no public ones for this: the file, the name, and the reason.
const OF_LIBRARIES: &[(&str, &str, &str)] = &[
    ("streams.py", "_indices", "datasets: rows that were selected"),
    ("checkpoint/distributed/writing.py", "_enable_plan_caching", "torch: option of a planner"),
    ("checkpoint/memory.py", "_cdata", "torch: identity of a storage"),
    ("checkpoint/memory.py", "_untyped_storage", "torch: memory of a typed storage"),
    ("files/order.py", "_is_sharding_datapipe", "torch: DataPipes that divide samples"),
    ("integrations/keras.py", "_initial_epoch", "keras: the epoch at which `fit` resumes"),
    ("position.py", "_combined_loader", "lightning: the loaders of a loop"),
    ("position.py", "_mode", "lightning: the mode of combined loaders"),
    ("remotes/filesystems.py", "_find", "fsspec: listing of an asynchronous file system"),
    ("remotes/filesystems.py", "_strip_protocol", "fsspec: path of an address"),
];

/// Checks every file of the package.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let files = sources.iter().filter(|source| source.path.starts_with(PACKAGE) && source.path.ends_with(".py"));
    let modules = modules(sources);
    files
        .filter(|source| !INHERITED.iter().any(|folder| source.path.starts_with(folder)))
        .flat_map(|source| {
            let file = &source.path[PACKAGE.len()..];
            let tokens = lex(&source.text);
            let own = defined(&tokens);
            let is_allowed = move |name: &str| {
                DOCUMENTED.contains(&name)
                    || OF_LIBRARIES.iter().any(|(of, of_name, _)| is_file(file, of) && *of_name == name)
            };
            let modules = &modules;
            reads(&tokens)
                .into_iter()
                .filter(move |Read { name, may_be_module, .. }| {
                    !(own.contains(name) || is_allowed(name) || *may_be_module && modules.contains(name))
                })
                .map(|Read { line, name, .. }| Violation {
                    place: format!("{}:{line}", source.path),
                    problem: format!("`{name}` is private to a different file"),
                    fix: "call a function of the file that owns it, or move the code there".to_owned(),
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// True if `file` is `known`, also after its module was renamed to a private one.
fn is_file(file: &str, known: &str) -> bool {
    let (folder, name) = known.rsplit_once('/').map_or(("", known), |(folder, name)| (folder, name));
    let (of, found) = file.rsplit_once('/').map_or(("", file), |(folder, name)| (folder, name));
    of.replace('_', "") == folder.replace('_', "") && found.trim_start_matches('_') == name
}

/// Names of private modules, such as `_forebay`.
fn modules(sources: &[Source]) -> BTreeSet<String> {
    let paths = sources.iter().filter_map(|source| source.path.strip_prefix(PACKAGE));
    let parts = paths.flat_map(|path| path.split('/'));
    parts.filter_map(|part| part.split('.').next()).filter(|name| is_private(name)).map(str::to_owned).collect()
}

fn is_private(name: &str) -> bool {
    name.starts_with('_') && !name.starts_with("__") && name.len() > 1
}

/// Token of a Python text. Comments are left out, and strings are kept for `getattr`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    Sign(char),
    LineEnd,
}

/// Returns the tokens with their lines, counted from 1.
fn lex(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(next) = rest.chars().next() {
        let mut len = next.len_utf8();
        if next == '#' {
            len = rest.find('\n').unwrap_or(rest.len());
        } else if next == '\n' {
            tokens.push((line, Token::LineEnd));
        } else if next.is_alphanumeric() || next == '_' {
            len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (name, after) = rest.split_at(len);
            if after.starts_with(['"', '\'']) && name.len() <= 2 && name.chars().all(|c| "rRbBfFuU".contains(c)) {
                let is_format = name.contains(['f', 'F']);
                len += string(after, is_format, line, &mut tokens);
            } else {
                tokens.push((line, Token::Name(name.to_owned())));
            }
        } else if next == '"' || next == '\'' {
            len = string(rest, false, line, &mut tokens);
        } else if !next.is_whitespace() {
            tokens.push((line, Token::Sign(next)));
        }
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    tokens
}

/// Adds the string at the start of `text`, and the code in it if it is formatted. Returns its length.
fn string(text: &str, is_format: bool, line: usize, tokens: &mut Vec<(usize, Token)>) -> usize {
    let quote = if text.starts_with("\"\"\"") || text.starts_with("'''") { &text[..3] } else { &text[..1] };
    let mut end = quote.len();
    let mut contents = String::new();
    while let Some(next) = text[end..].chars().next() {
        if text[end..].starts_with(quote) {
            break;
        }
        contents.push(next);
        end += next.len_utf8();
        if next == '\\'
            && let Some(escaped) = text[end..].chars().next()
        {
            contents.push(escaped);
            end += escaped.len_utf8();
        }
    }
    if is_format {
        let plain = contents.replace("{{", "").replace("}}", "");
        for code in plain.split('{').skip(1).filter_map(|part| part.split('}').next()) {
            tokens.push((line, Token::Sign('{')));
            tokens.extend(lex(code).into_iter().map(|(_, token)| (line, token)));
        }
    }
    tokens.push((line, Token::Text(contents)));
    (end + quote.len()).min(text.len())
}

/// Returns the private names that a file defines: functions, classes, variables, and attributes of `self` or `cls`.
fn defined(tokens: &[(usize, Token)]) -> BTreeSet<String> {
    let tokens: Vec<&Token> = tokens.iter().map(|(_, token)| token).collect();
    let is_word =
        |at: usize, words: &[&str]| matches!(tokens.get(at), Some(Token::Name(n)) if words.contains(&n.as_str()));
    let is_sign = |at: usize, signs: &[char]| matches!(tokens.get(at), Some(Token::Sign(s)) if signs.contains(s));
    let mut names = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Name(name) = token else { continue };
        if !is_private(name) {
            continue;
        }
        let is_item = at > 0 && is_word(at - 1, &["def", "class"]);
        let is_own = at > 1 && is_sign(at - 1, &['.']) && is_word(at - 2, &["self", "cls"]);
        let start = if is_own { at - 2 } else { at };
        let line = tokens[..start].iter().rposition(|token| **token == Token::LineEnd).map_or(0, |end| end + 1);
        // The targets of `=`, but not of `==`, or the name of an annotation.
        let targets = tokens[at + 1..].iter().take_while(|token| ***token != Token::LineEnd);
        let equals = targets.clone().position(|token| *token == &Token::Sign('=')).map(|count| at + 1 + count);
        let is_target = equals.is_some_and(|equals| {
            !is_sign(equals + 1, &['='])
                && tokens[line..equals].iter().all(|token| matches!(token, Token::Name(_) | Token::Sign('.' | ',')))
        });
        if is_item
            || is_target && (is_own || !is_sign(at.wrapping_sub(1), &['.']))
            || start == line && is_sign(at + 1, &[':'])
        {
            names.insert(name.clone());
        }
    }
    names
}

/// Use of a private name of something else than the file's own object.
struct Read {
    /// From 1.
    line: usize,
    name: String,
    /// It is imported, or an attribute of the package: a module if there is one with this name.
    may_be_module: bool,
}

fn reads(tokens: &[(usize, Token)]) -> Vec<Read> {
    let mut found = Vec::new();
    let mut import = None;
    for (at, (line, token)) in tokens.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).map(|index| &tokens[index].1);
        match token {
            Token::Name(name) if name == "from" => import = Some((*line, false)),
            Token::Name(name) if name == "import" => import = import.map(|(first, _)| (first, true)),
            // The list of an import ends with its line, or with its bracket.
            Token::LineEnd if !is_open(tokens, at) => import = None,
            Token::Name(name) if is_private(name) => {
                let is_attribute = before(1) == Some(&Token::Sign('.'));
                let is_imported = matches!(import, Some((_, true)))
                    && !is_attribute
                    && before(1) != Some(&Token::Name("as".to_owned()));
                let is_of_package = before(2) == Some(&Token::Name("forebay".to_owned()));
                if is_imported || is_attribute && import.is_none() && !is_of_self(tokens, at - 1) {
                    let may_be_module = is_imported || is_of_package;
                    found.push(Read { line: *line, name: name.clone(), may_be_module });
                }
            }
            Token::Text(text) if is_private(text) && text.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                // getattr(x, "_name")
                let start = tokens[..at].iter().rposition(|(_, token)| *token == Token::Sign('(')).unwrap_or(0);
                let is_call = start > 0
                    && matches!(&tokens[start - 1].1, Token::Name(n)
                        if ["getattr", "setattr", "hasattr", "delattr"].contains(&n.as_str()));
                let is_self = matches!(&tokens.get(start + 1), Some((_, Token::Name(n))) if n == "self" || n == "cls");
                if is_call && !is_self {
                    found.push(Read { line: *line, name: text.clone(), may_be_module: false });
                }
            }
            _ => {}
        }
    }
    found
}

/// True if a bracket is open at the end of a line.
fn is_open(tokens: &[(usize, Token)], end: usize) -> bool {
    let start = tokens[..end].iter().rposition(|(_, token)| *token == Token::Name("import".to_owned())).unwrap_or(end);
    let count = |sign: char| tokens[start..end].iter().filter(|(_, token)| *token == Token::Sign(sign)).count();
    count('(') > count(')')
}

/// True if the point at `at` follows `self`, `cls` or `super()` alone.
fn is_of_self(tokens: &[(usize, Token)], at: usize) -> bool {
    let token = |back: usize| at.checked_sub(back).map(|index| &tokens[index].1);
    let is_alone = |back: usize| token(back) != Some(&Token::Sign('.'));
    match token(1) {
        Some(Token::Name(name)) => (name == "self" || name == "cls") && is_alone(2),
        Some(Token::Sign(')')) => {
            token(2) == Some(&Token::Sign('('))
                && matches!(token(3), Some(Token::Name(name)) if name == "super")
                && is_alone(4)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The private names that are refused in a file of the package.
    fn refused(file: &str, text: &str) -> Vec<String> {
        let source = |path: &str, text: &str| Source { path: format!("{PACKAGE}{path}"), text: text.to_owned() };
        let sources = [source(file, text), source("_forebay.pyi", "")];
        let name = |found: &Violation| {
            let line = found.place.rsplit(':').next().unwrap_or_default();
            format!("{line} {}", found.problem.split('`').nth(1).unwrap_or_default())
        };
        check(&sources).iter().map(name).collect()
    }

    #[test]
    fn private_names_of_all_files_but_their_own_are_refused() {
        for (text, found) in [
            ("loader._engines\n", "1 _engines"),
            ("\nself.loader._engines.close()\n", "2 _engines"),
            ("f(x)._engines\n", "1 _engines"),
            ("xs[0]._engines = 1\n", "1 _engines"),
            ("f'{loader._engines} {{x._no}}'\n", "1 _engines"),
            ("getattr(loader, '_engines', None)\n", "1 _engines"),
            ("from .errors import Error, _of_system\n", "1 _of_system"),
            ("from .errors import (\n    Error,\n    _of_system,\n)\n", "3 _of_system"),
            ("'''\n\n'''\nx._engines\n", "4 _engines"),
            ("from .errors import _of_system, Error\n", "1 _of_system"),
            ("x._forebay\n", "1 _forebay"),
            ("if x._engines == 1:\n    pass\n", "1 _engines"),
        ] {
            assert_eq!(refused("a.py", text), [found], "{text}");
        }
    }

    #[test]
    fn own_names_and_documented_ones_are_not() {
        for text in [
            "self._engines\nsuper()._engines\ncls._engines\n",
            "def _f(): ...\nx._f()\n",
            "class A:\n    def f(self):\n        self._x = 1\n    def __eq__(self, other):\n        return other._x\n",
            "class A:\n    def f(self, other):\n        self._x, self._y = other._x, other._y\n",
            "class A:\n    _x: int\n    def f(self, other): return other._x\n",
            "_first, _second = 1, 2\nmodule._second\n",
            "from . import _forebay\nfrom forebay._forebay import Engine\n_forebay.Engine\nforebay._forebay.Engine\n",
            "from x import public as _private\nimport _thread\n",
            "sys._getframe(1)\nrow._replace(x=1)\nx.__dict__\n",
            "# x._engines\n'x._engines'\n\"\"\"x._engines\"\"\"\nf\"{{x._engines}}\"\n",
            "getattr(self, '_engines')\nprint('_engines')\n",
        ] {
            assert_eq!(refused("a.py", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn names_of_libraries_are_of_one_file() {
        let text = "loop._combined_loader\n";
        assert_eq!(refused("position.py", text), [""; 0]);
        assert_eq!(refused("_position.py", text), [""; 0]);
        assert_eq!(refused("integrations/position.py", text), ["1 _combined_loader"]);
        assert_eq!(refused("streaming/base/dataset.py", text), [""; 0]);
    }
}
