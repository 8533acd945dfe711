//! One function per kind of file from third-party programs. Each must return for any bytes: the fuzzers under
//! `tests/fuzz` call them with random bytes, `hostile` with damaged good ones.
//!
//! If two inputs are needed (an index and a file), the first two bytes of the input are the length of the first.

use forebay_loader::error::Result;
use forebay_loader::format::array_record::{BLOCK_BYTES, chunk_ranges, each_record, footer_start, hash};
use forebay_loader::format::arrow::columns;
use forebay_loader::format::ipc::{self, Batches};
use forebay_loader::format::litdata::{DataSet, Fronts};
use forebay_loader::format::npz::Npz;
use forebay_loader::format::parquet::{Footer, Group};
use forebay_loader::format::recipe::{BatchFile, Recipe, RecordChunks, RowBatches, RowFile, RowGroups, TableRows};
use forebay_loader::format::tar::{count_fields, first_fields, front_fields};
use forebay_loader::format::tfrecord::{self, FeatureCounts, compression_of, count_features, front_features};
use forebay_loader::format::tokens::{Header, Samples, TokenPart, TokenWindow};
use forebay_loader::format::{
    ColumnForm, ColumnUse, Compression, Digests, Encoding, FileInfo, Index, Layout, OffsetTable, SampleFormat, Scratch,
    Shard, Trailer, XsvKind, json,
};
use forebay_loader::sources::tars::counts::{set_files, tar_files};
use forebay_loader::sources::{Names, shard_names};
use std::sync::Arc;

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

/// A Parquet file: its footer, then all rows of each column that can be delivered.
pub(crate) fn parquet(bytes: &[u8]) {
    let len = bytes.len() as u64;
    let Ok(Footer { schema, groups }) = Footer::parse(bytes, len) else { return };
    let names = schema.fields().iter().map(|field| vec![field.name().clone()]);
    for name in names.take(32) {
        let Ok(columns) = columns(schema.fields(), Some(&name), &[]) else { continue };
        let leaves: Vec<usize> = columns.iter().flat_map(|column| schema.leaves(&column.path)).collect();
        let of_leaves = |group: &Group| {
            let chunks = leaves.iter().map(|leaf| group.chunks.get(*leaf).copied());
            let bounds = leaves.iter().map(|leaf| group.bounds.get(*leaf).cloned());
            Some(Group {
                chunks: chunks.collect::<Option<_>>()?,
                bounds: bounds.collect::<Option<_>>()?,
                ..group.clone()
            })
        };
        let Some(groups) = groups.iter().map(of_leaves).collect::<Option<Vec<_>>>() else { continue };
        let rows = groups.iter().map(|group| group.rows).fold(0, u64::saturating_add);
        let Ok((layout, columns)) = RowGroups::layout(columns) else { continue };
        let schema = Arc::new(schema.clone());
        let file = RowFile {
            key: "x".into(),
            bytes: len,
            schema,
            columns: columns.into(),
            leaves: leaves.clone().into(),
            partitions: [].into(),
            classes: None,
        };
        // More rows than bytes come from a few repeated pages: possible, but slow.
        let rows = 0..rows.min(10_000);
        let recipe = RowGroups { file: Arc::new(file), first: 0, groups: groups.into(), rows: rows.clone() };
        let parts = recipe.ranges().into_iter().map(|range| {
            let start = usize::try_from(range.start).expect("checked by the footer");
            bytes[start..][..usize::try_from(range.bytes).expect("checked by the footer")].to_vec().into()
        });
        drop(recipe.bounds(0));
        let _ = recipe.assemble(&layout, rows.end, parts.collect());
    }
}

/// An Arrow file: the offsets of its batches, then all rows of each column that can be delivered.
pub(crate) fn arrow(bytes: &[u8]) {
    let Ok(Batches { schema, batches, dictionaries }) = ipc::batches(bytes) else { return };
    let names = schema.fields().iter().map(|field| vec![field.name().clone()]);
    for (root, name) in names.take(32).enumerate() {
        let Ok(columns) = columns(schema.fields(), Some(&name), &name) else { continue };
        let Ok((layout, columns)) = RowGroups::layout(columns) else { continue };
        let (key, head, columns) = ("x".into(), Arc::new(schema.clone()), columns.into());
        let dictionaries = dictionaries.as_slice().into();
        let file = BatchFile {
            key,
            bytes: bytes.len() as u64,
            head,
            columns,
            roots: [root].into(),
            dictionaries,
            partitions: [].into(),
            classes: None,
        };
        let rows = batches.iter().map(|batch| batch.rows).fold(0, u64::saturating_add);
        let batches = batches.clone().into();
        // More rows than bytes have types without bytes, or are compressed: possible, but slow.
        let rows = 0..rows.min(10_000);
        let recipe = RowBatches { file: Arc::new(file), batches, first: 0, rows: rows.clone() };
        let parts = recipe.ranges().into_iter().map(|range| {
            let start = usize::try_from(range.start).expect("checked by the scan");
            bytes[start..][..usize::try_from(range.bytes).expect("checked by the scan")].to_vec().into()
        });
        let _ = recipe.assemble(&layout, rows.end, parts.collect());
    }
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

/// An `.idx` file of Megatron with a `.bin` file of 64 bytes. All documents and windows must be in those.
pub(crate) fn tokens(bytes: &[u8]) {
    const BIN_BYTES: u64 = 64;
    let Ok(header) = Header::read(bytes) else { return };
    let check = |part: &TokenPart| {
        let Ok(table) = part.offsets_in_file(bytes, BIN_BYTES) else { return };
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
        check(&part(0, tokens, Samples::Windows(TokenWindow { tokens: 3, stride: 2 })));
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
    let names = ["br", "bz2", "gz", "snappy", "zstd", "litdata", "zlib"];
    let compression = Compression::parse(names[usize::from(*pick) % names.len()]).expect("a known name");
    let declared = u64::from(u16::from_le_bytes([*low, *high]));
    let mut out = Vec::new();
    match compression.decompress(packed, declared, &mut out) {
        Ok(()) => assert_eq!(out.len() as u64, declared),
        Err(_) => assert!(out.is_empty()),
    }
    assert!(out.capacity() <= usize::from(u16::MAX) + 1, "memory is bounded by the declared size");
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
    for index in [index.windows(TokenWindow { tokens: 3, stride: 2 }).ok(), Some(index)].into_iter().flatten() {
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

/// A tar file as it is, and with the right checksums in its headers, which damaged ones seldom have.
pub(crate) fn tar(bytes: &[u8]) {
    samples_of_tar(bytes);
    let mut whole = bytes.to_vec();
    for block in whole.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().copied().map(u32::from).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    samples_of_tar(&whole);
}

/// Reads every sample of a tar file. One that can be counted has as many samples, which can be divided.
fn samples_of_tar(bytes: &[u8]) {
    let front = front_fields(bytes);
    let Ok(counts) = count_fields(bytes) else { return };
    // Such a name would be a choice of fields.
    if counts.fields.keys().any(|name| name.contains(';')) {
        return;
    }
    assert!(front.is_ok_and(|front| front.samples <= counts.samples));
    assert_eq!(first_fields(bytes).expect("counted").samples, counts.samples.min(1));
    let name = FileInfo { basename: "0.tar".into(), bytes: bytes.len() as u64, hashes: Digests::default() };
    let shard = Shard::new(Layout::tar(&counts).into(), counts.samples, name);
    let table = shard.offsets(bytes).expect("counted");
    let mut scratch = Scratch::default();
    let with_default = |name| ColumnUse { name, has_default: true, form: ColumnForm::Value };
    let all: Vec<_> = counts.fields.keys().map(|name| with_default(name)).collect();
    let optional = shard.layout.projected(Some(&all)).expect("of tars");
    let mut found = vec![0; all.len()];
    for i in 0..table.len() {
        let (start, len) = table.range(i).expect("a sample of the table");
        let sample = &bytes[start as usize..][..len as usize];
        match optional.split(sample, &mut scratch) {
            Ok(columns) => (0..all.len()).for_each(|column| {
                found[column] += u64::from(columns.find(column).is_some());
                let _ = optional.columns[column].encoding.decode(columns.get(column));
            }),
            // Files without their zeros may need more memory than a sample may have.
            Err(e) => return assert!(e.to_string().contains("sparse"), "{e}"),
        }
    }
    assert!(found.iter().eq(counts.fields.values()), "{found:?} {counts:?}");
}

/// A TFRecord file as it is, and with the right CRCs, which damaged ones seldom have.
pub(crate) fn tfrecord(bytes: &[u8]) {
    samples_of_records(bytes);
    let (mut whole, mut rest) = (Vec::new(), bytes);
    while let Some((length, data)) = rest.split_first_chunk::<8>() {
        let data = data.get(4..).unwrap_or_default();
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX).min(data.len());
        tfrecord::append(&data[..length], &mut whole);
        rest = data.get(length + 4..).unwrap_or_default();
    }
    samples_of_records(&whole);
}

/// Reads every record of a TFRecord file. One that can be counted has as many samples, which can be divided.
fn samples_of_records(bytes: &[u8]) {
    let _ = compression_of(bytes);
    let front = front_features(bytes);
    let Ok(counts) = count_features(bytes) else { return };
    assert!(front.is_ok_and(|front| front == counts));
    let layout = Layout::tfrecord(&counts);
    let again = FeatureCounts::of_layout(&layout, counts.samples).expect("of records");
    assert_eq!(Layout::tfrecord(&again), layout);
    let name = FileInfo { basename: "0.tfrecord".into(), bytes: bytes.len() as u64, hashes: Digests::default() };
    let shard = Shard::new(layout.into(), counts.samples, name);
    let table = shard.offsets(bytes).expect("counted");
    let all = shard.layout.columns.iter().map(|column| ColumnUse {
        name: &column.name,
        has_default: true,
        form: ColumnForm::Value,
    });
    let optional = shard.layout.projected(Some(&all.collect::<Vec<_>>())).expect("of records");
    let mut scratch = Scratch::default();
    for i in 0..table.len() {
        let (start, len) = table.range(i).expect("a sample of the table");
        let sample = &bytes[start as usize..][..len as usize];
        let columns = optional.split(sample, &mut scratch).expect("counted");
        for (column, value) in columns.present() {
            optional.columns[column].encoding.decode(value).expect("counted");
        }
    }
}

/// An ArrayRecord file; and data of a chunk with the right hashes, after its type and numbers of records and of bytes.
pub(crate) fn array_record(bytes: &[u8]) {
    let places = bytes.len().checked_sub(BLOCK_BYTES as usize).map(|end| {
        let start = footer_start(&bytes[end..], bytes.len() as u64)?;
        chunk_ranges(&bytes[usize::try_from(start).expect("in the file")..end], start)
    });
    for chunk in places.into_iter().flatten().flatten() {
        let recipe = RecordChunks {
            key: "x".into(),
            file_bytes: bytes.len() as u64,
            start: chunk.start,
            end: chunk.end,
            records: chunk.records,
            record_bytes: chunk.record_bytes,
        };
        let part = bytes[chunk.start as usize..chunk.end as usize].to_vec();
        let layout = Layout::tfrecord(&FeatureCounts::default());
        if let Ok(made) = recipe.assemble(&layout, chunk.records, vec![part.into()]) {
            assert!(count_features(&made[..]).is_err() || made.len() as u64 >= chunk.record_bytes);
        }
    }
    let [kind, records, low, high, data @ ..] = bytes else { return };
    let mut head = (data.len() as u64).to_le_bytes().to_vec();
    head.extend(hash(data).to_le_bytes());
    head.extend((u64::from(*records) << 8 | u64::from(*kind)).to_le_bytes());
    head.extend(u64::from(u16::from_le_bytes([*low, *high])).to_le_bytes());
    let chunk = [&hash(&head).to_le_bytes()[..], &head, data].concat();
    let mut found = 0;
    let read = each_record(&chunk, 64, |_| {
        found += 1;
        Ok(true)
    });
    assert!(read.is_err() || found == 0 || found == u32::from(*records));
}

/// A file of a third-party program with numbers of samples: the first byte selects the file.
pub(crate) fn counts(bytes: &[u8]) {
    let [pick, text @ ..] = bytes else { return };
    let names = ["a/0.tar", "a/1.tar", "b/0.tar"].map(str::to_owned);
    let (sets, tars) = (set_files(&names), tar_files(&names[0]));
    match usize::from(*pick) % (sets.len() + tars.len()) {
        number if number < sets.len() => {
            let read = sets[number].read(text, "s3://bucket/root", &names);
            assert!(read.is_err() || read.is_ok_and(|known| known.len() == names.len()));
        }
        number => drop(tars[number - sets.len()].read(text)),
    }
}

/// A `.npz` file.
pub(crate) fn npz(bytes: &[u8]) {
    let Ok(found) = Npz.survey(&bytes) else { return };
    let file = Npz.open(bytes).expect("surveyed");
    let (mut left, mut out) = (found.bytes, Vec::new());
    for (name, encoding) in found.columns {
        out.clear();
        // A damaged array does not hide the remaining arrays.
        let Ok(()) = file.append(&name, &mut out) else { continue };
        left = left.checked_sub(out.len() as u64).expect("surveyed bytes");
        let _ = encoding.decode(&out);
    }
}

/// A list of tars as users write it.
pub(crate) fn list(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(Some(list)) = shard_names(text) else { return };
    let (Names::Listed(names) | Names::Patterns(names)) = &list.names;
    assert!(!names.is_empty() && !list.root.is_empty());
    for name in names {
        assert!(name.split('/').all(|part| !matches!(part, "" | "." | "..")), "{name}");
    }
}

/// A file of numpy, and a JSON document with a path.
pub(crate) fn values(bytes: &[u8]) {
    let _ = Encoding::Npy.decode(bytes);
    let path = [json::PathPart::Key("a".to_owned()), json::PathPart::Index(1), json::PathPart::Key("0".to_owned())];
    for parts in 0..=path.len() {
        if let Ok(Some(found)) = json::find(bytes, &path[..parts]) {
            json::check(&bytes[found]).expect("a value");
        }
    }
}

fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return (&[], bytes) };
    rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()))
}

/// Reads every sample of a shard with an index that agrees with the file about the number of samples.
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
