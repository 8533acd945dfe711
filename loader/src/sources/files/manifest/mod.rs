//! Manifests: CSV, TSV and JSON-lines files with a line for each sample, such as the `metadata.csv` of an image folder,
//! and annotations of COCO.
//!
//! One column has the path of the sample's file. Further columns of paths are called as in the image folders of
//! `datasets`: `mask_file_name` becomes the column `mask`, with the content of the file. The remaining columns become
//! columns of the samples. A column with cells that are all integers, or all numbers, has numbers, unless its type
//! would round an integer. Otherwise it has texts.
//!
//! * `separated`: CSV and TSV; `json_lines`: an object in each line; `coco`: the instances of COCO;
//! * `values`: columns of values; `table`: the common parts of the forms of text.

mod coco;
mod json_lines;
mod separated;
mod table;
mod values;

use super::list::FileList;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::recipe::Texts;
use crate::sources::extension::ends_with;
use json_lines::json_lines;
use separated::separated;
use std::collections::HashMap;
pub(super) use values::ValueColumn;

/// Names of the column with the path. The first one that a manifest has is taken.
const PATH_COLUMNS: [&str; 8] =
    ["file_name", "path", "filename", "file", "image", "image_path", "filepath", "file_path"];

/// End of the names of further columns with paths.
const FILE_NAME: &str = "_file_name";

/// Form of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Separated(u8),
    JsonLines,
    Coco,
}

/// Column with the path of a file of each sample.
#[derive(Debug)]
struct PathColumn {
    /// Name of the column with the content; `None` for the usual one.
    name: Option<String>,
    /// Paths as they are written.
    paths: Texts,
}

/// Parsed manifest.
#[derive(Debug)]
pub struct Manifest {
    /// Name in messages.
    name: String,
    /// Columns with the paths of files, at least one.
    files: Vec<PathColumn>,
    /// Line of each sample.
    lines: Lines,
    /// Columns without files.
    pub columns: Vec<ValueColumn>,
    /// Names of the classes, if the manifest has them.
    pub classes: Option<Texts>,
}

/// Lines or ids of samples in a manifest, for errors.
#[derive(Debug)]
enum Lines {
    /// Number of the line of each.
    Numbers(Vec<u64>),
    /// Id of the image of each: COCO's files have no lines, and their paths are relative to the folder of the images.
    Images(Vec<u64>),
}

impl Lines {
    fn ids(&self) -> (&'static str, &[u64]) {
        match self {
            Self::Numbers(lines) => ("line", lines),
            Self::Images(ids) => ("image", ids),
        }
    }
}

impl Manifest {
    /// Parses the manifest called `name`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for anything else, with the line; [`ErrorKind::Config`] for one without a column of paths.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        let parsed = match form_of(name) {
            Some(Form::Separated(separator)) => utf8_text(bytes).and_then(|text| separated(text, separator)),
            Some(Form::JsonLines) => utf8_text(bytes).and_then(json_lines),
            Some(Form::Coco) => {
                let found = utf8_text(bytes).and_then(coco::annotations).context("manifest", || name)?;
                let files = vec![PathColumn { name: None, paths: found.paths }];
                let (name, classes) = (name.to_owned(), Some(found.classes));
                return Ok(Self { name, files, lines: Lines::Images(found.ids), columns: found.columns, classes });
            }
            None => Err(Error::config("the name of a manifest ends in .csv, .tsv, .jsonl or, for COCO, in .json")),
        };
        let (mut columns, lines) = parsed.context("manifest", || name)?;
        let path = PATH_COLUMNS.iter().find_map(|known| columns.iter().position(|(name, _)| name == known));
        let mut files: Vec<PathColumn> = Vec::new();
        files.extend(path.map(|path| PathColumn { name: None, paths: columns.remove(path).1.texts }));
        let mut values = Vec::new();
        for (column, cells) in columns.drain(..) {
            match column.strip_suffix(FILE_NAME).filter(|name| !name.is_empty()) {
                Some(file) => files.push(PathColumn { name: Some(file.to_owned()), paths: cells.texts }),
                None => values.push((column, cells)),
            }
        }
        if files.is_empty() {
            let found: Vec<_> = values.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!(
                "the manifest has no column of paths, which is called {} or the like",
                PATH_COLUMNS[..3].join(", ")
            );
            let columns = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            return Err(Error::config(message).with("columns", columns).with("manifest", name));
        }
        let columns = values.into_iter().map(|(name, cells)| ValueColumn::new(name, cells)).collect();
        Ok(Self { name: name.to_owned(), files, lines: Lines::Numbers(lines), columns, classes: None })
    }

    /// Names of the columns with the content of the files; `None` for the usual one.
    pub fn file_columns(&self) -> Vec<Option<&str>> {
        self.files.iter().map(|column| column.name.as_deref()).collect()
    }

    /// Returns the numbers of its files in `list`: the files of the first sample, then of the next one. Paths are
    /// relative to `folder`, which is a path below the list's folder, or begin with `root`, its address.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a file that does not exist, with the line.
    pub fn find(&self, list: &FileList, folder: &str, root: &str) -> Result<Vec<usize>> {
        let numbers: HashMap<&str, usize> = list.paths.iter().zip(0..).collect();
        let (noun, lines) = self.lines.ids();
        let folder = if matches!(self.lines, Lines::Images(_)) { "" } else { folder };
        let find = |column: &PathColumn, path: &str, line: u64| {
            let below = path.strip_prefix(root).and_then(|path| path.strip_prefix('/'));
            let plain = |path: &str| path.split('/').filter(|part| *part != ".").collect::<Vec<_>>().join("/");
            let key = match below {
                Some(below) => plain(below),
                None if folder.is_empty() => plain(path),
                None => format!("{folder}/{}", plain(path)),
            };
            numbers.get(key.as_str()).copied().ok_or_else(|| {
                let message = if path.is_empty() {
                    "a line of the manifest has no path in this column"
                } else if key.contains('\\') && numbers.contains_key(key.replace('\\', "/").as_str()) {
                    "a path of the manifest has backslashes: write it with `/`"
                } else if noun == "image" {
                    "a file of the manifest does not exist: the paths of COCO are relative to the folder of the \
                     images, which is `remote`"
                } else {
                    "a file of the manifest does not exist: its paths are relative to the manifest"
                };
                let error = Error::new(ErrorKind::NotFound, message)
                    .with("file", key)
                    .with(noun, line)
                    .with("manifest", &self.name);
                match &column.name {
                    Some(name) => error.with("column", format!("{name}{FILE_NAME}")).hinting(
                        "columns with names that end in _file_name have paths: rename a column that has texts",
                    ),
                    None => error,
                }
            })
        };
        let mut found = Vec::with_capacity(self.files.len() * lines.len());
        for (sample, line) in lines.iter().enumerate() {
            for column in &self.files {
                found.push(find(column, column.paths.get(sample), *line)?);
            }
        }
        if found.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "the manifest has no lines").with("manifest", &self.name));
        }
        Ok(found)
    }
}

/// Returns the first file in the folder of `list` itself that may be a manifest.
pub fn first_manifest_in(list: &FileList) -> Option<&str> {
    let has_lines = |path: &str| matches!(form_of(path), Some(Form::Separated(_) | Form::JsonLines));
    list.paths.iter().find(|path| !path.contains('/') && !path.starts_with('.') && has_lines(path))
}

fn form_of(name: &str) -> Option<Form> {
    let known = [
        (".csv", Form::Separated(b',')),
        (".tsv", Form::Separated(b'\t')),
        (".jsonl", Form::JsonLines),
        (".ndjson", Form::JsonLines),
        (".json", Form::Coco),
    ];
    known.into_iter().find(|(extension, _)| ends_with(name, extension)).map(|(_, form)| form)
}

/// Returns the text of a manifest without the mark that some programs put in front of UTF-8.
///
/// # Errors
///
/// [`ErrorKind::Format`] for UTF-16 and UTF-32.
fn utf8_text(bytes: &[u8]) -> Result<&[u8]> {
    // Both encodings have a null next to each ASCII character, which no text has.
    let is_wide =
        bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || bytes.iter().take(4).any(|b| *b == 0);
    if is_wide {
        return Err(Error::format("the manifest is in UTF-16 or UTF-32: write it in UTF-8"));
    }
    Ok(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::values::{Cells, float, integer};
    use super::*;
    use crate::format::recipe::Values;

    fn list(paths: &[&str]) -> FileList {
        let mut list = FileList::default();
        paths.iter().for_each(|path| list.push(path, 1));
        list
    }

    fn kinds(manifest: &Manifest) -> Vec<(&str, String)> {
        manifest.columns.iter().map(|column| (column.name.as_str(), column.encoding().to_string())).collect()
    }

    #[test]
    fn columns_have_the_type_of_all_their_cells() {
        let csv = b"\xef\xbb\xbfid,file_name,width,score,zip,text,part\n1,0.jpg,640,1e-3,007,\"a, \
                    \"\"b\"\"\nc\",1\n2,1.jpg,-5,2,1,,\n";
        let manifest = Manifest::parse("metadata.CSV", csv).unwrap();
        let expected =
            [("id", "int"), ("width", "int"), ("score", "float64"), ("zip", "str"), ("text", "str"), ("part", "str")];
        assert_eq!(kinds(&manifest), expected.map(|(name, encoding)| (name, encoding.to_owned())));
        assert_eq!(
            manifest.columns[1].select(&[1, 0]),
            Values::Numbers(vec![(-5_i64).to_le_bytes(), 640_i64.to_le_bytes()])
        );
        assert_eq!(manifest.columns[2].select(&[0]), Values::Numbers(vec![1e-3_f64.to_le_bytes()]));
        assert_eq!(manifest.columns[4].select(&[0]), Values::Texts(["a, \"b\"\nc"].iter().collect()));
        assert_eq!(manifest.find(&list(&["1.jpg", "0.jpg"]), "", "/data").unwrap(), [1, 0]);
        assert_eq!(manifest.lines.ids().1, [2, 4], "a cell may have line breaks");
        let manifest = Manifest::parse("m.csv", b"path,a\r\n0,\"x\ny\"\r\n\r\n1,2\r\n").unwrap();
        assert_eq!(manifest.lines.ids().1, [2, 5]);
    }

    #[test]
    fn lines_of_json_have_the_types_of_their_values() {
        let json = br#"{"path": "./a/0.jpg", "n": 1, "x": 1.5, "is": true, "t": "5", "o": {"a": [1]}}

{"path": "s3://b/t/a/1.jpg", "n": 2, "x": 2, "is": false, "t": "6", "late": 7}
"#;
        let manifest = Manifest::parse("m.jsonl", json).unwrap();
        let expected = [("n", "int"), ("x", "float64"), ("is", "int"), ("t", "str"), ("o", "str"), ("late", "str")];
        assert_eq!(kinds(&manifest), expected.map(|(name, encoding)| (name, encoding.to_owned())));
        assert_eq!(manifest.columns[4].select(&[0, 1]), Values::Texts([r#"{"a":[1]}"#, ""].iter().collect()));
        assert_eq!(manifest.columns[5].select(&[0, 1]), Values::Texts(["", "7"].iter().collect()));
        assert_eq!(manifest.find(&list(&["a/0.jpg", "a/1.jpg"]), "", "s3://b/t").unwrap(), [0, 1]);
        let e = manifest.find(&list(&["c/a/0.jpg"]), "c", "s3://b/t").unwrap_err();
        assert!(e.to_string().contains("line 3") && e.to_string().contains("a/1.jpg"), "{e}");
        assert_eq!(e.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_is_no_manifest_is_described() {
        for (name, bytes, says) in [
            (
                "m.csv",
                &b"a,b\n1,2\n"[..],
                "no column of paths, which is called file_name, path, filename or the like (columns a, b",
            ),
            ("m.csv", b"path,a\n0.jpg\n", "line 2"),
            ("m.tsv", b"path\ta\ta\n", "used twice (column a"),
            ("m.csv", b"path\n\xff\n", "line 2"),
            ("m.csv", b"", "no column of paths"),
            ("m.jsonl", b"{\"path\": \"a\"}\n[1]\n", "line 2"),
            ("m.jsonl", b"{\"path\": \"a\"", "line 1"),
            ("m.txt", b"{}", ".jsonl"),
            ("m.json", b"{}", "not in the form of COCO"),
            (
                "m.csv",
                b"path,a\n0.jpg,b\n1.jpg,\"c\n2.jpg,d\n3.jpg,e\n",
                "a quote is not closed: all lines after it would be one cell (line 3",
            ),
            (
                "m.csv",
                b"path,a\n0.jpg,\"b\n1.jpg,\"c\"\n",
                "an earlier quote is not closed, or a quote in the cell is not written twice (a backslash does not \
                 escape it) (line 2",
            ),
            ("m.csv", b"path,a\n0.jpg,\"b \\\"c\\\" d\"\n", "a backslash does not escape it) (line 2"),
            ("m.csv", b"path;a\n0.jpg;1\n", "separated by semicolons"),
            (
                "m.tsv",
                b"path,a\n0.jpg,1\n",
                "separated by commas: a .csv manifest has commas, a .tsv manifest has tabs",
            ),
            ("m.csv", b"\xff\xfep\0a\0t\0h\0\n\0", "UTF-16"),
            ("m.jsonl", b"{\0\"\0p\0a\0t\0h\0", "UTF-16"),
            ("m.csv", b"path,a\n0.jpg,caf\xe9\n", "Latin-1"),
            ("m.jsonl", b"{\"path\": \"caf\xe9\"}\n", "Latin-1"),
        ] {
            let e = Manifest::parse(name, bytes).unwrap_err();
            assert!(e.to_string().contains(says), "{name}: {e}");
        }
        let empty = Manifest::parse("m.csv", b"path\n").unwrap();
        assert!(empty.find(&list(&[]), "", "").unwrap_err().to_string().contains("no lines"));
    }

    #[test]
    fn a_mark_of_utf8_is_no_part_of_the_first_line() {
        let lines = b"\xef\xbb\xbf{\"path\": \"0.jpg\"}\n{\"path\": \"1.jpg\"}\n";
        assert_eq!(Manifest::parse("m.jsonl", lines).unwrap().lines.ids().1, [1, 2]);
    }

    #[test]
    fn quotes_inside_of_plain_cells_and_pairs_in_quotes_are_text() {
        let manifest =
            Manifest::parse("m.csv", b"path,a,b\r\n0.jpg,5\" nail,\"a \"\"b\"\"\"\r\n1.jpg,\"\",\"c\"").unwrap();
        assert_eq!(manifest.columns[0].select(&[0, 1]), Values::Texts(["5\" nail", ""].iter().collect()));
        assert_eq!(manifest.columns[1].select(&[0, 1]), Values::Texts(["a \"b\"", "c"].iter().collect()));
    }

    #[test]
    fn a_path_with_backslashes_is_an_error_that_names_them() {
        let manifest = Manifest::parse("m.csv", b"path,a\na\\0.jpg,1\n").unwrap();
        let e = manifest.find(&list(&["a/0.jpg"]), "", "").unwrap_err();
        assert!(e.to_string().contains("backslashes"), "{e}");
        let e = manifest.find(&list(&["b/0.jpg"]), "", "").unwrap_err();
        assert!(e.to_string().contains("does not exist"), "{e}");
    }

    #[test]
    fn columns_with_the_names_of_image_folders_have_paths_of_further_files() {
        let csv = b"mask_file_name,file_name,n,depth_file_name\nm/0.png,i/0.jpg,1,d/0.npy\nm/1.png,i/1.jpg,2,d/0.npy\n";
        let manifest = Manifest::parse("metadata.csv", csv).unwrap();
        assert_eq!(manifest.file_columns(), [None, Some("mask"), Some("depth")]);
        assert_eq!(kinds(&manifest), [("n", "int".to_owned())]);
        let files = list(&["d/0.npy", "i/0.jpg", "i/1.jpg", "m/0.png", "m/1.png"]);
        assert_eq!(manifest.find(&files, "", "").unwrap(), [1, 3, 0, 2, 4, 0]);
        let e = manifest.find(&list(&["i/0.jpg", "i/1.jpg", "m/0.png", "d/0.npy"]), "", "").unwrap_err();
        for word in ["m/1.png", "line 3", "column mask_file_name", "rename a column that has texts"] {
            assert!(e.to_string().contains(word), "{e}");
        }
        // Without a column of the usual names.
        let manifest = Manifest::parse("m.jsonl", br#"{"a_file_name": "0.jpg", "b_file_name": "1.jpg"}"#).unwrap();
        assert_eq!(manifest.file_columns(), [Some("a"), Some("b")]);
        assert_eq!(manifest.find(&list(&["0.jpg", "1.jpg"]), "", "").unwrap(), [0, 1]);
        let empty = Manifest::parse("m.csv", b"file_name,mask_file_name\n0.jpg,\n").unwrap();
        let e = empty.find(&list(&["0.jpg"]), "", "").unwrap_err();
        assert!(e.to_string().contains("has no path in this column") && e.to_string().contains("line 2"), "{e}");
        // The column of this name alone is no column of a file without a name.
        let plain = Manifest::parse("m.csv", b"_file_name,path\nx,0.jpg\n").unwrap();
        assert_eq!((plain.file_columns(), kinds(&plain).len()), (vec![None], 1));
    }

    #[test]
    fn integers_keep_all_their_digits() {
        let kind = |cells: &[&str]| {
            let texts = cells.iter().collect();
            ValueColumn::new("n".to_owned(), Cells { texts, is_text: false }).encoding().to_string()
        };
        for (cells, expected) in [
            (&["-5", "9223372036854775807"][..], "int"),
            (&["5", "12345678901234567890"], "uint64"),
            (&["18446744073709551615"], "uint64"),
            (&["18446744073709551616"], "float64"),
            (&["18446744073709551617"], "str"),
            (&["-5", "12345678901234567890"], "str"),
            (&["9007199254740993", "0.5"], "str"),
            (&["9007199254740992", "-0", "0.5", "1e300"], "float64"),
            (&["1000000000000000000000000000000000000000000"], "str"),
        ] {
            assert_eq!(kind(cells), expected, "{cells:?}");
        }
        let texts = ["1", "18446744073709551615"].iter().collect();
        let naturals = ValueColumn::new("n".to_owned(), Cells { texts, is_text: false });
        assert_eq!(naturals.select(&[1]), Values::Numbers(vec![u64::MAX.to_le_bytes()]));
        let json = br#"{"path": "0.jpg", "n": 123456789012345678901234567890, "x": 1e30, "u": 12345678901234567890}"#;
        let manifest = Manifest::parse("m.jsonl", json).unwrap();
        let expected = [("n", "str"), ("x", "float64"), ("u", "uint64")];
        assert_eq!(kinds(&manifest), expected.map(|(name, encoding)| (name, encoding.to_owned())));
        assert_eq!(
            manifest.columns[0].select(&[0]),
            Values::Texts(["123456789012345678901234567890"].iter().collect())
        );
    }

    #[test]
    fn numbers_are_those_that_lose_nothing() {
        for text in ["007", "+1", "", " 1", "1 ", "0x10", "inf", "1_000"] {
            assert_eq!((integer(text), float(text)), (None, None), "{text}");
        }
        assert_eq!((integer("-0"), float("-0")), (None, Some(-0.0)));
        assert_eq!((float("0.5"), float(".5"), float("1e3")), (Some(0.5), Some(0.5), Some(1e3)));
        assert!(float("nan").is_some_and(f64::is_nan));
    }
}
