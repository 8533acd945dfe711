//! Wildcards in names: `*` is any text and `?` any character, both within one part of a path. A part `**` is any number of
//! folders, at the end of a pattern any path.

/// Returns true if `name` has a wildcard.
pub(super) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Returns true if `name` matches `pattern`, part by part.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (mut patterns, mut parts) = (pattern.split('/'), name.split('/'));
    // As in `part_matches`: only the last ** takes more parts.
    let mut folders = None;
    loop {
        let before = parts.clone();
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some("**"), _) if patterns.clone().next().is_none() => return before.clone().next().is_some(),
            (Some("**"), _) => {
                parts = before;
                folders = Some((patterns.clone(), parts.clone()));
            }
            (Some(pattern), Some(part)) if part_matches(pattern, part) => {}
            _ => {
                let Some((after, tried)) = &mut folders else { return false };
                if tried.next().is_none() {
                    return false;
                }
                (patterns, parts) = (after.clone(), tried.clone());
            }
        }
    }
}

/// Takes time in the product of the lengths, not exponential in the number of stars: only the last star moves.
fn part_matches(pattern: &str, part: &str) -> bool {
    let (mut pattern, mut rest) = (pattern.chars(), part.chars());
    // The pattern after the last star, and the text that it was tried on.
    let mut star = None;
    loop {
        let before = (pattern.clone(), rest.clone());
        match (pattern.next(), rest.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                rest = before.1;
                star = Some((pattern.clone(), rest.clone()));
            }
            (Some('?'), Some(_)) => {}
            (Some(p), Some(c)) if p == c => {}
            _ => {
                let Some((after, tried)) = &mut star else { return false };
                // The star takes one more character.
                if tried.next().is_none() {
                    return false;
                }
                (pattern, rest) = (after.clone(), tried.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stays_within_its_part_of_a_path() {
        for (pattern, name, fits) in [
            ("*.tar", "a.tar", true),
            ("*.tar", ".tar", true),
            ("*.tar", "a/b.tar", false),
            ("*/*.tar", "a/b.tar", true),
            ("a*b*c.tar", "aXbYbZc.tar", true),
            ("a*b*c.tar", "aXcYc.tar", false),
            ("?.tar", "ü.tar", true),
            ("?.tar", "ab.tar", false),
            ("?.tar", ".tar", false),
            ("**.tar", "ab.tar", true),
            ("a.tar", "a.tar", true),
            ("a.tar", "b.tar", false),
            ("*.tar", "a.tar.gz", false),
            ("x*", "x", true),
            ("", "", true),
            ("a", "a/b", false),
            ("**/*.jpg", "a.jpg", true),
            ("**/*.jpg", "b/c/a.jpg", true),
            ("**/*.jpg", "b/c/a.png", false),
            ("a/**/b/*.jpg", "a/b/x.jpg", true),
            ("a/**/b/*.jpg", "a/b/c/b/x.jpg", true),
            ("a/**/b/*.jpg", "a/b/c/x.jpg", false),
            ("a/**/**/x", "a/x", true),
            ("a/**", "a/b/c", true),
            ("a/**", "a", false),
            ("**", "a", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        assert!(!matches(&"*a".repeat(50), &"a".repeat(49)), "one star more than characters");
        assert!(!matches(&"**/a/".repeat(50), &"a/".repeat(49)), "one part more");
    }
}
