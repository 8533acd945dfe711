//! Data sets on the hub, to list. Files are written with the hub's own tools.

use super::link::next_page;
use super::protocol::HfProtocol;
use crate::context::ThreadContext;
use crate::destination::{ListRequest, ListedEntry, ObjectTag, Page, PageMarks, Payload, Target, read_json};
use crate::failure::Failure;
use crate::http::{Outgoing, Signer};
use crate::key::encode_path;
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use http::Method;
use serde::Deserialize;

/// Folder of a data set's repository.
pub(crate) struct HfTarget {
    signer: Signer<HfProtocol>,
}

#[derive(Deserialize)]
struct Item {
    r#type: String,
    path: String,
    size: Option<u64>,
    oid: Option<String>,
}

impl HfTarget {
    pub(crate) fn new(protocol: HfProtocol, user_agent: &str) -> Result<Self, Error> {
        Ok(Self { signer: Signer::new(protocol, user_agent)? })
    }
}

fn read_only() -> Failure {
    Failure::permanent(Error::new(
        ErrorKind::Unsupported,
        "data sets on the hub cannot be written to: write into a folder, and upload it with `hf upload-large-folder`",
    ))
}

#[async_trait(?Send)]
impl Target for HfTarget {
    async fn put(&self, _: &ThreadContext, _: &str, _: &Payload) -> Result<ObjectTag, Failure> {
        Err(read_only())
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        let protocol = &self.signer.protocol;
        let own = protocol.prefix();
        let folder = request.prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = format!("{own}{folder}");
        let first = format!(
            "{}/{}?recursive={}",
            protocol.tree_address(),
            encode_path(path.trim_end_matches('/')),
            request.is_recursive
        );
        let address = request.next.clone().unwrap_or(first);
        let nothing = Payload::default();
        let outgoing = || Outgoing::new(Method::GET, address.clone(), &nothing, "to read the data set");
        let answer = match self.signer.call(context, outgoing).await {
            Ok(answer) => answer,
            // A folder that does not exist.
            Err(refusal) if refusal.has_code(&["EntryNotFound"]) && request.next.is_none() => {
                return Ok(Page::default());
            }
            Err(refusal) => return Err(refusal.failure),
        };
        let next = next_page(&address, &answer.headers)?;
        let mut entries = Vec::new();
        let items = read_json::<Vec<Item>>(&answer.body, "the listing")?;
        let has_moved = !items.is_empty();
        for item in items {
            let Some(key) = item.path.strip_prefix(own).filter(|key| key.starts_with(&request.prefix)) else {
                continue;
            };
            let key = key.to_owned();
            match &*item.r#type {
                "directory" if request.is_recursive => {}
                "directory" => entries.push(ListedEntry::folder(format!("{key}/"))),
                _ => {
                    let size = item.size.ok_or_else(|| Failure::network("the listing has a file without its size"))?;
                    entries.push(ListedEntry { key, size, etag: item.oid, modified: None });
                }
            }
        }
        Ok(Page { entries, markers: Vec::new(), next, has_moved })
    }

    async fn find(&self, context: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure> {
        let mut request = ListRequest { prefix: key.to_owned(), is_recursive: false, next: None };
        let (mut marks, shared) = (PageMarks::default(), &context.shared);
        loop {
            let page = self.list(context, &request).await?;
            let next = marks.turn(&page, shared.clock.now(), shared.config.stall_timeout)?;
            if let Some(entry) = page.entries.into_iter().find(|entry| entry.key == key) {
                return Ok(Some(entry));
            }
            if next.is_none() {
                return Ok(None);
            }
            request.next = next;
        }
    }

    async fn delete(&self, _: &ThreadContext, _: &str) -> Result<(), Failure> {
        Err(read_only())
    }
}
