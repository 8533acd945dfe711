//! Objects of any store by their URLs: listed, read, written, removed as they are, without an index.
//!
//! ```text
//!  "s3://bucket/a/b.tar" --split--> root "s3://bucket/" + key "a/b.tar"
//!                                        | opened once, kept by Objects
//!                                        v
//!     list --> ObjectListing        store::Remote, store::Destination
//!     read --> Reads: a window of objects in flight, in the order of their requests
//!     read_range, upload, put_if, version, size, remove
//! ```
//!
//! ```
//! use forebay_store::objects::Objects;
//! use forebay_store::StoreConfig;
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("a.txt"), b"some text")?;
//!
//! let objects = Objects::new(StoreConfig::default())?;
//! let prefix = format!("{}/", folder.path().display()); // or "s3://bucket/prefix/"
//! for object in objects.list(&prefix, true)? {
//!     let object = object?;
//!     assert_eq!(object.size, 9);
//!     assert_eq!(&*objects.read_range(&object.url, 5..9, None)?, b"text");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod listing;
mod reads;
mod roots;
mod settings;
#[cfg(test)]
mod tests;

pub use listing::{ObjectEntry, ObjectListing};
pub use reads::{Read, ReadLimits, Reads};
pub use roots::{Objects, is_root};
pub use settings::settings_from_json;
