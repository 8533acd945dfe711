//! Tokens of the text of a filter.

use super::cell::whole;
use super::mistake::Mistake;

/// Token, and its first byte.
pub(super) type Placed = (usize, Token);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Name of a column in backticks, which is no keyword.
    Quoted(String),
    /// Name of a column, or a keyword.
    Name(String),
    Int(i128),
    Float(f64),
    Text(String),
    /// Comparison or bracket.
    Sign(&'static str),
}

/// Signs. Each sign of two characters is before its first character.
const SIGNS: [&str; 12] = ["<=", ">=", "==", "!=", "<", ">", "=", "(", ")", "[", "]", ","];

/// Returns the tokens of `text`.
pub(super) fn of(text: &str) -> Result<Vec<Placed>, Mistake> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, bytes) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first.is_alphabetic() || first == '_' {
            let bytes = length(rest, |c| c.is_alphanumeric() || matches!(c, '_' | '.'));
            (Token::Name(rest[..bytes].to_owned()), bytes)
        } else if first.is_ascii_digit() || matches!(first, '-' | '+' | '.') && starts_number(&rest[1..]) {
            number(rest).ok_or_else(|| Mistake { at, problem: "this is not a number".to_owned() })?
        } else if matches!(first, '"' | '\'' | '`') {
            let (value, bytes) = quoted(rest, first).map_err(|(place, problem)| Mistake { at: at + place, problem })?;
            (if first == '`' { Token::Quoted(value) } else { Token::Text(value) }, bytes)
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            (Token::Sign(if sign == "=" { "==" } else { sign }), sign.len())
        } else {
            let problem = match first {
                '&' => "write `and`",
                '|' => "write `or`",
                '!' => "write `not`",
                '{' => "a list is in brackets, such as `in (1, 2)`",
                _ => "this character has no meaning here: columns are compared, not computed",
            };
            return Err(Mistake { at, problem: problem.to_owned() });
        };
        tokens.push((at, token));
        at += bytes;
    }
    Ok(tokens)
}

fn length(text: &str, mut is_part: impl FnMut(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

fn starts_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// Reads a number; underscores may divide its digits.
fn number(text: &str) -> Option<(Token, usize)> {
    let mut last = ' ';
    let bytes = length(text, |c| {
        let is_sign = matches!(c, '-' | '+') && matches!(last, ' ' | 'e' | 'E');
        last = c;
        is_sign || c.is_ascii_alphanumeric() || matches!(c, '.' | '_')
    });
    let digits = text[..bytes].replace('_', "");
    let is_decimal = digits.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'E' | b'-' | b'+'));
    if let Some(int) = whole(&digits) {
        return Some((Token::Int(int), bytes));
    }
    let is_float = is_decimal && digits.contains(['.', 'e', 'E']);
    let float: f64 = digits.parse().ok().filter(|float: &f64| is_float && float.is_finite())?;
    Some((Token::Float(float), bytes))
}

/// Reads a text up to `quote`. In a text a backslash begins a quote, a backslash, or a character that has no sign. A
/// mistake has its first byte.
fn quoted(text: &str, quote: char) -> Result<(String, usize), (usize, String)> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    let without_end = || {
        let noun = if quote == '`' { "name" } else { "text" };
        (0, format!("the {noun} has no end: `{quote}` is missing"))
    };
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => return Ok((value, at + c.len_utf8())),
            '\\' if quote != '`' => value.push(match chars.next().ok_or_else(without_end)?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                c @ ('\\' | '\'' | '"') => c,
                c => {
                    let known = r#"\n, \r, \t, \\, \' and \""#;
                    return Err((at, format!("`\\{c}` has no meaning: write a backslash twice; a text has {known}")));
                }
            }),
            _ => value.push(c),
        }
    }
    Err(without_end())
}
