//! `file://` and plain paths: a folder as a remote.

use super::context::ThreadContext;
use super::failure::Failure;
use super::source::{Body, GetRequest, GetResponse, Head, Source, Times, Version};
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use forebay_core::versions::FileFacts;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Bytes per read: large enough for a disk, small enough that the thread's remaining transfers do not starve.
const READ_BYTES: usize = 1 << 20;

pub(crate) struct FileSource {
    root: PathBuf,
}

impl FileSource {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }
}

fn io_failure(error: std::io::Error, what: &str, path: &Path) -> Failure {
    // Interrupted reads of network file systems are retried, missing files and missing permissions are not.
    let is_retried = matches!(error.raw_os_error(), Some(libc::EIO | libc::ESTALE | libc::ETIMEDOUT | libc::EAGAIN));
    Failure::new(Error::from_io(error, what).with("path", path.display()), is_retried)
}

#[async_trait(?Send)]
impl Source for FileSource {
    async fn get(&self, context: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        context.shared.counters.requests.add(1);
        let path = self.root.join(&request.key);
        // NONBLOCK: opening a pipe must not wait for its writer; for a regular file it has no effect.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .map_err(|e| io_failure(e, "cannot open the file", &path))?;
        let meta = file.metadata().map_err(|e| io_failure(e, "cannot read the file's metadata", &path))?;
        if !meta.is_file() {
            return Err(Failure::permanent(Error::new(ErrorKind::NotFound, "not a file").with("path", path.display())));
        }
        let total = meta.len();
        let (start, end) = request.range.as_ref().map_or((0, total), |r| (r.start, r.end.min(total)));
        if start > end {
            let why = format!("the file has {total} bytes, and byte {start} was requested");
            return Err(Failure::permanent(Error::new(ErrorKind::Checksum, why).with("path", path.display())));
        }
        let version = Some(Version::ETag(FileFacts::from(&meta).version_of(&file)));
        let times = Times::default();
        let head = Head { start, promised: Some(end - start), total: Some(total), version, encoding: None, times };
        Ok(GetResponse { head, body: Box::new(FileBody { file, at: start, end, path }) })
    }

    fn is_on_network(&self) -> bool {
        false
    }
}

struct FileBody {
    file: File,
    at: u64,
    end: u64,
    path: PathBuf,
}

#[async_trait(?Send)]
impl Body for FileBody {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let remaining = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let n = out.len().min(remaining).min(READ_BYTES);
        if n == 0 {
            return Ok(0);
        }
        let n = loop {
            match std::os::unix::fs::FileExt::read_at(&self.file, &mut out[..n], self.at) {
                Ok(n) => break n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io_failure(e, "cannot read the file", &self.path)),
            }
        };
        self.at += n as u64;
        // Further transfers and a cancellation get their turn.
        tokio::task::yield_now().await;
        Ok(n)
    }
}
