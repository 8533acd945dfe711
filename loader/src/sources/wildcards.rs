//! Wildcards in names: `*` is any text and `?` any character, both within one part of a path. A part `**` is any number
//! of folders, at the end of a pattern any path. The patterns of the hub's cards also have `[...]`, one of some
//! characters.

use std::ops::RangeInclusive;

/// Returns true if `name` has a wildcard.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Pattern of names.
#[derive(Debug)]
pub struct Pattern {
    parts: Vec<PatternPart>,
    /// A last part `**` may also be nothing.
    may_end_early: bool,
}

/// Part of a path.
#[derive(Debug)]
enum PatternPart {
    /// `**`
    Folders,
    Name(Vec<Token>),
}

/// Part of a name.
#[derive(Debug)]
enum Token {
    Any,
    One,
    Is(char),
    In(Class),
}

/// One of some characters, or any character except them.
#[derive(Debug)]
struct Class {
    ranges: Vec<RangeInclusive<char>>,
    are_excluded: bool,
}

impl Pattern {
    /// Compiles a pattern of a list of files.
    pub fn new(pattern: &str) -> Self {
        let token = |c| match c {
            '*' => Token::Any,
            '?' => Token::One,
            c => Token::Is(c),
        };
        Self::of_parts(pattern, false, |part| part.chars().map(token).collect())
    }

    /// Compiles a pattern of a card, which may have classes of characters such as `[0-9]` and `[!ab]`.
    pub(super) fn of_card(pattern: &str) -> Self {
        Self::of_parts(pattern, true, |part| {
            let (mut tokens, mut rest) = (Vec::new(), part);
            while let Some(c) = rest.chars().next() {
                rest = &rest[c.len_utf8()..];
                tokens.push(match c {
                    '*' => Token::Any,
                    '?' => Token::One,
                    '[' => match rest.split_once(']').filter(|(class, _)| !class.is_empty()) {
                        Some((class, after)) => {
                            rest = after;
                            Token::In(Class::new(class))
                        }
                        None => Token::Is(c),
                    },
                    c => Token::Is(c),
                });
            }
            tokens
        })
    }

    fn of_parts(pattern: &str, may_end_early: bool, tokens: impl Fn(&str) -> Vec<Token>) -> Self {
        let part = |part| if part == "**" { PatternPart::Folders } else { PatternPart::Name(tokens(part)) };
        Self { parts: pattern.split('/').map(part).collect(), may_end_early }
    }

    /// Returns true if the whole of `name` fits the pattern.
    pub fn fits(&self, name: &str) -> bool {
        self.fits_parts(name, |_, _| ())
    }

    /// Returns the texts in `name` that fit the wildcards, with slashes between them and without empty ones; `None` if
    /// the name does not fit the pattern.
    pub(super) fn stem(&self, name: &str) -> Option<String> {
        let mut firsts = vec![0; self.parts.len() + 1];
        if !self.fits_parts(name, |at, number| firsts[at] = number) {
            return None;
        }
        let names: Vec<&str> = name.split('/').collect();
        firsts[self.parts.len()] = names.len();
        let mut texts = Vec::new();
        for (part, range) in self.parts.iter().zip(firsts.windows(2)) {
            match part {
                PatternPart::Folders => texts.extend(&names[range[0]..range[1]]),
                PatternPart::Name(tokens) => {
                    let name = names[range[0]];
                    let mut starts = vec![0; tokens.len() + 1];
                    fits_tokens(tokens, name, |at, start| starts[at] = start);
                    starts[tokens.len()] = name.len();
                    let is_wildcard = |(token, _): &(&Token, _)| !matches!(token, Token::Is(_));
                    let wildcards = tokens.iter().zip(starts.windows(2)).filter(is_wildcard);
                    texts.extend(wildcards.map(|(_, place)| &name[place[0]..place[1]]));
                }
            }
        }
        texts.retain(|text| !text.is_empty());
        Some(texts.join("/"))
    }

    /// As [`fits`](Self::fits). Calls `entered` with each part of the pattern and the part of the name that it was
    /// tried on; the last calls are for the parts that fit.
    fn fits_parts(&self, name: &str, mut entered: impl FnMut(usize, usize)) -> bool {
        let (mut at, mut number, mut parts) = (0, 0, name.split('/'));
        // As in `fits_tokens`: only the last ** takes more parts.
        let mut folders = None;
        loop {
            let before = parts.clone();
            if at < self.parts.len() {
                entered(at, number);
            }
            match (self.parts.get(at), parts.next()) {
                (None, None) => return true,
                (Some(PatternPart::Folders), part) if at + 1 == self.parts.len() => {
                    return part.is_some() || self.may_end_early;
                }
                (Some(PatternPart::Folders), _) => {
                    parts = before;
                    at += 1;
                    folders = Some((at, number, parts.clone()));
                }
                (Some(PatternPart::Name(tokens)), Some(part)) if fits_tokens(tokens, part, |_, _| ()) => {
                    (at, number) = (at + 1, number + 1);
                }
                _ => {
                    let Some((after, tried_number, tried)) = &mut folders else { return false };
                    if tried.next().is_none() {
                        return false;
                    }
                    *tried_number += 1;
                    (at, number, parts) = (*after, *tried_number, tried.clone());
                }
            }
        }
    }
}

impl Class {
    fn new(class: &str) -> Self {
        let (class, are_excluded) = class.strip_prefix(['!', '^']).map_or((class, false), |class| (class, true));
        let mut signs = class.chars().peekable();
        let mut ranges = Vec::new();
        while let Some(first) = signs.next() {
            let mut last = first;
            let mut range = signs.clone();
            if range.next() == Some('-')
                && let Some(end) = range.next()
            {
                (last, signs) = (end, range);
            }
            ranges.push(first..=last);
        }
        Self { ranges, are_excluded }
    }

    fn has(&self, c: char) -> bool {
        self.ranges.iter().any(|range| range.contains(&c)) != self.are_excluded
    }
}

/// Takes time in the product of the lengths, not exponential in the number of stars: only the last star moves. Calls
/// `entered` with each token and the offset that it was tried at; the last calls are for the offsets that fit.
fn fits_tokens(tokens: &[Token], part: &str, mut entered: impl FnMut(usize, usize)) -> bool {
    let (mut at, mut rest) = (0, part.chars());
    // The position after the last star, and the text that it was tried on.
    let mut star = None;
    loop {
        let before = rest.clone();
        if at < tokens.len() {
            entered(at, part.len() - rest.as_str().len());
        }
        match (tokens.get(at), rest.next()) {
            (None, None) => return true,
            (Some(Token::Any), _) => {
                rest = before;
                at += 1;
                star = Some((at, rest.clone()));
            }
            (Some(Token::One), Some(_)) => at += 1,
            (Some(Token::Is(wanted)), Some(c)) if *wanted == c => at += 1,
            (Some(Token::In(class)), Some(c)) if class.has(c) => at += 1,
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
            ("a/**", "a", true),
            ("a/**/b/**", "a/x/b", true),
            ("a/**/b/**", "a/x/c", false),
            ("[]]", "]", false),
            ("[^a-c]", "d", true),
        ] {
            assert_eq!(Pattern::of_card(pattern).fits(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn the_stem_of_a_name_is_the_text_that_fits_the_wildcards() {
        for (pattern, name, stem) in [
            ("*/*_leftImg8bit.png", "aachen/aachen_0_leftImg8bit.png", Some("aachen/aachen_0")),
            ("i/**/*.jpg", "i/0.jpg", Some("0")),
            ("i/**/*.jpg", "i/a/b/0.jpg", Some("a/b/0")),
            ("**/rgb/*.jpg", "x/rgb/rgb/0.jpg", Some("x/rgb/0")),
            ("a*b*c", "aXbYbZc", Some("X/YbZ")),
            ("a*b*c", "abc", Some("")),
            ("?*.png", "äxy.png", Some("ä/xy")),
            ("*", "ab", Some("ab")),
            ("a/**", "a/b/c", Some("b/c")),
            ("**/x/**/*.png", "x/0.png", Some("0")),
            ("*_a_a.png", "0_a_a_a.png", Some("0_a")),
            ("*.jpg", "0.png", None),
            ("a.jpg", "a.jpg", Some("")),
        ] {
            assert_eq!(Pattern::new(pattern).stem(name).as_deref(), stem, "{pattern} {name}");
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
            assert_eq!(Pattern::new(pattern).fits(name), fits, "{pattern} {name}");
        }
        assert!(!Pattern::new(&"*a".repeat(50)).fits(&"a".repeat(49)), "one star more than characters");
        assert!(!Pattern::new(&"**/a/".repeat(50)).fits(&"a/".repeat(49)), "one part more");
    }
}
