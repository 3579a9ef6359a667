//! Trees of tensors: walked, changed and paired, always in the order of [`ModelTensors::load`].

use super::config::ModelConfig;
use super::tensors::{
    AttentionTensors, BlockTensors, ConvolvedTensors, DlaTensors, GatedDeltaTensors, Mamba2Tensors,
    MixerTensors, MlpTensors, ModelTensors,
};
use super::weights::{Names, TensorName};
use crate::error::{Error, Result};

impl ModelTensors<TensorName> {
    /// The names and shapes of a model of these settings.
    ///
    /// # Errors
    /// None: the source knows every name.
    pub fn names(config: &ModelConfig) -> Result<Self> {
        Self::load(config, &mut Names)
    }
}

impl<T> ModelTensors<T> {
    /// All tensors in order.
    ///
    /// ```
    /// # use dla_core::model::{AttentionConfig, Family, MixerConfig, ModelConfig, ModelTensors, SpecialIds};
    /// # let mixer = AttentionConfig { heads: 1, head_dim: 2, conv_width: 1, intermediate: 2 };
    /// # let config = ModelConfig {
    /// #     family: Family::Attention, hidden: 2, layers: 1, vocabulary: 3, tied: true,
    /// #     norm_epsilon: 1e-6, mixer: MixerConfig::Attention(mixer), dla: None, special: SpecialIds::default(),
    /// # };
    /// let names = ModelTensors::names(&config)?;
    /// let values = names.each_ref().map(|name| vec![0.0f32; name.len()]);
    /// for (name, values) in names.each_ref().zip(values.each_ref())?.iter() {
    ///     assert_eq!(name.len(), values.len());
    /// }
    /// # Ok::<(), dla_core::Error>(())
    /// ```
    pub fn iter(&self) -> std::vec::IntoIter<&T> {
        self.each_ref().into_iter()
    }

    /// All tensors in order, to be changed.
    pub fn iter_mut(&mut self) -> std::vec::IntoIter<&mut T> {
        self.each_mut().into_iter()
    }

    /// The tree of what `change` makes of every tensor, asked in order.
    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> ModelTensors<U> {
        self.map_with(&mut change)
    }

    /// The tree of pairs.
    ///
    /// # Errors
    /// When `other` belongs to a model of another form.
    pub fn zip<U>(self, other: ModelTensors<U>) -> Result<ModelTensors<(T, U)>> {
        self.pair_with(other).ok_or_else(|| {
            let got = "those of a model of another form";
            Error::input("model", "tensors", "tensors of this model", got)
        })
    }
}

impl<T> IntoIterator for ModelTensors<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        let mut tensors = Vec::new();
        self.map(|tensor| tensors.push(tensor));
        tensors.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a ModelTensors<T> {
    type Item = &'a T;
    type IntoIter = std::vec::IntoIter<&'a T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut ModelTensors<T> {
    type Item = &'a mut T;
    type IntoIter = std::vec::IntoIter<&'a mut T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// Both or neither.
fn pair_options<T, U>(a: Option<T>, b: Option<U>) -> Option<Option<(T, U)>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Some((a, b))),
        (None, None) => Some(None),
        _ => None,
    }
}

/// Gives a struct of tensors its walks. A field is a `leaf` (a tensor), an `option` (of a tensor), a
/// `part` (a struct of tensors), an `optional` part, or a `list` of parts.
macro_rules! walks {
    ($type:ident { $($field:ident: $kind:ident),* $(,)? }) => {
        impl<T> $type<T> {
            /// The tree of references.
            pub fn each_ref(&self) -> $type<&T> {
                $type { $($field: walks!(@ref $kind, self.$field)),* }
            }

            /// The tree of references that can change their tensors.
            pub fn each_mut(&mut self) -> $type<&mut T> {
                $type { $($field: walks!(@mut $kind, self.$field)),* }
            }

            pub(super) fn map_with<U>(self, change: &mut impl FnMut(T) -> U) -> $type<U> {
                $type { $($field: walks!(@map $kind, self.$field, change)),* }
            }

            /// None where the forms differ.
            pub(super) fn pair_with<U>(self, other: $type<U>) -> Option<$type<(T, U)>> {
                Some($type { $($field: walks!(@pair $kind, self.$field, other.$field)),* })
            }
        }
    };
    (@ref leaf, $x:expr) => { &$x };
    (@ref option, $x:expr) => { $x.as_ref() };
    (@ref part, $x:expr) => { $x.each_ref() };
    (@ref optional, $x:expr) => { $x.as_ref().map(|part| part.each_ref()) };
    (@ref list, $x:expr) => { $x.iter().map(|part| part.each_ref()).collect() };
    (@mut leaf, $x:expr) => { &mut $x };
    (@mut option, $x:expr) => { $x.as_mut() };
    (@mut part, $x:expr) => { $x.each_mut() };
    (@mut optional, $x:expr) => { $x.as_mut().map(|part| part.each_mut()) };
    (@mut list, $x:expr) => { $x.iter_mut().map(|part| part.each_mut()).collect() };
    (@map leaf, $x:expr, $f:ident) => { $f($x) };
    (@map option, $x:expr, $f:ident) => { $x.map(&mut *$f) };
    (@map part, $x:expr, $f:ident) => { $x.map_with($f) };
    (@map optional, $x:expr, $f:ident) => { $x.map(|part| part.map_with($f)) };
    (@map list, $x:expr, $f:ident) => { $x.into_iter().map(|part| part.map_with($f)).collect() };
    (@pair leaf, $a:expr, $b:expr) => { ($a, $b) };
    (@pair option, $a:expr, $b:expr) => { pair_options($a, $b)? };
    (@pair part, $a:expr, $b:expr) => { $a.pair_with($b)? };
    (@pair optional, $a:expr, $b:expr) => {
        match pair_options($a, $b)? {
            Some((a, b)) => Some(a.pair_with(b)?),
            None => None,
        }
    };
    (@pair list, $a:expr, $b:expr) => {{
        if $a.len() != $b.len() {
            return None;
        }
        let pairs = $a.into_iter().zip($b).map(|(a, b)| a.pair_with(b));
        pairs.collect::<Option<_>>()?
    }};
}

// Fields in the order in which they are loaded.
walks!(ModelTensors {
    embeddings: leaf,
    blocks: list,
    norm: leaf,
    head: option
});
walks!(BlockTensors {
    norm: leaf,
    mixer: part,
    dla: optional,
    mlp: optional
});
walks!(Mamba2Tensors {
    in_proj: leaf,
    in_bias: option,
    conv: leaf,
    conv_bias: option,
    a_log: leaf,
    dt_bias: leaf,
    d: leaf,
    norm: leaf,
    out_proj: leaf,
    out_bias: option,
});
walks!(GatedDeltaTensors {
    q: part,
    k: part,
    v: part,
    a_proj: leaf,
    b_proj: leaf,
    a_log: leaf,
    dt_bias: leaf,
    g_proj: option,
    o_norm: leaf,
    o_proj: leaf,
});
walks!(AttentionTensors {
    q: part,
    k: part,
    v: part,
    o_proj: leaf
});
walks!(ConvolvedTensors {
    projection: leaf,
    conv: leaf
});
walks!(DlaTensors {
    tau: leaf,
    lambda_proj: leaf,
    lambda_scale: leaf,
    lambda_bias: leaf
});
walks!(MlpTensors {
    norm: leaf,
    gate: leaf,
    up: leaf,
    down: leaf
});

impl<T> MixerTensors<T> {
    /// The tree of references.
    pub fn each_ref(&self) -> MixerTensors<&T> {
        match self {
            Self::Mamba2(mixer) => MixerTensors::Mamba2(mixer.each_ref()),
            Self::GatedDelta(mixer) => MixerTensors::GatedDelta(mixer.each_ref()),
            Self::Attention(mixer) => MixerTensors::Attention(mixer.each_ref()),
        }
    }

    /// The tree of references that can change their tensors.
    pub fn each_mut(&mut self) -> MixerTensors<&mut T> {
        match self {
            Self::Mamba2(mixer) => MixerTensors::Mamba2(mixer.each_mut()),
            Self::GatedDelta(mixer) => MixerTensors::GatedDelta(mixer.each_mut()),
            Self::Attention(mixer) => MixerTensors::Attention(mixer.each_mut()),
        }
    }

    fn map_with<U>(self, change: &mut impl FnMut(T) -> U) -> MixerTensors<U> {
        match self {
            Self::Mamba2(mixer) => MixerTensors::Mamba2(mixer.map_with(change)),
            Self::GatedDelta(mixer) => MixerTensors::GatedDelta(mixer.map_with(change)),
            Self::Attention(mixer) => MixerTensors::Attention(mixer.map_with(change)),
        }
    }

    fn pair_with<U>(self, other: MixerTensors<U>) -> Option<MixerTensors<(T, U)>> {
        match (self, other) {
            (Self::Mamba2(a), MixerTensors::Mamba2(b)) => a.pair_with(b).map(MixerTensors::Mamba2),
            (Self::GatedDelta(a), MixerTensors::GatedDelta(b)) => {
                a.pair_with(b).map(MixerTensors::GatedDelta)
            }
            (Self::Attention(a), MixerTensors::Attention(b)) => {
                a.pair_with(b).map(MixerTensors::Attention)
            }
            _ => None,
        }
    }
}
