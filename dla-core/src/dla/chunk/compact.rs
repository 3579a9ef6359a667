//! Stage 3: boundaries and merges become a slot map, from scalars only.

use super::Places;
use super::score::probe;
use crate::backbone::form::Step;
use crate::backbone::{self, Form, Token};
use crate::config::{Backbone, Config, MergeCost, Schedule};
use crate::decisions::Decision;
use crate::dims::Dims;
use crate::dla::readout::weight_index;
use crate::dla::score::Erased;
use crate::dla::{boundary, compact};
use crate::real::Real;
use crate::vector::{add_scaled, dot, square_norm};
use std::ops::Range;

/// A live state's scalars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot<R> {
    /// Where its matrix lies.
    pub place: usize,
    /// Its first source in the current chunk; it holds all up to the next younger slot's first.
    pub first: usize,
    /// Its tokens.
    pub n: u32,
    /// Its information, Ī.
    pub info: R,
}

/// Which state each source belongs to, after each token of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// States that the chunk was entered with; they are the first sources.
    pub entered: usize,
    /// After each token, the first source of every live state, oldest first.
    pub firsts: Vec<Vec<usize>>,
    /// What was decided at each token.
    pub decisions: Vec<Decision>,
}

impl SlotMap {
    /// Live states after token `t`.
    pub fn count(&self, t: usize) -> usize {
        self.firsts[t].len()
    }

    /// The read weight of every source at every token: row t has `entered + t + 1` values.
    ///
    /// `position` tokens came before the chunk; `lambda` holds a row `[capacity]` for each token.
    pub fn weights<R: Real>(
        &self,
        schedule: Schedule,
        position: u64,
        lambda: &[&[R]],
    ) -> Vec<Vec<R>> {
        let row = |(t, firsts): (usize, &Vec<usize>)| {
            let after = position + t as u64 + 1;
            let ends = firsts.iter().skip(1).copied().chain([self.entered + t + 1]);
            let mut row = Vec::with_capacity(self.entered + t + 1);
            for (index, end) in ends.enumerate() {
                let at = weight_index(schedule, after, firsts.len(), index);
                row.resize(end, lambda[t][at]);
            }
            row
        };
        self.firsts.iter().enumerate().map(row).collect()
    }
}

/// Walks a chunk's tokens over the scalars of the states.
#[derive(Clone, Debug)]
pub struct Compactor<'a, R> {
    schedule: Schedule,
    cost: MergeCost,
    backbone: Backbone,
    capacity: usize,
    tau: R,
    slots: Vec<Slot<R>>,
    map: SlotMap,
    moments: Option<Moments<'a, R>>,
}

impl<'a, R: Real> Compactor<'a, R> {
    /// Starts from the states in `places`.
    pub fn new(dims: &Dims, config: &Config, tau: R, places: &Places<R>) -> Self {
        let mut slots = places.slots.clone();
        for (source, slot) in slots.iter_mut().enumerate() {
            slot.first = source;
        }
        let map = SlotMap {
            entered: slots.len(),
            ..SlotMap::default()
        };
        Self {
            schedule: config.schedule,
            cost: config.merge,
            backbone: config.backbone,
            capacity: dims.capacity,
            tau,
            slots,
            map,
            moments: None,
        }
    }

    /// True where merges are decided here and by content, so that [`Compactor::measure`] must come first.
    pub fn needs_moments(&self, forced: Option<&[Decision]>) -> bool {
        self.cost == MergeCost::Ward && forced.is_none()
    }

    /// Carries the states' inner products along, for the cost `ward`.
    pub fn measure(&mut self, form: &'a Form<R>, tokens: &'a [Token<'a, R>], entered: &[&'a [R]]) {
        self.moments = Some(Moments::new(self.backbone, form, tokens, entered));
    }

    /// One token of score `score`; a `forced` decision wins over the rule.
    pub fn step(&mut self, score: R, forced: Option<Decision>) {
        let t = self.map.firsts.len();
        if let Some(moments) = &mut self.moments {
            moments.transition(t, &self.slots);
        }
        let decision = forced.unwrap_or_else(|| self.decide(score));
        let lone = self.slots.len() == 1 && decision.merge_at.is_some();
        if let Some(at) = decision.merge_at {
            self.merge(at);
        }
        let opens = decision.opens && !lone;
        self.write(self.map.entered + t, opens, boundary::information(score));
        if let Some(moments) = &mut self.moments {
            moments.write(t, opens);
        }
        self.map.decisions.push(decision);
        let firsts = self.slots.iter().map(|slot| slot.first).collect();
        self.map.firsts.push(firsts);
    }

    /// The chunk's slot map, and the states' scalars at its end.
    pub fn finish(self) -> (SlotMap, Vec<Slot<R>>) {
        (self.map, self.slots)
    }

    fn decide(&self, score: R) -> Decision {
        let opens = self.slots.is_empty() || boundary::opens(score, self.tau);
        let full = self.slots.len() == self.capacity;
        Decision {
            opens,
            merge_at: (opens && full).then(|| self.cheapest_pair()),
        }
    }

    fn cheapest_pair(&self) -> usize {
        let pair_cost = |at: usize| {
            let (older, younger) = (&self.slots[at], &self.slots[at + 1]);
            let n = [older.n, younger.n];
            match (&self.moments, self.cost) {
                (Some(moments), MergeCost::Ward) => moments.ward(at, n),
                (_, MergeCost::Density) => compact::density([older.info, younger.info], n),
                _ => R::ZERO,
            }
        };
        compact::argmin((1..self.slots.len()).map(|younger| pair_cost(younger - 1)))
    }

    /// The pair keeps the older state's place; the younger's becomes free. Fenwick merges all from `at` on.
    fn merge(&mut self, at: usize) {
        let last = match self.schedule {
            Schedule::Fenwick => self.slots.len(),
            _ => self.slots.len().min(at + 2),
        };
        for _ in at + 1..last {
            let younger = self.slots.remove(at + 1);
            self.slots[at].n += younger.n;
            self.slots[at].info += younger.info;
            if let Some(moments) = &mut self.moments {
                moments.merge(at);
            }
        }
    }

    /// The token, source `source`, opens a state in the first free place or joins the newest.
    fn write(&mut self, source: usize, opens: bool, info: R) {
        let free = |place: &usize| self.slots.iter().all(|slot| slot.place != *place);
        let place = (0..self.capacity).find(free).unwrap_or_default();
        match self.slots.last_mut() {
            Some(open) if !opens => {
                open.n += 1;
                open.info += info;
            }
            _ => self.slots.push(Slot {
                place,
                first: source,
                n: 1,
                info,
            }),
        }
    }
}

/// Inner products of the live states, carried over the tokens without their matrices until one cancels.
#[derive(Clone, Debug)]
struct Moments<'a, R> {
    backbone: Backbone,
    form: &'a Form<R>,
    tokens: &'a [Token<'a, R>],
    entered: Vec<&'a [R]>,
    /// ⟨S_i, S_j⟩ in time order.
    gram: Vec<Vec<R>>,
    /// What each ‖S_i‖² has lost.
    erased: Vec<Erased<R>>,
    /// ⟨s, S_i⟩ of the current token.
    cross: Vec<R>,
    /// The states themselves, from the token on where a ‖S_i‖² cancelled; the products above are out of use then.
    matrices: Option<Vec<Vec<R>>>,
}

impl<'a, R: Real> Moments<'a, R> {
    fn new(
        backbone: Backbone,
        form: &'a Form<R>,
        tokens: &'a [Token<'a, R>],
        entered: &[&'a [R]],
    ) -> Self {
        let row = |a: &&[R]| entered.iter().map(|b| dot(a, b)).collect();
        Self {
            backbone,
            form,
            tokens,
            entered: entered.to_vec(),
            gram: entered.iter().map(row).collect(),
            erased: vec![Erased::default(); entered.len()],
            cross: Vec::new(),
            matrices: None,
        }
    }

    /// Token `t`'s transition: `⟨S_i, S_j⟩ ← decay · (⟨S_i, S_j⟩ + erase · x_i·x_j)`.
    fn transition(&mut self, t: usize, slots: &[Slot<R>]) {
        if let Some(matrices) = &mut self.matrices {
            for matrix in matrices {
                backbone::transition(self.backbone, &self.tokens[t], matrix);
            }
            return;
        }
        let Step {
            decay,
            erase,
            cross,
            ..
        } = self.form.steps[t];
        let spans = self.spans(t, slots);
        let read = |span| probe(self.form, self.tokens, &self.entered, t, span);
        let x: Vec<Vec<R>> = spans.iter().cloned().map(read).collect();
        let mut cancelled = false;
        for (i, (row, x_i)) in self.gram.iter_mut().zip(&x).enumerate() {
            let before = row[i];
            for (value, x_j) in row.iter_mut().zip(&x) {
                *value = decay * (*value + erase * dot(x_i, x_j));
            }
            self.erased[i].transition(decay, before, row[i]);
            cancelled |= self.erased[i].cancels(row[i]);
        }
        self.cross = x.iter().map(|x| cross * dot(x, self.tokens[t].v)).collect();
        if cancelled {
            let matrix = |span| self.matrix(t, span);
            self.matrices = Some(spans.into_iter().map(matrix).collect());
        }
    }

    /// The sources of every state before token `t` is written.
    fn spans(&self, t: usize, slots: &[Slot<R>]) -> Vec<Range<usize>> {
        let sources = self.entered.len() + t;
        let ends = slots.iter().skip(1).map(|slot| slot.first).chain([sources]);
        slots
            .iter()
            .zip(ends)
            .map(|(slot, end)| slot.first..end)
            .collect()
    }

    /// The sum of the sources `span` after the transition of token `t`, by the recurrence.
    fn matrix(&self, t: usize, span: Range<usize>) -> Vec<R> {
        let count = self.entered.len();
        let size = self.tokens[t].k.len() * self.tokens[t].v.len();
        let (mut matrix, mut s) = (vec![R::ZERO; size], vec![R::ZERO; size]);
        for entered in &self.entered[span.start.min(count)..span.end.min(count)] {
            add_scaled(&mut matrix, R::ONE, entered);
        }
        for (j, token) in self.tokens.iter().enumerate().take(t + 1) {
            backbone::transition(self.backbone, token, &mut matrix);
            if span.contains(&(count + j)) {
                backbone::contribution(self.backbone, token, &mut s);
                add_scaled(&mut matrix, R::ONE, &s);
            }
        }
        matrix
    }

    /// The pair `at`, `at + 1` becomes one.
    fn merge(&mut self, at: usize) {
        if let Some(matrices) = &mut self.matrices {
            let younger = matrices.remove(at + 1);
            add_scaled(&mut matrices[at], R::ONE, &younger);
            return;
        }
        let inner = self.gram[at][at + 1];
        let younger = self.gram.remove(at + 1);
        for (value, added) in self.gram[at].iter_mut().zip(younger) {
            *value += added;
        }
        for row in &mut self.gram {
            let added = row.remove(at + 1);
            row[at] += added;
        }
        let added = self.cross.remove(at + 1);
        self.cross[at] += added;
        let younger = self.erased.remove(at + 1);
        self.erased[at].merge(younger, inner);
    }

    /// Token `t`'s contribution enters the newest state or a new one.
    fn write(&mut self, t: usize, opens: bool) {
        if let Some(matrices) = &mut self.matrices {
            let size = self.tokens[t].k.len() * self.tokens[t].v.len();
            let mut s = vec![R::ZERO; size];
            backbone::contribution(self.backbone, &self.tokens[t], &mut s);
            match matrices.last_mut() {
                Some(open) if !opens => add_scaled(open, R::ONE, &s),
                _ => matrices.push(s),
            }
            return;
        }
        if opens || self.gram.is_empty() {
            for row in &mut self.gram {
                row.push(R::ZERO);
            }
            self.gram.push(vec![R::ZERO; self.gram.len() + 1]);
            self.cross.push(R::ZERO);
            self.erased.push(Erased::default());
        }
        let open = self.gram.len() - 1;
        for (i, &cross) in self.cross.iter().enumerate() {
            self.gram[i][open] += cross;
            self.gram[open][i] += cross;
        }
        self.erased[open].join(self.cross[open]);
        self.gram[open][open] += self.form.steps[t].ss;
    }

    fn ward(&self, at: usize, n: [u32; 2]) -> R {
        match &self.matrices {
            Some(matrices) => {
                let (older, younger) = (&matrices[at], &matrices[at + 1]);
                let squares = [square_norm(older), square_norm(younger)];
                compact::ward(n, squares, dot(older, younger))
            }
            None => {
                let squares = [self.gram[at][at], self.gram[at + 1][at + 1]];
                compact::ward(n, squares, self.gram[at][at + 1])
            }
        }
    }
}
