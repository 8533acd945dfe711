//! Pieces of a long text that have the ids of the whole text.
//!
//! All known patterns match a text from the left to the right without a look behind, so the matches after a boundary
//! depend only on the text after it. A boundary is at each position before a space and after a character that is not
//! white space: no pattern has a match with such a pair inside, and only matches of white space look ahead. The same
//! holds before a line break or a full stop of Chinese and Japanese, and after a letter. Texts of scripts without
//! spaces have these.

/// Least bytes of a piece, unless it is the last one. A piece needs memory of about 20 times its size meanwhile.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Returns the pieces of `text`. Without a position for a cut a piece is longer.
pub(crate) fn pieces(text: &str, bytes_min: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let cut = cut_after(text, bytes_min).unwrap_or(text.len());
        let (piece, later) = text.split_at(cut);
        rest = (!later.is_empty()).then_some(later);
        Some(piece)
    })
}

/// Returns the first cut that leaves at least `bytes_min` before it.
fn cut_after(text: &str, bytes_min: usize) -> Option<usize> {
    let start = (bytes_min..text.len()).find(|&at| text.is_char_boundary(at))?;
    let mut before = text.get(..start)?.chars().next_back()?;
    for (at, after) in text[start..].char_indices() {
        let is_cut = if after == ' ' { !before.is_whitespace() } else { is_after_cut(after) && is_letter(before) };
        if is_cut {
            return Some(start + at);
        }
        before = after;
    }
    None
}

/// True for a character that may be the first one of a piece.
pub(crate) fn is_after_cut(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\u{3001}' | '\u{3002}' | '\u{ff0c}')
}

/// True for some characters that are letters in every version of Unicode.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c, '\u{410}'..='\u{44f}' | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}')
        || matches!(c, '\u{4e00}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_text_and_begin_at_boundaries() {
        let text = "one two  three\nfour, 'five' 中文。中文、12 3";
        let found: Vec<_> = pieces(text, 1).collect();
        assert_eq!(found, ["one", " two", "  three", "\nfour,", " 'five'", " 中文", "。中文", "、12", " 3"]);
        assert_eq!(pieces(text, 1 << 20).collect::<Vec<_>>(), [text]);
        assert_eq!(pieces("", 1).collect::<Vec<_>>(), [""]);
    }
}
