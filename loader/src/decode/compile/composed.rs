//! Fields of samples that are composed with partners: the fields of a Joint, with arrays of any shape as rows.

use crate::decode::compose::{BoxRule, ComposeOp, Composition, Member, PixelForm, Role};
use crate::decode::draw::FieldDraws;
use crate::decode::fields::{Boxes, FieldSpec};
use crate::decode::image::ImageField;
use crate::decode::normalise::PictureWriter;
use crate::decode::plan::{FieldPlan, RowShape};
use crate::error::{Error, Result};
use forebay_picture::geometry::Size;
use forebay_picture::pixels::{Content, deep_pixel};

impl FieldPlan {
    /// Adds the outputs of a Mosaic or a CopyPaste.
    pub(super) fn add_composed(
        &mut self,
        fields: &[(String, FieldSpec)],
        (op, p): (&ComposeOp, f64),
        draws: FieldDraws,
    ) -> Result<()> {
        if self.composition.is_some() {
            return Err(Error::config(
                "a loader has one Mosaic or CopyPaste, and all of its samples are composed by it",
            ));
        }
        let first = self.steps.len();
        self.add_joint(fields, draws)?;
        let (mut members, mut sizes) = (Vec::new(), Vec::new());
        for (output, (name, spec)) in (first..).zip(fields) {
            let role = self.role_of(output, spec, op).map_err(|e| e.with("field", name))?;
            if let Role::Picture { form, .. } = &role {
                sizes.push(match &self.outputs[output].shape {
                    RowShape::Fixed(shape) => form.size_of(shape),
                    _ => None,
                });
            }
            members.push(Member { output, role });
        }
        if sizes.is_empty() {
            return Err(Error::config("a Mosaic or a CopyPaste needs an Image or a Mask among its fields"));
        }
        for member in &mut members {
            if let Role::Picture { form, shape } = &mut member.role {
                self.outputs[member.output].shape = RowShape::RaggedArray;
                // A CopyPaste of pictures without a size is an error below.
                *shape = form.shape(op.size().or(sizes[0]).unwrap_or(Size { w: 0, h: 0 }));
            }
        }
        self.composition = Some(Composition::new((op.clone(), p), draws, members, &sizes)?);
        Ok(())
    }

    fn role_of(&self, output: usize, spec: &FieldSpec, op: &ComposeOp) -> Result<Role> {
        let shape = Vec::new();
        Ok(match spec {
            FieldSpec::Image(_) | FieldSpec::Mask(_) => {
                let field = self.steps[output].picture();
                let field = field.ok_or_else(|| Error::internal("a picture was not compiled to one"))?;
                Role::Picture { form: form_of(field, op)?, shape }
            }
            FieldSpec::ClassMap(map) => {
                let writer = PictureWriter::labels(self.outputs[output].dtype)?;
                Role::Picture {
                    form: of_writer(&writer, op.fill_mask().map(|_| deep_pixel(map.background.into()))),
                    shape,
                }
            }
            FieldSpec::Boxes(Boxes { format, to, min_size, min_area, .. }) => Role::Boxes(BoxRule {
                format: to.unwrap_or(*format),
                min_size: min_size.unwrap_or(0.0),
                min_area: min_area.or(*min_size).unwrap_or(0.0),
            }),
            FieldSpec::BoxLabels(_) => Role::BoxLabels,
            FieldSpec::ObjectMasks(_) => Role::ObjectMasks,
            FieldSpec::KeyPoints(_) => Role::Points,
            _ => {
                return Err(Error::config(
                    "a Mosaic or a CopyPaste holds Image, Mask, Boxes, BoxLabels, KeyPoints, ObjectMasks and ClassMap: \
                     leave the remaining fields next to it, which have the values of the sample",
                ));
            }
        })
    }
}

/// Returns the form of the pixels of a picture, with the colour of places without one.
fn form_of(field: &ImageField, op: &ComposeOp) -> Result<PixelForm> {
    if field.encoding.pictures(&[]).is_some() {
        return Err(Error::config("a Mosaic or a CopyPaste needs a column with one picture per sample"));
    }
    let fill = match (op.fill().zip(op.fill_mask()), field.content) {
        (None, _) => None,
        (Some((_, label)), Content::Labels) => Some(deep_pixel(label.into())),
        (Some((fill, _)), Content::Colours | Content::Grey) if field.linear.is_none() => Some(fill),
        _ => {
            return Err(Error::config(
                "a Mosaic fills pictures of mode RGB or L, without LinearTransformation: leave out the `mode`, or the \
                 operation",
            ));
        }
    };
    Ok(of_writer(&field.writer, fill))
}

fn of_writer(writer: &PictureWriter, fill: Option<[u8; 3]>) -> PixelForm {
    const PIXEL: Size = Size { w: 1, h: 1 };
    let colour = |[red, green, blue]: [u8; 3]| {
        let mut bytes = vec![0; writer.bytes(PIXEL)];
        writer.write(&mut bytes, PIXEL, 0, [&[red], &[green], &[blue]]);
        bytes
    };
    PixelForm {
        layout: writer.layout(),
        channels: writer.channels(),
        element: writer.dtype().size(),
        fill: fill.map(colour).unwrap_or_default(),
    }
}
