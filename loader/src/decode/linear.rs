//! A linear transformation of whole pictures, such as a whitening.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// Subtracts a mean from the numbers of a picture, channel after channel, and multiplies them by a matrix, as
/// torchvision's `LinearTransformation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearTransformation {
    /// Square matrix, row after row. A picture is a row vector, left of it.
    pub transformation_matrix: Floats,
    /// A number for each row of the matrix.
    pub mean_vector: Floats,
}

/// Floats, shared by copies. In a document they are text: base64 of float32 in little-endian order.
#[derive(Clone, PartialEq)]
pub struct Floats(Arc<[f32]>);

/// Upper bound of the numbers of a picture: the matrix has the square of it, which is 64 MiB.
const NUMBERS_MAX: usize = 1 << 12;

/// Memory of a transformation, kept from picture to picture.
#[derive(Debug, Default)]
pub(super) struct LinearMemory {
    sums: Vec<f64>,
}

impl fmt::Debug for Floats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} floats", self.0.len())
    }
}

impl From<Vec<f32>> for Floats {
    fn from(floats: Vec<f32>) -> Self {
        Self(floats.into())
    }
}

impl Serialize for Floats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|float| float.to_le_bytes()).collect();
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Floats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        let (floats, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(D::Error::custom("floats are base64 of four bytes each"));
        }
        Ok(Self(floats.iter().map(|float| f32::from_le_bytes(*float)).collect()))
    }
}

impl LinearTransformation {
    /// Checks the arguments.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`]: a matrix that is not square or too large, a mean of a different length, numbers
    /// that are not finite.
    pub(super) fn check(&self) -> Result<()> {
        let (matrix, mean) = (&self.transformation_matrix.0, &self.mean_vector.0);
        if !(1..=NUMBERS_MAX).contains(&mean.len()) {
            let message = format!(
                "LinearTransformation is for pictures of at most {NUMBERS_MAX} numbers, channels x height x width: \
                 transform larger ones in the training loop, on the device"
            );
            return Err(Error::config(message).with("numbers", mean.len()));
        }
        if matrix.len() != mean.len() * mean.len() {
            let message = "LinearTransformation needs a square matrix with a row for each number of the mean";
            return Err(Error::config(message).with("numbers", matrix.len()).with("mean", mean.len()));
        }
        if !matrix.iter().chain(&**mean).all(|number| number.is_finite()) {
            return Err(Error::config("LinearTransformation needs a matrix and a mean of finite numbers"));
        }
        Ok(())
    }

    /// Numbers of a picture.
    pub(super) fn numbers(&self) -> usize {
        self.mean_vector.0.len()
    }

    /// Transforms a row of float32 in place. Its channels are planes, or `interleaved` is their number.
    pub(super) fn apply(&self, row: &mut [u8], interleaved: Option<usize>, memory: &mut LinearMemory) {
        let (numbers, row) = (self.numbers(), row.as_chunks_mut::<4>().0);
        let channels = interleaved.unwrap_or(1);
        let pixels = numbers / channels;
        let place = |number: usize| (number % pixels) * channels + number / pixels;
        let sums = &mut memory.sums;
        sums.clear();
        sums.resize(numbers, 0.0);
        let lines = self.transformation_matrix.0.chunks_exact(numbers);
        for (number, (line, mean)) in lines.zip(&*self.mean_vector.0).enumerate() {
            let own = f64::from(f32::from_ne_bytes(row[place(number)]) - mean);
            // Sums in double precision: their error does not grow with the number of pixels.
            sums.iter_mut().zip(line).for_each(|(sum, factor)| *sum += own * f64::from(*factor));
        }
        for (number, sum) in sums.iter().enumerate() {
            row[place(number)] = (*sum as f32).to_ne_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(matrix: &[f32], mean: &[f32]) -> LinearTransformation {
        LinearTransformation { transformation_matrix: matrix.to_vec().into(), mean_vector: mean.to_vec().into() }
    }

    fn applied(of: &LinearTransformation, row: &[f32], interleaved: Option<usize>) -> Vec<f32> {
        let mut bytes: Vec<u8> = row.iter().flat_map(|number| number.to_ne_bytes()).collect();
        of.apply(&mut bytes, interleaved, &mut LinearMemory::default());
        bytes.as_chunks().0.iter().map(|number| f32::from_ne_bytes(*number)).collect()
    }

    #[test]
    fn a_picture_is_a_row_vector_without_its_mean() {
        let of = linear(&[1.0, 2.0, 3.0, 4.0], &[1.0, 10.0]);
        assert_eq!(applied(&of, &[2.0, 12.0], None), [7.0, 10.0]);
    }

    #[test]
    fn channels_side_by_side_have_the_results_of_planes() {
        let matrix: Vec<f32> = (0..36).map(|number| (number * 7 % 11) as f32).collect();
        let of = linear(&matrix, &[0.5; 6]);
        let planes = applied(&of, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], None);
        let pixels = applied(&of, &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0], Some(3));
        assert_eq!(pixels, [0, 2, 4, 1, 3, 5].map(|place| planes[place]));
    }

    #[test]
    fn a_matrix_that_does_not_fit_is_rejected() {
        for (of, problem) in [
            (linear(&[1.0; 3], &[0.0; 2]), "square matrix"),
            (linear(&[], &[]), "at most 4096"),
            (linear(&[f32::NAN], &[0.0]), "finite"),
            (linear(&[], &[0.0; NUMBERS_MAX + 1]), "at most 4096"),
        ] {
            let error = of.check().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        linear(&[1.0; 4], &[0.0; 2]).check().unwrap();
    }

    #[test]
    fn floats_are_base64_in_documents() {
        let of = linear(&[1.5], &[-2.0]);
        let text = serde_json::to_string(&of).unwrap();
        assert_eq!(text, r#"{"transformation_matrix":"AADAPw==","mean_vector":"AAAAwA=="}"#);
        assert_eq!(serde_json::from_str::<LinearTransformation>(&text).unwrap(), of);
        assert!(serde_json::from_str::<LinearTransformation>(&text.replace("AADAPw==", "AADA")).is_err());
    }
}
