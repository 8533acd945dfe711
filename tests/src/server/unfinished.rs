//! Unfinished objects of a server: uploads in parts, blocks, folders.

use bytes::Bytes;
use forebay_loader::sync::Mutex;
use md5::{Digest as _, Md5};
use std::collections::{BTreeMap, BTreeSet};

/// Interface through which a server is written to and listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// S3, and the XML interface of Google Cloud Storage.
    #[default]
    S3,
    /// Blobs of Azure.
    Azure,
    /// Oracle's object storage.
    Oci,
    /// Files of Databricks.
    Dbfs,
}

/// Upload in parts.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) key: String,
    /// Each part has a checksum, which the end of the upload repeats.
    pub(super) has_checksums: bool,
    parts: BTreeMap<u32, UploadedPart>,
}

#[derive(Clone, Debug)]
struct UploadedPart {
    bytes: Bytes,
    tag: String,
}

/// Object that consists of parts.
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    /// MD5 of the parts' MD5s in sequence.
    pub(super) md5: Vec<u8>,
    /// SHA-256 of each part, if it has checksums.
    pub(super) sha256: Vec<Vec<u8>>,
    pub(super) has_checksums: bool,
    pub(super) parts: usize,
}

/// Unfinished objects of a server.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    pub(super) uploads: Mutex<BTreeMap<String, Upload>>,
    begun: Mutex<u64>,
    /// Blocks of Azure, by key and name.
    pub(super) blocks: Mutex<BTreeMap<(String, String), Bytes>>,
    /// Folders of Databricks.
    pub(super) folders: Mutex<BTreeSet<String>>,
}

impl Unfinished {
    /// Returns the number of uploads in parts.
    pub(super) fn uploads_len(&self) -> usize {
        self.uploads.lock().len()
    }

    /// Begins an upload, and returns its name, which has to be escaped in addresses unless `is_plain`.
    pub(super) fn begin(&self, key: &str, has_checksums: bool, is_plain: bool) -> String {
        let mut begun = self.begun.lock();
        *begun += 1;
        let id = if is_plain { format!("upload-{}", *begun) } else { format!("upload/{}+=", *begun) };
        self.uploads.lock().insert(id.clone(), Upload { key: key.to_owned(), has_checksums, parts: BTreeMap::new() });
        id
    }

    /// Stores a part; `None` if there is no such upload of this object. Its tag is its digest unless `is_opaque`.
    pub(super) fn put_part(&self, key: &str, id: &str, number: u32, bytes: Bytes, is_opaque: bool) -> Option<String> {
        let digest = if is_opaque { format!("{:032x}", bytes.len()) } else { hex::encode(Md5::digest(&bytes)) };
        let mut uploads = self.uploads.lock();
        let upload = uploads.get_mut(id).filter(|upload| upload.key == key)?;
        let tag = format!("\"{digest}\"");
        upload.parts.insert(number, UploadedPart { bytes, tag: tag.clone() });
        Some(tag)
    }

    /// Returns number, tag and length of the parts of an upload; `None` if there is none of this object.
    pub(super) fn parts(&self, key: &str, id: &str) -> Option<Vec<(u32, String, usize)>> {
        let uploads = self.uploads.lock();
        let upload = uploads.get(id).filter(|upload| upload.key == key)?;
        Some(upload.parts.iter().map(|(number, part)| (*number, part.tag.clone(), part.bytes.len())).collect())
    }

    /// Joins the named parts, which must be in order, and ends the upload.
    pub(super) fn complete(&self, key: &str, id: &str, named: &[(u32, String)]) -> Result<Whole, &'static str> {
        let mut uploads = self.uploads.lock();
        let upload = uploads.get(id).filter(|upload| upload.key == key).ok_or("NoSuchUpload")?;
        if named.is_empty() || !named.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("InvalidPartOrder");
        }
        let has_checksums = upload.has_checksums;
        let len = upload.parts.values().map(|part| part.bytes.len()).sum();
        let (mut whole, mut md5, mut sha256) = (Vec::with_capacity(len), Md5::new(), Vec::new());
        for (number, tag) in named {
            // Clients may leave the quotation marks out, as the client of s3torchconnector does.
            let is_named = |part: &&UploadedPart| part.tag.trim_matches('"') == tag.trim_matches('"');
            let part = upload.parts.get(number).filter(is_named).ok_or("InvalidPart")?;
            whole.extend_from_slice(&part.bytes);
            md5.update(hex::decode(tag.trim_matches('"')).unwrap_or_default());
            if has_checksums {
                sha256.push(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &part.bytes).as_ref().to_vec());
            }
        }
        uploads.remove(id);
        let (bytes, md5, parts) = (whole.into(), md5.finalize().to_vec(), named.len());
        Ok(Whole { bytes, md5, sha256, has_checksums, parts })
    }

    /// Removes an upload; false if there is none of this object.
    pub(super) fn abort(&self, key: &str, id: &str) -> bool {
        let mut uploads = self.uploads.lock();
        let is_here = uploads.get(id).is_some_and(|upload| upload.key == key);
        if is_here {
            uploads.remove(id);
        }
        is_here
    }
}
