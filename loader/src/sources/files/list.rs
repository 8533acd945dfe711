//! Paths of listed files with their lengths.

use crate::format::recipe::{Texts, class_of};
use crate::sources::extension::has_extension;

/// Extensions of pictures: those that torchvision's `ImageFolder` has, GIF, and formats of crawled sets that are not
/// decoded. Their files are samples with an error that names the format, and are not left out without a word.
pub const PICTURES: [&str; 16] = [
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif", ".avif", ".heic", ".heif",
    ".jp2", ".j2k", ".jxl",
];

/// Returns true for the name of a picture, in any case.
pub fn is_picture(name: &str) -> bool {
    has_extension(name, &PICTURES)
}

/// Files below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileList {
    /// Paths below the folder.
    pub paths: Texts,
    /// Length of each file.
    pub bytes: Vec<u64>,
}

impl FileList {
    /// Adds a file.
    pub fn push(&mut self, path: &str, bytes: u64) {
        self.paths.push(path);
        self.bytes.push(bytes);
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if there is no file.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds the files of a second list.
    pub fn append(&mut self, other: &Self) {
        other.paths.iter().zip(&other.bytes).for_each(|(path, bytes)| self.push(path, *bytes));
    }

    /// Returns the files `numbers` in their order.
    pub(super) fn select(&self, numbers: &[usize]) -> Self {
        let paths = numbers.iter().map(|number| self.paths.get(*number)).collect();
        Self { paths, bytes: numbers.iter().map(|number| self.bytes[*number]).collect() }
    }

    /// Sorts `numbers` of files as torchvision's `ImageFolder` does: by the first folder, then by the whole folder,
    /// then by the name.
    pub(super) fn sort(&self, numbers: &mut [usize]) {
        let key = |number: &usize| {
            let path = self.paths.get(*number);
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            (class_of(path), folder, name)
        };
        numbers.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_the_order_of_image_folder() {
        // Classes first: `a-b` is after `a`, although `-` is before `/`. In a class the paths of folders are compared
        // as texts.
        let sorted = ["0.png", "a/z.png", "a/b/x.png", "a/b-c/x.png", "a/b/c/x.png", "a-b/0.png", "ä/0.png"];
        let mut list = FileList::default();
        sorted.iter().rev().for_each(|path| list.push(path, path.len() as u64));
        let mut numbers: Vec<usize> = (0..list.len()).collect();
        list.sort(&mut numbers);
        let list = list.select(&numbers);
        assert_eq!(list.paths.iter().collect::<Vec<_>>(), sorted);
        assert_eq!(list.bytes[0], 5);
    }

    #[test]
    fn pictures_are_the_kinds_of_image_folder_and_of_crawled_sets() {
        for (name, expected) in [
            ("a.JPEG", true),
            (".png", true),
            ("a.pgm", true),
            ("a.gif", true),
            ("a.AVIF", true),
            ("jpg", false),
            ("a.txt", false),
        ] {
            assert_eq!(is_picture(name), expected, "{name}");
        }
    }
}
