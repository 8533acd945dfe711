//! Pictures in a terminal: a file for each protocol.
//!
//! * `kitty`, `iterm`: files of pictures in escape sequences, scaled by the terminal;
//! * `sixel`: pixels of a palette in an escape sequence;
//! * `blocks`: two pixels in a character, by their colours.

mod blocks;
mod iterm;
mod kitty;
mod sixel;

use super::picture::Picture;
use crate::output::Output;
use clap::ValueEnum;
use forebay_loader::Result;
use forebay_loader::decode::geometry::Size;

/// Form of pictures in the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Graphics {
    /// By the terminal
    Auto,
    /// Protocol of kitty and Ghostty
    Kitty,
    /// Protocol of iTerm2 and WezTerm
    Iterm,
    /// Sixels, as xterm, foot and mlterm have them
    Sixel,
    /// Characters of two pixels each
    Blocks,
    /// No pictures, but their formats and sizes
    None,
}

/// Pixels of a character that pictures are made for. Most terminals scale a picture to its characters; of sixels a
/// terminal with smaller characters takes more of them.
const CELL: Size = Size { w: 10, h: 20 };

impl Graphics {
    /// Returns the form for the terminal of `output`.
    pub(super) fn resolved(self, output: &Output) -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        match self {
            Self::Auto if output.is_terminal() && output.has_colours() => of_terminal(&variable),
            Self::Auto => Self::None,
            chosen => chosen,
        }
    }

    /// Columns and rows of a picture in at most `cells` of them.
    pub(super) fn cells(self, picture: &Picture, cells: Size) -> Size {
        let pixels = self.fitted(picture, cells).size;
        let cell = self.pixels_of_cell();
        Size { w: pixels.w.div_ceil(cell.w).min(cells.w), h: pixels.h.div_ceil(cell.h).min(cells.h) }
    }

    fn pixels_of_cell(self) -> Size {
        if self == Self::Blocks { Size { w: 1, h: 2 } } else { CELL }
    }

    fn fitted(self, picture: &Picture, cells: Size) -> Picture {
        let cell = self.pixels_of_cell();
        picture.fitted(Size { w: cells.w * cell.w, h: cells.h * cell.h })
    }

    /// Returns the lines of a picture in `cells`, each as wide as they are, for characters; `None` for a protocol.
    pub(super) fn lines(self, picture: &Picture, cells: Size) -> Option<Vec<String>> {
        let has_24_bits = || matches!(std::env::var("COLORTERM").as_deref(), Ok("truecolor" | "24bit"));
        (self == Self::Blocks).then(|| blocks::lines(&self.fitted(picture, cells), cells, has_24_bits()))
    }

    /// Returns the escape sequence that draws a picture in `cells` at the cursor.
    ///
    /// # Errors
    ///
    /// A picture that cannot be encoded.
    pub(super) fn sequence(self, picture: &Picture, cells: Size) -> Result<String> {
        let fitted = self.fitted(picture, cells);
        Ok(match self {
            Self::Kitty => kitty::sequence(&fitted.png()?, cells),
            Self::Iterm => iterm::sequence(&fitted.png()?, cells),
            Self::Sixel => sixel::sequence(&fitted),
            Self::Auto | Self::Blocks | Self::None => String::new(),
        })
    }
}

/// Returns the form for a terminal with colours, by the `variable`s of the environment.
fn of_terminal(variable: &dyn Fn(&'static str) -> String) -> Graphics {
    let (term, program) = (variable("TERM"), variable("TERM_PROGRAM"));
    // A multiplexer between the two does not know the pictures.
    if ["TMUX", "STY", "ZELLIJ"].iter().any(|name| !variable(name).is_empty()) {
        return Graphics::Blocks;
    }
    let has = |names: &[&str]| names.iter().any(|name| term.contains(name));
    match program.as_str() {
        _ if !variable("KITTY_WINDOW_ID").is_empty() || has(&["kitty", "ghostty"]) => Graphics::Kitty,
        "ghostty" => Graphics::Kitty,
        "iTerm.app" | "WezTerm" => Graphics::Iterm,
        _ if has(&["foot", "mlterm", "sixel", "contour", "yaft"]) => Graphics::Sixel,
        _ => Graphics::Blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_the_protocol() {
        for (variables, expected) in [
            (&[("TERM", "xterm-kitty")][..], Graphics::Kitty),
            (&[("TERM", "xterm-256color"), ("KITTY_WINDOW_ID", "1")], Graphics::Kitty),
            (&[("TERM", "xterm-kitty"), ("TMUX", "/tmp/tmux")], Graphics::Blocks),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")], Graphics::Iterm),
            (&[("TERM", "foot")], Graphics::Sixel),
            (&[("TERM", "xterm")], Graphics::Blocks),
        ] {
            let variable = |name: &'static str| {
                variables.iter().find(|(known, _)| *known == name).map_or(String::new(), |(_, text)| (*text).to_owned())
            };
            assert_eq!(of_terminal(&variable), expected, "{variables:?}");
        }
    }
}
