//! `forebay ls`: objects below an address.

use crate::{Command, Exit, Session};
use clap::Args;
use forebay_loader::Result;
use forebay_loader::objects::{Objects, settings_from_json};

/// List the objects below an address: size, time of the last change, URL
#[derive(Args, Debug)]
pub(crate) struct LsArgs {
    /// Folder, URL, or the beginning of URLs
    address: String,
    /// List all objects below, not only the first level
    #[arg(short, long)]
    recursive: bool,
}

impl Command for LsArgs {
    fn addresses(&self) -> Vec<String> {
        vec![self.address.clone()]
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let objects = Objects::new(settings_from_json("{}")?)?;
        let mut listing = objects.list(&self.address, self.recursive)?;
        while let Some(page) = listing.next_page()? {
            for entry in page {
                let record = serde_json::json!({"url": entry.url, "bytes": entry.size});
                session.output.line(&record, || format!("{:>14}  {}", entry.size, entry.url));
            }
        }
        Ok(Exit::Success)
    }
}
