//! One function per kind of file from other programs. Each must return for any bytes: the fuzzers under `tests/fuzz`
//! call them with random bytes, `hostile` with damaged good ones.
//!
//! If two inputs are needed (an index and a file), the first two bytes of the input are the length of the first.

use forebay_loader::error::Result;
use forebay_loader::format::litdata::{DataSet, Fronts};
use forebay_loader::format::tokens::{Header, Samples, TokenPart, Window};
use forebay_loader::format::{Compression, Encoding, Index, Layout, OffsetTable, Scratch, Trailer, XsvKind, json};

/// An index: if it parses, it must be printed and parsed to the same value.
pub(crate) fn index(bytes: &[u8]) {
    let Ok(index) = Index::parse(bytes, "index.json") else { return };
    let again = Index::parse(index.to_json().as_bytes(), "again").expect("an index that we print is valid");
    assert_eq!(index, again);
    for shard in &index.shards {
        for name in shard.files().flat_map(|f| [Some(f.raw), f.zip]).flatten().map(|f| &f.basename) {
            assert!(!name.starts_with('/') && name.split('/').all(|part| !matches!(part, "" | "." | "..")), "{name}");
        }
        assert!(shard.table_bytes() <= shard.table_file().bytes);
    }
}

/// An MDS shard with one column of every possible encoding.
pub(crate) fn mds(bytes: &[u8]) {
    let names = [
        "bytes",
        "str",
        "int",
        "uint8",
        "float16",
        "str_int",
        "str_float",
        "str_decimal",
        "ndarray",
        "ndarray:int16",
        "ndarray:int16:2,3",
        "pil",
        "jpeg",
        "jpegarray",
        "list[pil]",
        "list[jpeg]",
        "json",
        "pkl",
    ];
    let encodings: Vec<_> = names.iter().map(|name| Encoding::parse(name).expect("a known name")).collect();
    // Each encoding on its own, then a shard of two columns of them.
    encodings.iter().for_each(|encoding| drop(encoding.decode(bytes)));
    let pick = |i: usize| encodings[usize::from(bytes.get(i).copied().unwrap_or(0)) % encodings.len()].clone();
    let columns = [("a".to_owned(), pick(0)), ("b".to_owned(), pick(1))];
    samples(&Layout::mds(columns).expect("two columns"), bytes, bytes, 8);
}

/// A JSONL shard: its `.meta` file, then its data.
pub(crate) fn jsonl(bytes: &[u8]) {
    let layout = Layout::jsonl([("a", "int"), ("b", "str"), ("c", "float")], "\n").expect("three columns");
    let (meta, data) = halves(bytes);
    samples(&layout, meta, data, 0);
    let _ = json::check(bytes);
}

/// An XSV shard: its `.meta` file, then its data.
pub(crate) fn xsv(bytes: &[u8]) {
    let layout = Layout::xsv(XsvKind::Xsv, [("a", "int"), ("b", "str")], "||", "\r\n").expect("two columns");
    let (meta, data) = halves(bytes);
    samples(&layout, meta, data, 0);
}

/// An `.idx` file of Megatron, whose `.bin` file has 64 bytes. All documents and windows must be in those.
pub(crate) fn tokens(bytes: &[u8]) {
    const BIN_BYTES: u64 = 64;
    let Ok(header) = Header::read(bytes) else { return };
    let check = |part: &TokenPart| {
        let Ok(table) = part.places_in_file(bytes, BIN_BYTES) else { return };
        assert_eq!(table.len() as u64, part.len());
        for i in 0..table.len() {
            let (start, len) = table.range(i).expect("a sample of the table");
            assert!(start + u64::from(len) <= BIN_BYTES);
        }
    };
    let part = |start, tokens, samples| TokenPart {
        dtype: header.dtype,
        start: start * header.token_bytes(),
        bytes: tokens * header.token_bytes(),
        samples,
    };
    if let Ok(tokens) = header.tokens(bytes, BIN_BYTES) {
        assert!(tokens * header.token_bytes() <= BIN_BYTES);
        check(&part(0, tokens, Samples::Windows(Window { tokens: 3, stride: 2 })));
    }
    if let Ok(cuts) = header.cuts(bytes, BIN_BYTES, 16) {
        header.check_cuts(&cuts, BIN_BYTES).expect("cuts that were just made");
        for pair in cuts.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            check(&part(from.token, to.token - from.token, Samples::Documents { header, from, to }));
        }
    }
}

/// A compressed file: the first byte selects the compression, the next two are the raw size that the index declares.
pub(crate) fn compression(bytes: &[u8]) {
    let [pick, low, high, packed @ ..] = bytes else { return };
    let names = ["br", "bz2", "gz", "snappy", "zstd", "litdata"];
    let compression = Compression::parse(names[usize::from(*pick) % names.len()]).expect("a known name");
    let declared = u64::from(u16::from_le_bytes([*low, *high]));
    let mut out = Vec::new();
    match compression.decompress(packed, declared, &mut out) {
        Ok(()) => assert_eq!(out.len() as u64, declared),
        Err(_) => assert!(out.is_empty()),
    }
    assert!(out.capacity() <= usize::from(u16::MAX) + 1, "memory is bounded by what is declared");
}

/// LitData's document of two chunks of one form, then such a chunk.
pub(crate) fn litdata(bytes: &[u8]) {
    struct Files<'a>(&'a [u8]);
    impl Fronts for Files<'_> {
        fn fronts(&self, names: &[&str], bytes: usize) -> Result<Vec<(Vec<u8>, u64)>> {
            let front = &self.0[..self.0.len().min(bytes)];
            Ok(names.iter().map(|_| (front.to_vec(), self.0.len() as u64)).collect())
        }
    }
    let (document, chunk) = halves(bytes);
    let Ok(Some(set)) = DataSet::parse(document) else { return };
    let Ok(index) = set.index(&Files(chunk)) else { return };
    // As it is kept.
    let Ok(index) = Index::parse(index.to_json().as_bytes(), "index.json") else { return };
    for index in [index.windows(Window { tokens: 3, stride: 2 }).ok(), Some(index)].into_iter().flatten() {
        for shard in &index.shards {
            let mut raw = chunk.to_vec();
            if let Some(compression) = shard.compression
                && compression.decompress(chunk, shard.raw_data.bytes.min(1 << 20), &mut raw).is_err()
            {
                continue;
            }
            let Ok(table) = shard.offsets(&raw[..]) else { continue };
            let mut scratch = Scratch::default();
            for i in 0..table.len() {
                let (start, len) = table.range(i).expect("a sample of the table");
                let sample = &raw[start as usize..][..len as usize];
                let Ok(columns) = shard.layout.split(sample, &mut scratch) else { continue };
                for (column, bytes) in shard.layout.columns.iter().zip(columns.iter()) {
                    let _ = column.encoding.decode(bytes);
                }
            }
        }
    }
}

fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return (&[], bytes) };
    rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()))
}

/// Reads every sample of a shard whose index agrees with the file about its number of samples.
fn samples(layout: &Layout, front: &[u8], data: &[u8], first_min: u64) {
    let count = front.first_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n));
    let Ok(table) = OffsetTable::parse(front, count.into(), first_min, data.len() as u64, true) else { return };
    assert!(table.memory_bytes() <= front.len());
    if let Ok(trailer) = Trailer::parse(data[table.end() as usize..].into(), table.len()) {
        let places = (0..=layout.columns.len()).flat_map(|column| (0..=table.len()).map(move |i| (column, i)));
        places.for_each(|(column, i)| assert!(trailer.entry(column, i).len() <= trailer.memory_bytes()));
    }
    let mut scratch = Scratch::default();
    for i in 0..table.len() {
        let (start, len) = table.range(i).expect("a sample of the table");
        let sample = &data[start as usize..][..len as usize];
        let Ok(columns) = layout.split(sample, &mut scratch) else { continue };
        for (column, bytes) in layout.columns.iter().zip(columns.iter()) {
            let Ok(value) = column.encoding.decode(bytes) else { continue };
            let mut again = Vec::new();
            // Floats and big ints in text may have several spellings, so only the success counts.
            let _ = column.encoding.encode(&value, &mut again);
        }
    }
}
