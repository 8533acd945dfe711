//! Compositions: operations that draw which of several operations are applied.
//!
//! They are generic over the operations that they hold, so that the tables of operations are above this file: those on
//! only pixels, and those that change the frame as well.

use serde::{Deserialize, Serialize};

use super::operation::{Operation, Script, check_within};
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};

/// Operations of a composition that are applied to one picture, by their positions in its list, in order.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    places: [u8; OPERATIONS_MAX],
    first: usize,
    end: usize,
}

impl Chosen {
    /// Chooses all operations of a list of `count`, in its order.
    fn all(count: usize) -> Self {
        Self { places: std::array::from_fn(|place| place as u8), first: 0, end: count.min(OPERATIONS_MAX) }
    }

    /// Chooses one operation.
    fn one(place: usize) -> Self {
        let first = place.min(OPERATIONS_MAX - 1);
        Self { first, end: first + 1, ..Self::all(0) }
    }
}

impl Iterator for Chosen {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let place = self.places[self.first..self.end].first()?;
        self.first += 1;
        Some(usize::from(*place))
    }
}

/// Composition that may hold operations on the frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Composition<O> {
    /// See [`RandomApply`].
    RandomApply(RandomApply<O>),
    /// See [`RandomChoice`].
    RandomChoice(RandomChoice<O>),
    /// See [`RandomOrder`].
    RandomOrder(RandomOrder<O>),
}

impl<O> Composition<O> {
    /// Returns true for the name of one in documents.
    pub fn is_named(name: &str) -> bool {
        ["random_apply", "random_choice", "random_order"].contains(&name)
    }

    /// Number of its kind: part of the key of its draws, different from the numbers of all operations.
    pub fn number(&self) -> u32 {
        match self {
            Self::RandomApply(_) => 140,
            Self::RandomChoice(_) => 141,
            Self::RandomOrder(_) => 142,
        }
    }

    /// Returns the operations that are applied to one picture. Each has the [part](OpDraws::part) of `draws` with the
    /// number of its position.
    pub fn chosen(&self, draws: OpDraws) -> Chosen {
        match self {
            Self::RandomApply(apply) => apply.chosen(draws),
            Self::RandomChoice(choice) => choice.chosen(draws),
            Self::RandomOrder(order) => order.chosen(draws),
        }
    }

    /// The operations.
    pub fn transforms(&self) -> &[O] {
        match self {
            Self::RandomApply(RandomApply { transforms, .. })
            | Self::RandomChoice(RandomChoice { transforms, .. })
            | Self::RandomOrder(RandomOrder { transforms }) => transforms,
        }
    }

    /// The operations.
    pub fn transforms_mut(&mut self) -> &mut [O] {
        match self {
            Self::RandomApply(RandomApply { transforms, .. })
            | Self::RandomChoice(RandomChoice { transforms, .. })
            | Self::RandomOrder(RandomOrder { transforms }) => transforms,
        }
    }

    /// Checks the arguments, but not the operations' own.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] for an argument outside of its range.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::RandomApply(apply) => apply.check_arguments(),
            Self::RandomChoice(choice) => choice.check_arguments(),
            Self::RandomOrder(order) => order.check_arguments(),
        }
    }
}

/// Defines the methods that follow from the operations `O` in a list.
macro_rules! of_transforms {
    () => {
        fn check(&self) -> Result<()> {
            self.check_arguments()?;
            self.transforms.iter().try_for_each(O::check)
        }

        fn draw(&self, draws: OpDraws, script: &mut Script) {
            for place in self.chosen(draws) {
                self.transforms[place].draw(draws.part(place as u32), script);
            }
        }

        fn moves(&self) -> bool {
            self.transforms.iter().any(O::moves)
        }

        fn keeps_size(&self) -> bool {
            self.transforms.iter().all(O::keeps_size)
        }

        fn check_labels(&self) -> Result<()> {
            self.transforms.iter().try_for_each(O::check_labels)
        }
    };
}

/// Applies all of a list, or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomApply<O> {
    /// Operations in order.
    pub transforms: Vec<O>,
    /// The probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn half() -> f64 {
    0.5
}

impl<O> RandomApply<O> {
    fn check_arguments(&self) -> Result<()> {
        check_within("RandomApply", "p", self.p, 0.0, 1.0)?;
        check_count("RandomApply", &self.transforms)
    }

    fn chosen(&self, draws: OpDraws) -> Chosen {
        Chosen::all(if draws.numbers().unit() < self.p { self.transforms.len() } else { 0 })
    }
}

impl<O: Operation> Operation for RandomApply<O> {
    of_transforms!();
}

/// Applies one of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomChoice<O> {
    /// The operations.
    pub transforms: Vec<O>,
    /// Weight of each. Default: 1.
    #[serde(default)]
    pub p: Option<Vec<f64>>,
}

impl<O> RandomChoice<O> {
    fn check_arguments(&self) -> Result<()> {
        if let Some(p) = &self.p {
            let sum: f64 = p.iter().sum();
            if p.len() != self.transforms.len() || p.iter().any(|p| *p < 0.0) || !(sum > 0.0 && sum.is_finite()) {
                return Err(Error::config("RandomChoice needs a weight `p` of at least 0 for each of its operations")
                    .with("p", format!("{p:?}"))
                    .with("operations", self.transforms.len()));
            }
        }
        check_count("RandomChoice", &self.transforms)
    }

    fn chosen(&self, draws: OpDraws) -> Chosen {
        let mut numbers = draws.numbers();
        let place = match &self.p {
            None => numbers.below(self.transforms.len() as u32) as usize,
            Some(p) => {
                let mut rest = numbers.unit() * p.iter().sum::<f64>();
                let chosen = p.iter().position(|weight| {
                    rest -= weight;
                    rest < 0.0
                });
                // Rounding may leave a rest: the last one that has a weight.
                chosen.or_else(|| p.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0)
            }
        };
        if place < self.transforms.len() { Chosen::one(place) } else { Chosen::all(0) }
    }
}

impl<O: Operation> Operation for RandomChoice<O> {
    of_transforms!();
}

/// Applies all of a list, in a drawn order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomOrder<O> {
    /// The operations.
    pub transforms: Vec<O>,
}

impl<O> RandomOrder<O> {
    fn check_arguments(&self) -> Result<()> {
        check_count("RandomOrder", &self.transforms)
    }

    fn chosen(&self, draws: OpDraws) -> Chosen {
        let mut chosen = Chosen::all(self.transforms.len());
        let end = chosen.end;
        draws.numbers().shuffle(&mut chosen.places[..end]);
        chosen
    }
}

impl<O: Operation> Operation for RandomOrder<O> {
    of_transforms!();
}

/// Upper bound of the operations of a composition, so that an order of them fits in bytes on the stack.
const OPERATIONS_MAX: usize = 64;

fn check_count<O>(name: &str, transforms: &[O]) -> Result<()> {
    if !(1..=OPERATIONS_MAX).contains(&transforms.len()) {
        let message = format!("{name} needs 1 to {OPERATIONS_MAX} operations");
        return Err(Error::config(message).with("operations", transforms.len()));
    }
    Ok(())
}
