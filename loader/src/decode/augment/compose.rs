//! Compositions: operations that draw which of several operations are applied.
//!
//! They are generic over the operations that they hold, so that the table of all operations is above this file.

use serde::{Deserialize, Serialize};

use super::operation::{Operation, Script, check_within};
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};

/// Defines the methods that follow from the operations `O` in a list.
macro_rules! of_transforms {
    () => {
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

impl<O: Operation> Operation for RandomApply<O> {
    fn check(&self) -> Result<()> {
        check_within("RandomApply", "p", self.p, 0.0, 1.0)?;
        check_all("RandomApply", &self.transforms)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        if draws.numbers().unit() < self.p {
            for (place, inner) in (0..).zip(&self.transforms) {
                inner.draw(draws.part(place), script);
            }
        }
    }

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

impl<O: Operation> Operation for RandomChoice<O> {
    fn check(&self) -> Result<()> {
        if let Some(p) = &self.p {
            let sum: f64 = p.iter().sum();
            if p.len() != self.transforms.len() || p.iter().any(|p| *p < 0.0) || !(sum > 0.0 && sum.is_finite()) {
                return Err(Error::config("RandomChoice needs a weight `p` of at least 0 for each of its operations")
                    .with("p", format!("{p:?}"))
                    .with("operations", self.transforms.len()));
            }
        }
        check_all("RandomChoice", &self.transforms)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
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
        if let Some(inner) = self.transforms.get(place) {
            inner.draw(draws.part(place as u32), script);
        }
    }

    of_transforms!();
}

/// Applies all of a list, in a drawn order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomOrder<O> {
    /// The operations.
    pub transforms: Vec<O>,
}

impl<O: Operation> Operation for RandomOrder<O> {
    fn check(&self) -> Result<()> {
        check_all("RandomOrder", &self.transforms)
    }

    fn draw(&self, draws: OpDraws, script: &mut Script) {
        let mut numbers = draws.numbers();
        let mut order = [0_u8; OPERATIONS_MAX];
        let order = &mut order[..self.transforms.len().min(OPERATIONS_MAX)];
        numbers.shuffle(order);
        for place in order {
            self.transforms[usize::from(*place)].draw(draws.part(u32::from(*place)), script);
        }
    }

    of_transforms!();
}

/// Upper bound of the operations of a composition, so that an order of them fits in bytes on the stack.
const OPERATIONS_MAX: usize = 64;

fn check_all<O: Operation>(name: &str, transforms: &[O]) -> Result<()> {
    if !(1..=OPERATIONS_MAX).contains(&transforms.len()) {
        let message = format!("{name} needs 1 to {OPERATIONS_MAX} operations");
        return Err(Error::config(message).with("operations", transforms.len()));
    }
    transforms.iter().try_for_each(O::check)
}
