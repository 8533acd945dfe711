//! Sample of a preview: its values as pictures and text.

use super::boxes::is_meant;
use super::picture::Picture;
use super::shape::Shape;
use crate::samples::Content;
use crate::text::one_line;
use forebay_loader::format::{Column, Encoding, Value};
use forebay_loader::{Error, ErrorKind};
use serde_json::{Map, Value as Json, json};

/// Pictures of a list that are shown.
const LIST_SHOWN: usize = 4;

/// Sample to be shown.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) title: String,
    /// Facts about the sample in JSON.
    pub(super) facts: Map<String, Json>,
    /// Columns of the sample, also those that are not shown.
    pub(super) names: Vec<String>,
    pub(super) fields: Vec<Shown>,
    /// Error of the whole sample.
    pub(super) error: Option<String>,
    pub(super) is_damaged: bool,
}

/// Value to be shown.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) name: String,
    /// One line.
    pub(super) text: String,
    pub(super) json: Json,
    pub(super) pictures: Vec<Picture>,
    /// The value is damaged, and `text` is the error.
    pub(super) is_damaged: bool,
}

impl Shown {
    pub(super) fn of_text(name: &str, text: &str) -> Self {
        Self::new(name, one_line(text), json!(text))
    }

    pub(super) fn new(name: &str, text: String, json: Json) -> Self {
        Self { name: name.to_owned(), text, json, pictures: Vec::new(), is_damaged: false }
    }

    fn damaged(name: &str, error: &Error) -> Self {
        let text = one_line(&error.to_string());
        Self { is_damaged: true, ..Self::new(name, format!("damaged: {text}"), json!({"error": text})) }
    }
}

impl Row {
    /// Row of the sample that cannot be read.
    pub(super) fn failed(title: String, error: &Error) -> Self {
        Self { title, error: Some(one_line(&error.to_string())), is_damaged: true, ..Self::default() }
    }

    /// Adds the value of a column.
    pub(super) fn add(&mut self, column: &Column, stored: Option<&[u8]>, shape: &Shape<'_>) {
        self.names.push(column.name.clone());
        if !shape.shows(&column.name) {
            return;
        }
        let Some(stored) = stored else {
            self.fields.push(Shown::new(&column.name, "none".to_owned(), Json::Null));
            return;
        };
        let shown = match Content::of(column, stored) {
            Ok(content) => shown(column, stored, &content, shape.side_max),
            Err(error) => Shown::damaged(&column.name, &error),
        };
        self.is_damaged |= shown.is_damaged;
        self.fields.push(shown);
    }

    /// Draws the boxes of `content` in the first picture, if `name` is their column.
    pub(super) fn add_boxes(&mut self, name: &str, content: &Content<'_>, shape: &Shape<'_>) {
        let is_wanted = shape.boxes.map_or_else(|| is_meant(name, content), |wanted| wanted == name);
        if !is_wanted {
            return;
        }
        let pictures = self.fields.iter_mut().flat_map(|field| &mut field.pictures);
        if let Some(picture) = pictures.into_iter().find(|picture| !picture.is_mask) {
            picture.add_boxes(content, shape.boxes_form);
        }
    }

    /// Text of a fact: of `sample` its number in the stream. Empty without the fact, and for several samples.
    pub(super) fn fact(&self, name: &str) -> String {
        let fact = self.facts.get(name);
        let number = fact.and_then(|fact| fact.get("number")).or(fact).filter(|number| number.is_number());
        number.map_or_else(String::new, Json::to_string)
    }

    /// Forgets the pixels, which will not be shown.
    pub(super) fn drop_pictures(&mut self) {
        self.fields.iter_mut().for_each(|field| field.pictures.clear());
    }

    pub(super) fn json(&self) -> Json {
        let mut record = self.facts.clone();
        let columns: Map<String, Json> =
            self.fields.iter().map(|field| (field.name.clone(), field.json.clone())).collect();
        record.insert("columns".to_owned(), columns.into());
        if let Some(error) = &self.error {
            record.insert("error".to_owned(), json!(error));
        }
        record.into()
    }
}

fn shown(column: &Column, stored: &[u8], content: &Content<'_>, side_max: u32) -> Shown {
    let mut shown = Shown::new(&column.name, content.text(), content.json());
    let decoded = match content {
        Content::Picture { size, .. } => {
            Picture::decode(column, stored, *size, side_max).map(|picture| shown.pictures.push(picture))
        }
        Content::List(items) => of_list(column, stored, items, side_max).map(|pictures| shown.pictures = pictures),
        _ => Ok(()),
    };
    match decoded {
        Ok(()) => shown,
        // Files of a format without a decoder here are not damaged.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            shown.text = format!("{}: {}", shown.text, one_line(&error.to_string()));
            shown
        }
        Err(error) => Shown::damaged(&column.name, &error),
    }
}

/// Decodes the first pictures of a list.
fn of_list(
    column: &Column,
    stored: &[u8],
    contents: &[Content<'_>],
    side_max: u32,
) -> forebay_loader::Result<Vec<Picture>> {
    let Value::List(items) = column.encoding.decode(stored)? else { return Ok(Vec::new()) };
    let mut pictures = Vec::new();
    for (item, content) in items.iter().zip(contents).take(LIST_SHOWN) {
        let Content::Picture { size, .. } = content else { continue };
        let encoding = if matches!(item, Value::Pixels(_)) { Encoding::Pil } else { Encoding::Bytes };
        let mut file = Vec::new();
        match item {
            Value::Jpeg(bytes) | Value::Png(bytes) | Value::Bytes(bytes) => file.extend_from_slice(bytes),
            pixels => encoding.encode(pixels, &mut file)?,
        }
        pictures.push(Picture::decode(&Column::new(column.name.as_str(), encoding), &file, *size, side_max)?);
    }
    Ok(pictures)
}
