//! Size of the annotated picture, which a document of its objects may have.

use super::json_path::{JsonPath, parts_of_path};
use crate::decode::segmentation::check_size;
use crate::error::{Error, ErrorKind, Result};
use crate::format::json::{self, PathPart};
use forebay_picture::geometry::Size;

/// Default of the path to the size, as the documents of COCO have it.
pub(super) fn size_path() -> Option<JsonPath> {
    Some(JsonPath::Text("size".into()))
}

/// Path to height and width of the annotated picture.
#[derive(Debug)]
pub(super) struct AnnotatedSize(Option<Vec<PathPart>>);

impl AnnotatedSize {
    /// Size at `path`; `kind` names the field. Nothing is compared without a path.
    pub(super) fn at(path: Option<&JsonPath>, kind: &str) -> Result<Self> {
        Ok(Self(path.map(|path| parts_of_path(kind, Some(path))).transpose()?))
    }

    /// Compares the size in `document`, if it has one, with the size of the picture.
    ///
    /// # Errors
    ///
    /// `Decode` for a different size, and for a value that is no size.
    pub(super) fn check(&self, document: &[u8], picture: Size) -> Result<()> {
        self.find(document)?.map_or(Ok(()), |size| check_size(size, picture))
    }

    /// As [`check`](Self::check), but a value that is no [height, width] is not compared:
    /// documents of boxes may have a `size` of any meaning.
    ///
    /// # Errors
    ///
    /// `Decode` for a different size.
    pub(super) fn check_if_size(&self, document: &[u8], picture: Size) -> Result<()> {
        let is_size = |size: &&[u8]| serde_json::from_slice::<[u32; 2]>(size).is_ok();
        self.find(document)?.filter(is_size).map_or(Ok(()), |size| check_size(size, picture))
    }

    fn find<'d>(&self, document: &'d [u8]) -> Result<Option<&'d [u8]>> {
        let Some(path) = &self.0 else { return Ok(None) };
        let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
        let of_sample = |e: Error| if e.kind() == ErrorKind::Format { e.of_kind(ErrorKind::Decode) } else { e };
        let found = json::find(document, path).map_err(of_sample)?.map(|range| &document[range]);
        Ok(found.filter(|size| *size != b"null"))
    }
}
