//! Rows as one page of HTML that needs no network: pictures are in it.

use super::picture::Picture;
use super::row::{Row, Shown};
use crate::text::one_line;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forebay_loader::Result;
use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::jpeg::{Subsampling, encode};
use std::fmt::Write as _;

/// Quality of the JPEGs of the page.
const QUALITY: u8 = 88;

/// Pixels of a picture that is small enough to be kept exactly.
const EXACT_PIXELS: u64 = 64 * 64;

/// Style of the page: light and dark, from one column of cards to as many as fit.
const STYLE: &str = "
:root { color-scheme: light dark; --ground: #fff; --card: #f4f5f7; --text: #1b1f24; --faint: #5b6572; --bad: #b42318;
  --line: #d8dde3; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1e2328; --text: #e6e9ec; --faint: #9aa5b1;
  --bad: #ff8a80; --line: #343b43; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1rem; background: var(--ground); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.15rem; margin: 0 0 1rem; overflow-wrap: anywhere; }
main { display: grid; gap: 1rem; align-items: start; }
main { grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
article { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; min-width: 0; }
h2 { font-size: .85rem; font-weight: 600; margin: 0 0 .5rem; color: var(--faint); }
.pictures { display: flex; flex-wrap: wrap; gap: .5rem; }
figure { margin: 0 0 .5rem; flex: 1 1 8rem; min-width: 0; }
img { display: block; max-width: 100%; max-height: 28rem; min-width: min(100%, 6rem); height: auto; object-fit: contain;
  border-radius: .25rem; }
img.exact { image-rendering: pixelated; }
figcaption b { color: var(--text); font-weight: 600; }
figcaption { font-size: .75rem; color: var(--faint); overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: fit-content(40%) 1fr; gap: .15rem .6rem; margin: 0; font-size: .85rem; }
dt { color: var(--faint); overflow-wrap: anywhere; }
dd { margin: 0; overflow-wrap: anywhere; max-height: 9em; overflow-y: auto; }
.bad { color: var(--bad); }
";

/// Returns the page of `cards`.
pub(super) fn page(title: &str, cards: &str) -> String {
    let title = escaped(title);
    let mut page = String::with_capacity(cards.len() + (4 << 10));
    page.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Whatever a sample has in it, the browser fetches and runs nothing.
    page.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"");
    page.push_str("default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // Writing to a String does not fail.
    let _ = write!(page, "<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<main>\n");
    page.push_str(cards);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Appends the card of a row.
///
/// # Errors
///
/// A picture that cannot be encoded.
pub(super) fn card(page: &mut String, row: &Row) -> Result<()> {
    let _ = writeln!(page, "<article>\n<h2>{}</h2>", escaped(&row.title));
    if let Some(error) = &row.error {
        let _ = writeln!(page, "<p class=\"bad\">damaged: {}</p>", escaped(error));
    }
    if row.fields.iter().any(|field| !field.pictures.is_empty()) {
        page.push_str("<div class=\"pictures\">\n");
        for field in &row.fields {
            field.pictures.iter().try_for_each(|picture| figure(page, field, picture))?;
        }
        page.push_str("</div>\n");
    }
    page.push_str("<dl>\n");
    for field in row.fields.iter().filter(|field| field.pictures.is_empty()) {
        let class = if field.is_damaged { " class=\"bad\"" } else { "" };
        let _ = writeln!(page, "<dt>{}</dt><dd{class}>{}</dd>", escaped(&field.name), escaped(&field.text));
    }
    page.push_str("</dl>\n</article>\n");
    Ok(())
}

fn figure(page: &mut String, field: &Shown, picture: &Picture) -> Result<()> {
    let is_exact = picture.is_mask || picture.size.pixels() <= EXACT_PIXELS;
    let drawn = picture.fitted(picture.size);
    let (kind, file) = if is_exact {
        ("png", drawn.png()?)
    } else {
        ("jpeg", encode(&drawn.rgb, drawn.size, QUALITY, Subsampling::S444, false)?)
    };
    let (name, text, Size { w, h }) = (escaped(&field.name), escaped(&field.text), picture.size);
    let class = if is_exact { " class=\"exact\"" } else { "" };
    let data = STANDARD.encode(file);
    let _ = writeln!(
        page,
        "<figure><img{class} alt=\"{name}\" width=\"{w}\" height=\"{h}\" src=\"data:image/{kind};base64,{data}\">\
         <figcaption><b>{name}</b> {text}</figcaption></figure>"
    );
    Ok(())
}

/// Returns `text` as text of a page, in one line.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_samples_are_no_part_of_the_page() {
        let field = Shown::of_text("<b>", "<script>alert('x')</script>");
        let row = Row { title: "sample 0".to_owned(), fields: vec![field], ..Row::default() };
        let mut cards = String::new();
        card(&mut cards, &row).expect("a card");
        let page = page("a & b\u{1b}", &cards);
        assert!(page.contains("<title>a &amp; b\\u{1b}</title>"));
        assert!(page.contains("<dt>&lt;b&gt;</dt><dd>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;</dd>"));
        assert!(!page.contains("http:") && !page.contains("https:"), "nothing is fetched");
    }

    #[test]
    fn small_pictures_are_exact() {
        let picture = Picture::new(Size { w: 2, h: 2 }, vec![7; 12]);
        let mut field = Shown::of_text("x", "pixels 2x2");
        field.pictures.push(picture);
        let mut page = String::new();
        card(&mut page, &Row { fields: vec![field], ..Row::default() }).expect("a card");
        assert!(
            page.contains("<img class=\"exact\" alt=\"x\" width=\"2\" height=\"2\" src=\"data:image/png;base64,iVBOR")
        );
    }
}
