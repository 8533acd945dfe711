//! The extension's type stub against its Rust source: the same classes, methods and parameters.
//!
//! Both sides become a list of lines such as `Engine.next(timeout)`, and the lists must be equal. Types in the stub are
//! written by hand, since PyO3's signatures do not contain them.

use super::sources::Source;
use crate::violation::Violation;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::str::FromStr;

/// The committed stub.
const STUB: &str = "python/py_src/forebay/_forebay.pyi";

/// Compares `python/src` with the committed stub; nothing to do where there is no stub.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let Some(stub) = sources.iter().find(|s| s.path == STUB) else {
        return Vec::new();
    };
    let mut rust = BTreeSet::new();
    for source in sources.iter().filter(|s| s.path.starts_with("python/src/") && s.path.ends_with(".rs")) {
        if let Ok(tokens) = TokenStream::from_str(&source.text) {
            items(&tokens.into_iter().collect::<Vec<_>>(), None, &mut rust);
        }
    }
    let python = of_stub(&stub.text);
    let violation = |name: &String, problem: &str| Violation {
        place: STUB.to_owned(),
        problem: format!("`{name}` {problem}"),
        fix: "change the stub to match python/src".to_owned(),
    };
    let missing = rust.difference(&python).map(|name| violation(name, "is missing"));
    missing.chain(python.difference(&rust).map(|name| violation(name, "is not in the extension"))).collect()
}

/// The attributes seen before an item.
#[derive(Default)]
struct Attributes {
    class: bool,
    function: bool,
    methods: bool,
    new: bool,
    getter: bool,
    hidden: bool,
    signature: Option<Vec<String>>,
}

impl Attributes {
    fn read(&mut self, group: &TokenStream) {
        let tokens: Vec<TokenTree> = group.clone().into_iter().collect();
        let Some(TokenTree::Ident(word)) = tokens.first() else { return };
        match word.to_string().as_str() {
            "pyclass" => self.class = true,
            "pyfunction" => self.function = true,
            "pymethods" => self.methods = true,
            "new" => self.new = true,
            "getter" => self.getter = true,
            "pymodule" => self.hidden = true,
            "pyo3" => {
                let Some(TokenTree::Group(inner)) = tokens.get(1) else { return };
                let inner: Vec<TokenTree> = inner.stream().into_iter().collect();
                if let [TokenTree::Ident(name), _, TokenTree::Group(list), ..] = inner.as_slice()
                    && name == "signature"
                {
                    self.signature = Some(parameters_of_signature(list.stream()));
                }
            }
            _ => {}
        }
    }
}

/// Reads a file's items, or with `class` the methods of an `impl`.
fn items(tokens: &[TokenTree], class: Option<&str>, out: &mut BTreeSet<String>) {
    let mut seen = Attributes::default();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at..] {
            [TokenTree::Punct(hash), TokenTree::Group(group), ..] if hash.as_char() == '#' => {
                seen.read(&group.stream());
                at += 2;
            }
            [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "struct" => {
                if seen.class {
                    out.insert(format!("class {name}"));
                }
                seen = Attributes::default();
                at += 2;
            }
            [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "impl" => {
                let body = tokens[at..].iter().position(is_braces).map(|i| at + i).unwrap_or(tokens.len() - 1);
                if let (true, TokenTree::Group(body)) = (seen.methods, &tokens[body]) {
                    items(&body.stream().into_iter().collect::<Vec<_>>(), Some(&name.to_string()), out);
                }
                seen = Attributes::default();
                at = body + 1;
            }
            [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "fn" => {
                let arguments = tokens[at..].iter().find_map(|t| match t {
                    TokenTree::Group(g) if g.delimiter() == Delimiter::Parenthesis => Some(g.stream()),
                    _ => None,
                });
                let parameters =
                    seen.signature.take().unwrap_or_else(|| parameters_of_fn(arguments.unwrap_or_default()));
                let parameters = parameters.join(", ");
                match class {
                    Some(class) if seen.new => drop(out.insert(format!("{class}.__init__({parameters})"))),
                    Some(class) if seen.getter => drop(out.insert(format!("{class}.{name} property"))),
                    Some(class) => drop(out.insert(format!("{class}.{name}({parameters})"))),
                    None if seen.function => drop(out.insert(format!("{name}({parameters})"))),
                    None => {}
                }
                let body = tokens[at..].iter().position(is_braces).map(|i| at + i).unwrap_or(tokens.len());
                seen = Attributes::default();
                at = body + 1;
            }
            _ => at += 1,
        }
    }
}

fn is_braces(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace)
}

/// Splits at the commas of the outermost level, generics included: a comma inside `<...>` is none.
fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    let mut angle = 0;
    for token in tokens {
        if let TokenTree::Punct(p) = &token {
            match p.as_char() {
                '<' => angle += 1,
                '>' => angle -= 1,
                ',' if angle == 0 => {
                    parts.push(Vec::new());
                    continue;
                }
                _ => {}
            }
        }
        parts.last_mut().expect("never empty").push(token);
    }
    parts.retain(|p| !p.is_empty());
    parts
}

/// `(a, *, b=None)` is `a`, `*`, `b`.
fn parameters_of_signature(list: TokenStream) -> Vec<String> {
    let name = |part: &Vec<TokenTree>| {
        let text: String = part.iter().map(ToString::to_string).collect();
        text.split('=').next().unwrap_or_default().to_owned()
    };
    split(list).iter().map(name).collect()
}

/// The parameters that Python sees: not `self`, not the interpreter.
fn parameters_of_fn(list: TokenStream) -> Vec<String> {
    let mut names = Vec::new();
    for part in split(list) {
        let text: Vec<String> = part.iter().map(ToString::to_string).collect();
        let Some(colon) = text.iter().position(|t| t == ":") else { continue };
        let name = &text[colon - 1];
        let ty = text[colon + 1..].concat();
        if name == "slf" || ty.starts_with("Python<") || ty == "Python" {
            continue;
        }
        names.push(name.trim_start_matches('_').to_owned());
    }
    names
}

/// Returns the stub's lines in the same form.
fn of_stub(text: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut class: Option<String> = None;
    let mut property = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let word = line.trim_start();
        if !line.starts_with(' ') && !word.is_empty() {
            class = None;
        }
        if let Some(rest) = word.strip_prefix("class ") {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            out.insert(format!("class {name}"));
            class = Some(name);
        } else if word.starts_with("@property") {
            property = true;
        } else if let Some(rest) = word.strip_prefix("def ") {
            let mut whole = rest.to_owned();
            while whole.matches(['(', '[']).count() > whole.matches([')', ']']).count() {
                let Some(more) = lines.next() else { break };
                whole.push_str(more.trim());
            }
            let Some((name, rest)) = whole.split_once('(') else { continue };
            let parameters = parameters_of_stub(rest).join(", ");
            out.insert(match &class {
                Some(class) if property => format!("{class}.{name} property"),
                Some(class) => format!("{class}.{name}({parameters})"),
                None => format!("{name}({parameters})"),
            });
            property = false;
        }
    }
    out
}

/// The names before the closing parenthesis of `self, a: int, b: list[int] = ...) -> None: ...`.
fn parameters_of_stub(rest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut name = String::new();
    let mut naming = true;
    for c in rest.chars() {
        match c {
            ')' if depth == 0 => break,
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut name));
                naming = true;
            }
            ':' | '=' if depth == 0 => naming = false,
            c if naming && !c.is_whitespace() => name.push(c),
            _ => {}
        }
    }
    names.push(name);
    names.retain(|n| !n.is_empty() && n != "self");
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: &str = r#"
        /// A thing.
        #[pyclass(frozen, module = "x")]
        struct Engine { inner: Map<u8, u8> }
        #[pymethods]
        impl Engine {
            #[new]
            #[pyo3(signature = (config, *, strict=true))]
            fn new(config: &str, strict: bool) -> PyResult<Self> { todo() }
            fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> { Ok(()) }
            #[getter]
            fn epoch(&self) -> i64 { 0 }
        }
        impl Engine { fn hidden(&self) {} }
        #[pyfunction]
        fn version() -> &'static str { "1" }
        fn helper(a: u8) {}
    "#;
    const STUB_TEXT: &str = "class Engine:\n    def __init__(self, config: str, *,\n                 strict: bool = \
                             True) -> None: ...\n\
        \x20   def next(self, timeout: float | None) -> None: ...\n    @property\n    def epoch(self) -> int: ...\n\n\
        def version() -> str: ...\n";

    fn differences(rust: &str, stub: &str) -> Vec<String> {
        let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        check(&[file("python/src/lib.rs", rust), file(STUB, stub)]).into_iter().map(|c| c.problem).collect()
    }

    #[test]
    fn a_stub_that_matches_the_extension_passes() {
        assert_eq!(differences(RUST, STUB_TEXT), Vec::<String>::new());
    }

    #[test]
    fn a_renamed_parameter_and_a_forgotten_method_are_caught() {
        let stub = STUB_TEXT.replace("timeout", "limit").replace("def version() -> str: ...\n", "");
        assert_eq!(
            differences(RUST, &stub),
            [
                "`Engine.next(timeout)` is missing",
                "`version()` is missing",
                "`Engine.next(limit)` is not in the extension"
            ]
        );
    }
}
