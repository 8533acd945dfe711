//! Stored bytes: shards unpacked, hashed and split, values to rows of a batch.

use super::work::{SEED, Work};
use forebay_loader::decode::{DrawKey, FieldPlan, FieldSpec, Row};
use forebay_loader::format::hash::Hasher;
use forebay_loader::format::writer::{LocalDir, Options, Writer};
use forebay_loader::format::{Column, Compression, Encoding, HashAlgo, Layout, Scratch, Value, json};
use forebay_loader::{Error, Result};
use forebay_tests::data::{Draws, token_sample};
use serde_json::json;
use std::hint::black_box;

/// Samples of two columns without a fixed size and two with one.
pub(super) fn mds_split() -> Result<Work> {
    const SAMPLES: usize = 10_000;
    let failed = |e| Error::from_io(e, "a folder for a shard cannot be made or read");
    let folder = tempfile::tempdir().map_err(failed)?;
    let columns = [("caption", "str"), ("class", "int"), ("ids", "ndarray:uint16:16"), ("image", "jpeg")];
    let parsed = |(name, encoding): (&str, &str)| Ok((name.to_owned(), Encoding::parse(encoding)?));
    let layout = Layout::mds(columns.into_iter().map(parsed).collect::<Result<Vec<_>>>()?)?;
    let options = Options { size_limit: None, threads: 1, ..Options::default() };
    let mut writer = Writer::new(layout, Box::new(LocalDir::create(folder.path(), true)?), options)?;
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let mut draws = Draws::new(SEED, 0);
    for _ in 0..SAMPLES {
        let (caption, image) = (draws.below(100) as usize, draws.below(200) as usize);
        writer
            .write(&[&bytes[..caption], &bytes[..8], &bytes[..32], &bytes[..image]].map(|b| Value::Bytes(b.into())))?;
    }
    let shard = writer.finish()?.shards.swap_remove(0);
    let file = std::fs::read(folder.path().join(&*shard.raw_data.basename)).map_err(failed)?;
    let mut scratch = Scratch::default();
    Ok(Box::new(move |_| {
        let offsets = shard.offsets(&file[..])?;
        for sample in 0..SAMPLES {
            let (start, len) = offsets.range(sample)?;
            let columns = shard.layout.split(&file[start as usize..][..len as usize], &mut scratch)?;
            columns.iter().for_each(|value| {
                black_box(value);
            });
        }
        Ok(())
    }))
}

/// Texts of JSON lines: plain, with line breaks and quotes, and with characters beyond ASCII as they are and escaped.
pub(super) fn json_unescape() -> Result<Work> {
    let texts = ["all work and no play ", "a \"quote\" of it\n", "Gr\u{f6}\u{df}e \u{4e2d}\u{6587} "];
    let mut tokens: Vec<String> =
        texts.iter().map(|text| serde_json::Value::from(text.repeat(400)).to_string()).collect();
    tokens.push(format!("\"{}\"", r"\u4e2d\u6587 and \ud83d\ude00 ".repeat(300)));
    Ok(Box::new(move |_| {
        for token in tokens.iter().cycle().take(40) {
            black_box(json::unescape(token.as_bytes())?);
        }
        Ok(())
    }))
}

pub(super) fn zstd_unpack() -> Result<Work> {
    let raw = tokens(1 << 17);
    let compression = Compression::parse("zstd")?;
    let packed = compression.compress(&raw)?;
    let mut out = Vec::new();
    Ok(Box::new(move |_| {
        out.clear();
        compression.decompress(&packed, raw.len() as u64, &mut out)?;
        black_box(&out);
        Ok(())
    }))
}

pub(super) fn xxh3_shard() -> Result<Work> {
    let shard = tokens(1 << 19).repeat(8);
    let algo = HashAlgo::parse("xxh3_64")?;
    Ok(Box::new(move |_| {
        let mut hasher = Hasher::new(algo);
        shard.chunks(1 << 20).for_each(|part| hasher.update(part));
        black_box(hasher.finish_hex());
        Ok(())
    }))
}

/// Tokens that are widened.
pub(super) fn tokens_int64() -> Result<Work> {
    token_rows("int64", 1_000)
}

/// Tokens that are copied.
pub(super) fn tokens_uint16() -> Result<Work> {
    token_rows("uint16", 4_000)
}

/// Decodes a sample of uint16 tokens `times` times into a row of a batch.
fn token_rows(dtype: &str, times: u64) -> Result<Work> {
    const LENGTH: usize = 2_048;
    let spec = json!({"kind": "tokens", "column": "tokens", "length": LENGTH, "dtype": dtype});
    let spec: FieldSpec =
        serde_json::from_value(spec).map_err(|e| Error::internal("the field is not the engine's").caused_by(e))?;
    let columns = [Column::new("tokens", Encoding::parse(&format!("ndarray:uint16:{LENGTH}"))?)];
    let plan = FieldPlan::compile(Some(&[("x".to_owned(), spec)]), &columns, SEED)?;
    let mut row = vec![0; plan.outputs()[0].row_bytes().expect("a fixed size")];
    let (stored, mut decoder) = (tokens(LENGTH), plan.decoder());
    Ok(Box::new(move |_| {
        for draw in 0..times {
            let key = DrawKey { draw, ..DrawKey::default() };
            decoder.decode(|_| Some(&stored[..]), |_| &[], key, [Row::Fixed(&mut row)])?;
            black_box(&row);
        }
        Ok(())
    }))
}

/// Returns the bytes of `length` tokens.
fn tokens(length: usize) -> Vec<u8> {
    token_sample(length, SEED, 0).into_iter().flat_map(u16::to_le_bytes).collect()
}
