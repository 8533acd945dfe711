//! Classes of several data sets, such as the splits for training and validation.

use super::check::{Check, CheckRun, PerColumn};
use super::labels::{Class, Classes, is_label};
use crate::doctor::finding::{Findings, Problem, Severity, Subject};
use crate::doctor::values::{ColumnId, Sample};
use std::collections::BTreeMap;

/// The check.
#[derive(Default)]
pub(super) struct Splits(PerColumn<Classes>);

impl Check for Splits {
    fn sample(&mut self, sample: &Sample, run: &CheckRun<'_>, _: &mut Findings) {
        if run.source.streams.len() > 1 {
            self.0.each(sample, Classes::see);
        }
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        let mut by_name: BTreeMap<u32, Vec<(ColumnId, &Classes)>> = BTreeMap::new();
        for (id, classes) in self.0.iter().filter(|(id, _)| is_label(run.source.columns.name(*id))) {
            by_name.entry(id.name).or_default().push((id, classes));
        }
        for columns in by_name.values().filter(|columns| columns.iter().all(|(_, classes)| classes.are_classes())) {
            for (id, classes) in columns {
                let others = columns.iter().filter(|(other, _)| other != id);
                let elsewhere: Vec<&Class> = others.flat_map(|(_, classes)| classes.found.keys()).collect();
                let alone = classes.found.iter().filter(|(class, _)| !elsewhere.contains(class));
                for (class, (_, sample)) in alone {
                    let message =
                        format!("classes of column `{}` are in only one data set", run.source.columns.name(*id));
                    let advice = "check the lists of classes of the data sets: their numbers may differ";
                    let problem = Problem::new(Severity::Warning, "splits", message, advice);
                    findings.add(problem, Subject::Sample(*sample), format!("class {class}"));
                }
            }
        }
    }
}
