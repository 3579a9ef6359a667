//! Which tensors lie together on the device.
//!
//! As in inference, what reads the same input is one matrix, a convolution has its bias behind each
//! channel, and what belongs to heads is one array. Here that is stated for training: every
//! parameter says which tensors it holds, so that checkpoints are the same from every machine.

use std::collections::HashMap;

use dla_core::Result;
use dla_core::model::training::AdamWOptions;
use dla_core::model::{
    AttentionTensors, BlockTensors, DlaTensors, GatedDeltaTensors, Mamba2Tensors, MixerTensors,
    ModelConfig, ModelTensors, TensorName,
};
use dla_wgpu::model::BlockSpecs;
use dla_wgpu::nn::ConvSpec;
use dla_wgpu::nn::backward::Decays;

/// What a parameter is made of.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) kind: Kind,
    pub(super) tensors: Vec<TensorName>,
    pub(super) decays: Decays,
}

/// How its tensors lie.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// The rows of all, one after the other.
    Matrix {
        /// Values of a row.
        columns: usize,
    },
    /// All values, one after the other, zeros behind them.
    Vector {
        /// With the zeros.
        values: usize,
    },
    /// Convolutions' channels, each with its bias behind it; biases are the tensors after the weights.
    Conv {
        /// All of them as one.
        spec: ConvSpec,
        /// How many tensors are weights.
        weights: usize,
    },
}

/// The parameters of a block by their places in the list of all.
#[derive(Clone, Debug)]
pub(super) struct BlockPlaces {
    pub(super) norm: usize,
    pub(super) in_proj: usize,
    pub(super) in_bias: Option<usize>,
    pub(super) conv: usize,
    /// None for softmax attention.
    pub(super) recurrent: Option<RecurrentPlaces>,
    pub(super) out_proj: usize,
    pub(super) out_bias: Option<usize>,
    pub(super) mlp: Option<MlpPlaces>,
}

/// The parameters around the operator.
#[derive(Clone, Debug)]
pub(super) struct RecurrentPlaces {
    pub(super) heads: usize,
    pub(super) read: Option<usize>,
    pub(super) tau: Option<usize>,
    pub(super) out_norm: usize,
}

/// The parameters of an MLP.
#[derive(Clone, Copy, Debug)]
pub(super) struct MlpPlaces {
    pub(super) norm: usize,
    pub(super) up: usize,
    pub(super) down: usize,
}

/// All parameters of a model.
#[derive(Clone, Debug)]
pub(super) struct ModelLayout {
    pub(super) parameters: Vec<Layout>,
    pub(super) embeddings: usize,
    pub(super) blocks: Vec<BlockPlaces>,
    pub(super) norm: usize,
    /// The embedding's place where the head is tied.
    pub(super) head: usize,
}

impl ModelLayout {
    /// The parameters of a model of these settings.
    ///
    /// # Errors
    /// None: all names are known.
    pub(super) fn new(config: &ModelConfig, options: &AdamWOptions) -> Result<Self> {
        let names = ModelTensors::<TensorName>::names(config)?;
        let decays = names.clone().zip(options.decays(config)?)?;
        let decaying = decays.into_iter();
        let decaying = decaying.filter(|(_, decays)| *decays);
        let mut list = List {
            parameters: Vec::new(),
            decaying: decaying.map(|(tensor, _)| tensor.name).collect(),
            hidden: config.hidden,
            conv: BlockSpecs::of(config).conv,
        };
        let embeddings = list.matrix(config.hidden, vec![names.embeddings]);
        let blocks = names.blocks.into_iter();
        let blocks = blocks.map(|block| list.block(block)).collect();
        let norm = list.vector(vec![names.norm]);
        let head = names
            .head
            .map(|head| list.matrix(config.hidden, vec![head]));
        Ok(Self {
            parameters: list.parameters,
            embeddings,
            blocks,
            norm,
            head: head.unwrap_or(embeddings),
        })
    }
}

/// Parameters as they are listed.
struct List {
    parameters: Vec<Layout>,
    decaying: std::collections::HashSet<String>,
    hidden: usize,
    conv: ConvSpec,
}

impl List {
    fn add(&mut self, kind: Kind, tensors: Vec<TensorName>) -> usize {
        let decays = self.decaying.contains(&tensors[0].name);
        let decays = match (&kind, decays) {
            (_, false) => Decays::NONE,
            (Kind::Conv { spec, .. }, true) => Decays {
                period: spec.width + 1,
                first: spec.width,
            },
            (Kind::Matrix { .. } | Kind::Vector { .. }, true) => Decays::ALL,
        };
        self.parameters.push(Layout {
            kind,
            tensors,
            decays,
        });
        self.parameters.len() - 1
    }

    fn matrix(&mut self, columns: usize, tensors: Vec<TensorName>) -> usize {
        self.add(Kind::Matrix { columns }, tensors)
    }

    fn vector(&mut self, tensors: Vec<TensorName>) -> usize {
        let values = tensors.iter().map(TensorName::len).sum();
        self.add(Kind::Vector { values }, tensors)
    }

    fn conv(&mut self, weights: Vec<TensorName>, biases: Vec<TensorName>) -> usize {
        let kind = Kind::Conv {
            spec: self.conv,
            weights: weights.len(),
        };
        self.add(kind, [weights, biases].concat())
    }

    fn block(&mut self, names: BlockTensors<TensorName>) -> BlockPlaces {
        let norm = self.vector(vec![names.norm]);
        let mut places = match names.mixer {
            MixerTensors::Mamba2(mixer) => self.mamba2(norm, mixer, names.dla),
            MixerTensors::GatedDelta(mixer) => self.gated_delta(norm, mixer, names.dla),
            MixerTensors::Attention(mixer) => self.attention(norm, mixer),
        };
        places.mlp = names.mlp.map(|mlp| {
            let inner = mlp.down.shape[1];
            MlpPlaces {
                norm: self.vector(vec![mlp.norm]),
                up: self.matrix(self.hidden, vec![mlp.gate, mlp.up]),
                down: self.matrix(inner, vec![mlp.down]),
            }
        });
        places
    }

    fn mamba2(
        &mut self,
        norm: usize,
        names: Mamba2Tensors<TensorName>,
        dla: Option<DlaTensors<TensorName>>,
    ) -> BlockPlaces {
        let inner = names.out_proj.shape[1];
        let lambda = dla.as_ref().map(|dla| dla.lambda_proj.clone());
        let rows: Vec<_> = [names.in_proj].into_iter().chain(lambda).collect();
        let values = rows.iter().map(|rows| rows.shape[0]).sum();
        let in_proj = self.matrix(self.hidden, rows);
        let bias = |list: &mut Self, bias| list.add(Kind::Vector { values }, vec![bias]);
        BlockPlaces {
            norm,
            in_proj,
            in_bias: names.in_bias.map(|name| bias(self, name)),
            conv: self.conv(vec![names.conv], names.conv_bias.into_iter().collect()),
            recurrent: Some(self.recurrent(
                vec![names.dt_bias, names.a_log, names.d],
                dla,
                names.norm,
            )),
            out_proj: self.matrix(inner, vec![names.out_proj]),
            out_bias: names.out_bias.map(|name| self.vector(vec![name])),
            mlp: None,
        }
    }

    fn gated_delta(
        &mut self,
        norm: usize,
        names: GatedDeltaTensors<TensorName>,
        dla: Option<DlaTensors<TensorName>>,
    ) -> BlockPlaces {
        let values = names.o_proj.shape[1];
        let mut rows = vec![names.q.projection, names.k.projection, names.v.projection];
        rows.extend(names.g_proj);
        rows.extend([names.a_proj, names.b_proj]);
        rows.extend(dla.as_ref().map(|dla| dla.lambda_proj.clone()));
        BlockPlaces {
            norm,
            in_proj: self.matrix(self.hidden, rows),
            in_bias: None,
            conv: self.conv(vec![names.q.conv, names.k.conv, names.v.conv], Vec::new()),
            recurrent: Some(self.recurrent(vec![names.dt_bias, names.a_log], dla, names.o_norm)),
            out_proj: self.matrix(values, vec![names.o_proj]),
            out_bias: None,
            mlp: None,
        }
    }

    fn attention(&mut self, norm: usize, names: AttentionTensors<TensorName>) -> BlockPlaces {
        let inner = names.o_proj.shape[1];
        let rows = vec![names.q.projection, names.k.projection, names.v.projection];
        BlockPlaces {
            norm,
            in_proj: self.matrix(self.hidden, rows),
            in_bias: None,
            conv: self.conv(vec![names.q.conv, names.k.conv, names.v.conv], Vec::new()),
            recurrent: None,
            out_proj: self.matrix(inner, vec![names.o_proj]),
            out_bias: None,
            mlp: None,
        }
    }

    fn recurrent(
        &mut self,
        heads: Vec<TensorName>,
        dla: Option<DlaTensors<TensorName>>,
        out_norm: TensorName,
    ) -> RecurrentPlaces {
        let mut places = RecurrentPlaces {
            heads: self.vector(heads),
            read: None,
            tau: None,
            out_norm: self.vector(vec![out_norm]),
        };
        if let Some(dla) = dla {
            places.read = Some(self.vector(vec![dla.lambda_scale, dla.lambda_bias]));
            places.tau = Some(self.vector(vec![dla.tau]));
        }
        places
    }
}

/// Values by the names of their tensors.
pub(super) type Named = HashMap<String, Vec<f32>>;

impl Layout {
    /// Values on the device, columns' padding not counted.
    pub(super) fn len(&self) -> usize {
        let all: usize = self.tensors.iter().map(TensorName::len).sum();
        match self.kind {
            Kind::Matrix { .. } => all,
            Kind::Vector { values } => values,
            Kind::Conv { spec, .. } => spec.channels * (spec.width + 1),
        }
    }

    /// The tensors as they lie on the device.
    ///
    /// # Errors
    /// For tensors of other sizes.
    pub(super) fn pack(&self, named: &Named) -> Result<Vec<f32>> {
        let parts = self.tensors.iter().map(|tensor| &named[&tensor.name][..]);
        let parts: Vec<_> = parts.collect();
        match self.kind {
            Kind::Matrix { .. } => Ok(parts.concat()),
            Kind::Vector { values } => {
                let mut packed = parts.concat();
                packed.resize(values, 0.0);
                Ok(packed)
            }
            Kind::Conv { spec, weights } => {
                let (weights, biases) = (parts[..weights].concat(), parts[weights..].concat());
                spec.pack(&weights, (!biases.is_empty()).then_some(&biases))
            }
        }
    }

    /// The tensors out of what lies on the device.
    pub(super) fn unpack(&self, packed: &[f32], named: &mut Named) {
        let values = match self.kind {
            Kind::Matrix { .. } | Kind::Vector { .. } => packed.to_vec(),
            Kind::Conv { spec, .. } => {
                let width = spec.width;
                let channels = || packed.chunks_exact(width + 1);
                let weights = channels().flat_map(|channel| channel[..width].iter().copied());
                weights
                    .chain(channels().map(|channel| channel[width]))
                    .collect()
            }
        };
        let mut rest = &values[..];
        for tensor in &self.tensors {
            let (own, after) = rest.split_at(tensor.len());
            named.insert(tensor.name.clone(), own.to_vec());
            rest = after;
        }
    }
}
