//! One sequence with the book of its states.

use dla_core::model::{Call, ModelSession, ModelSnapshot, Reply, Rows, SLICE, Slices};
use dla_core::nn::embedding::check_ids;
use dla_core::trace::ledger::{Event, Ledger, LiveState};
use dla_core::{Error, Result};
use dla_wgpu::model::{Batch, Wanted};
use js_sys::{Array, Float32Array, Object, Uint32Array};
use wasm_bindgen::JsValue;

use crate::loaded::{Engine, Loaded};
use crate::object::{object, set};
use crate::saved;

/// Ids before a text that its characters may depend on.
const REACH: usize = 8;

/// Slices that are taken in by one run of the model where their logits are not wanted.
const UNITS: usize = 16;

/// What a call tells beside scores and events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// How many bits each token was worth to the model beforehand.
    pub(crate) bits: bool,
    /// How the last token read the states.
    pub(crate) lambda: bool,
}

/// What the slices of a call gave.
#[derive(Debug, Default)]
struct Fed {
    /// `[tokens, layers, heads]`.
    scores: Vec<f32>,
    /// Rows of five.
    events: Vec<u32>,
    /// `[tokens]`.
    bits: Vec<f32>,
    /// Of the last token, by layer.
    lambda: Vec<Vec<f32>>,
}

/// A sequence of the CPU before a call.
#[derive(Debug)]
struct Moment {
    session: ModelSnapshot,
    books: Vec<Ledger>,
    logits: Vec<f32>,
}

/// A sequence where its model runs.
#[derive(Debug)]
enum Running {
    Cpu(ModelSession),
    Gpu(Batch),
}

/// A sequence: the model's, the states' book, and what the next token is drawn from.
#[derive(Debug)]
pub(crate) struct Sequence {
    running: Running,
    /// By layer.
    books: Vec<Ledger>,
    /// The logits after the last token, `[vocabulary]`; empty before the first.
    logits: Vec<f32>,
    /// The last few ids.
    recent: Vec<u32>,
    /// What ended a call in its middle, so that the states are not those of any text.
    broken: Option<Error>,
}

impl Sequence {
    /// A sequence before its first token.
    pub(crate) async fn new(model: &Loaded) -> Result<Self> {
        let running = match &model.engine {
            Engine::Cpu(model) => Running::Cpu(model.session()),
            Engine::Gpu(model) => Running::Gpu(model.batch(1).await?),
        };
        Ok(Self {
            running,
            books: books(model)?,
            logits: Vec::new(),
            recent: Vec::new(),
            broken: None,
        })
    }

    /// The logits after the last token, `[vocabulary]`.
    ///
    /// # Errors
    /// Before the first token, and after a device failed.
    pub(crate) fn logits(&self) -> Result<&[f32]> {
        self.check()?;
        if self.logits.is_empty() {
            let expected = "at least one token to go on from";
            return Err(Error::input("generate", "session", expected, "none"));
        }
        Ok(&self.logits)
    }

    /// The last few ids.
    pub(crate) fn recent(&self) -> &[u32] {
        &self.recent
    }

    fn check(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(error) => Err(error.clone().advise(
                "that ended an earlier call in its middle: reset or restore the session; if the device is lost, \
                 load the model again",
            )),
        }
    }

    /// Takes `ids` in; tells what every layer and head did with them and what is `asked`.
    ///
    /// # Errors
    /// Those of the model's run; nothing is taken in then. A device's failure leaves a sequence that must be reset or
    /// restored.
    pub(crate) async fn feed(
        &mut self,
        model: &Loaded,
        ids: &[u32],
        asked: Asked,
    ) -> Result<Object> {
        self.check()?;
        check_ids(ids, model.config.vocabulary)?;
        let (first, before) = (self.position(), self.moment());
        let mut fed = Fed::default();
        // A slice's logits and traces are read before the next one runs, so memory does not grow with all of them.
        let mut slices = Slices::new(ids, SLICE);
        let units = if asked.bits { 1 } else { UNITS };
        while let Some(slice) = slices.take(units) {
            if let Err(error) = self.take(model, slice, asked, &mut fed).await {
                let halfway = before.is_none() && self.position() > first;
                self.broken = (error.is_device() || halfway).then(|| error.clone());
                self.go_back(before);
                return Err(error);
            }
        }
        self.recent.extend(ids);
        self.recent.drain(..self.recent.len().saturating_sub(REACH));
        let (layers, heads) = (model.config.layers, model.config.dims().heads);
        let piece = object([
            ("first", (first as f64).into()),
            ("tokens", ids.len().into()),
            ("layers", layers.into()),
            ("heads", heads.into()),
            ("ids", Uint32Array::from(ids).into()),
            ("scores", Float32Array::from(&fed.scores[..]).into()),
            ("events", Uint32Array::from(&fed.events[..]).into()),
        ]);
        if asked.bits {
            set(&piece, "bits", Float32Array::from(&fed.bits[..]).into());
        }
        if asked.lambda && !ids.is_empty() {
            let lambda = fed.lambda.concat();
            set(&piece, "lambda", Float32Array::from(&lambda[..]).into());
        }
        Ok(piece)
    }

    /// Takes a slice in and adds what it gives to `fed`.
    async fn take(
        &mut self,
        model: &Loaded,
        slice: &[u32],
        asked: Asked,
        fed: &mut Fed,
    ) -> Result<()> {
        let reply = self.run(model, slice, asked).await?;
        self.follow(model, slice.len(), &reply, fed)?;
        let vocabulary = model.config.vocabulary;
        if asked.bits {
            if self.logits.is_empty() {
                fed.bits.push(f32::NAN);
            }
            let before = self.logits.chunks_exact(vocabulary);
            let rows = before.chain(reply.logits.chunks_exact(vocabulary));
            let known = &slice[usize::from(self.logits.is_empty())..];
            let bits = known.iter().zip(rows).map(|(&id, row)| worth(row, id));
            fed.bits.extend(bits);
        }
        if let Some(last) = reply.logits.chunks_exact(vocabulary).last() {
            self.logits = last.to_vec();
        }
        fed.lambda = reply.lambda;
        Ok(())
    }

    /// What [`Sequence::go_back`] needs; none on a device, whose failures cannot be undone.
    fn moment(&self) -> Option<Moment> {
        match &self.running {
            Running::Cpu(session) => Some(Moment {
                session: session.snapshot(),
                books: self.books.clone(),
                logits: self.logits.clone(),
            }),
            Running::Gpu(_) => None,
        }
    }

    fn go_back(&mut self, moment: Option<Moment>) {
        if let (Running::Cpu(session), Some(moment)) = (&mut self.running, moment) {
            session.rollback(&moment.session);
            (self.books, self.logits) = (moment.books, moment.logits);
        }
    }

    async fn run(&mut self, model: &Loaded, ids: &[u32], asked: Asked) -> Result<Reply> {
        let logits = if asked.bits { Rows::All } else { Rows::Last };
        match (&model.engine, &mut self.running) {
            (Engine::Cpu(model), Running::Cpu(session)) => {
                let call = Call {
                    logits,
                    traces: true,
                    replay: None,
                };
                model.run(session, ids, &call)
            }
            (_, Running::Gpu(batch)) => {
                let wanted = Wanted {
                    logits,
                    traces: true,
                    lambda: asked.lambda,
                    ..Wanted::default()
                };
                let taken = batch.run(&[ids], &wanted).await?.pop().unwrap_or_default();
                Ok(Reply {
                    logits: taken.logits,
                    traces: taken.traces,
                    lambda: taken.lambda,
                })
            }
            (Engine::Gpu(_), Running::Cpu(_)) => unreachable!("a sequence of another model"),
        }
    }

    /// Brings the books up to date with a slice of `tokens` tokens; adds its scores `[tokens, layers, heads]` and events,
    /// rows of token, layer, head, what (0 opened, 1 merged) and the older one's index.
    fn follow(
        &mut self,
        model: &Loaded,
        tokens: usize,
        reply: &Reply,
        fed: &mut Fed,
    ) -> Result<()> {
        let (layers, heads) = (model.config.layers, model.config.dims().heads);
        let before = fed.scores.len();
        fed.scores.resize(before + tokens * layers * heads, 0.0);
        let scores = &mut fed.scores[before..];
        for (layer, (book, trace)) in self.books.iter_mut().zip(&reply.traces).enumerate() {
            for (t, row) in trace.score.chunks_exact(heads).enumerate() {
                scores[(t * layers + layer) * heads..][..heads].copy_from_slice(row);
            }
            book.take(tokens, &trace.score, &trace.decisions, None, |entry| {
                let (what, at) = match entry.event {
                    Event::Opened { .. } => (0, 0),
                    Event::Merged { at, .. } => (1, at as u32),
                    Event::Joined { .. } => return,
                };
                let place = [entry.token as u32, layer as u32, entry.head as u32];
                fed.events.extend(place.into_iter().chain([what, at]));
            })?;
        }
        Ok(())
    }

    /// Tokens taken in.
    pub(crate) fn position(&self) -> u64 {
        match &self.running {
            Running::Cpu(session) => session.position(),
            Running::Gpu(batch) => batch.position(0),
        }
    }

    /// The live states, an array of layers of heads of states.
    pub(crate) fn states(&self, model: &Loaded) -> Array {
        let heads = model.config.dims().heads;
        let states = |book: &Ledger| {
            let head = |head| book.states(0, head).iter().map(live).collect::<Array>();
            (0..heads).map(head).collect::<Array>()
        };
        self.books.iter().map(states).collect()
    }

    /// Everything that later tokens depend on.
    ///
    /// # Errors
    /// Where a device fails or has failed.
    pub(crate) async fn save(&self) -> Result<Vec<u8>> {
        self.check()?;
        let session = match &self.running {
            Running::Cpu(session) => session.save(),
            Running::Gpu(batch) => batch.session(0).await?.save(),
        };
        Ok(saved::write(&self.recent, &self.logits, &session))
    }

    /// Goes on where [`Sequence::save`] was called, or where any backend saved a session.
    ///
    /// # Errors
    /// A file error for bytes of another model or of none; nothing changes then.
    pub(crate) async fn restore(&mut self, model: &Loaded, bytes: &[u8]) -> Result<()> {
        let (recent, logits, bytes) = saved::read(bytes, model.config.vocabulary)?;
        let mut session = ModelSession::new(&model.config);
        session.load(bytes)?;
        let books = restored(model, &session)?;
        match &mut self.running {
            Running::Cpu(running) => *running = session,
            Running::Gpu(batch) => batch.restore(0, &session).await?,
        }
        (self.books, self.recent, self.logits) = (books, recent, logits);
        self.broken = None;
        Ok(())
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// Where a device fails.
    pub(crate) async fn reset(&mut self, model: &Loaded) -> Result<()> {
        match &mut self.running {
            Running::Cpu(session) => session.reset(),
            Running::Gpu(batch) => batch.reset(0).await?,
        }
        self.books = books(model)?;
        self.logits.clear();
        self.recent.clear();
        self.broken = None;
        Ok(())
    }
}

/// The books of a sequence before its first token, by layer.
fn books(model: &Loaded) -> Result<Vec<Ledger>> {
    let book = Ledger::new(model.config.dims(), model.config.operator().schedule)?;
    Ok(vec![book; model.config.layers])
}

/// The books of a sequence that goes on.
fn restored(model: &Loaded, session: &ModelSession) -> Result<Vec<Ledger>> {
    let (dims, schedule) = (model.config.dims(), model.config.operator().schedule);
    let layers = session.layers().iter();
    layers
        .map(|layer| Ledger::from_cache(dims, schedule, &layer.cache))
        .collect()
}

fn live(state: &LiveState) -> JsValue {
    let state = object([
        ("id", (state.id as f64).into()),
        ("start", (state.start as f64).into()),
        ("n", state.n.into()),
        ("info", state.info.into()),
        ("density", state.density().into()),
    ]);
    state.into()
}

/// −log2 of the probability that `logits` gave `id`: NaN if they are no numbers.
fn worth(logits: &[f32], id: u32) -> f32 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&x| f64::from(x - most).exp()).sum();
    match logits.get(id as usize) {
        Some(&own) => ((sum.ln() - f64::from(own - most)) / std::f64::consts::LN_2) as f32,
        None => f32::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::worth;

    #[test]
    fn bits_of_a_choice() {
        assert_eq!(worth(&[0.0; 4], 3), 2.0);
        assert_eq!(worth(&[1000.0, f32::NEG_INFINITY], 0), 0.0);
        assert!(worth(&[0.0, f32::NAN], 0).is_nan());
        assert!(worth(&[0.0; 4], 4).is_nan());
    }
}
