//! Boxes of a Joint, and their labels.

use super::{array_source, unsuitable_column};
use crate::decode::draw::FieldDraws;
use crate::decode::field::{FieldSpec, JsonPath};
use crate::decode::json_value::{JsonForm, JsonValue};
use crate::decode::plan::{BoxesField, FieldPlan, ListSource, Output, RowShape, Step, Work};
use crate::error::{Context, Error, Result};
use crate::format::encoding::{DType, Encoding};

impl FieldPlan {
    /// Adds the outputs of a Joint.
    pub(super) fn add_joint(&mut self, fields: &[(String, FieldSpec)], draws: FieldDraws) -> Result<()> {
        let first = self.outputs.len();
        for (name, spec) in fields {
            match spec {
                FieldSpec::Boxes { .. } | FieldSpec::BoxLabels { .. } => self.add_boxes(fields, first, name, spec)?,
                _ => self.add_output(name, spec, draws)?,
            }
        }
        for step in &self.steps[first..] {
            if let Work::Boxes(boxes) = &step.work {
                let picture = self.steps.get(boxes.picture).and_then(Step::picture);
                if picture.is_none_or(|picture| picture.encoding.pictures(&[]).is_some()) {
                    return Err(Error::config("boxes need a column with one picture per sample"));
                }
            }
        }
        Ok(())
    }

    /// Adds the output of boxes or of their labels. The steps of the Joint's fields start at `start`.
    fn add_boxes(&mut self, fields: &[(String, FieldSpec)], start: usize, name: &str, spec: &FieldSpec) -> Result<()> {
        self.check_name(name)?;
        let ((column, work), dtype) = self.compile_boxes(fields, start, spec).context("field", || name)?;
        self.outputs.push(Output { name: name.to_owned(), dtype, shape: RowShape::RaggedArray });
        self.steps.push(Step { column: Some(column), work, default: None, group: None });
        Ok(())
    }

    fn compile_boxes(
        &self,
        fields: &[(String, FieldSpec)],
        start: usize,
        spec: &FieldSpec,
    ) -> Result<((usize, Work), DType)> {
        let find = |of: Option<&str>, what: &str, is_kind: fn(&FieldSpec) -> bool| {
            let place = fields.iter().position(|(name, spec)| is_kind(spec) && of.is_none_or(|of| of == name));
            let missing = || {
                let error = Error::config(format!("the Joint has no {what} with this name"));
                error.with("of", of.unwrap_or("any"))
            };
            place.map(|place| start + place).ok_or_else(missing)
        };
        Ok(match spec {
            FieldSpec::Boxes { column, path, format, of, min_size } => {
                if min_size.is_some_and(|least| !(least >= 0.0 && least.is_finite())) {
                    return Err(Error::config("`min_size` of Boxes is a number of pixels, at least 0"));
                }
                let is_picture = |spec: &FieldSpec| matches!(spec, FieldSpec::Image { .. } | FieldSpec::Mask { .. });
                let picture = find(of.as_deref(), "Image or Mask", is_picture)?;
                let first = find(None, "Image or Mask", is_picture)?;
                let form = JsonForm::Array(DType::Float64, vec![None, Some(4)]);
                let (column, source) = self.list_source(column, path.as_ref(), form)?;
                let field = BoxesField { source, format: *format, picture, first, min_size: *min_size };
                ((column, Work::Boxes(field)), DType::Float32)
            }
            FieldSpec::BoxLabels { column, path, dtype, of } => {
                let boxes = find(of.as_deref(), "Boxes", |spec| matches!(spec, FieldSpec::Boxes { .. }))?;
                let form = JsonForm::Array(dtype.unwrap_or(DType::Int64), vec![None]);
                let (column, source) = self.list_source(column, path.as_ref(), form)?;
                let known = match &source {
                    ListSource::Json(_) => Some(DType::Int64),
                    ListSource::Array(_) => match &self.columns[column].encoding {
                        Encoding::Array(kind) => kind.dtype(),
                        _ => None,
                    },
                };
                let dtype = dtype.or(known);
                ((column, Work::BoxLabels { source, boxes, dtype }), dtype.unwrap_or(DType::UInt8))
            }
            _ => return Err(Error::internal("a field that holds no boxes")),
        })
    }

    /// Returns the column, and the form in which it stores a list: `form` if it has JSON documents.
    fn list_source(&self, name: &str, path: Option<&JsonPath>, form: JsonForm) -> Result<(usize, ListSource)> {
        let (index, column) = self.find_column(name)?;
        let is_json = path.is_some() || matches!(column.encoding, Encoding::Json | Encoding::Str);
        if !is_json {
            let message = "boxes and their labels need a column of arrays, files of numpy or JSON documents";
            let source = array_source(column).ok_or_else(|| unsuitable_column(column, message))?;
            return Ok((index, ListSource::Array(source)));
        }
        if !matches!(column.encoding, Encoding::Json | Encoding::Str | Encoding::Bytes) {
            let message = "`path` is for a column of JSON documents, text or bytes";
            return Err(unsuitable_column(column, message));
        }
        let parts = match path {
            None => Vec::new(),
            Some(path) => path.parts().ok_or_else(|| {
                Error::config(
                    "`path` has an empty part or a broken place in a list: write it as in meta.boxes[0].label",
                )
            })?,
        };
        Ok((index, ListSource::Json(JsonValue::new(parts, form)?)))
    }
}
