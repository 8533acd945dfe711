//! Names of types that do not name their subject, such as `State` alone.

use super::sources::Source;
use crate::violation::Violation;

/// Names that many modules would give to a different type each.
const BARE: &[&str] = &["Entry", "Inner", "Kept", "Kind", "Part", "Place", "State", "Window"];

/// Keywords that define a type, in Rust and in Python.
const KEYWORDS: &[&str] = &["enum", "struct", "trait", "type", "union", "class"];

/// Checks every source in Rust and Python.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let checked = sources.iter().filter(|source| source.path.ends_with(".rs") || source.path.ends_with(".py"));
    checked
        .flat_map(|source| {
            source.text.lines().enumerate().filter_map(move |(number, line)| {
                bare_type(line).map(|name| Violation {
                    place: format!("{}:{}", source.path, number + 1),
                    problem: format!("a type is called {name} alone"),
                    fix: format!("name its subject, as in Flight{name}"),
                })
            })
        })
        .collect()
}

/// Returns the bare name of the type that `line` defines.
fn bare_type(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    let split = |keyword: &&'static str| Some((*keyword, line.split_once(&format!("{keyword} "))?));
    let (keyword, (before, rest)) = KEYWORDS.iter().find_map(split)?;
    // Nothing but `pub`, with or without a scope, is in front of the keyword. `type Kind;` of a trait is no type.
    if !(before.is_empty() || before.starts_with("pub ") || before.starts_with("pub(")) {
        return None;
    }
    let name: &str = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let is_of_trait = keyword == "type" && rest[name.len()..].starts_with([';', ':']);
    BARE.iter().find(|bare| **bare == name && !is_of_trait).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_a_bare_name_are_found() {
        for (line, name) in [
            ("struct State {", Some("State")),
            ("pub(super) enum Kind<'a> {", Some("Kind")),
            ("    pub type Entry = (u8, u8);", Some("Entry")),
            ("pub(crate) struct Window(u8);", Some("Window")),
            ("class Part:", Some("Part")),
            ("    class Entry(NamedTuple):", Some("Entry")),
            ("struct FlightState {", None),
            ("struct Statement;", None),
            ("    type Kind: Copy;", None),
            ("/// A struct State {", None),
            ("let x = \"struct State {\";", None),
        ] {
            assert_eq!(bare_type(line), name, "{line}");
        }
        let source = Source { path: "a.rs".to_owned(), text: "\nenum Part {}\n".to_owned() };
        assert_eq!(check(&[source]).iter().map(|found| found.place.as_str()).collect::<Vec<_>>(), ["a.rs:2"]);
    }
}
