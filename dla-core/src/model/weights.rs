//! Where a model's numbers come from.

use crate::error::Result;

/// A source of tensors by their checkpoint names.
///
/// [`ModelTensors::load`](super::ModelTensors::load) asks for every tensor with the shape it must
/// have. What a tensor is, the source says: the values for a model on the CPU, only the name for one
/// that is streamed to a device, nothing for a look at a file's headers.
pub trait Weights {
    /// What stands for a tensor.
    type Tensor;

    /// The tensor `name`, which must have this shape.
    ///
    /// # Errors
    /// When it is missing, has another shape or a type that does not widen to f32, or cannot be read.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Self::Tensor>;
}

/// The name and the shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorName {
    /// The name in the checkpoint.
    pub name: String,
    /// Its sizes.
    pub shape: Vec<usize>,
}

impl TensorName {
    /// Its values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A source that knows every tensor by name alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names;

impl Weights for Names {
    type Tensor = TensorName;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<TensorName> {
        Ok(TensorName {
            name: name.to_owned(),
            shape: shape.to_vec(),
        })
    }
}

/// A source seen from inside one module: a prefix before every name.
pub(super) struct Scope<'a, W> {
    source: &'a mut W,
    prefix: String,
}

impl<'a, W: Weights> Scope<'a, W> {
    /// The names that begin with `prefix`.
    pub(super) fn new(source: &'a mut W, prefix: impl Into<String>) -> Self {
        Self {
            source,
            prefix: prefix.into(),
        }
    }

    /// The names of the module `name` inside this one.
    pub(super) fn within(&mut self, name: &str) -> Scope<'_, W> {
        Scope {
            prefix: format!("{}{name}.", self.prefix),
            source: self.source,
        }
    }

    /// The tensor `name` of this module.
    pub(super) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<W::Tensor> {
        let name = format!("{}{name}", self.prefix);
        self.source.tensor(&name, shape)
    }

    /// The tensor `name` of this module, if the settings say that it is there.
    pub(super) fn tensor_if(
        &mut self,
        there: bool,
        name: &str,
        shape: &[usize],
    ) -> Result<Option<W::Tensor>> {
        there.then(|| self.tensor(name, shape)).transpose()
    }
}
