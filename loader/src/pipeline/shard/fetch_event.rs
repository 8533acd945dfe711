//! Events of a fetch.

use crate::format::FileInfo;
use crate::store::Progress;

/// Event of a fetch.
pub(crate) enum FetchEvent<'a> {
    /// A download's progress was read; `moved` if it has grown since the last event.
    Bytes { file: &'a FileInfo, progress: Progress, moved: bool },
    /// A whole file is there.
    File,
}
