//! Paths of one machine, which mean nothing on another.

use super::Complaint;
use super::sources::Source;

/// Starts of absolute paths that belong to one person's machine; spelt in two halves, or this file would be caught.
fn starts() -> [String; 4] {
    [("/ro", "ot/"), ("/wo", "rk/"), ("/ho", "me/"), ("/Us", "ers/")].map(|(a, b)| format!("{a}{b}"))
}

/// Checks every text file.
pub fn check(sources: &[Source]) -> Vec<Complaint> {
    let starts = starts();
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|s| !s.path.ends_with(".lock")) {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(start) = starts.iter().find(|start| stands_alone(line, start)) {
                complaints.push(Complaint {
                    place: format!("{}:{}", source.path, number + 1),
                    what: format!("a path of one machine: {start}..."),
                    mend: "take it from an argument, the environment, or the repository's root".to_owned(),
                });
            }
        }
    }
    complaints
}

/// Whether `start` begins a path in `line`, and is not the middle of a longer one such as `s3://bucket` + `start`.
fn stands_alone(line: &str, start: &str) -> bool {
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
