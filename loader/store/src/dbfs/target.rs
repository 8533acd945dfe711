//! Volumes of Databricks as destinations. A file is one request; the service has no digests, so its size is compared.

use super::protocol::DbfsProtocol;
use crate::context::ThreadContext;
use crate::destination::{
    ListRequest, ListedEntry, ObjectTag, Page, Payload, Target, described, read_json, unless_missing,
};
use crate::failure::Failure;
use crate::http::{Answer, Outgoing, Protocol as _, Refusal, Signer};
use crate::key::{encode_component, encode_path};
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use http::{Method, header};
use serde::{Deserialize, Serialize};
use std::time::{Duration, UNIX_EPOCH};

/// Largest file, by the service's documentation.
const FILE_BYTES_MAX: u64 = 5 << 30;

const WRITE: &str = "WRITE VOLUME on the volume, and USE on its catalog and schema";
const READ: &str = "READ VOLUME on the volume, and USE on its catalog and schema";

/// Folder of a volume.
pub(crate) struct DbfsTarget {
    signer: Signer<DbfsProtocol>,
}

#[derive(Default, Deserialize)]
struct Listed {
    #[serde(default)]
    contents: Vec<Child>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Child {
    name: String,
    #[serde(default)]
    is_directory: bool,
    #[serde(default)]
    file_size: u64,
    /// Milliseconds since 1970.
    last_modified: Option<u64>,
}

/// Position in a recursive listing: folders that remain, relative to the destination, and the page of the last one.
#[derive(Default, Deserialize, Serialize)]
struct ListingPosition {
    folders: Vec<String>,
    page: Option<String>,
}

impl DbfsTarget {
    pub(crate) fn new(protocol: DbfsProtocol, user_agent: &str) -> Result<Self, Error> {
        Ok(Self { signer: Signer::new(protocol, user_agent)? })
    }

    async fn call(
        &self,
        context: &ThreadContext,
        (method, address, right): (Method, &str, &str),
        payload: &Payload,
    ) -> Result<Answer, Refusal> {
        let outgoing = || {
            let outgoing = Outgoing::new(method.clone(), address.to_owned(), payload, right);
            if method == Method::PUT {
                outgoing.with(header::CONTENT_TYPE, "application/octet-stream")
            } else {
                outgoing
            }
        };
        self.signer.call(context, outgoing).await
    }

    /// Returns the address of a folder, which is relative to the destination and ends with a slash unless it is empty.
    fn folder(&self, folder: &str) -> String {
        let base = self.signer.protocol.folder_address();
        match folder.trim_end_matches('/') {
            "" => base.to_owned(),
            folder => format!("{base}/{}", encode_path(folder)),
        }
    }

    async fn create_folder_of(&self, context: &ThreadContext, key: &str) -> Result<(), Failure> {
        let folder = key.rsplit_once('/').map_or("", |(folder, _)| folder);
        let exchange = (Method::PUT, &*self.folder(folder), WRITE);
        self.call(context, exchange, &Payload::default()).await?;
        Ok(())
    }
}

#[async_trait(?Send)]
impl Target for DbfsTarget {
    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<ObjectTag, Failure> {
        if payload.len() > FILE_BYTES_MAX {
            let why = format!("the file has {} bytes, and a volume takes 5 GiB by its interface", payload.len());
            return Err(Failure::permanent(Error::config(why)));
        }
        let address = format!("{}?overwrite=true", self.signer.protocol.address(key));
        let exchange = (Method::PUT, &*address, WRITE);
        if let Err(refusal) = self.call(context, exchange.clone(), payload).await {
            if !refusal.is_missing() {
                return Err(refusal.failure);
            }
            // The folder does not exist yet.
            self.create_folder_of(context, key).await?;
            self.call(context, exchange, payload).await?;
        }
        match self.find(context, key).await? {
            Some(file) if file.size == payload.len() => Ok(file.etag),
            file => {
                let size = file.map_or_else(|| "no file".to_owned(), |file| format!("{} bytes", file.size));
                let why = format!("the volume has {size} after {} bytes were stored", payload.len());
                Err(Failure::transient(Error::new(ErrorKind::Checksum, why)))
            }
        }
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        let first = || {
            let folder = request.prefix.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
            Ok(ListingPosition { folders: vec![folder], page: None })
        };
        let position = request.next.as_deref().map_or_else(first, |next| read_json(next.as_bytes(), "the position"));
        let mut position = position?;
        let Some(folder) = position.folders.last().cloned() else { return Ok(Page::default()) };
        let mut address = self.folder(&folder);
        if let Some(page) = &position.page {
            address = format!("{address}?page_token={}", encode_component(page));
        }
        let listed = match self.call(context, (Method::GET, &address, READ), &Payload::default()).await {
            Ok(answer) => read_json(&answer.body, "the listing")?,
            Err(refusal) if refusal.is_missing() && request.next.is_none() => Listed::default(),
            Err(refusal) if refusal.is_missing() => {
                let why = format!("the folder {folder} was removed while it was listed: list again");
                return Err(Failure::permanent(Error::new(ErrorKind::Stale, why)));
            }
            Err(refusal) => return Err(refusal.failure),
        };
        position.page = listed.next_page_token.filter(|token| !token.is_empty());
        // A further page of this folder is progress if it has an entry.
        let has_moved = position.page.is_none() || !listed.contents.is_empty();
        if position.page.is_none() {
            position.folders.pop();
        }
        let (mut entries, mut inner) = (Vec::new(), Vec::new());
        for child in listed.contents {
            let key = format!("{folder}{}", child.name.trim_end_matches('/'));
            if !key.starts_with(&request.prefix) {
                continue;
            }
            if !child.is_directory {
                let modified = child.last_modified.map(|time| UNIX_EPOCH + Duration::from_millis(time));
                entries.push(ListedEntry { key, size: child.file_size, etag: None, modified });
            } else if request.is_recursive {
                inner.push(format!("{key}/"));
            } else {
                entries.push(ListedEntry::folder(format!("{key}/")));
            }
        }
        // Below the folder with the next page.
        let at = position.folders.len() - usize::from(position.page.is_some());
        position.folders.splice(at..at, inner);
        let has_more = !position.folders.is_empty();
        let next = has_more.then(|| serde_json::to_string(&position).unwrap_or_default());
        Ok(Page { entries, markers: Vec::new(), next, has_moved })
    }

    async fn find(&self, context: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure> {
        let address = self.signer.protocol.address(key);
        described(key, self.call(context, (Method::HEAD, &address, READ), &Payload::default()).await)
    }

    async fn delete(&self, context: &ThreadContext, key: &str) -> Result<(), Failure> {
        let address = self.signer.protocol.address(key);
        let removed = self.call(context, (Method::DELETE, &address, WRITE), &Payload::default()).await;
        unless_missing(removed, Refusal::is_missing)
    }
}
