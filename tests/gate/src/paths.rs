//! Absolute paths of one machine, which do not exist on a second one.

use super::sources::Source;
use crate::violation::Violation;

/// Starts of absolute paths of one machine, in two halves, so that this file does not contain them.
fn starts() -> [String; 4] {
    [("/ro", "ot/"), ("/wo", "rk/"), ("/ho", "me/"), ("/Us", "ers/")].map(|(a, b)| format!("{a}{b}"))
}

/// Checks every text file.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let starts = starts();
    let mut violations = Vec::new();
    for source in sources.iter().filter(|s| !s.path.ends_with(".lock")) {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(start) = starts.iter().find(|start| is_path_start(line, start)) {
                violations.push(Violation {
                    place: format!("{}:{}", source.path, number + 1),
                    problem: format!("a path of one machine: {start}..."),
                    fix: "take it from an argument, the environment, or the repository's root".to_owned(),
                });
            }
        }
    }
    violations
}

/// Returns true if `start` begins a path in `line` and is not the middle of a longer one such as `s3://bucket` +
/// `start`.
fn is_path_start(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '/' | '$' | '~' | '*' | '>'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_folder_is_caught_and_the_middle_of_a_longer_path_is_not() {
        let [_, work, home, _] = starts();
        let text = format!("a\nlocal = \"{home}me/cache\"\nurl = \"s3://bucket{work}x\"\n");
        let found = check(&[Source { path: "a.py".to_owned(), text }]);
        assert_eq!(found.iter().map(|c| c.place.as_str()).collect::<Vec<_>>(), ["a.py:2"]);
    }
}
