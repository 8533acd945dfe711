//! Decoding of one picture: size, stages, region, resize, normalise, row.

mod deep;
mod file;
mod labels;
mod opacity;
mod share;
mod stream;

use super::augment::{Augmenter, Erasure};
use super::box_format::Corners;
use super::draw::{DrawKey, FieldDraws};
use super::field::{Op, PixelLayout, leaves};
use super::linear::{LinearMemory, LinearTransformation};
use super::normalise::PictureWriter;
use super::pil;
use super::ragged::{elements, read_ragged, start_ragged};
use super::row::{EncodedPicture, ErasedBox, Row};
use super::scene::Scene;
use super::shared_source::{SharedPart, SharedSources};
use super::steps::{Steps, erasures, resolve, resolve_like};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::encoding::Encoding;
use deep::Deep;
use file::{File, Format, moved, sniff};
use forebay_picture::geometry::{PIXELS_MAX, Region, Scale, Size, Stage};
use forebay_picture::jpeg::{Decoder, JpegDecoder, RowIndexCounts};
use forebay_picture::kept::release;
use forebay_picture::orientation::Orientation;
use forebay_picture::picture_ops::{Shape, grayscale};
use forebay_picture::pixels::{Content, Pixels};
use forebay_picture::resize::Resizer;
use opacity::Opacity;

/// Options for reading files, see [`FieldSpec::Image`](super::FieldSpec::Image).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadOptions {
    pub tolerant: bool,
    pub apply_exif_orientation: bool,
    pub scaled_decode: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ImageField {
    /// Encoding of the column. Several pictures in a sample become one array.
    pub encoding: Encoding,
    pub content: Content,
    pub ops: Vec<Op>,
    /// Size of the pictures, if it is fixed.
    pub size: Option<Size>,
    /// Pictures in each row; `None` for one without a dimension for them.
    pub views: Option<u32>,
    /// Operations of each view, if they are crops with the same draws. Otherwise it is empty, and the draws differ.
    pub crops: Vec<Vec<Op>>,
    /// Source of the random operations' numbers.
    pub draws: FieldDraws,
    pub writer: PictureWriter,
    /// Transformation of the finished row.
    pub linear: Option<LinearTransformation>,
    /// True if the three channels are made equal.
    pub is_grey: bool,
    pub reading: ReadOptions,
    /// Number of the step of the boxes that operations draw by, see [`ImageDecoder::set_objects`].
    pub objects: Option<usize>,
}

/// File of a sample, and the pictures that are made of it.
pub(super) struct StoredPicture<'a> {
    /// Stored bytes.
    pub bytes: &'a [u8],
    /// Row index of a JPEG; may be empty.
    pub index: &'a [u8],
    /// Number that the fields of this file have in common; `None` for a file of one picture.
    pub group: Option<usize>,
}

/// Picture that is made of a file: a view of a field.
#[derive(Clone, Copy)]
struct Target<'a> {
    field: &'a ImageField,
    ops: &'a [Op],
    draws: FieldDraws,
}

impl ImageField {
    /// Returns the pictures from view `first` on.
    fn targets(&self, first: u32) -> impl Iterator<Item = Target<'_>> + Clone {
        (first..self.views.unwrap_or(1)).map(|view| match self.crops.get(view as usize) {
            Some(ops) => Target { field: self, ops, draws: self.draws },
            None => Target { field: self, ops: &self.ops, draws: self.draws.view(view) },
        })
    }

    /// Returns the picture of a field without views.
    fn target(&self) -> Target<'_> {
        Target { field: self, ops: &self.ops, draws: self.draws }
    }

    /// Returns true if a file has the same pixels for both before their first stage.
    pub(super) fn is_read_as(&self, other: &Self) -> bool {
        let is_single = |field: &Self| field.encoding.pictures(&[]).is_none();
        // Labels are checked when they are decoded.
        let is_checked_alike = self.content != Content::Labels || self.writer.label_max() == other.writer.label_max();
        // The opacity is not kept for a second picture, and a deep one needs different parts of the file.
        let may_share = self.content == other.content && !matches!(self.content, Content::Opacity | Content::Deep);
        may_share && is_checked_alike && self.reading == other.reading && is_single(self) && is_single(other)
    }

    /// Returns true if operations change pixels between the resize and the row.
    pub(super) fn is_augmented(&self) -> bool {
        leaves(&self.ops).iter().any(|op| matches!(op, Op::Augment(_)))
    }
}

/// Decoder of one thread. It keeps memory and library state from picture to picture.
#[derive(Default)]
pub(super) struct ImageDecoder {
    jpeg: Decoder,
    resizer: Resizer,
    steps: Steps,
    augmenter: Augmenter,
    source: Pixels,
    /// Result of a step if a further step follows.
    between: Pixels,
    /// One picture of a list, as a ragged row.
    element: Vec<u8>,
    /// Grey levels of a row.
    grey: Vec<u8>,
    /// Counts since the last [`take_counts`](Self::take_counts).
    counts: PictureCounts,
    /// First picture of the sample with the draws of the last one.
    first: Option<FirstPicture>,
    /// Parts that it shows.
    first_scene: Scene,
    shared: SharedSources,
    opacity: Opacity,
    deep: Deep,
    linear: LinearMemory,
    /// Steps of pictures that may share a decode.
    later_steps: Steps,
}

/// First picture of a sample with its draws: all pictures of its Joint show the same parts.
#[derive(Clone, Copy)]
struct FirstPicture {
    draws: FieldDraws,
    size: Size,
}

/// Counts of pictures that were decoded in a special way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureCounts {
    /// Damaged pictures that were decoded, for fields that tolerate them.
    pub damaged: u64,
    /// Pictures that were decoded at a reduced size.
    pub scaled: u64,
    /// Pictures that were cut from pixels that were decoded for an earlier one.
    pub shared: u64,
    /// Pixels of the files that were decoded.
    pub pixels: u64,
    /// Pixels that fields have of them, after all crops and resizes.
    pub pixels_delivered: u64,
    /// Uses of row indexes.
    pub row_indexes: RowIndexCounts,
}

impl ImageDecoder {
    /// Sets the boxes in the next pictures before their operations, for a field that draws by them.
    pub(super) fn set_objects(&mut self, boxes: Vec<Corners>) {
        self.later_steps.objects = Some(boxes.clone());
        self.steps.objects = Some(boxes);
    }

    /// Decodes `file` for `field`, with the draws of `key`, into `row`: a fixed row of exactly the picture's size, or
    /// a ragged row, which records its shape. `later` are the fields after this one of the same group.
    ///
    /// # Errors
    /// Bytes that are not a picture of a supported kind, damaged pictures, pictures above the limits, a fixed row of
    /// a different size.
    pub(super) fn decode<'f>(
        &mut self,
        file: &StoredPicture<'_>,
        field: &'f ImageField,
        later: impl Iterator<Item = &'f ImageField> + Clone,
        key: DrawKey,
        row: &mut Row<'_>,
    ) -> Result<()> {
        if let Some(pictures) = field.encoding.pictures(file.bytes) {
            return self.decode_list(&pictures.map_err(|e| e.of_kind(ErrorKind::Decode))?, field, key, row);
        }
        let later = later.flat_map(|field| field.targets(0));
        let Some(views) = field.views else {
            return self.decode_one(file, field.target(), later, key, row);
        };
        let Row::Fixed(out) = row else {
            return Err(Error::internal("the views of a picture cannot be decoded into memory of this kind"));
        };
        let bytes = out.len() / views as usize;
        for ((number, target), out) in (1..).zip(field.targets(0)).zip(out.chunks_exact_mut(bytes.max(1))) {
            let later = field.targets(number).chain(later.clone());
            self.decode_one(file, target, later, key, &mut Row::Fixed(out)).context("view", || number - 1)?;
        }
        Ok(())
    }

    /// Decodes the pictures of a list into one array. All have the same draws, so that the frames of a video are cut
    /// alike.
    fn decode_list(&mut self, pictures: &[&[u8]], field: &ImageField, key: DrawKey, row: &mut Row<'_>) -> Result<()> {
        let Row::Var(out) = row else {
            return Err(Error::internal("a list of pictures cannot be decoded into memory of this kind"));
        };
        if pictures.is_empty() {
            return Err(Error::decode("the sample has no pictures"));
        }
        let mut element = std::mem::take(&mut self.element);
        let mut first = Vec::new();
        for (number, picture) in pictures.iter().enumerate() {
            // Pictures of one list may have different ratios.
            self.first = None;
            let file = StoredPicture { bytes: picture, index: &[], group: None };
            self.decode_one(&file, field.target(), std::iter::empty(), key, &mut Row::Var(&mut element))
                .context("picture", || number)?;
            let (dtype, shape, pixels) = read_ragged(&element)?;
            if number == 0 {
                let all = [&[pictures.len()], &shape[..]].concat();
                if elements(&all).is_none_or(|all| all as u64 > 3 * PIXELS_MAX) {
                    return Err(Error::decode("the pictures of the sample have more pixels than the limit allows")
                        .with("pictures", pictures.len())
                        .with("pixels_max", PIXELS_MAX));
                }
                start_ragged(out, dtype, &all)?;
                first = shape;
            } else if shape != first {
                let message = "the pictures of the sample have different sizes: end the operations at a fixed size";
                return Err(Error::decode(message)
                    .with("picture", number)
                    .with("shapes", format!("{first:?} and {shape:?}")));
            }
            let start = out.len() - (pictures.len() - number) * pixels.len();
            out[start..][..pixels.len()].copy_from_slice(pixels);
        }
        release(&mut element);
        self.element = element;
        Ok(())
    }

    fn decode_one<'f>(
        &mut self,
        stored: &StoredPicture<'_>,
        target: Target<'f>,
        later: impl Iterator<Item = Target<'f>>,
        key: DrawKey,
        row: &mut Row<'_>,
    ) -> Result<()> {
        let &StoredPicture { bytes, index, group } = stored;
        let Target { field, ops, draws } = target;
        let format = sniff(bytes, &field.encoding)?;
        let stored_size = self.size(bytes, format)?;
        let orientation = orientation(bytes, format, field);
        let size = orientation.oriented(stored_size);
        if size.pixels() > PIXELS_MAX {
            return Err(Error::decode("the picture has more pixels than the limit allows")
                .with("width", size.w)
                .with("height", size.h)
                .with("pixels_max", PIXELS_MAX));
        }
        self.resolve(ops, size, draws, key)?;
        let moved = moved(bytes, format, field.content);
        let file = File { bytes, index, format, stored_size, orientation, moved };
        if self.offer(&file, target, key, row) {
            return Ok(());
        }
        let scale = scale(field, format, &self.steps.stages[0]);
        let share = group.and_then(|group| self.share(&file, field, group, scale, later, key));
        let is_decoded = share.as_ref().is_some_and(|share| share.is_decoded);
        let part = share.map(|share| share.part);
        self.counts.shared += u64::from(is_decoded);
        self.count_pixels(if is_decoded { 0 } else { stored_size.pixels() });
        if part.is_none() && self.stream(&file, target, scale, key, row)? {
            return Ok(());
        }
        if part.is_some() {
            self.counts.scaled += u64::from(scale != Scale::Full);
        } else {
            self.decode_alone(&file, field, scale)?;
        }
        self.run_stages(field.content, moved, part)?;
        self.write_row(target, part, key, row)
    }

    /// Counts `decoded` pixels, and those that the current steps make of them.
    fn count_pixels(&mut self, decoded: u64) {
        self.counts.pixels += decoded;
        self.counts.pixels_delivered += self.steps.stages.last().map_or(0, |stage| stage.output().pixels());
    }

    /// Offers the file to the second decoder of a [`Row::Encodable`], and returns true if that takes it.
    fn offer(&mut self, file: &File<'_>, target: Target<'_>, key: DrawKey, row: &mut Row<'_>) -> bool {
        let Target { field, ops, draws } = target;
        let (Row::Encodable(out, taker, output), [stage]) = (row, &self.steps.stages[..]) else { return false };
        let &File { bytes, orientation, stored_size, .. } = file;
        let is_decodable = matches!(file.format, Format::Jpeg)
            && field.content == Content::Colours
            && !field.is_grey
            && field.linear.is_none()
            && orientation.is_stored()
            && stage.is_device_decodable()
            // The host decodes a picture that the device rejects, without the rest of its Joint.
            && self.steps.scene.is_drawn_without(&self.first_scene)
            && self.jpeg.is_device_decodable(bytes);
        if !is_decodable {
            return false;
        }
        let Some(erased) = constant_erasure(ops, stage.output(), draws, key) else { return false };
        let size = orientation.oriented(stored_size);
        taker.take(*output, EncodedPicture { bytes: bytes.len(), size, stage: *stage, erased }, bytes, out)
    }

    /// Plans the first stage, and decodes the pixels that it needs into `source`, at `scale` if the file has it.
    fn decode_alone(&mut self, file: &File<'_>, field: &ImageField, scale: Scale) -> Result<()> {
        match self.decode_source(file, field, scale) {
            // A lossless JPEG cannot be decoded at a reduced size.
            Err(error) if scale != Scale::Full && error.kind() == ErrorKind::Unsupported => {
                self.decode_source(file, field, Scale::Full)
            }
            outcome => {
                outcome?;
                self.counts.scaled += u64::from(scale != Scale::Full);
                Ok(())
            }
        }
    }

    /// Runs all stages but the last one, which is planned. The first one reads the shared `part`, if there is one.
    fn run_stages(&mut self, content: Content, moved: Content, part: Option<SharedPart>) -> Result<()> {
        for i in 1..self.steps.stages.len() {
            if self.run_whole(content, i - 1) {
                self.resizer.plan_for(&self.steps.stages[i], moved);
                continue;
            }
            let source = match part {
                Some(part) if i == 1 => self.shared.pixels(part),
                _ => &self.source,
            };
            self.resizer.run_into(source, &mut self.between);
            std::mem::swap(&mut self.source, &mut self.between);
            self.augmenter.run(self.steps.after(i - 1), content, &mut self.source, &mut self.between)?;
            self.resizer.plan_for(&self.steps.stages[i], moved);
        }
        Ok(())
    }

    /// Runs the last stage into `row`.
    fn write_row(
        &mut self,
        target: Target<'_>,
        part: Option<SharedPart>,
        key: DrawKey,
        row: &mut Row<'_>,
    ) -> Result<()> {
        let Target { field, .. } = target;
        let last = self.steps.stages.len() - 1;
        let output = self.steps.stages[last].output();
        let out = pixels_of_row(row, &field.writer, output)?;
        if self.run_whole(field.content, last) {
            match field.content {
                Content::Deep => self.deep.write(&self.source, &field.writer, out),
                _ => self.opacity.write(&self.source, &field.writer, out),
            }
        } else {
            let Self { resizer, source, grey, shared, .. } = self;
            let source = match part {
                Some(part) if last == 0 => shared.pixels(part),
                _ => source,
            };
            resizer.run(source, |y, row| {
                let row = if field.is_grey { [luma(row, grey); 3] } else { row };
                field.writer.write(out, output, y, row);
            });
        }
        self.finish_row(target, output, key, out);
        Ok(())
    }

    /// Runs the operations on a complete row of `output` pixels.
    fn finish_row(&mut self, Target { field, ops, draws }: Target<'_>, output: Size, key: DrawKey, out: &mut [u8]) {
        if let Some(linear) = &field.linear {
            let is_interleaved = field.writer.layout() == Some(PixelLayout::Nhwc);
            linear.apply(out, is_interleaved.then(|| field.writer.channels()), &mut self.linear);
        }
        for erasure in erasures(ops, output, draws, key) {
            field.writer.replace(out, output, erasure.region, erasure.values());
        }
    }

    /// Runs the stage `number` and the actions after it as a whole, into `source`. Returns false for contents with
    /// stages that run row by row.
    fn run_whole(&mut self, content: Content, number: usize) -> bool {
        let Self { opacity, deep, resizer, steps, source, between, .. } = self;
        let (stage, actions) = (&steps.stages[number], steps.after(number));
        match content {
            Content::Opacity => opacity.run(resizer, stage, actions, source, between),
            Content::Deep => deep.run(resizer, stage, actions, source, between),
            Content::Colours | Content::Grey | Content::Labels => return false,
        }
        true
    }

    fn size(&mut self, bytes: &[u8], format: Format) -> Result<Size> {
        match format {
            Format::Jpeg => self.jpeg.size(bytes),
            Format::Other(format) => format.size(bytes),
            Format::Raw => pil::size(bytes),
        }
    }

    /// Plans the first stage, and decodes at `scale` at least the part that it needs into `source`.
    fn decode_source(&mut self, file: &File<'_>, field: &ImageField, scale: Scale) -> Result<()> {
        let grid = file.orientation.grid(file.stored_size, scale);
        let stage = &self.steps.stages[0];
        let mut needed = self.resizer.plan_reduced(stage, file.moved, grid);
        if field.content == Content::Deep {
            needed = stage.crop;
        }
        self.decode_part(file, field, scale, needed, field.reading.tolerant)
    }

    /// Decodes at `scale` at least `part` of the upright picture into `source`.
    fn decode_part(
        &mut self,
        file: &File<'_>,
        field: &ImageField,
        scale: Scale,
        part: Region,
        tolerant: bool,
    ) -> Result<()> {
        let &File { stored_size, orientation, .. } = file;
        let size = scale.size(stored_size);
        self.decode_region(file, field.content, scale, orientation.stored(part, size), tolerant)?;
        match field.content {
            Content::Grey => to_grey(&mut self.source),
            Content::Labels => deep::check_labels(&self.source, &field.writer)?,
            Content::Colours | Content::Opacity | Content::Deep => {}
        }
        if !orientation.is_stored() {
            orientation.apply(&self.source, size, part, &mut self.between);
            std::mem::swap(&mut self.source, &mut self.between);
            if field.content == Content::Opacity && !matches!(file.format, Format::Jpeg) {
                self.opacity.turn(orientation, size, part);
            }
        }
        if field.content == Content::Opacity && matches!(file.format, Format::Jpeg) {
            self.opacity.fill(self.source.region());
        }
        Ok(())
    }

    /// Decodes at least `region` of the stored picture at `scale` into `source`. Only JPEGs have scales besides the
    /// full one.
    fn decode_region(
        &mut self,
        file: &File<'_>,
        content: Content,
        scale: Scale,
        region: Region,
        tolerant: bool,
    ) -> Result<()> {
        let Self { jpeg, source, opacity, .. } = self;
        let &File { bytes, index, format, .. } = file;
        let opacity = (content == Content::Opacity).then(|| opacity.source());
        match format {
            Format::Jpeg if content == Content::Labels => {
                Err(Error::decode("a JPEG cannot hold labels: its compression changes them")
                    .of_kind(ErrorKind::Unsupported))
            }
            Format::Jpeg if content == Content::Deep => Err(Error::decode(
                "a JPEG has 8 bits: mode I;16 needs grey files, such as PNG, or `pil` of mode I;16 or L",
            )
            .of_kind(ErrorKind::Unsupported)),
            Format::Jpeg if tolerant => {
                self.counts.damaged += u64::from(jpeg.decode_tolerant(bytes, index, scale, region, source)?);
                Ok(())
            }
            Format::Jpeg => jpeg.decode_scaled(bytes, index, scale, region, source),
            Format::Other(format) => format.decode(bytes, region, content, source, opacity),
            Format::Raw => pil::decode(bytes, region, content, source, opacity),
        }
    }

    pub(super) fn take_counts(&mut self) -> PictureCounts {
        let row_indexes = self.jpeg.take_row_index_counts();
        PictureCounts { row_indexes, ..std::mem::take(&mut self.counts) }
    }

    /// Resolves the operations of a picture. It is the first one with its draws, or shows the parts that the first one
    /// shows.
    fn resolve(&mut self, ops: &[Op], size: Size, draws: FieldDraws, key: DrawKey) -> Result<()> {
        let Some(first) = self.first.filter(|first| first.draws == draws) else {
            resolve(ops, size, draws, key, &mut self.steps)?;
            self.first = Some(FirstPicture { draws, size });
            self.first_scene.copy(&self.steps.scene);
            return Ok(());
        };
        if !have_same_ratio(first.size, size) {
            let message = "the pictures of a Joint do not show the same scene: their sides have different ratios. A \
                           picture that EXIF data rotates needs a mask that is rotated as well";
            return Err(Error::decode(message).with("sizes", format!("{} and {size}", first.size)));
        }
        resolve_like(Some(&self.first_scene), ops, size, draws, key, &mut self.steps)?;
        self.steps.scene.check_windows(&self.first_scene)
    }

    /// Returns the steps of `ops`, in place of the operations of `field`, for the file `bytes`, and the size that the
    /// picture has before them. `first` are the file and the field of the first picture of its Joint, if it is a
    /// different one.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), except for damage after the header.
    pub(super) fn steps(
        &mut self,
        (bytes, field, ops): (&[u8], &ImageField, &[Op]),
        first: Option<(&[u8], &ImageField)>,
        key: DrawKey,
    ) -> Result<(&Steps, Size)> {
        let scene = match first {
            Some((bytes, field)) => {
                let size = self.oriented_size(bytes, field)?;
                resolve(&field.ops, size, field.draws, key, &mut self.later_steps)?;
                Some(std::mem::take(&mut self.later_steps.scene))
            }
            None => None,
        };
        let size = self.oriented_size(bytes, field)?;
        resolve_like(scene.as_ref(), ops, size, field.draws, key, &mut self.later_steps)?;
        Ok((&self.later_steps, size))
    }

    /// Returns the size in which `field` reads a file.
    fn oriented_size(&mut self, bytes: &[u8], field: &ImageField) -> Result<Size> {
        let format = sniff(bytes, &field.encoding)?;
        let size = self.size(bytes, format)?;
        Ok(orientation(bytes, format, field).oriented(size))
    }

    pub(super) fn start_sample(&mut self) {
        self.first = None;
        self.shared.start_sample();
    }
}

/// Returns the orientation in which `field` reads a file.
fn orientation(bytes: &[u8], format: Format, field: &ImageField) -> Orientation {
    let is_asked = field.reading.apply_exif_orientation;
    match format {
        Format::Jpeg if is_asked => Orientation::of_jpeg(bytes),
        Format::Other(format) if is_asked || format.is_always_turned() => format.orientation(bytes),
        _ => Orientation::default(),
    }
}

/// Returns the scale at which `field` decodes a file with the first stage `stage`.
fn scale(field: &ImageField, format: Format, stage: &Stage) -> Scale {
    let may_scale = field.reading.scaled_decode && matches!(format, Format::Jpeg);
    if may_scale { Scale::of(stage) } else { Scale::Full }
}

/// Replaces the colours by their luma, as Pillow does. Grey levels stay.
fn to_grey(pixels: &mut Pixels) {
    let Region { w, h, .. } = pixels.region();
    grayscale(Shape::new(w as usize, h as usize, 3), pixels.rgb_mut());
}

/// Returns the memory of a picture in its row, which must be fixed and of `output` size, or ragged.
fn pixels_of_row<'a>(row: &'a mut Row<'_>, writer: &PictureWriter, output: Size) -> Result<&'a mut [u8]> {
    match row {
        Row::Fixed(out) | Row::Encodable(out, ..) => {
            if out.len() != writer.bytes(output) {
                return Err(Error::internal("the picture does not have the size of its row")
                    .with("width", output.w)
                    .with("height", output.h)
                    .with("bytes", out.len()));
            }
            Ok(out)
        }
        Row::Var(out) => start_ragged(out, writer.dtype(), &writer.shape(output)),
        Row::Sized(_) | Row::Stored(_) | Row::Filled => {
            Err(Error::internal("a picture cannot be decoded into memory of this kind"))
        }
    }
}

/// Computes the luma of a row, given as its red, green and blue, as Pillow does.
fn luma<'a>([red, green, blue]: [&[u8]; 3], out: &'a mut Vec<u8>) -> &'a [u8] {
    out.clear();
    let pixels = red.iter().zip(green).zip(blue).map(|((r, g), b)| [*r, *g, *b].map(u32::from));
    out.extend(pixels.map(|[r, g, b]| ((19_595 * r + 38_470 * g + 7_471 * b + 0x8000) >> 16) as u8));
    out
}

/// Returns the draws of the erasings of `ops` for a row of `size`, if that is nothing or one box with a constant value.
/// `None` for more.
fn constant_erasure(ops: &[Op], size: Size, draws: FieldDraws, key: DrawKey) -> Option<Option<ErasedBox>> {
    let mut drawn = erasures(ops, size, draws, key);
    match (drawn.next(), drawn.next()) {
        (None, _) => Some(None),
        (Some(Erasure { region, value: Some(value), .. }), None) => Some(Some(ErasedBox { region, value })),
        _ => None,
    }
}

/// Returns true if both sizes have the same ratio, up to a rounding of less than one pixel of the smaller picture.
fn have_same_ratio(a: Size, b: Size) -> bool {
    let across = u64::from(a.w) * u64::from(b.h);
    let down = u64::from(b.w) * u64::from(a.h);
    across.abs_diff(down) <= [a.w, a.h, b.w, b.h].into_iter().max().unwrap_or(0).into()
}

#[cfg(test)]
mod tests;
