//! Facts about a data set as text and as JSON.

use super::column::Columns;
use super::read::Read;
use crate::output::Output;
use crate::text::{bytes, count, counted, one_line, shortened, width};
use forebay_loader::worker::{IndexDescription, StreamDescription};
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// Damaged samples that are shown.
const DAMAGED_SHOWN: usize = 8;

/// Columns of a name, and of an example at least.
const NAME_COLUMNS: usize = 24;
const EXAMPLE_COLUMNS_MIN: usize = 12;

/// Facts about a data set.
pub(super) struct Report<'a> {
    pub(super) stream: &'a StreamDescription,
    pub(super) columns: &'a Columns,
    pub(super) read: &'a Read,
}

impl Report<'_> {
    pub(super) fn print(&self, output: &Output) {
        if output.is_json() {
            return output.line(&self.json(), String::new);
        }
        let bold = |text: &str| if output.has_colours() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
        output.print(&bold(&one_line(&self.stream.name)));
        for (name, fact) in self.facts() {
            output.print(&format!("  {name:<9} {}", one_line(&fact)));
        }
        output.print("");
        let (mut header, mut rows) = (vec!["column", "type"], self.rows(output.size().0));
        if self.read.samples > 0 {
            header.extend(["values", "example"]);
        } else {
            rows.iter_mut().for_each(|row| row.truncate(2));
        }
        output.table(&header, rows);
        for (number, error) in self.read.damaged.iter().take(DAMAGED_SHOWN) {
            output.print(&format!("damaged sample {number}: {}", one_line(error)));
        }
        let more = self.read.damaged.len().saturating_sub(DAMAGED_SHOWN);
        if more > 0 {
            output.print(&format!("and {} more", count(more as u64)));
        }
    }

    /// Names and facts, a line for each.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let stream = self.stream;
        let mut facts = vec![("format", self.format())];
        let each =
            stream.shard_samples.as_ref().map_or_else(String::new, |samples| format!(" of {}", ends(samples, count)));
        facts.push(("samples", format!("{} in {}{each}", count(stream.samples), counted(stream.shards, "shard"))));
        let about = if stream.is_estimated { "about " } else { "" };
        let stored = format!("{} stored, {about}{} unpacked", bytes(stream.stored_bytes), bytes(stream.raw_bytes));
        let shards =
            stream.shard_bytes.as_ref().map_or_else(String::new, |sizes| format!("; shards of {}", ends(sizes, bytes)));
        facts.push(("bytes", format!("{stored}{shards}")));
        if !stream.hashes.is_empty() {
            facts.push(("hashes", stream.hashes.iter().map(|algo| algo.name()).collect::<Vec<_>>().join(", ")));
        }
        if let Some(index) = &stream.index {
            facts.push(("index", self.index(index)));
        }
        let place = if stream.is_in_place {
            "read where they are".to_owned()
        } else {
            format!("fetched into {}", stream.folder.display())
        };
        facts.push(("shards", place));
        let decoded =
            self.decoded_bytes().map_or_else(String::new, |decoded| format!(", about {} decoded", bytes(decoded)));
        let fetched = if stream.is_in_place { "no fetch".to_owned() } else { bytes(stream.stored_bytes) + " fetched" };
        facts.push(("epoch", format!("{}, {fetched}{decoded}", counted(stream.samples, "sample"))));
        if self.read.samples > 0 {
            facts.push(("read here", counted(self.read.samples, "sample")));
        }
        facts
    }

    fn format(&self) -> String {
        let of_shards = self.stream.formats.join(", ");
        let kind = self.stream.kind.map(|kind| if kind == "file" { "files" } else { kind });
        let format = match kind {
            Some(kind) if kind != of_shards && !self.stream.is_in_place => format!("{kind}, as shards of {of_shards}"),
            Some(kind) => kind.to_owned(),
            None => of_shards,
        };
        let compressions: Vec<String> = self.stream.compressions.iter().map(ToString::to_string).collect();
        if compressions.is_empty() { format } else { format!("{format}, compressed by {}", compressions.join(", ")) }
    }

    fn index(&self, index: &IndexDescription) -> String {
        let origin = match (index.is_made, index.was_kept) {
            (true, true) => "made of the files' headers before",
            (true, false) => "made of the files' headers",
            (false, _) => "of the data set",
        };
        let file = index.file.as_ref().map_or_else(|| "not kept".to_owned(), |file| file.display().to_string());
        format!("{origin}, {}, {file}", bytes(index.bytes))
    }

    /// Decoded bytes of an epoch, by the samples that were read.
    fn decoded_bytes(&self) -> Option<u64> {
        let all = u128::from(self.read.decoded_bytes) * u128::from(self.stream.samples);
        all.checked_div(self.read.whole.into()).map(|bytes| bytes as u64)
    }

    fn rows(&self, columns: usize) -> Vec<Vec<String>> {
        let mut rows: Vec<Vec<String>> = self
            .columns
            .iter()
            .map(|facts| {
                let [name, encoding] =
                    [&facts.name, &facts.encoding].map(|text| shortened(&one_line(text), NAME_COLUMNS).into_owned());
                vec![name, encoding, facts.summary(), facts.example().to_owned()]
            })
            .collect();
        let widest = |place: usize| rows.iter().map(|row| width(&row[place])).max().unwrap_or(0);
        // Two columns between two cells.
        let used = widest(0).max(6) + widest(1).max(4) + widest(2).max(6) + 8;
        let example = columns.saturating_sub(used).max(EXAMPLE_COLUMNS_MIN);
        rows.iter_mut().for_each(|row| row[3] = shortened(&row[3], example).into_owned());
        rows
    }

    fn json(&self) -> Value {
        let stream = self.stream;
        let range = |range: &Option<RangeInclusive<u64>>| {
            range.as_ref().map(|range| json!({"min": range.start(), "max": range.end()}))
        };
        let index = stream.index.as_ref().map(|index| {
            let file = index.file.as_ref().map(|file| file.display().to_string());
            json!({"made": index.is_made, "kept_before": index.was_kept, "file": file, "bytes": index.bytes})
        });
        let damaged: Vec<Value> =
            self.read.damaged.iter().map(|(number, error)| json!({"sample": number, "error": error})).collect();
        let fetched = if stream.is_in_place { 0 } else { stream.stored_bytes };
        json!({
            "url": stream.name,
            "format": stream.kind.map_or_else(|| stream.formats.join(", "), str::to_owned),
            "shard_formats": stream.formats,
            "samples": stream.samples,
            "shards": stream.shards,
            "samples_per_shard": range(&stream.shard_samples),
            "stored_bytes": stream.stored_bytes,
            "raw_bytes": stream.raw_bytes,
            "raw_bytes_estimated": stream.is_estimated,
            "bytes_per_shard": range(&stream.shard_bytes),
            "compressions": stream.compressions.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "hashes": stream.hashes.iter().map(|algo| algo.name()).collect::<Vec<_>>(),
            "index": index,
            "folder": stream.folder.display().to_string(),
            "in_place": stream.is_in_place,
            "more_columns": stream.may_have_more,
            "columns": self.columns.iter().map(|facts| facts.json()).collect::<Vec<_>>(),
            "read": {
                "samples": self.read.samples, "stored_bytes": self.read.stored_bytes,
                "decoded_bytes": self.read.decoded_bytes, "damaged": damaged,
            },
            "epoch": {
                "samples": stream.samples, "fetched_bytes": fetched, "decoded_bytes": self.decoded_bytes(),
            },
        })
    }
}

/// Returns both ends of a range as text, or one if they are equal.
fn ends(range: &RangeInclusive<u64>, shown: impl Fn(u64) -> String) -> String {
    let (least, most) = (shown(*range.start()), shown(*range.end()));
    if least == most { least } else { format!("{least} to {most}") }
}
