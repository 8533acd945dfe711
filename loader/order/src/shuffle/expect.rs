//! Expected number of a canonical node's samples that `py1e` puts before an offset, computed without drawing their
//! shifts.

/// Samples at `size` whole offsets from `start` on, each shifted evenly by `low` to `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) start: f64,
    pub(super) size: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Returns the expected number of samples before each of `offsets`.
///
/// The density of a span's samples is a trapezoid: it rises from its earliest offset, stays, and falls to its latest.
/// The corners of all trapezoids are visited in order, and density and count are integrated.
pub(super) fn before(spreads: &[Spread], offsets: &[f64]) -> Vec<f64> {
    // Offset, change of density, change of its slope.
    let mut corners: Vec<(f64, f64, f64)> = Vec::with_capacity(4 * spreads.len());
    for &Spread { start, size, low, high } in spreads {
        // A whole offset represents the interval around it.
        let (first, last) = (start - 0.5, start + size - 0.5);
        let width = high - low;
        if width > 0.0 {
            let slope = 1.0 / width;
            corners.extend([(first + low, 0.0, slope), (first + high, 0.0, -slope)]);
            corners.extend([(last + low, 0.0, -slope), (last + high, 0.0, slope)]);
        } else {
            corners.extend([(first + low, 1.0, 0.0), (last + low, -1.0, 0.0)]);
        }
    }
    corners.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut order: Vec<usize> = (0..offsets.len()).collect();
    order.sort_unstable_by(|&a, &b| offsets[a].total_cmp(&offsets[b]));

    let mut counts = vec![0.0; offsets.len()];
    let (mut at, mut count, mut density, mut slope) = (f64::NEG_INFINITY, 0.0, 0.0, 0.0);
    let mut corners = corners.into_iter().peekable();
    for target in order {
        while let Some((offset, more_density, more_slope)) = corners.next_if(|corner| corner.0 < offsets[target]) {
            let step = if at.is_finite() { offset - at } else { 0.0 };
            count += step * (density + step * slope / 2.0);
            density += step * slope + more_density;
            slope += more_slope;
            at = offset;
        }
        let step = if at.is_finite() { offsets[target] - at } else { 0.0 };
        counts[target] = count + step * (density + step * slope / 2.0);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unshifted_samples_keep_their_positions() {
        let spreads = [Spread { start: 0.0, size: 10.0, low: 0.0, high: 0.0 }];
        let spreads = [spreads[0], Spread { start: 10.0, ..spreads[0] }];
        assert_eq!(before(&spreads, &[19.5, -5.0, 9.5, 4.5, 100.0]), [20.0, 0.0, 10.0, 5.0, 20.0]);
    }

    #[test]
    fn shifted_samples_thin_out_towards_their_ends() {
        let spreads = [Spread { start: 50.0, size: 20.0, low: -40.0, high: 40.0 }];
        let counts = before(&spreads, &[9.5, 29.5, 59.5, 89.5, 109.5]);
        for (count, expected) in counts.into_iter().zip([0.0, 2.5, 10.0, 17.5, 20.0]) {
            assert!((count - expected).abs() < 1e-9, "{count} for {expected}");
        }
    }
}
