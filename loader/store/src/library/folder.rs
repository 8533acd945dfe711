//! Folder of a store that a library serves, as a source and as a target.

use super::queue::{Awaited, LibraryStores};
use super::request::{Operation, Reply};
use crate::context::ThreadContext;
use crate::destination::{ListRequest, ListedEntry, ObjectTag, Page, Payload, Target};
use crate::failure::Failure;
use crate::queue::closed_error;
use crate::source::{Body, GetRequest, GetResponse, Head, Source, Times, Version};
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use bytes::{Buf as _, Bytes};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most entries of a listing, which is in memory as a whole: 100 times the shards of a large data set.
const ENTRIES_MAX: usize = 1_000_000;

/// Remote folder of a store that a library serves.
pub(crate) struct LibraryFolder {
    library: LibraryStores,
    remote: String,
}

impl LibraryFolder {
    pub(crate) fn new(library: LibraryStores, remote: String) -> Self {
        Self { library, remote }
    }

    async fn ask(&self, context: &ThreadContext, key: &str, operation: Operation) -> Result<Answer, Failure> {
        context.shared.counters.requests.add(1);
        let limit = context.shared.config.download_timeout;
        let awaited = self.library.ask(&self.remote, key, operation, limit).await.map_err(Failure::permanent)?;
        Ok(Answer { library: self.library.clone(), awaited, limit })
    }

    /// Makes an exchange without bytes in its response.
    async fn finish(&self, context: &ThreadContext, key: &str, operation: Operation) -> Result<(), Failure> {
        let mut answer = self.ask(context, key, operation).await?;
        loop {
            match answer.next(context).await? {
                Reply::Taken => {}
                Reply::Done => return Ok(()),
                other => return Err(out_of_turn(&other)),
            }
        }
    }
}

/// Replies to one exchange.
struct Answer {
    library: LibraryStores,
    awaited: Awaited,
    limit: Duration,
}

impl Answer {
    /// Returns the next reply, if it is made in time.
    async fn next(&mut self, context: &ThreadContext) -> Result<Reply, Failure> {
        context.within(self.limit, self.received()).await.unwrap_or_else(|| {
            let why = format!("no answer for {} s", self.limit.as_secs_f64());
            Err(Failure::transient(Error::new(ErrorKind::Timeout, why)))
        })
    }

    async fn received(&mut self) -> Result<Reply, Failure> {
        match self.awaited.replies.recv().await {
            Some(Reply::Failed(failure)) => Err(failure),
            Some(reply) => Ok(reply),
            None if self.library.is_closed() => Err(Failure::permanent(closed_error())),
            None => Err(Failure::network("the exchange ended without a response")),
        }
    }
}

fn entry(key: String, size: u64) -> ListedEntry {
    ListedEntry { key, size, etag: None, modified: None }
}

fn out_of_turn(reply: &Reply) -> Failure {
    Failure::permanent(Error::internal(format!("a store that a library serves has replied out of turn: {reply:?}")))
}

#[async_trait(?Send)]
impl Source for LibraryFolder {
    async fn get(&self, context: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        let start = request.range.as_ref().map_or(0, |range| range.start);
        let mut answer = self.ask(context, &request.key, Operation::Get { start }).await?;
        let (total, version) = match answer.next(context).await? {
            Reply::Head { bytes, version } => (bytes, version),
            other => return Err(out_of_turn(&other)),
        };
        let Some(promised) = total.checked_sub(start) else {
            let why = format!("the object has {total} bytes, and byte {start} was requested");
            return Err(Failure::permanent(Error::new(ErrorKind::Checksum, why)));
        };
        let head = Head {
            start,
            promised: Some(promised),
            total: Some(total),
            version: version.map(Version::ETag),
            encoding: None,
            times: Times::default(),
        };
        Ok(GetResponse { head, body: Box::new(LibraryBody { answer, rest: Bytes::new(), is_over: false }) })
    }

    /// Objects are fetched by one exchange each: several files in parallel use all connections.
    fn has_ranges(&self) -> bool {
        false
    }
}

struct LibraryBody {
    answer: Answer,
    /// Bytes that have arrived and were not read yet.
    rest: Bytes,
    is_over: bool,
}

#[async_trait(?Send)]
impl Body for LibraryBody {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        if self.rest.is_empty() && !self.is_over {
            match self.answer.received().await? {
                Reply::Bytes(bytes) => self.rest = bytes,
                Reply::Done => self.is_over = true,
                other => return Err(out_of_turn(&other)),
            }
        }
        let n = out.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut out[..n]);
        Ok(n)
    }
}

#[async_trait(?Send)]
impl Target for LibraryFolder {
    async fn put(&self, context: &ThreadContext, key: &str, payload: &Payload) -> Result<ObjectTag, Failure> {
        self.finish(context, key, Operation::Put(payload.clone())).await?;
        Ok(None)
    }

    async fn list(&self, context: &ThreadContext, request: &ListRequest) -> Result<Page, Failure> {
        let mut answer = self.ask(context, &request.prefix, Operation::List).await?;
        let mut entries = Vec::new();
        loop {
            match answer.next(context).await? {
                Reply::Entries(more) => entries.extend(more.into_iter().map(|(key, size)| entry(key, size))),
                Reply::Done => break,
                other => return Err(out_of_turn(&other)),
            }
            if entries.len() > ENTRIES_MAX {
                let why = format!("the folder has more than {ENTRIES_MAX} files: name a smaller one");
                return Err(Failure::permanent(Error::config(why)));
            }
        }
        entries.retain(|entry: &ListedEntry| entry.key.starts_with(&request.prefix));
        let mut folders = BTreeSet::new();
        if !request.is_recursive {
            entries.retain(|entry| match entry.key[request.prefix.len()..].find('/') {
                Some(slash) => {
                    folders.insert(entry.key[..=request.prefix.len() + slash].to_owned());
                    false
                }
                None => true,
            });
        }
        Ok(Page::below("", entries.into_iter(), folders.into_iter(), None))
    }

    async fn find(&self, context: &ThreadContext, key: &str) -> Result<Option<ListedEntry>, Failure> {
        let mut answer = self.ask(context, key, Operation::Size).await?;
        match answer.next(context).await? {
            Reply::Head { bytes, .. } => Ok(Some(entry(key.to_owned(), bytes))),
            Reply::Done => Ok(None),
            other => Err(out_of_turn(&other)),
        }
    }

    async fn delete(&self, context: &ThreadContext, key: &str) -> Result<(), Failure> {
        self.finish(context, key, Operation::Delete).await
    }
}
