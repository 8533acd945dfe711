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

/// Returns true if `name` matches `pattern` of the hub's cards, where `**` is any number of folders or a whole path, and `[...]`
/// one of some characters.
pub(super) fn matches_tree(pattern: &str, name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    // Places in the path up to which the pattern fits.
    let mut ends = vec![false; parts.len() + 1];
    ends[0] = true;
    for pattern in pattern.split('/') {
        let mut next = vec![false; parts.len() + 1];
        for at in (0..=parts.len()).filter(|at| ends[*at]) {
            match parts.get(at) {
                _ if pattern == "**" => next[at..].fill(true),
                Some(part) => next[at + 1] |= class_matches(pattern, part),
                None => {}
            }
        }
        ends = next;
    }
    ends[parts.len()]
}

fn is_in_class(class: &str, c: char) -> bool {
    let (class, is_other) = class.strip_prefix(['!', '^']).map_or((class, false), |class| (class, true));
    let mut signs = class.chars().peekable();
    let mut found = false;
    while let Some(first) = signs.next() {
        let mut last = first;
        let mut range = signs.clone();
        if range.next() == Some('-')
            && let Some(end) = range.next()
        {
            (last, signs) = (end, range);
        }
        found |= (first..=last).contains(&c);
    }
    found != is_other
}

/// Returns true if `part` matches `pattern`.
fn part_matches(pattern: &str, part: &str) -> bool {
    let plain = |c| match c {
        '*' => Token::Any,
        '?' => Token::One,
        c => Token::Is(c),
    };
    tokens_match(&pattern.chars().map(plain).collect::<Vec<_>>(), part)
}

/// Returns true if `part` matches `pattern`, which may have classes of characters such as `[0-9]` and `[!ab]`.
fn class_matches(pattern: &str, part: &str) -> bool {
    let (mut tokens, mut rest) = (Vec::new(), pattern);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        tokens.push(match c {
            '*' => Token::Any,
            '?' => Token::One,
            '[' => match rest.split_once(']').filter(|(class, _)| !class.is_empty()) {
                Some((class, after)) => {
                    rest = after;
                    Token::In(class)
                }
                None => Token::Is(c),
            },
            c => Token::Is(c),
        });
    }
    tokens_match(&tokens, part)
}

/// Part of a pattern.
#[derive(Clone, Copy)]
enum Token<'a> {
    Any,
    One,
    Is(char),
    In(&'a str),
}

/// Takes time in the product of the lengths, not exponential in the number of stars: only the last star moves.
fn tokens_match(pattern: &[Token<'_>], part: &str) -> bool {
    let (mut at, mut rest) = (0, part.chars());
    // The place after the last star, and the text that it was tried on.
    let mut star = None;
    loop {
        let before = rest.clone();
        match (pattern.get(at), rest.next()) {
            (None, None) => return true,
            (Some(Token::Any), _) => {
                rest = before;
                at += 1;
                star = Some((at, rest.clone()));
            }
            (Some(Token::One), Some(_)) => at += 1,
            (Some(Token::Is(wanted)), Some(c)) if *wanted == c => at += 1,
            (Some(Token::In(class)), Some(c)) if is_in_class(class, c) => at += 1,
            _ => {
                let Some((after, tried)) = &mut star else { return false };
                // The star takes one more character.
                if tried.next().is_none() {
                    return false;
                }
                (at, rest) = (*after, tried.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_of_cards_reach_into_folders() {
        for (pattern, name, fits) in [
            ("data/train-*", "data/train-0.parquet", true),
            ("data/train-*", "data/x/train-0.parquet", false),
            ("**", "a/b.parquet", true),
            ("**/*.parquet", "b.parquet", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**", "b/c", false),
            ("x[0-3a]-[!b]*", "x2-cd", true),
            ("x[0-3a]-[!b]*", "x4-cd", false),
            ("x[0-3a]-[!b]*", "xa-bd", false),
            ("x[", "x[", true),
        ] {
            assert_eq!(matches_tree(pattern, name), fits, "{pattern} {name}");
        }
    }

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
