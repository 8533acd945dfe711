//! `forebay ls`: objects below an address.

use crate::addresses::{Address, Found};
use crate::tally::Tally;
use crate::text;
use crate::{Command, Exit, Session};
use clap::Args;
use forebay_loader::Result;
use forebay_loader::objects::{ObjectEntry, Objects};

/// List the objects of a folder, or the ones with names that fit a pattern
///
/// An address is a folder, an object, or a pattern with braces and wildcards, such as
/// 's3://bucket/train-{000..146}.tar' or 's3://bucket/*/meta.json'. Times are in UTC.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay ls s3://bucket/train
  forebay ls -r -l s3://bucket
  forebay ls 'gs://bucket/train-*.tar'")]
pub(crate) struct LsArgs {
    /// Folder, object or pattern
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// List all objects below, not only the first level
    #[arg(short, long)]
    recursive: bool,
    /// Show sizes and times of the last change too, and the total
    #[arg(short, long)]
    long: bool,
    /// Show sizes in bytes, as -l
    #[arg(long)]
    bytes: bool,
}

impl Command for LsArgs {
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let objects = session.objects()?;
        let list = |address: &Address, tally: &mut Tally| self.list(session, &objects, address, tally);
        let tally = Tally::of_addresses(&self.addresses, session, list);
        if self.is_long() && !session.output.is_json() && tally.done > 0 {
            let (counted, size) = tally.total();
            let size = if self.bytes { format!("{} bytes", tally.bytes) } else { size };
            session.output.print(&format!("{counted}, {size}"));
        }
        Ok(tally.exit())
    }
}

impl LsArgs {
    fn is_long(&self) -> bool {
        self.long || self.bytes
    }

    fn list(&self, session: &Session, objects: &Objects, address: &Address, tally: &mut Tally) -> Result<()> {
        match address.find(objects, self.recursive)? {
            Found::Object(entry) => self.show(session, &[entry], tally),
            Found::Several(mut entries) => {
                while let Some(page) = entries.next_page()?.filter(|_| !session.output.is_closed()) {
                    self.show(session, &page, tally);
                }
                tally.found();
            }
        }
        Ok(())
    }

    fn show(&self, session: &Session, page: &[ObjectEntry], tally: &mut Tally) {
        let lines = page.iter().map(|entry| {
            if !entry.url.ends_with('/') {
                tally.count(entry.size);
            }
            session.output.text(|| record(entry), || self.text(entry))
        });
        // In one write: a page has 1,000 objects.
        let text: String = lines.collect();
        session.output.bytes(text.as_bytes());
    }

    fn text(&self, entry: &ObjectEntry) -> String {
        if !self.is_long() {
            return text::one_line(&entry.url);
        }
        let size = match entry.url.ends_with('/') {
            true => "-".to_owned(),
            false if self.bytes => entry.size.to_string(),
            false => text::bytes(entry.size),
        };
        let (width, time) =
            (if self.bytes { 15 } else { 11 }, entry.modified.map_or_else(|| "-".to_owned(), text::time));
        format!("{size:>width$}  {time:<19}  {}", text::one_line(&entry.url))
    }
}

fn record(entry: &ObjectEntry) -> serde_json::Value {
    let is_folder = entry.url.ends_with('/');
    serde_json::json!({
        "url": entry.url,
        "bytes": (!is_folder).then_some(entry.size),
        "modified": entry.modified.map(text::json_time),
        "etag": entry.etag,
    })
}
