//! Rows in the terminal: a table, or a card for each if there are pictures.

use super::graphics::Graphics;
use super::picture::Picture;
use super::row::{Row, Shown};
use crate::output::Output;
use crate::text::{one_line, shortened, width};
use forebay_loader::decode::geometry::Size;

/// Columns of the name of a value on a card.
const NAME_COLUMNS: usize = 20;

/// Columns between two pictures.
const GAP: u32 = 2;

/// Columns of a cell without which a table is no longer read.
const TABLE_COLUMNS_MIN: usize = 8;

/// Columns of a text in a cell, and of a caption, at least.
const CELL_COLUMNS_MIN: usize = 24;

/// Prints the rows.
pub(super) fn print(rows: &[Row], graphics: Graphics, output: &Output) {
    if output.is_json() {
        return rows.iter().for_each(|row| output.line(&row.json(), String::new));
    }
    let mut names: Vec<&str> = Vec::new();
    for field in rows.iter().flat_map(|row| &row.fields) {
        if !names.contains(&field.name.as_str()) {
            names.push(&field.name);
        }
    }
    let has_pictures = rows.iter().flat_map(|row| &row.fields).any(|field| !field.pictures.is_empty());
    if has_pictures || output.size().0 / (names.len() + 1) < TABLE_COLUMNS_MIN {
        rows.iter().for_each(|row| card(row, graphics, output));
    } else {
        table(rows, &names, output);
    }
}

/// Prints a table with a column for each of `names`.
fn table(rows: &[Row], names: &[&str], output: &Output) {
    // A cell has three lines at most.
    let columns = (output.size().0 / names.len().max(1) * 3).max(CELL_COLUMNS_MIN);
    let cell = |row: &Row, name: &str| {
        let field = row.fields.iter().find(|field| field.name == name);
        field.map_or(String::new(), |field| shortened(&field.text, columns).into_owned())
    };
    let mut facts = vec!["rank", "row", "sample"];
    facts.retain(|fact| *fact == "sample" || rows.iter().any(|row| !row.fact(fact).is_empty()));
    let cells = rows.iter().map(|row| {
        let facts = facts.iter().map(|fact| row.fact(fact));
        facts.chain(names.iter().map(|name| cell(row, name))).collect::<Vec<_>>()
    });
    let shown: Vec<String> = names.iter().map(|name| one_line(name)).collect();
    let header: Vec<&str> = facts.iter().copied().chain(shown.iter().map(String::as_str)).collect();
    output.table(&header, cells);
    for row in rows {
        let errors =
            row.error.iter().chain(row.fields.iter().filter(|field| field.is_damaged).map(|field| &field.text));
        errors.for_each(|error| output.print(&red(output, &format!("{}: {}", row.title, undamaged(error)))));
    }
}

/// Returns an error with the word for damage before it.
fn undamaged(error: &str) -> String {
    format!("damaged: {}", error.trim_start_matches("damaged: "))
}

/// Prints a row: its title, its pictures next to each other, and a line for each further value.
fn card(row: &Row, graphics: Graphics, output: &Output) {
    let columns = output.size().0;
    let title = shortened(&row.title, columns);
    output.print(&if output.has_colours() { format!("\x1b[1m{title}\x1b[0m") } else { title.into_owned() });
    pictures(row, graphics, output);
    let fields = || row.fields.iter().filter(|field| field.pictures.is_empty());
    let names = fields().map(|field| width(&field.name)).max().unwrap_or(0).min(NAME_COLUMNS);
    for field in fields() {
        let name = one_line(&field.name);
        let name = shortened(&name, names);
        let text = shortened(&field.text, columns.saturating_sub(names + 4));
        let text = if field.is_damaged { red(output, &text).into() } else { text };
        output.print(&format!("  {name}{}  {text}", " ".repeat(names - width(&name))));
    }
    if let Some(error) = &row.error {
        output.print(&red(output, &format!("  {}", undamaged(error))));
    }
    output.print("");
}

/// Prints the pictures of a row with their captions, as many next to each other as fit.
fn pictures(row: &Row, graphics: Graphics, output: &Output) {
    let of_field = |field| -> &[Picture] {
        let field: &Shown = field;
        &field.pictures
    };
    let all: Vec<(&Shown, &Picture)> =
        row.fields.iter().flat_map(|field| of_field(field).iter().map(move |picture| (field, picture))).collect();
    let (columns, rows) = output.size();
    let bound = bound(columns as u32, rows as u32, all.len() as u32);
    let mut rest = &all[..];
    while !rest.is_empty() {
        let cells: Vec<Size> = rest.iter().map(|(_, picture)| graphics.cells(picture, bound)).collect();
        let mut used = 0;
        let fits = |size: &&Size| {
            used += size.w.max(CELL_COLUMNS_MIN as u32) + GAP;
            used <= columns as u32 + GAP
        };
        let count = cells.iter().take_while(fits).count().max(1);
        let (now, later) = rest.split_at(count);
        line_of_pictures(now, &cells[..count], graphics, output);
        rest = later;
    }
}

/// Most columns and rows of a picture: several share a line, and a row has no more than half of the terminal.
fn bound(columns: u32, rows: u32, pictures: u32) -> Size {
    let w = (columns / pictures.clamp(1, 4)).saturating_sub(GAP).clamp(12, 64);
    Size { w: w.min(columns.max(1)), h: (rows / 2).clamp(8, 24) }
}

fn line_of_pictures(pictures: &[(&Shown, &Picture)], cells: &[Size], graphics: Graphics, output: &Output) {
    let width_of = |cells: &Size| cells.w.max(CELL_COLUMNS_MIN as u32) as usize;
    let height = cells.iter().map(|cells| cells.h).max().unwrap_or(0) as usize;
    let lines: Option<Vec<Vec<String>>> =
        pictures.iter().zip(cells).map(|((_, picture), cells)| graphics.lines(picture, *cells)).collect();
    if let Some(lines) = lines {
        for number in 0..height {
            let mut text = String::from("  ");
            for (lines, cells) in lines.iter().zip(cells) {
                let (part, used) = lines.get(number).map_or(("", 0), |line| (line.as_str(), cells.w as usize));
                text.push_str(part);
                text.push_str(&" ".repeat(width_of(cells) - used + GAP as usize));
            }
            output.print(text.trim_end());
        }
    } else {
        // Room for the pictures; then each is drawn from the first line, and the cursor returns.
        let mut sequence = format!("{}\x1b[{height}A", "\n".repeat(height));
        let mut column = 3;
        for ((_, picture), cells) in pictures.iter().zip(cells) {
            let drawn = graphics.sequence(picture, *cells).unwrap_or_default();
            sequence.push_str(&format!("\x1b7\x1b[{column}G{drawn}\x1b8"));
            column += width_of(cells) + GAP as usize;
        }
        sequence.push_str(&format!("\x1b[{height}B\r"));
        output.bytes(sequence.as_bytes());
    }
    let captions = pictures.iter().zip(cells).map(|((field, _), cells)| {
        let caption = format!("{} {}", one_line(&field.name), field.text);
        let caption = shortened(&caption, width_of(cells));
        format!("{caption}{}", " ".repeat(width_of(cells) - width(&caption) + GAP as usize))
    });
    output.print(format!("  {}", captions.collect::<String>()).trim_end());
}

fn red(output: &Output, text: &str) -> String {
    if output.has_colours() { format!("\x1b[31m{text}\x1b[0m") } else { text.to_owned() }
}
