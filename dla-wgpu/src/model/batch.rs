//! Sequences that go on side by side.

use std::collections::HashMap;

use dla_core::model::ModelSession;
use dla_core::{Error, Result};

use super::Model;
use super::call::{Pending, Piece, Taken, Wanted};
use super::place::Place;
use super::sequences::Sequences;
use super::tile::Tile;
use crate::scope::scoped;
use crate::way::Way;

/// Sequences of one model that go on side by side, each at its own position.
///
/// A call takes any number of tokens of each. The work for a number of tokens is prepared when it is
/// first needed; after that, a call allocates nothing on the device but what carries the ids there
/// and the answers back. Softmax attention keeps the keys and values of every token: where a sequence
/// outgrows their room it is doubled, for all sequences, and work is prepared anew.
#[derive(Debug)]
pub struct Batch {
    pub(super) model: Model,
    pub(super) sequences: Sequences,
    /// Where each sequence is.
    pub(super) places: Vec<Place>,
    /// Prepared work by tokens and by whether decisions are given.
    pub(super) tiles: HashMap<(usize, bool), Tile>,
}

/// A sequence at one moment, kept on the device.
#[derive(Clone, Debug)]
pub struct Snapshot {
    place: Place,
    image: wgpu::Buffer,
    bytes: u64,
}

impl Batch {
    pub(super) async fn new(model: &Model, sequences: usize) -> Result<Self> {
        Ok(Self {
            model: model.clone(),
            sequences: Sequences::new(model.gpu(), model.config(), sequences).await?,
            places: vec![Place::new(model.config()); sequences],
            tiles: HashMap::new(),
        })
    }

    /// Sequences.
    pub fn sequences(&self) -> usize {
        self.places.len()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Tokens that sequence `item` has taken in.
    ///
    /// # Panics
    /// When there is no such sequence.
    pub fn position(&self, item: usize) -> u64 {
        self.places[item].position
    }

    /// Takes in `ids`, one slice a sequence, of any lengths, also none; gives what is wanted, by
    /// sequence. Submits each piece of a long call and reads one back while the next one runs.
    ///
    /// On native somebody must poll the device meanwhile ([`Gpu::block_on`](crate::Gpu::block_on) does).
    ///
    /// # Errors
    /// [`Error::is_input`] for other than one slice a sequence, an id beyond the vocabulary or decisions
    /// that no run could have made, and for any decisions under softmax attention;
    /// [`Error::is_unsupported`] for more tokens than it can have room for on this device: nothing is
    /// taken in then. [`Error::is_device`] where the device fails: what the sequences hold is lost then.
    /// [`Error::is_diverged`] for logits or scores, among those that are read back, that are not finite: the tokens are
    /// taken in.
    pub async fn run(&mut self, ids: &[&[u32]], wanted: &Wanted<'_>) -> Result<Vec<Taken>> {
        let mut call = self.begin(ids, wanted).await?;
        self.make_room(self.longest(&call)).await?;
        let mut taken = vec![Taken::default(); ids.len()];
        let mut waiting: Option<Piece> = None;
        for cut in self.cuts(&call) {
            self.ready(&cut, wanted).await?;
            let gpu = self.model.gpu().clone();
            let piece = scoped(gpu.device(), "model", "call", || {
                let mut encoder = gpu.device().create_command_encoder(&Default::default());
                let piece = self.record_piece(&mut encoder, &cut, &mut call);
                gpu.queue().submit([encoder.finish()]);
                piece
            })
            .await?;
            if let Some(earlier) = waiting.replace(piece) {
                earlier.add_to(&mut taken).await?;
            }
        }
        if let Some(last) = waiting {
            last.add_to(&mut taken).await?;
        }
        Ok(taken)
    }

    /// Records the same into the caller's encoder. Never submits, and never waits for the device, but for decisions to be
    /// followed, which are held to the states that they start from: submit the encoder, then wait for
    /// [`Pending::taken`]. Calls may be recorded one after the other before any is submitted; they are to be submitted
    /// in that order, and before anything else is asked of this batch: [`Batch::snapshot`], [`Batch::rollback`],
    /// [`Batch::reset`], [`Batch::session`], [`Batch::restore`] and calls with decisions act at once on what the device has.
    ///
    /// # Errors
    /// As [`Batch::run`].
    pub async fn record(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        ids: &[&[u32]],
        wanted: &Wanted<'_>,
    ) -> Result<Pending> {
        let mut call = self.begin(ids, wanted).await?;
        let device = self.model.gpu().device().clone();
        let wider = self.sequences.wider(self.model.gpu(), self.longest(&call));
        if let Some(wider) = wider.await? {
            let moved = scoped(&device, "model", "call", || {
                self.sequences.move_to(encoder, &wider, &self.places);
            });
            moved.await?;
            self.settle(wider);
        }
        let mut pieces = Vec::new();
        for cut in self.cuts(&call) {
            self.ready(&cut, wanted).await?;
            let piece = scoped(&device, "model", "call", || {
                self.record_piece(encoder, &cut, &mut call)
            });
            pieces.push(piece.await?);
        }
        Ok(Pending {
            sequences: ids.len(),
            pieces,
        })
    }

    /// Keeps sequence `item` at this moment, in memory of the device.
    ///
    /// # Errors
    /// [`Error::is_input`] when there is no such sequence, [`Error::is_device`] without memory for it.
    pub async fn snapshot(&self, item: usize) -> Result<Snapshot> {
        self.check_item(item)?;
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let tokens = self.position(item);
        let bytes = self.sequences.bytes_each(tokens);
        let image = self.model.gpu().buffer("snapshot", bytes, usage).await?;
        self.submit(|encoder| {
            self.sequences
                .copy(encoder, (item, tokens), &image, Way::Keep);
        })
        .await?;
        Ok(Snapshot {
            place: self.places[item].clone(),
            image,
            bytes,
        })
    }

    /// Takes sequence `item` to a moment of a sequence of this model.
    ///
    /// # Errors
    /// [`Error::is_input`] when there is no such sequence or the snapshot is of a model of other sizes;
    /// [`Error::is_unsupported`] for more tokens than softmax attention can have room for in this batch.
    pub async fn rollback(&mut self, item: usize, snapshot: &Snapshot) -> Result<()> {
        self.check_item(item)?;
        let tokens = snapshot.place.position;
        let bytes = self.sequences.bytes_each(tokens);
        if snapshot.bytes != bytes {
            let got = snapshot.bytes;
            return Err(Error::input(
                "model",
                "snapshot",
                format!("{bytes} bytes"),
                got,
            ));
        }
        self.make_room(tokens).await?;
        self.submit(|encoder| {
            let image = &snapshot.image;
            self.sequences
                .copy(encoder, (item, tokens), image, Way::Restore);
        })
        .await?;
        self.places[item] = snapshot.place.clone();
        Ok(())
    }

    /// Makes sequence `item` a new one.
    ///
    /// # Errors
    /// [`Error::is_input`] when there is no such sequence.
    pub async fn reset(&mut self, item: usize) -> Result<()> {
        self.check_item(item)?;
        self.submit(|encoder| self.sequences.clear(encoder, item))
            .await?;
        self.places[item] = Place::new(self.model.config());
        Ok(())
    }

    /// Reads sequence `item` back, as the CPU's model and saved files have it.
    ///
    /// # Errors
    /// [`Error::is_input`] when there is no such sequence, [`Error::is_device`] where the device fails.
    pub async fn session(&self, item: usize) -> Result<ModelSession> {
        self.check_item(item)?;
        let position = self.position(item);
        let layers = self
            .sequences
            .read(self.model.gpu(), item, position)
            .await?;
        ModelSession::from_layers(self.model.config(), position, layers)
    }

    /// Puts a session of this model, wherever it ran, in the place of sequence `item`.
    ///
    /// # Errors
    /// [`Error::is_input`] when there is no such sequence or the session is another model's;
    /// [`Error::is_unsupported`] for more tokens than softmax attention can have room for in this batch.
    pub async fn restore(&mut self, item: usize, session: &ModelSession) -> Result<()> {
        self.check_item(item)?;
        session.check(self.model.config())?;
        let (layers, position) = (session.layers(), session.position());
        self.make_room(position).await?;
        let gpu = self.model.gpu();
        self.sequences.write(gpu, (item, position), layers).await?;
        self.places[item] = Place::of(self.model.config(), position, layers);
        Ok(())
    }

    /// Sequence `item` as bytes, those of [`ModelSession::save`]: [`Batch::load`] and [`ModelSession::load`] take them.
    ///
    /// # Errors
    /// Those of [`Batch::session`].
    pub async fn save(&self, item: usize) -> Result<Vec<u8>> {
        Ok(self.session(item).await?.save())
    }

    /// Makes sequence `item` the one that [`Batch::save`] or [`ModelSession::save`] has written, wherever it ran.
    ///
    /// # Errors
    /// [`Error::is_file`] for bytes that neither writes for this model, and those of [`Batch::restore`]; the sequence is
    /// as before then, unless the device failed.
    pub async fn load(&mut self, item: usize, bytes: &[u8]) -> Result<()> {
        let mut session = ModelSession::new(self.model.config());
        session.load(bytes)?;
        self.restore(item, &session).await
    }

    /// Makes room for a sequence of `tokens` tokens where there is none.
    async fn make_room(&mut self, tokens: u64) -> Result<()> {
        let wider = self.sequences.wider(self.model.gpu(), tokens).await?;
        if let Some(wider) = wider {
            self.submit(|encoder| self.sequences.move_to(encoder, &wider, &self.places))
                .await?;
            self.settle(wider);
        }
        Ok(())
    }

    /// Goes on in wider memory. What is prepared is bound to the old one.
    fn settle(&mut self, wider: Sequences) {
        self.sequences = wider;
        self.tiles.clear();
    }

    fn check_item(&self, item: usize) -> Result<()> {
        if item < self.sequences() {
            return Ok(());
        }
        let expected = format!("one of {} sequences", self.sequences());
        Err(Error::input("model", "item", expected, item))
    }

    async fn submit(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> Result<()> {
        let gpu = self.model.gpu();
        scoped(gpu.device(), "model", "session", || {
            let mut encoder = gpu.device().create_command_encoder(&Default::default());
            record(&mut encoder);
            gpu.queue().submit([encoder.finish()]);
        })
        .await
    }
}
