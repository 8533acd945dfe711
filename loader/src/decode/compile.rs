//! Compilation of the user's fields to a [`FieldPlan`]. Everything is checked here, before any thread starts: a field
//! by its kind (`decode::fields`), fields that belong together in `joint`. `drawn` describes the effect of a field on
//! one sample.

mod composed;
mod drawn;
mod joint;

use std::sync::Arc;

use super::draw::FieldDraws;
use super::fields::{Columns, Compiled, FieldKind, FieldSpec, JointParts};
use super::image::ImageField;
use super::mix::{Member, Mix, MixRule};
use super::plan::{FieldPlan, Output};
use super::step::{Step, Work};
use crate::error::{Context, Error, Result};
use crate::format::Column;
pub use drawn::drawn;

impl FieldPlan {
    /// Compiles `fields` for a data set with `columns`. Without fields every column becomes an output with its own
    /// name: numbers as scalars, arrays as arrays, strings as text, everything else as bytes.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`]: a column that does not exist or has an encoding that does not fit the field,
    /// arguments outside of their range, two outputs of one name; each names the field.
    pub fn compile(fields: Option<&[(String, FieldSpec)]>, columns: &[Column], augment_seed: u64) -> Result<Arc<Self>> {
        let mut plan = Self {
            columns: columns.to_vec(),
            outputs: Vec::new(),
            steps: Vec::new(),
            mixes: Vec::new(),
            composition: None,
        };
        let fields = match fields {
            None => &Self::fields_of(columns),
            Some([]) => return Err(Error::config("`fields` is empty: name at least one field, or leave it out")),
            Some(fields) => fields,
        };
        for (name, spec) in fields {
            let draws = FieldDraws::new(augment_seed, name);
            if let FieldSpec::Joint { fields } = spec {
                plan.add_joint(fields, draws).context("joint", || name)?;
            } else if let FieldSpec::Mix { fields, by, p, mode, weights } = spec {
                let rule = MixRule { by, p: *p, mode: *mode, weights: weights.as_deref() };
                plan.add_mix(fields, rule, augment_seed, draws).context("mix", || name)?;
            } else if let FieldSpec::Compose { fields, by, p } = spec {
                plan.add_composed(fields, (by, *p), draws).context("fields", || name)?;
            } else {
                plan.add_output(name, spec, |field, columns| field.compile(columns, draws))?;
                plan.add_further(name, spec)?;
            }
        }
        plan.find_groups();
        Ok(Arc::new(plan))
    }

    /// Adds the outputs of a `Mix`, each with the draws of its own name, so that its crops are those without the `Mix`.
    fn add_mix(
        &mut self,
        fields: &[(String, FieldSpec)],
        rule: MixRule<'_>,
        augment_seed: u64,
        draws: FieldDraws,
    ) -> Result<()> {
        let mut members = Vec::new();
        for (name, spec) in fields {
            if !spec.kind().is_some_and(FieldKind::is_mixable) {
                return Err(Error::config("a Mix holds Image, OneHot and MultiHot fields").with("field", name));
            }
            joint::check_without_views(name, spec)?;
            let draws = FieldDraws::new(augment_seed, name);
            self.add_output(name, spec, |field, columns| field.compile(columns, draws))?;
            let output = self.outputs.len() - 1;
            let measure = |field: &ImageField| -> Result<_> {
                let (size, layout) = field.size.zip(field.writer.layout()).ok_or_else(|| {
                    let message = "the pictures of a Mix need one size: end the operations at a fixed size";
                    Error::config(message).with("field", name)
                })?;
                Ok((size, layout, field.writer.channels()))
            };
            let picture = self.steps[output].picture().map(measure).transpose()?;
            members.push(Member { output, dtype: self.outputs[output].dtype, picture });
        }
        self.mixes.push(Mix::new(rule, draws, members)?);
        Ok(())
    }

    /// Returns the fields of a loader without fields: one for each of `columns`, under its own name.
    pub fn fields_of(columns: &[Column]) -> Vec<(String, FieldSpec)> {
        columns.iter().map(|column| (column.name.clone(), FieldSpec::of_column(column))).collect()
    }

    /// Adds the outputs of a Joint.
    fn add_joint(&mut self, fields: &[(String, FieldSpec)], draws: FieldDraws) -> Result<()> {
        joint::check(fields)?;
        let first_step = self.steps.len();
        let parts = fields.iter().map(|(name, spec)| (&**name, spec.scene_part())).collect();
        let parts = JointParts { fields: parts, first_step };
        for (name, spec) in fields {
            self.add_output(name, spec, |field, columns| field.compile_in(&parts, columns, draws))?;
            let further = |field: &dyn FieldKind| field.compile_further(Columns(&self.columns));
            if spec.kind().map(further).transpose()?.is_some_and(|further| !further.is_empty()) {
                let message =
                    "a field of several outputs, such as one with `mask`, is none of a Joint: move it out of it";
                return Err(Error::config(message).with("field", name));
            }
        }
        for step in &self.steps[first_step..] {
            if let Work::Value(decoder) = &step.work {
                decoder.check_joint(&self.steps)?;
            }
        }
        Ok(())
    }

    /// Adds the outputs that come with the output of a field, such as its labels.
    fn add_further(&mut self, name: &str, spec: &FieldSpec) -> Result<()> {
        let compile = |field: &dyn FieldKind| field.compile_further(Columns(&self.columns));
        for (further, compiled) in spec.kind().map(compile).transpose()?.unwrap_or_default() {
            self.add_output(further, spec, |_, _| Ok(compiled)).context("output of", || name)?;
        }
        Ok(())
    }

    /// Adds the output of one field.
    fn add_output(
        &mut self,
        name: &str,
        spec: &FieldSpec,
        compile: impl FnOnce(&dyn FieldKind, Columns<'_>) -> Result<Compiled>,
    ) -> Result<()> {
        if self.outputs.iter().any(|o| o.name == name) {
            return Err(Error::config("two outputs have the same name").with("field", name));
        }
        let columns = Columns(&self.columns);
        let compiled = || {
            let field = spec
                .kind()
                .ok_or_else(|| Error::config("a Joint, a Mix, a Mosaic or a CopyPaste cannot hold another of these"))?;
            // All samples of a layout without the column have the default, if it has a type.
            let absent = field.default().filter(|_| !columns.has(field.column()));
            let absent = absent.and_then(|default| field.compile_absent(default));
            let compiled = absent.map_or_else(|| compile(field, columns), Ok)?;
            let output = Output { name: name.to_owned(), dtype: compiled.dtype, shape: compiled.shape };
            let default = field.default().map(|default| field.default_row(default, &output)).transpose()?;
            Ok((output, Step { column: compiled.column, work: compiled.work, default, group: None }))
        };
        let (output, step) = compiled().context("field", || name)?;
        self.outputs.push(output);
        self.steps.push(step);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
