//! Batch of a step of a run: the loader of the run makes it again.

use super::boxes::BoxForm;
use super::picture::Picture;
use super::row::{Row, Shown};
use super::shape::Shape;
use crate::run_file::RunFile;
use crate::samples::{Content, elements, floats};
use crate::text::one_line;
use forebay_loader::batch::{Batch, Output, RowBytes};
use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::ragged::read_ragged;
use forebay_loader::decode::{BoxFormat, DType, FieldSpec, Op, PixelLayout};
use forebay_loader::format::{Column, Encoding};
use forebay_loader::session::SavedState as _;
use forebay_loader::store::LibraryStores;
use forebay_loader::{Error, Next, Result};
use serde_json::{Value as Json, json};

/// Returns the rows of step number `step`, of `rank` or of all ranks, after a call of `each` with every row.
///
/// # Errors
///
/// `Config` for a rank that the run does not have; `State` for data that has changed since; the errors of the loader.
pub(super) fn rows(
    run: &RunFile,
    step: u64,
    rank: Option<u32>,
    shape: &Shape<'_>,
    library: Option<LibraryStores>,
    mut each: impl FnMut(&mut Row) -> Result<()>,
) -> Result<Vec<Row>> {
    let ranks = match rank {
        Some(rank) => rank..rank.saturating_add(1),
        None => 0..run.config(0)?.world.world_size,
    };
    let mut all = Vec::new();
    for rank in ranks {
        let mut rows = rows_of_rank(run, rank, step, shape, library.clone())?;
        rows.iter_mut().try_for_each(&mut each)?;
        all.append(&mut rows);
    }
    Ok(all)
}

/// Returns the rows of the batch of step number `step` on one rank.
fn rows_of_rank(
    run: &RunFile,
    rank: u32,
    step: u64,
    shape: &Shape<'_>,
    library: Option<LibraryStores>,
) -> Result<Vec<Row>> {
    let config = run.config(rank)?;
    let fields = Forms::of(config.fields.as_deref().unwrap_or_default());
    let ranks = config.world.world_size / config.order.replication.unwrap_or(1).max(1);
    let step_rows = u64::from(config.batch_size) * u64::from(ranks);
    let loader = run.loader(rank, library)?;
    let (epoch, batch) = loader.place_of_step(step)?;
    let mut state = loader.state()?.at(epoch, batch.saturating_mul(step_rows));
    // The step is shown also if the run leaves it out.
    if let Some(forebay) = &mut state.forebay {
        forebay.skipped = Default::default();
    }
    let names = loader.samples_of(epoch, batch, rank)?;
    loader.load_state(&state, true)?;
    loader.start_epoch()?;
    let Next::Batch(batch) = loader.next()? else {
        return Err(Error::config("the epoch has no such step").with("step", step));
    };
    let is_one_each = names.len() == batch.rows && names.iter().all(|name| name.fragment.is_none());
    let titles = (0..batch.rows).map(|number| match names.get(number).filter(|_| is_one_each) {
        Some(name) => {
            let text =
                format!("rank {rank}, row {number}, {}, sample {} (number {})", name.file, name.index, name.number);
            (one_line(&text), json!(name))
        }
        // Packs have several samples, and skipped ones leave none.
        None => (format!("rank {rank}, row {number}"), Json::Null),
    });
    let row = |(number, (title, name))| {
        let mut row = row(&batch, number, title, &fields, shape);
        let facts = [("rank", json!(rank)), ("row", json!(number)), ("sample", name)];
        row.facts = facts.map(|(name, fact)| (name.to_owned(), fact)).into_iter().collect();
        row
    };
    Ok(titles.enumerate().map(row).collect())
}

/// Forms of the outputs that are pictures, masks and boxes.
struct Forms(Vec<(String, Form)>);

enum Form {
    Picture { layout: PixelLayout, mean: Vec<f64>, std: Vec<f64> },
    Labels,
    Boxes(BoxForm),
}

impl Forms {
    fn of(fields: &[(String, FieldSpec)]) -> Self {
        let mut forms = Self(Vec::new());
        forms.add(fields);
        forms
    }

    fn add(&mut self, fields: &[(String, FieldSpec)]) {
        for (name, field) in fields {
            let form = match field {
                FieldSpec::Joint { fields } | FieldSpec::Mix { fields, .. } | FieldSpec::Compose { fields, .. } => {
                    self.add(fields);
                    continue;
                }
                FieldSpec::Image(image) => {
                    let (mean, std) = normalisation(&image.ops);
                    Form::Picture { layout: image.layout, mean, std }
                }
                FieldSpec::Mask(_) | FieldSpec::ClassMap(_) => Form::Labels,
                FieldSpec::Boxes(boxes) => Form::Boxes(match boxes.to.unwrap_or(boxes.format) {
                    BoxFormat::Xyxy => BoxForm::Xyxy,
                    BoxFormat::Xywh => BoxForm::Xywh,
                    BoxFormat::Cxcywh => BoxForm::Cxcywh,
                }),
                _ => continue,
            };
            self.0.push((name.clone(), form));
        }
    }

    fn get(&self, name: &str) -> Option<&Form> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, form)| form)
    }
}

/// Returns mean and standard deviation of a field's pictures; empty without them.
fn normalisation(ops: &[Op]) -> (Vec<f64>, Vec<f64>) {
    let found = ops.iter().find_map(|op| match op {
        Op::Normalize { mean, std } => Some((mean, std)),
        _ => None,
    });
    let floats = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect();
    found.map_or_else(Default::default, |(mean, std)| (floats(mean), floats(std)))
}

fn row(batch: &Batch, number: usize, title: String, forms: &Forms, shape: &Shape<'_>) -> Row {
    let mut row = Row { title, ..Row::default() };
    for (name, output) in &batch.outputs {
        row.names.push(name.to_string());
        if !shape.shows(name) {
            continue;
        }
        match output {
            Output::Text(texts) => row.fields.extend(texts.get(number).map(|text| Shown::of_text(name, text))),
            Output::Bytes(rows) => {
                if let Some(bytes) = rows.get(number).and_then(RowBytes::host) {
                    row.names.pop();
                    row.add(&Column::new(&**name, Encoding::Bytes), Some(bytes), shape);
                }
            }
            Output::Ragged(rows) => {
                if let Some(Ok((dtype, dimensions, data))) = rows.get(number).map(|bytes| read_ragged(bytes)) {
                    row.fields.push(array(name, dtype, dimensions, data, forms.get(name)));
                }
            }
            Output::Tensor(tensor) => {
                let dimensions: Vec<usize> = tensor.shape().iter().skip(1).map(|side| *side as usize).collect();
                let bytes = dimensions.iter().product::<usize>() * tensor.dtype().size();
                let data = tensor.host().and_then(|all| all.get(number * bytes..(number + 1) * bytes));
                let data = data.unwrap_or_default();
                row.fields.push(array(name, tensor.dtype(), dimensions, data, forms.get(name)));
            }
        }
    }
    draw_boxes(&mut row, batch, number, forms, shape);
    row
}

/// Draws the boxes of the batch in the first picture of a row.
fn draw_boxes(row: &mut Row, batch: &Batch, number: usize, forms: &Forms, shape: &Shape<'_>) {
    for (name, output) in &batch.outputs {
        let (Some(Form::Boxes(form)), Output::Ragged(rows)) = (forms.get(name), output) else { continue };
        let Some(Ok((dtype, dimensions, data))) = rows.get(number).map(|bytes| read_ragged(bytes)) else { continue };
        let content = Content::Array { dtype, shape: dimensions, data: data.into() };
        let shape = Shape { boxes: Some(name), boxes_form: Some(*form), columns: shape.columns, ..*shape };
        row.add_boxes(name, &content, &shape);
    }
}

/// Returns an array as a number, a picture or text.
fn array(name: &str, dtype: DType, shape: Vec<usize>, data: &[u8], form: Option<&Form>) -> Shown {
    if shape.is_empty() {
        let (text, json) = elements(dtype, data).next().map_or_else(Default::default, |one| (one.text(), one.json()));
        return Shown::new(name, text, json);
    }
    let picture = form.and_then(|form| picture(dtype, &shape, data, form));
    let text = format!("{dtype} {shape:?}");
    let content = Content::Array { dtype, shape, data: data.into() };
    match picture {
        Some(picture) => Shown { pictures: vec![picture], ..Shown::new(name, text, content.json()) },
        None => Shown::new(name, content.text(), content.json()),
    }
}

/// Returns the picture that an array is; the first one of several views.
fn picture(dtype: DType, shape: &[usize], data: &[u8], form: &Form) -> Option<Picture> {
    if let (Form::Labels, [h, w]) = (form, shape) {
        let size = Size { w: *w as u32, h: *h as u32 };
        return (size.pixels() > 0).then(|| Picture::of_labels(size, floats(dtype, data).map(|label| label as i64)));
    }
    let Form::Picture { layout, mean, std } = form else { return None };
    let [a, b, c] = *shape.last_chunk::<3>()?;
    let (h, w, channels) = if *layout == PixelLayout::Nchw { (b, c, a) } else { (a, b, c) };
    let values: Vec<f64> = floats(dtype, data).take(h * w * channels).collect();
    if values.len() < h * w * channels || values.is_empty() {
        return None;
    }
    let level = |channel: usize, value: f64| match dtype {
        DType::UInt8 => value,
        DType::UInt16 | DType::Int32 => value / 256.0,
        _ => {
            let (mean, std) = (mean.get(channel).copied().unwrap_or(0.0), std.get(channel).copied().unwrap_or(1.0));
            (value * std + mean) * 255.0
        }
    };
    let mut rgb = Vec::with_capacity(h * w * 3);
    for pixel in 0..h * w {
        for channel in 0..3 {
            // One channel is grey, and an opacity is not shown.
            let channel = if channels < 3 { 0 } else { channel };
            let at = if *layout == PixelLayout::Nchw { channel * h * w + pixel } else { pixel * channels + channel };
            rgb.push(level(channel, values[at]).round().clamp(0.0, 255.0) as u8);
        }
    }
    Some(Picture::new(Size { w: w as u32, h: h as u32 }, rgb))
}
