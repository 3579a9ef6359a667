//! A model's sequence that goes on: positions, convolutions' inputs and caches of every layer.

use std::sync::Arc;

use super::config::{AttentionConfig, ModelConfig};
use crate::bytes::Bytes;
use crate::cache::Cache;
use crate::config::Config;
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::session;

/// What errors call a model session.
const OP: &str = "model session";
/// The first bytes of a saved model session.
const MAGIC: [u8; 4] = *b"DLAM";
/// The version of the layout that follows; 1 had no checksum.
const VERSION: u32 = 2;

/// What one layer carries from token to token.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerState {
    /// The last inputs of each convolution, `[width − 1, channels]`, oldest first.
    pub conv: Vec<Vec<f32>>,
    /// The memory states; none live for softmax attention.
    pub cache: Arc<Cache<f32>>,
    /// The keys of all tokens, `[tokens, heads, head_dim]`; of softmax attention only.
    pub keys: Vec<f32>,
    /// The values of all tokens, `[tokens, heads, head_dim]`; of softmax attention only.
    pub values: Vec<f32>,
}

/// One sequence of a model: everything that a later token needs of the earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSession {
    layout: Layout,
    position: u64,
    layers: Arc<Vec<LayerState>>,
}

/// The sizes that a session's arrays follow from.
#[derive(Clone, Debug, PartialEq)]
struct Layout {
    dims: Dims,
    config: Config,
    /// Values of each convolution's state.
    conv: Vec<usize>,
    /// Values of a token's key, of softmax attention only.
    attended: Option<usize>,
    layers: usize,
}

/// A session at one moment; as cheap as a pointer.
#[derive(Clone, Debug)]
pub struct ModelSnapshot {
    position: u64,
    layers: Arc<Vec<LayerState>>,
}

impl Layout {
    fn of(config: &ModelConfig) -> Self {
        let (channels, width) = config.convolutions();
        Self {
            dims: config.dims(),
            config: config.operator(),
            conv: channels
                .iter()
                .map(|channels| channels * (width - 1))
                .collect(),
            attended: config.attention().map(AttentionConfig::inner),
            layers: config.layers,
        }
    }

    fn start(&self) -> Arc<Vec<LayerState>> {
        let layer = LayerState {
            conv: self.conv.iter().map(|&len| vec![0.0; len]).collect(),
            cache: Arc::new(Cache::new(&self.dims)),
            keys: Vec::new(),
            values: Vec::new(),
        };
        Arc::new(vec![layer; self.layers])
    }
}

impl ModelSession {
    /// A sequence of a model of these settings before its first token.
    pub fn new(config: &ModelConfig) -> Self {
        let layout = Layout::of(config);
        Self {
            position: 0,
            layers: layout.start(),
            layout,
        }
    }

    /// The session that has come to `position` with these layers: what a device hands over.
    ///
    /// # Errors
    /// For layers that a model of these settings does not leave after so many tokens.
    pub fn from_layers(
        config: &ModelConfig,
        position: u64,
        layers: Vec<LayerState>,
    ) -> Result<Self> {
        let layout = Layout::of(config);
        if layers.len() != layout.layers {
            return Err(refused("layers", layout.layers, layers.len()));
        }
        for layer in &layers {
            layout.check(layer, position)?;
        }
        Ok(Self {
            layout,
            position,
            layers: Arc::new(layers),
        })
    }

    /// What every layer carries.
    pub fn layers(&self) -> &[LayerState] {
        &self.layers
    }

    /// Tokens taken in so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The memory states of layer `layer`, if the model has it.
    pub fn cache(&self, layer: usize) -> Option<&Cache<f32>> {
        self.layers.get(layer).map(|layer| &*layer.cache)
    }

    /// Keeps this moment for [`ModelSession::rollback`].
    pub fn snapshot(&self) -> ModelSnapshot {
        ModelSnapshot {
            position: self.position,
            layers: Arc::clone(&self.layers),
        }
    }

    /// Goes back to a moment of this session.
    pub fn rollback(&mut self, snapshot: &ModelSnapshot) {
        self.position = snapshot.position;
        self.layers = Arc::clone(&snapshot.layers);
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.position = 0;
        self.layers = self.layout.start();
    }

    /// The session as bytes, all numbers little-endian: `"DLAM"`, version u32, position u64, then
    /// for each layer its convolutions' inputs f32, the byte count u64 of its states and those
    /// ([`session::encode`] without its checksum), and its keys and values f32 if it is softmax attention; at the end the
    /// checksum of all that ([`session::seal`]).
    pub fn save(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.position.to_le_bytes());
        for layer in self.layers.iter() {
            bytes.extend(layer.conv.iter().flatten().flat_map(|x| x.to_le_bytes()));
            let states = session::body(&self.layout.dims, &self.layout.config, &layer.cache);
            bytes.extend((states.len() as u64).to_le_bytes());
            bytes.extend(states);
            let attended = layer.keys.iter().chain(&layer.values);
            bytes.extend(attended.flat_map(|x| x.to_le_bytes()));
        }
        session::seal(bytes)
    }

    /// Takes the place of a saved session of the same model.
    ///
    /// # Errors
    /// A file error for bytes that [`ModelSession::save`] does not write for this model; the session
    /// is as before then.
    pub fn load(&mut self, bytes: &[u8]) -> Result<()> {
        let mut reader = Bytes::sealed(OP, bytes, &MAGIC, VERSION)?;
        let position = reader.long("position")?;
        let layers = (0..self.layout.layers)
            .map(|_| self.layout.read_layer(&mut reader, position))
            .collect::<Result<_>>()?;
        reader.end()?;
        self.position = position;
        self.layers = Arc::new(layers);
        Ok(())
    }

    pub(super) fn advance(&mut self, tokens: usize, layers: Vec<LayerState>) {
        self.position += tokens as u64;
        self.layers = Arc::new(layers);
    }

    /// Refuses a session of a model of another form.
    ///
    /// # Errors
    /// When the sizes of its arrays are not those of `config`.
    pub fn check(&self, config: &ModelConfig) -> Result<()> {
        if self.layout == Layout::of(config) {
            return Ok(());
        }
        let got = "that of a model of another form";
        Err(Error::input(
            "model",
            "session",
            "a session of this model",
            got,
        ))
    }
}

impl Layout {
    fn read_layer(&self, reader: &mut Bytes<'_>, position: u64) -> Result<LayerState> {
        let conv = self.conv.iter().map(|&len| reader.floats("conv", len));
        let conv = conv.collect::<Result<_>>()?;
        let len = reader.size("states")?;
        let (dims, config, cache) = session::decode_body(reader.slice("states", len)?)?;
        if dims != self.dims || config != self.config {
            return Err(refused("states", "those of this model", "another model's"));
        }
        let attended = self.attended_len(position);
        let layer = LayerState {
            conv,
            cache: Arc::new(cache),
            keys: reader.floats("keys", attended)?,
            values: reader.floats("values", attended)?,
        };
        self.check(&layer, position)?;
        Ok(layer)
    }

    /// Values of all keys after `position` tokens.
    fn attended_len(&self, position: u64) -> usize {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        position.saturating_mul(self.attended.unwrap_or(0))
    }

    /// Refuses a layer of other sizes or with states of another number of tokens.
    fn check(&self, layer: &LayerState, position: u64) -> Result<()> {
        let conv: Vec<_> = layer.conv.iter().map(Vec::len).collect();
        if conv != self.conv {
            return Err(refused(
                "conv",
                format!("{:?}", self.conv),
                format!("{conv:?}"),
            ));
        }
        layer.cache.check(&self.dims, self.config.schedule)?;
        let attended = self.attended_len(position);
        if [layer.keys.len(), layer.values.len()] != [attended; 2] {
            let expected = format!("{attended} values of {position} tokens");
            return Err(refused("keys", expected, layer.keys.len()));
        }
        let held = self.attended.map_or(position, |_| 0);
        let mut sequences = 0..self.dims.sequences();
        match sequences.any(|i| layer.cache.position(&self.dims, i) != held) {
            true => Err(refused("position", "the tokens of the states", position)),
            false => Ok(()),
        }
    }
}

fn refused(argument: &'static str, expected: impl ToString, got: impl ToString) -> Error {
    Error::file(OP, argument, expected, got)
}
