//! Where a model's numbers come from.

use crate::error::Result;
use crate::nn::Linear;

/// A source of tensors by their checkpoint names.
///
/// The model asks for every tensor with the shape it must have, so this is the one place where
/// names and shapes are stated: a source that only looks ([`checkpoint`](crate::checkpoint)) finds
/// what is missing, misshapen or left over before anything is read.
pub trait Weights {
    /// The values of the tensor `name`, which must have this shape.
    ///
    /// # Errors
    /// When it is missing, has another shape or a type that does not widen to f32, or cannot be read.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>>;
}

/// A source seen from inside one module: a prefix before every name.
pub(super) struct Scope<'a> {
    source: &'a mut dyn Weights,
    prefix: String,
}

impl<'a> Scope<'a> {
    /// The names that begin with `prefix`.
    pub(super) fn new(source: &'a mut dyn Weights, prefix: impl Into<String>) -> Self {
        Self {
            source,
            prefix: prefix.into(),
        }
    }

    /// The names of the module `name` inside this one.
    pub(super) fn within(&mut self, name: &str) -> Scope<'_> {
        Scope {
            prefix: format!("{}{name}.", self.prefix),
            source: self.source,
        }
    }

    /// The tensor `name` of this module.
    pub(super) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let name = format!("{}{name}", self.prefix);
        self.source.tensor(&name, shape)
    }

    /// The tensor `name` of this module, if the settings say that it is there.
    pub(super) fn tensor_if(
        &mut self,
        there: bool,
        name: &str,
        shape: &[usize],
    ) -> Result<Option<Vec<f32>>> {
        there.then(|| self.tensor(name, shape)).transpose()
    }
}

/// A linear map without bias, its weight `[outputs, inputs]`.
pub(super) fn linear(weights: &mut Scope<'_>, name: &str, shape: [usize; 2]) -> Result<Linear> {
    let weight = weights.tensor(name, &shape)?;
    Ok(Linear::new(shape[1], weight, None))
}
