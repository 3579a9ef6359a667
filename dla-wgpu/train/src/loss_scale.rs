//! What the loss is multiplied by, and how that follows the steps.

use serde::{Deserialize, Serialize};

/// Steps in a row that move something, after which the scale doubles.
const GOOD: u32 = 200;
/// Beyond it the scale does not double.
const MOST: f32 = 16_777_216.0;

/// What the loss is multiplied by before its gradient is taken, so that small gradients are not lost.
///
/// A step whose gradients are not finite moves nothing and halves it; 200 steps in a row that move something double it,
/// up to 2^24. It begins with 2^16.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LossScale {
    /// The factor.
    pub scale: f32,
    /// Steps since the factor changed.
    pub good: u32,
}

impl Default for LossScale {
    fn default() -> Self {
        Self {
            scale: 65_536.0,
            good: 0,
        }
    }
}

impl LossScale {
    /// That of the next step, after one that was skipped or was not.
    #[must_use]
    pub fn after(self, skipped: bool) -> Self {
        let Self { scale, good } = self;
        match (skipped, good + 1) {
            (true, _) => Self {
                scale: scale / 2.0,
                good: 0,
            },
            (false, good) if good >= GOOD => Self {
                scale: if scale < MOST { scale * 2.0 } else { scale },
                good: 0,
            },
            (false, good) => Self { scale, good },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LossScale;

    /// The scale after steps that all move something.
    fn moved(mut scale: LossScale, steps: usize) -> LossScale {
        for _ in 0..steps {
            scale = scale.after(false);
        }
        scale
    }

    #[test]
    fn two_hundred_good_steps_double_the_scale_and_a_skipped_one_halves_it() {
        let first = LossScale::default();
        assert_eq!((first.scale, first.good), (65_536.0, 0));
        assert_eq!(moved(first, 199).scale, 65_536.0);
        let doubled = moved(first, 200);
        assert_eq!((doubled.scale, doubled.good), (131_072.0, 0));
        let halved = moved(first, 199).after(true);
        assert_eq!((halved.scale, halved.good), (32_768.0, 0));
        assert_eq!(moved(halved, 199).scale, 32_768.0, "counted anew");
        assert_eq!(moved(first, 200 * 20).scale, 16_777_216.0, "the most");
    }
}
