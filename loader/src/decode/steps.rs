//! Steps of a field's operations for one picture: stages, and the actions between them.

use super::augment::{Action, Augment, Erasure, Operation, RandomErasing, Script};
use super::box_format::Corners;
use super::boxes::{Moves, ObjectCut, follow_stage};
use super::draw::{DrawKey, FieldDraws, OpDraws};
use super::field::Op;
use super::framing::{Framing, Reframe};
use super::points::Point;
use super::resolve_ops::{Fold, ListDraws};
use super::scene::Scene;
use crate::error::{Error, Result};
use forebay_picture::geometry::{Size, Stage};

/// Steps of one picture. It keeps its memory.
#[derive(Debug, Default)]
pub struct Steps {
    /// The stages, at least one after [`resolve`]. A stage follows the last action.
    pub stages: Vec<Stage>,
    /// For each stage the number of the actions before the next one.
    bounds: Vec<usize>,
    script: Script,
    /// Parts of the scene that the picture shows, see [`resolve_like`].
    pub scene: Scene,
    /// Crops among the stages that leave objects out.
    cuts: Vec<ObjectCut>,
    /// Boxes in the picture before its operations: an argument of [`resolve`] for those that draw by boxes.
    pub(super) objects: Option<Vec<Corners>>,
}

impl Steps {
    /// Returns empty steps of pictures with boxes, see [`objects`](Self::objects).
    pub(super) fn with_objects(objects: Option<Vec<Corners>>) -> Self {
        Self { objects, ..Self::default() }
    }

    /// Returns the actions after stage number `stage`, before the next one.
    pub fn after(&self, stage: usize) -> &[Action] {
        let first = if stage == 0 { 0 } else { self.bounds[stage - 1] };
        &self.script.actions[first..self.bounds[stage]]
    }

    /// Applies the steps of a picture of `size` to `boxes`, and returns the picture's size after them. The boxes are
    /// inside of it, some perhaps without an area.
    pub(super) fn follow(&self, boxes: &mut [Corners], size: Size) -> Size {
        self.moves(&|number| self.after(number)).follow(boxes, size)
    }

    /// Applies the steps of a picture of `size` to points, see [`Moves::follow_points`].
    pub(super) fn follow_points(&self, points: &mut [Point], size: Size, mirror: impl FnMut(&mut [Point])) {
        self.moves(&|number| self.after(number)).follow_points(points, size, mirror);
    }

    fn moves<'a>(&'a self, after: &'a dyn Fn(usize) -> &'a [Action]) -> Moves<'a> {
        Moves { stages: &self.stages, after, cuts: &self.cuts }
    }
}

/// Resolves `ops` for a picture of `size` into `steps`, which is cleared first.
///
/// Operations that crop, resize and mirror are folded into stages. Operations that follow an augmentation become a
/// further stage.
///
/// # Errors
/// A picture that is too small for its crop, or a result of more than
/// [`PIXELS_MAX`](forebay_picture::geometry::PIXELS_MAX) pixels.
pub fn resolve(ops: &[Op], size: Size, draws: FieldDraws, key: DrawKey, steps: &mut Steps) -> Result<()> {
    resolve_like(None, ops, size, draws, key, steps)
}

/// Resolves `ops` as [`resolve`] does, for a picture with the parts that an earlier one shows: `first` is
/// the scene of that one, with the same random operations and draws.
///
/// A crop is drawn in the pixels of a picture, where a box may be too large by a rounding. It is therefore drawn once.
///
/// # Errors
/// As [`resolve`]; pictures with different sizes before an operation that counts pixels.
pub fn resolve_like(
    first: Option<&Scene>,
    ops: &[Op],
    size: Size,
    draws: FieldDraws,
    key: DrawKey,
    steps: &mut Steps,
) -> Result<()> {
    let Steps { stages, bounds, script, scene, cuts, objects } = steps;
    stages.clear();
    bounds.clear();
    script.actions.clear();
    scene.clear();
    cuts.clear();
    let fold = Fold::new(size, (draws, key), first, (stages, scene, cuts));
    let mut walk = Walk { fold, bounds, script, objects: objects.as_deref(), size, key };
    for (place, op) in ops.iter().enumerate() {
        walk.add(op, draws, &ops[..place])?;
    }
    walk.fold.finish();
    bounds.resize(stages.len(), script.actions.len());
    Ok(())
}

/// Steps under construction.
struct Walk<'a> {
    fold: Fold<'a>,
    bounds: &'a mut Vec<usize>,
    script: &'a mut Script,
    objects: Option<&'a [Corners]>,
    /// Size of the picture before its operations.
    size: Size,
    key: DrawKey,
}

impl Walk<'_> {
    /// Adds an operation of a list with these draws, after the operations `before` of the list.
    fn add(&mut self, op: &Op, draws: FieldDraws, before: &[Op]) -> Result<()> {
        match op {
            Op::Augment(augment) => self.augment(augment, augment.draws(draws, self.key, occurrence(before, augment))),
            Op::Framing(framing) => {
                let boxes = if framing.needs_boxes() { self.placed()? } else { Vec::new() };
                let occurrence = occurrence_of_framing(before, framing);
                self.fold.reframe(framing, framing.draws(draws, self.key, occurrence), &boxes)
            }
            Op::Composed(composed) => {
                let is_same = |op: &&Op| matches!(op, Op::Composed(other) if other.number() == composed.number());
                let occurrence = before.iter().filter(is_same).count() as u32;
                let draws = OpDraws::new(draws, self.key, composed.number(), occurrence);
                for place in composed.chosen(draws) {
                    let part = draws.part(place as u32).field();
                    let outer = self.fold.replace_draws(ListDraws::new(part));
                    self.add(&composed.transforms()[place], part, &[])?;
                    self.fold.replace_draws(outer);
                }
                Ok(())
            }
            op => self.fold.add(op),
        }
    }

    fn augment(&mut self, augment: &Augment, draws: OpDraws) -> Result<()> {
        let Self { fold, bounds, script, .. } = self;
        if augment.counts_pixels() {
            fold.count_pixels()?;
        }
        script.size = fold.size();
        let before = script.actions.len();
        augment.draw(draws, script);
        if script.actions.len() > before {
            let ended = fold.end_stage(script.size)?;
            bounds.truncate(ended - 1);
            bounds.resize(ended - 1, before);
            bounds.push(script.actions.len());
        }
        Ok(())
    }

    /// Returns the boxes of the picture after the operations so far.
    fn placed(&self) -> Result<Vec<Corners>> {
        let Self { fold, bounds, script: Script { actions, .. }, objects, size, .. } = self;
        let objects = objects.ok_or_else(|| {
            Error::config("RandomIoUCrop draws by the boxes of a picture, and there are none: pass `boxes`")
        })?;
        let ((stages, last), mut boxes) = (fold.stages(), objects.to_vec());
        // Stages without a bound have no actions after them yet.
        let bound = |number: usize| bounds.get(number).copied().unwrap_or(actions.len());
        let after = |number: usize| &actions[if number == 0 { 0 } else { bound(number - 1) }..bound(number)];
        Moves { stages, after: &after, cuts: fold.cuts() }.follow(&mut boxes, *size);
        follow_stage(&mut boxes, last);
        Ok(boxes)
    }
}

/// Number of the operations of the same kind before `framing`.
fn occurrence_of_framing(before: &[Op], framing: &Framing) -> u32 {
    let is_same = |op: &&Op| matches!(op, Op::Framing(other) if other.number() == framing.number());
    before.iter().filter(is_same).count() as u32
}

/// Number of the operations of the same kind before `augment`, twice, and one more if it moves pixels.
///
/// A composition moves pixels or does not, by its contents. A mask may leave out the operations that do not, which
/// therefore count separately.
fn occurrence(before: &[Op], augment: &Augment) -> u32 {
    let kind = |augment: &Augment| (augment.number(), augment.moves());
    let is_same = |op: &&Op| matches!(op, Op::Augment(other) if kind(other) == kind(augment));
    2 * before.iter().filter(is_same).count() as u32 + u32::from(augment.moves())
}

/// Returns the boxes that the erasings of `ops` draw for a row of `size`.
pub fn erasures(ops: &[Op], size: Size, draws: FieldDraws, key: DrawKey) -> impl Iterator<Item = Erasure> {
    let erasing = |op: &Op| if let Op::RandomErasing(erasing) = op { Some(erasing.clone()) } else { None };
    let drawn = move |(occurrence, erasing): (u32, RandomErasing)| {
        erasing.draw(move |number| OpDraws::new(draws, key, number, occurrence), size)
    };
    (0..).zip(ops.iter().filter_map(erasing)).flat_map(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_picture::geometry::Region;

    const SIZE: Size = Size { w: 50, h: 40 };

    fn ops(json: &str) -> Vec<Op> {
        serde_json::from_str(json).unwrap()
    }

    fn steps(ops: &[Op], draw: u64) -> Steps {
        let mut steps = Steps::default();
        let key = DrawKey { epoch: 0, stream: 0, draw };
        resolve(ops, SIZE, FieldDraws::new(1, "x"), key, &mut steps).unwrap();
        steps
    }

    fn counts(steps: &Steps) -> Vec<usize> {
        (0..steps.stages.len()).map(|stage| steps.after(stage).len()).collect()
    }

    #[test]
    fn actions_are_between_the_stages_and_a_stage_is_last() {
        let invert = r#"{"op": "random_invert", "p": 1}"#;
        let crop = r#"{"op": "center_crop", "size": [8, 9]}"#;
        let big = r#"{"op": "center_crop", "size": [20, 20]}"#;
        let small = r#"{"op": "center_crop", "size": [4, 4]}"#;
        let never = r#"{"op": "random_invert", "p": 0}"#;
        for (list, expected) in [
            (vec![], vec![0]),
            (vec![never], vec![0]),
            (vec![invert], vec![1, 0]),
            (vec![crop, invert, invert], vec![2, 0]),
            (vec![crop, invert, never, crop, invert], vec![2, 0]),
            (vec![crop, invert, never, small, invert], vec![1, 1, 0]),
            (vec![invert, crop, big], vec![1, 0, 0]),
            (vec![crop, big, invert], vec![0, 1, 0]),
            (vec![invert, invert, crop], vec![2, 0]),
        ] {
            let steps = steps(&ops(&format!("[{}]", list.join(","))), 0);
            assert_eq!(counts(&steps), expected, "{list:?}");
        }
    }

    #[test]
    fn steps_keep_nothing_of_the_picture_before() {
        let ops = ops(r#"[{"op": "random_invert", "p": 0.5}, {"op": "random_equalize", "p": 0.5}]"#);
        let mut used = Steps::default();
        for draw in 0..20 {
            let key = DrawKey { epoch: 0, stream: 0, draw };
            resolve(&ops, SIZE, FieldDraws::new(1, "x"), key, &mut used).unwrap();
            let fresh = steps(&ops, draw);
            assert_eq!((&used.stages, &used.bounds, &used.script), (&fresh.stages, &fresh.bounds, &fresh.script));
        }
    }

    #[test]
    fn compositions_that_only_change_colours_leave_the_draws_of_those_that_move() {
        let colours = r#"{"op": "random_apply", "transforms": [{"op": "random_invert", "p": 1}], "p": 0.5}"#;
        let turns =
            r#"{"op": "random_apply", "transforms": [{"op": "random_rotation", "degrees": [-30, 30]}], "p": 0.5}"#;
        let moving = |list: &str, draw| {
            let actions = steps(&ops(list), draw).script.actions;
            actions.into_iter().filter(Action::moves).collect::<Vec<_>>()
        };
        for draw in 0..50 {
            assert_eq!(moving(&format!("[{colours}, {turns}]"), draw), moving(&format!("[{turns}]"), draw));
        }
    }

    #[test]
    fn a_size_above_the_bound_between_two_actions_is_an_error() {
        let turn = r#"{"op": "random_rotation", "degrees": [45, 45], "expand": true}"#;
        let back = r#"{"op": "random_rotation", "degrees": [44.999, 44.999], "expand": true}"#;
        for turns in 24..60 {
            let list = format!(
                r#"[{{"op": "random_apply", "transforms": [{}, {back}], "p": 1}}]"#,
                vec![turn; turns].join(",")
            );
            let key = DrawKey { epoch: 0, stream: 0, draw: 0 };
            let resolved = resolve(&ops(&list), SIZE, FieldDraws::new(1, "x"), key, &mut Steps::default());
            assert!(resolved.is_err(), "{turns}");
        }
    }

    #[test]
    fn operations_after_a_rotation_have_the_size_that_it_drew() {
        let json = r#"[{"op": "random_rotation", "degrees": [90, 90], "expand": true}, {"op": "random_horizontal_flip", "p": 1}]"#;
        let steps = steps(&ops(json), 0);
        let turned = Size { w: 40, h: 50 };
        assert_eq!((steps.stages[1].crop, steps.stages[1].flip), (Region::all(turned), true));
    }
}
