//! Archives as numpy writes them, and damaged ones.

use super::Npz;
use crate::encoding::{Encoding, Value};
use crate::sample_format::{SampleFormat, SurveyedFile};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use forebay_core::error::{Error, ErrorKind, Result};
use std::io::Write;

/// Form of an archive.
#[derive(Clone, Copy, Default)]
struct Form {
    is_deflated: bool,
    /// The sizes are in extra fields, and the directory has the end of zip64.
    is_zip64: bool,
    /// The local headers have no sizes, as in a file that was written to a pipe.
    is_streamed: bool,
}

fn npy(values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}\n", values.len());
    [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), values].concat()
}

fn deflated(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Fields of a member that its local header and the directory have: flags, method, times, CRC, sizes.
fn fields(form: Form, crc: u32, sizes: [u32; 2]) -> Vec<u8> {
    let method = if form.is_deflated { 8_u16 } else { 0 };
    let [packed, bytes] = sizes.map(u32::to_le_bytes);
    [&[0, 0][..], &method.to_le_bytes(), &[0; 4], &crc.to_le_bytes(), &packed, &bytes].concat()
}

fn archive(form: Form, members: &[(&str, &[u8])], comment: &[u8]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let packed = if form.is_deflated { deflated(content) } else { content.to_vec() };
        let (at, crc) = (file.len(), crc_fast::crc32_iso_hdlc(content));
        let sizes = [packed.len(), content.len()];
        let words = sizes.map(|size| u32::try_from(size).unwrap());
        let name_len = (name.len() as u16).to_le_bytes();
        let (local_crc, local_sizes) = if form.is_streamed { (0, [0, 0]) } else { (crc, words) };
        file.extend(b"PK\x03\x04\x14\0");
        file.extend(fields(form, local_crc, local_sizes));
        // An extra field that only the local header has.
        file.extend([&name_len[..], &[8, 0], name.as_bytes(), &[7, 0, 4, 0, 1, 2, 3, 4]].concat());
        file.extend(&packed);
        let extra: Vec<u8> = if form.is_zip64 {
            let sizes = [sizes[1], sizes[0], at].map(|size| (size as u64).to_le_bytes());
            [&[9, 0, 1, 0, 0][..], &[1, 0, 24, 0], &sizes.concat()].concat()
        } else {
            Vec::new()
        };
        let (words, at) = if form.is_zip64 { ([u32::MAX; 2], u32::MAX) } else { (words, at as u32) };
        directory.extend(b"PK\x01\x02\x14\x03\x14\0");
        directory.extend(fields(form, crc, words));
        directory.extend([&name_len[..], &(extra.len() as u16).to_le_bytes(), &[0; 10], &at.to_le_bytes()].concat());
        directory.extend([name.as_bytes(), &extra].concat());
    }
    let (start, bytes, count) = (file.len(), directory.len(), members.len());
    file.extend(directory);
    if form.is_zip64 {
        let end_at = file.len() as u64;
        let words = [count, count, bytes, start].map(|word| (word as u64).to_le_bytes());
        file.extend([&b"PK\x06\x06"[..], &44_u64.to_le_bytes(), &[45, 3, 45, 0], &[0; 8], &words.concat()].concat());
        file.extend([&b"PK\x06\x07\0\0\0\0"[..], &end_at.to_le_bytes(), &1_u32.to_le_bytes()].concat());
    }
    let [count, start, bytes] = if form.is_zip64 { [usize::MAX; 3] } else { [count, start, bytes] };
    let (count, start, bytes) =
        ((count as u16).to_le_bytes(), (start as u32).to_le_bytes(), (bytes as u32).to_le_bytes());
    file.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &bytes, &start].concat());
    file.extend((comment.len() as u16).to_le_bytes());
    file.extend(comment);
    file
}

fn value(file: &[u8], name: &str) -> Result<Vec<u8>> {
    let mut out = b"before".to_vec();
    Npz.open(file)?.append(name, &mut out)?;
    Ok(out.split_off(6))
}

/// Reads all of a file, as a data set of it does.
fn read(file: &[u8]) -> Result<()> {
    let SurveyedFile { columns, bytes } = Npz.survey(&file)?;
    let mut found = 0;
    for (name, _) in columns {
        found += value(file, &name)?.len() as u64;
    }
    if found == bytes { Ok(()) } else { Err(Error::internal("different sizes than surveyed")) }
}

const FORMS: [Form; 4] = [
    Form { is_deflated: false, is_zip64: false, is_streamed: false },
    Form { is_deflated: true, is_zip64: false, is_streamed: true },
    Form { is_deflated: false, is_zip64: true, is_streamed: true },
    Form { is_deflated: true, is_zip64: true, is_streamed: false },
];

#[test]
fn each_array_is_a_column() {
    let (x, y) = (npy(&[0; 5000]), npy(&[7, 8]));
    let members = [("x.npy", &*x), ("a/", b""), ("a/y.npy", &y), ("note.txt", b"text"), ("empty", b"")];
    for form in FORMS {
        for comment in [&b""[..], b"PK\x05\x06 in a comment"] {
            let file = archive(form, &members, comment);
            let SurveyedFile { columns, bytes } = Npz.survey(&file).unwrap();
            let columns: Vec<_> = columns.iter().map(|(name, encoding)| (&**name, encoding.clone())).collect();
            let (array, other) = (Encoding::Npy, Encoding::Bytes);
            assert_eq!(columns, [("x", array.clone()), ("a/y", array), ("note.txt", other.clone()), ("empty", other)]);
            assert_eq!(bytes, (x.len() + y.len() + 4) as u64);
            assert_eq!(value(&file, "x").unwrap(), x);
            assert_eq!(value(&file, "note.txt").unwrap(), b"text");
            let found = value(&file, "a/y").unwrap();
            let Value::Array(found) = Encoding::Npy.decode(&found).unwrap() else { panic!("no array") };
            assert_eq!((&*found.shape, &*found.data), (&[2][..], &[7, 8][..]));
            let e = value(&file, "z").unwrap_err();
            assert!(e.kind() == ErrorKind::Format && e.to_string().contains("no array of this name"), "{e}");
        }
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_an_error_or_changes_no_value() {
    let x = npy(&[1, 2, 3]);
    for form in FORMS {
        let file = archive(form, &[("x.npy", &x), ("y", b"y")], b"");
        read(&file).unwrap();
        for len in 0..file.len() {
            assert!(read(&file[..len]).is_err(), "{len}");
        }
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut other = file.clone();
                other[at] ^= 1 << bit;
                // A bit of a name, or of a field that is not used.
                let is_whole = read(&other).is_ok();
                assert!(!is_whole || value(&other, "x").is_ok_and(|found| found == x) || value(&other, "y").is_ok());
            }
        }
    }
}

#[test]
fn files_that_are_not_read_are_errors_with_the_reason() {
    let (plain, x) = (Form::default(), npy(&[1]));
    let good = archive(plain, &[("x.npy", &x)], b"");
    let directory = good.windows(4).position(|word| word == b"PK\x01\x02").unwrap();
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[directory + at..][..bytes.len()].copy_from_slice(bytes);
        file
    };
    let twice = archive(plain, &[("x.npy", &x), ("x", &x)], b"");
    for (file, kind, message) in [
        (changed(8, &[1, 0]), ErrorKind::Unsupported, "encrypted"),
        (changed(10, &[14, 0]), ErrorKind::Unsupported, "savez_compressed (method 14, array x.npy)"),
        (changed(16, &[0; 4]), ErrorKind::Format, "CRC"),
        (changed(24, &[0xff; 3]), ErrorKind::Format, "do not fit its compression"),
        (changed(42, &[0xff; 3]), ErrorKind::Format, "content of an array is damaged"),
        (changed(46, &[0xff]), ErrorKind::Format, "not UTF-8"),
        (twice, ErrorKind::Format, "two arrays of one name"),
        (archive(plain, &[], b""), ErrorKind::Format, "has no arrays"),
        (archive(plain, &[("__fields__.npy", &x)], b""), ErrorKind::Unsupported, "under a different name"),
        (b"\x93NUMPY no archive".to_vec(), ErrorKind::Format, "not a zip archive"),
        (Vec::new(), ErrorKind::Format, "not a zip archive"),
    ] {
        let e = read(&file).unwrap_err();
        assert!(e.kind() == kind && e.to_string().contains(message), "{message}: {e}");
    }
}

#[test]
fn a_bomb_takes_no_memory() {
    let form = Form { is_deflated: true, ..Form::default() };
    let zeros = vec![0; 1 << 20];
    let good = archive(form, &[("x", &zeros)], b"");
    let directory = good.windows(4).position(|word| word == b"PK\x01\x02").unwrap();
    let with_size = |bytes: u32| {
        let mut file = good.clone();
        file[directory + 24..][..4].copy_from_slice(&bytes.to_le_bytes());
        file
    };
    read(&good).unwrap();
    let many = vec![0; 257 << 20];
    let e = read(&archive(Form { is_deflated: true, ..Form::default() }, &[("x", &many)], b"")).unwrap_err();
    assert!(e.to_string().contains("decompression bomb"), "{e}");
    // More than deflate can have packed, and less than there is.
    for bytes in [u32::MAX - 1, 1 << 31, 1, 0] {
        assert_eq!(read(&with_size(bytes)).unwrap_err().kind(), ErrorKind::Format, "{bytes}");
    }
    // Members that share the bytes of one: each is possible, and all of them are not.
    let (entry, start) = (&good[directory..good.len() - 22], directory);
    let entries: Vec<u8> = (0..2000_u16)
        .flat_map(|number| {
            let mut entry = entry.to_vec();
            let name = format!("{number}");
            entry[28..30].copy_from_slice(&(name.len() as u16).to_le_bytes());
            [&entry[..46], name.as_bytes()].concat()
        })
        .collect();
    let mut end = good[good.len() - 22..].to_vec();
    end[8..12].copy_from_slice(&[2000_u16.to_le_bytes(), 2000_u16.to_le_bytes()].concat());
    end[12..16].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    let shared = [&good[..start], &entries, &end].concat();
    assert!(read(&shared).unwrap_err().to_string().contains("more bytes than the file"));
}
