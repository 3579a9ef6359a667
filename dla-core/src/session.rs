//! A sequence that goes on: fed in pieces, saved, restored, rolled back, reset.
//!
//! The bytes of a saved session are the same for CPU, GPU and browser; see [`encode`].

use std::sync::Arc;

use crate::bytes::Bytes;
pub use crate::bytes::{another_version, seal, unseal};
use crate::cache::Cache;
use crate::config::{Backbone, Config, MergeCost, Norm, Schedule};
use crate::dims::Dims;
use crate::dla::recurrent;
use crate::error::{Error, Result};
use crate::inputs::{Inputs, Output};
use crate::real::Real;

/// What errors call a session.
const OP: &str = "session";
/// The first bytes of a saved session.
const MAGIC: [u8; 4] = *b"DLAS";
/// The version of the layout that follows; 1 had no checksum.
const VERSION: u32 = 2;

/// The states of a batch of sequences between calls.
///
/// Any split of the tokens into pieces gives the same bits as the whole.
///
/// ```
/// use dla_core::{Backbone, Config, Dims, Inputs, Session};
/// let dims = Dims { batch: 1, tokens: 0, heads: 1, groups: 1, key_dim: 1, value_dim: 1, capacity: 1 };
/// let mut session = Session::<f32>::new(dims, Config::new(Backbone::Plain))?;
/// let piece = Inputs {
///     q: &[1.0], k: &[1.0], v: &[2.0], lambda: &[1.0], tau: &[0.6],
///     g: None, beta: None, lengths: None, replay: None,
/// };
/// assert_eq!(session.feed(1, &piece)?.o, [2.0]);
/// let snapshot = session.snapshot();
/// assert_eq!(session.feed(1, &piece)?.o, [4.0]);
/// session.rollback(&snapshot);
/// let mut restored = Session::<f32>::load(&session.save())?;
/// assert_eq!(restored.feed(1, &piece)?.o, [4.0]);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Session<R> {
    dims: Dims,
    config: Config,
    cache: Arc<Cache<R>>,
}

/// A session's states at one moment; as cheap as a pointer, for states are never changed in place.
#[derive(Clone, Debug)]
pub struct Snapshot<R>(Arc<Cache<R>>);

impl<R: Real> Session<R> {
    /// A session before its first token; `dims.tokens` is not read.
    ///
    /// # Errors
    /// Refused sizes and settings, and the offline schedule, which needs whole sequences.
    pub fn new(dims: Dims, config: Config) -> Result<Self> {
        let dims = Dims { tokens: 0, ..dims };
        dims.check()?;
        config.check()?;
        if config.schedule == Schedule::Offline {
            let expected = "a schedule that does not see the future";
            return Err(Error::unsupported(
                "session", "schedule", expected, "offline",
            ));
        }
        let cache = Arc::new(Cache::new(&dims));
        Ok(Self {
            dims,
            config,
            cache,
        })
    }

    /// Takes in the next `tokens` tokens (none is a piece too); `inputs` have the shapes of a call of that length.
    ///
    /// # Errors
    /// Those of [`recurrent::forward`]; the session is as before then.
    pub fn feed(&mut self, tokens: usize, inputs: &Inputs<'_, R>) -> Result<Output<R>> {
        let dims = Dims {
            tokens,
            ..self.dims
        };
        let output = recurrent::forward(&dims, &self.config, inputs, Some(&self.cache))?;
        self.cache = Arc::new(output.cache.clone());
        Ok(output)
    }

    /// The sizes, without tokens.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The states.
    pub fn cache(&self) -> &Cache<R> {
        &self.cache
    }

    /// Keeps this moment for [`Session::rollback`].
    pub fn snapshot(&self) -> Snapshot<R> {
        Snapshot(Arc::clone(&self.cache))
    }

    /// Goes back to a moment of this session.
    pub fn rollback(&mut self, snapshot: &Snapshot<R>) {
        self.cache = Arc::clone(&snapshot.0);
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.cache = Arc::new(Cache::new(&self.dims));
    }

    /// The session as bytes; see [`encode`].
    pub fn save(&self) -> Vec<u8> {
        encode(&self.dims, &self.config, &self.cache)
    }

    /// A saved session.
    ///
    /// # Errors
    /// Those of [`decode`].
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let (dims, config, cache) = decode(bytes)?;
        Ok(Self {
            dims,
            config,
            cache: Arc::new(cache),
        })
    }
}

/// A session's bytes, all numbers little-endian.
///
/// `"DLAS"`, version u32, bytes of a real number u32; batch, heads, groups, key_dim, value_dim,
/// capacity u32 each; backbone, schedule, norm, merge u8 each; block u64; ε f64; then
/// `n` `[batch, heads, capacity]` u32, `info` and `states` as in [`Cache`]; at the end the checksum
/// of all that ([`seal`]).
pub fn encode<R: Real>(dims: &Dims, config: &Config, cache: &Cache<R>) -> Vec<u8> {
    seal(body(dims, config, cache))
}

/// [`encode`] without the checksum.
pub(crate) fn body<R: Real>(dims: &Dims, config: &Config, cache: &Cache<R>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let (schedule, block) = schedule_code(config.schedule);
    for word in [VERSION, R::BYTES as u32] {
        bytes.extend(word.to_le_bytes());
    }
    for size in sizes(dims) {
        bytes.extend((size as u32).to_le_bytes());
    }
    bytes.extend([
        config.backbone as u8,
        schedule,
        config.norm as u8,
        config.merge as u8,
    ]);
    bytes.extend(block.to_le_bytes());
    bytes.extend(config.epsilon.to_le_bytes());
    for n in &cache.n {
        bytes.extend(n.to_le_bytes());
    }
    for &x in cache.info.iter().chain(&cache.states) {
        match R::BYTES {
            4 => bytes.extend((x.to_f64() as f32).to_le_bytes()),
            _ => bytes.extend(x.to_f64().to_le_bytes()),
        }
    }
    bytes
}

/// The sizes (`tokens` = 0), settings and states of a saved session.
///
/// # Errors
/// A file error for bytes that [`encode`] does not write: another magic, version, checksum or
/// precision, unknown words, refused sizes, a length that does not fit (checked before anything is allocated),
/// states that no run could have left.
pub fn decode<R: Real>(bytes: &[u8]) -> Result<(Dims, Config, Cache<R>)> {
    read(Bytes::sealed(OP, bytes, &MAGIC, VERSION)?)
}

/// [`decode`] of a [`body`].
pub(crate) fn decode_body<R: Real>(bytes: &[u8]) -> Result<(Dims, Config, Cache<R>)> {
    read(Bytes::after(OP, bytes, &MAGIC, VERSION)?)
}

fn read<R: Real>(mut reader: Bytes<'_>) -> Result<(Dims, Config, Cache<R>)> {
    let width = reader.word("precision")?;
    if width as usize != R::BYTES {
        return Err(refused(
            "precision",
            format!("{} bytes", R::BYTES),
            format!("{width} bytes"),
        ));
    }
    let dims = read_dims(&mut reader)?;
    let config = read_config(&mut reader)?;
    let cache = read_cache(&reader, &dims)?;
    cache
        .check(&dims, config.schedule)
        .map_err(|error| refused("states", "those of a run", error))?;
    Ok((dims, config, cache))
}

fn sizes(dims: &Dims) -> [usize; 6] {
    [
        dims.batch,
        dims.heads,
        dims.groups,
        dims.key_dim,
        dims.value_dim,
        dims.capacity,
    ]
}

fn read_dims(reader: &mut Bytes<'_>) -> Result<Dims> {
    let mut size = || reader.word("sizes").map(|word| word as usize);
    let dims = Dims {
        batch: size()?,
        tokens: 0,
        heads: size()?,
        groups: size()?,
        key_dim: size()?,
        value_dim: size()?,
        capacity: size()?,
    };
    dims.check()
        .map_err(|error| refused("sizes", "those of a call", error))?;
    Ok(dims)
}

fn read_config(reader: &mut Bytes<'_>) -> Result<Config> {
    let [backbone, schedule, norm, merge] = reader.take::<4>("settings")?;
    let block = reader.long("block")?;
    let config = Config {
        backbone: word(
            "backbone",
            backbone,
            &[Backbone::Plain, Backbone::Decay, Backbone::Delta],
        )?,
        schedule: word("schedule", schedule, &schedules(block)?)?,
        norm: word("norm", norm, &[Norm::Rms, Norm::None])?,
        merge: word(
            "merge",
            merge,
            &[MergeCost::Density, MergeCost::Ward, MergeCost::Oldest],
        )?,
        epsilon: f64::from_le_bytes(reader.take("epsilon")?),
    };
    config
        .check()
        .map_err(|error| refused("settings", "those of a call", error))?;
    match schedule_code(config.schedule) {
        (_, own) if own == block => Ok(config),
        (_, own) => Err(refused("block", own, block)),
    }
}

fn read_cache<R: Real>(reader: &Bytes<'_>, dims: &Dims) -> Result<Cache<R>> {
    let entries = dims.sequences() * dims.capacity;
    let rest = reader.rest();
    let needed = dims
        .states_len()
        .checked_add(entries)
        .and_then(|reals| reals.checked_mul(R::BYTES))
        .and_then(|bytes| bytes.checked_add(entries.checked_mul(4)?));
    if needed != Some(rest.len()) {
        let expected = needed.map_or("fewer".to_owned(), |needed| needed.to_string());
        return Err(refused("states", format!("{expected} bytes"), rest.len()));
    }
    let (n, reals) = rest.split_at(entries * 4);
    let (info, states) = reals.split_at(entries * R::BYTES);
    Ok(Cache {
        states: read_reals(states),
        n: n.as_chunks()
            .0
            .iter()
            .map(|&b| u32::from_le_bytes(b))
            .collect(),
        info: read_reals(info),
    })
}

fn read_reals<R: Real>(bytes: &[u8]) -> Vec<R> {
    match R::BYTES {
        4 => {
            let singles = bytes.as_chunks().0.iter();
            singles
                .map(|&b| R::from_f64(f32::from_le_bytes(b).into()))
                .collect()
        }
        _ => {
            let doubles = bytes.as_chunks().0.iter();
            doubles
                .map(|&b| R::from_f64(f64::from_le_bytes(b)))
                .collect()
        }
    }
}

/// The code of a schedule, and its block.
fn schedule_code(schedule: Schedule) -> (u8, u64) {
    match schedule {
        Schedule::Single => (0, 0),
        Schedule::Fixed { block } => (1, block as u64),
        Schedule::Fenwick => (2, 0),
        Schedule::Dynamic => (3, 0),
        Schedule::Offline => (4, 0),
    }
}

/// The schedules a session may have, by code.
fn schedules(block: u64) -> Result<[Schedule; 4]> {
    let block = usize::try_from(block).map_err(|_| refused("block", "a size", block))?;
    Ok([
        Schedule::Single,
        Schedule::Fixed { block },
        Schedule::Fenwick,
        Schedule::Dynamic,
    ])
}

fn word<T: Copy>(argument: &'static str, code: u8, values: &[T]) -> Result<T> {
    let value = values.get(usize::from(code)).copied();
    value.ok_or_else(|| refused(argument, format!("below {}", values.len()), code))
}

fn refused(argument: &'static str, expected: impl ToString, got: impl ToString) -> Error {
    Error::file(OP, argument, expected, got)
}
