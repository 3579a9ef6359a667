//! The chunk passes one by one: what each left behind, against the stage of its name in dla-core.

use dla_core::backbone::{self, Form, Token};
use dla_core::dla::chunk::compact::{Compactor, SlotMap};
use dla_core::dla::chunk::score::{self, Candidate, Rule};
use dla_core::dla::chunk::{Places, boundary_scan, output, state};
use dla_core::dla::score::Score;
use dla_core::dla::sequence::Sequence;
use dla_core::vector::{add_scaled, square_norm};
use dla_core::{Backbone, Inputs};
use dla_tests::cases::{Case, dims};
use dla_tests::gpu::{checked_gpu, gpu};
use dla_tests::rig::Rig;
use dla_tests::tolerance::{assert_near, assert_scores_near};
use dla_wgpu::Gpu;
use dla_wgpu::op::{Options, Path};

const CHUNK: usize = 16;
const TOLERANCE: f64 = 1e-4;

#[test]
fn every_pass_equals_its_stage() {
    let Some(gpu) = gpu() else { return };
    cases().iter().for_each(|case| check(gpu, case));
}

#[test]
fn every_pass_equals_its_stage_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    cases().iter().for_each(|case| check(gpu, case));
}

/// Both backbones, unequal lengths that end inside a chunk, groups; and a single state, which never restarts.
fn cases() -> [Case; 3] {
    let mut decay = Case::new("stages", dims([2, 75, 4, 2, 12, 8, 4]));
    decay.lengths = Some(vec![75, 40]);
    let mut delta = Case {
        name: "stages_delta",
        ..decay.clone()
    };
    delta.config.backbone = Backbone::Delta;
    [
        decay,
        delta,
        Case::new("stages_one_state", dims([1, 40, 2, 1, 9, 5, 1])),
    ]
}

fn check(gpu: &Gpu, case: &Case) {
    let options = Options {
        chunk: Some(CHUNK),
        path: Path::Chunks,
        ..Default::default()
    };
    let rig = Rig::new(gpu, case, &options).expect("a rig");
    let arrays = case.arrays();
    rig.run(&arrays).expect("a run");
    let wide = arrays.wide();
    for sequence in 0..case.dims.sequences() {
        Walk::new(&rig, case, &wide.inputs(None), sequence).check();
    }
}

/// One sequence of the device's buffers beside the reference's stages.
struct Walk<'a> {
    rig: &'a Rig,
    case: &'a Case,
    tokens: Vec<Token<'a, f64>>,
    lambda: Vec<&'a [f64]>,
    tau: f64,
    sequence: usize,
}

/// A chunk as the reference sees it.
struct Chunk<'a> {
    tokens: &'a [Token<'a, f64>],
    first: usize,
    index: usize,
    form: Form<f64>,
    entered: Places<f64>,
}

impl<'a> Walk<'a> {
    fn new(rig: &'a Rig, case: &'a Case, inputs: &'a Inputs<'a, f64>, sequence: usize) -> Self {
        let (b, h) = (sequence / case.dims.heads, sequence % case.dims.heads);
        let source = Sequence::new(&case.dims, inputs, b, h);
        Self {
            rig,
            case,
            tokens: (0..source.len()).map(|t| source.token(t)).collect(),
            lambda: (0..source.len()).map(|t| source.lambda(t)).collect(),
            tau: source.tau(),
            sequence,
        }
    }

    fn check(&self) {
        let mut places = Places::new(&self.case.dims, &[]);
        for (index, tokens) in self.tokens.chunks(CHUNK).enumerate() {
            let chunk = Chunk {
                tokens,
                first: index * CHUNK,
                index,
                form: backbone::form(self.case.config.backbone, tokens),
                entered: places,
            };
            places = self.chunk(&chunk);
        }
    }

    /// Holds every pass to its stage over one chunk; returns the states at its end.
    fn chunk(&self, chunk: &Chunk<'_>) -> Places<f64> {
        let Case { dims, config, .. } = self.case;
        self.chunk_decay(chunk);
        if config.backbone == Backbone::Delta {
            self.delta_wy(chunk);
            self.delta_read(chunk);
            self.delta_probe(chunk);
        }
        let rule = Rule {
            score: Score::new(dims, config),
            tau: self.tau,
            forced: None,
            restarts: dims.capacity > 1,
        };
        let (form, tokens) = (&chunk.form, chunk.tokens);
        let candidates = score::candidates(&rule, form, &score::sums(form, tokens));
        self.score(chunk, &candidates);
        let entered = chunk.entered.entered();
        let open = entered.last().copied();
        let candidate = open.map(|open| score::entered(&rule, form, tokens, open));
        let zeros = vec![0.0; dims.state_len()];
        let scan = boundary_scan::follow(candidate.as_ref(), &candidates, |start| {
            let open = open.unwrap_or(&zeros);
            score::measured(&rule, config.backbone, tokens, open, start)
        });
        let scores = scan.scores;
        let mut compactor = Compactor::new(dims, config, self.tau, &chunk.entered);
        scores.iter().for_each(|&score| compactor.step(score, None));
        let (map, slots) = compactor.finish();
        self.boundary_scan(chunk, &scores, &map);
        self.compact(chunk, &map);
        self.chunk_state(chunk);
        let lambda = &self.lambda[chunk.first..][..tokens.len()];
        let weights = map.weights(config.schedule, chunk.entered.position(), lambda);
        let mut o = output::readout(form, &entered, &weights, dims.value_dim);
        self.near(chunk, "carried", 0..o.len(), CHUNK * dims.value_dim, &o);
        output::chunk_output(form, tokens, &weights, &mut o);
        self.chunk_output(chunk, &o);
        state::chunk_state(form, tokens, &chunk.entered, slots)
    }

    fn chunk_decay(&self, chunk: &Chunk<'_>) {
        let decay = running_decay(chunk.tokens);
        self.near(chunk, "decay", 0..decay.len(), CHUNK, &decay);
    }

    /// P below the diagonal and |k_t|² on it, and K̃.
    fn delta_wy(&self, chunk: &Chunk<'_>) {
        let form = &chunk.form;
        for (t, token) in chunk.tokens.iter().enumerate() {
            let mut row = form.probe[t * form.len..][..t].to_vec();
            row.push(square_norm(token.k));
            let at = t * CHUNK;
            self.near(chunk, "probes", at..at + row.len(), CHUNK * CHUNK, &row);
        }
        let size = CHUNK * self.case.dims.key_dim;
        self.near(chunk, "write_keys", 0..form.write.len(), size, &form.write);
        let decay = running_decay(chunk.tokens);
        for d in 0..self.case.dims.key_dim {
            let keys = chunk.tokens.iter().zip(&decay);
            let keys: Vec<f64> = keys.map(|(token, a)| a.exp() * token.k[d]).collect();
            let at = d * CHUNK;
            self.near(chunk, "erase_keys", at..at + keys.len(), size, &keys);
        }
    }

    /// M and q̃.
    fn delta_read(&self, chunk: &Chunk<'_>) {
        let form = &chunk.form;
        for t in 0..form.len {
            let row = &form.read[t * form.len..][..=t];
            let at = t * CHUNK;
            self.near(chunk, "mixes", at..at + row.len(), CHUNK * CHUNK, row);
        }
        let size = CHUNK * self.case.dims.key_dim;
        self.near(
            chunk,
            "read_queries",
            0..form.query.len(),
            size,
            &form.query,
        );
    }

    /// What the keys read entered states with, and what they read of the chunk's values; to that the scan has
    /// added what they read of an open state.
    fn delta_probe(&self, chunk: &Chunk<'_>) {
        let (form, dims) = (&chunk.form, &self.case.dims);
        let width = dims.key_dim + dims.value_dim;
        for t in 0..form.len {
            let mut row = form.probe_query[t * dims.key_dim..][..dims.key_dim].to_vec();
            if chunk.entered.slots.is_empty() {
                let mut value = vec![0.0; dims.value_dim];
                for (j, token) in chunk.tokens[..t].iter().enumerate() {
                    add_scaled(&mut value, form.probe[t * form.len + j], token.v);
                }
                row.extend(value);
            }
            let range = t * width..t * width + row.len();
            self.near(chunk, "probe_keys", range, CHUNK * width, &row);
        }
    }

    /// What every start would lead to.
    fn score(&self, chunk: &Chunk<'_>, candidates: &[Candidate<f64>]) {
        let delta = self.case.config.backbone == Backbone::Delta;
        let (rows, squares) = if delta { (5, 3) } else { (3, 1) };
        let ss: Vec<f64> = chunk.form.steps.iter().map(|step| step.ss).collect();
        let at = squares * CHUNK;
        self.near(chunk, "sums", at..at + ss.len(), rows * CHUNK, &ss);
        let next = |c: &Candidate<f64>| (c.next + usize::from(c.cancelled) * CHUNK) as f64;
        let next: Vec<f64> = candidates.iter().map(next).collect();
        let at = (rows - 1) * CHUNK;
        self.near(chunk, "sums", at..at + next.len(), rows * CHUNK, &next);
        let pairs = CHUNK * (CHUNK - 1) / 2;
        let scores = self.cell(chunk, "scores", pairs);
        for (p, candidate) in candidates.iter().enumerate() {
            let got: Vec<f32> = (0..candidate.scores.len())
                .map(|i| candidate.from + i)
                .map(|t| f32::from_bits(scores[t * (t - 1) / 2 + p]))
                .collect();
            let expected: Vec<f32> = candidate.scores.iter().map(|&x| x as f32).collect();
            assert_scores_near(&self.name(chunk, "scores"), &got, &expected);
        }
    }

    /// The scores that come true, and what `compact` made of them.
    fn boundary_scan(&self, chunk: &Chunk<'_>, scores: &[f64], map: &SlotMap) {
        let records = self.rig.read(&self.rig.arrays.trace).expect("the trace");
        let name = self.name(chunk, "trace");
        for (t, decision) in map.decisions.iter().enumerate() {
            let at = (self.sequence * self.case.dims.tokens + chunk.first + t) * 2;
            let (score, event) = (f32::from_bits(records[at]), records[at + 1]);
            assert_scores_near(&name, &[score], &[scores[t] as f32]);
            let merged = decision.merge_at.map_or(0, |index| index as u32 + 1);
            let count = map.count(t) as u32;
            let expected = u32::from(decision.opens) | merged << 8 | count << 16;
            assert_eq!(event, expected, "{name}, token {t}");
        }
    }

    /// The slot map, and the record of the states that the chunk is entered with.
    fn compact(&self, chunk: &Chunk<'_>, map: &SlotMap) {
        let slots = self.cell(chunk, "slots", CHUNK * 4);
        for (t, firsts) in map.firsts.iter().enumerate() {
            let mut bits = [0u32; 4];
            for &source in firsts {
                let bit = source.checked_sub(map.entered).map_or(source, |t| 64 + t);
                bits[bit / 32] |= 1 << (bit % 32);
            }
            assert_eq!(slots[t * 4..][..4], bits, "{}", self.name(chunk, "slots"));
        }
        let (entry, name) = (self.entry(chunk), self.name(chunk, "entries"));
        let header = [map.entered as u32, chunk.tokens.len() as u32];
        assert_eq!(entry[..2], header, "{name}");
        for (i, slot) in chunk.entered.slots.iter().enumerate() {
            assert_eq!(
                entry[2 + 2 * i] & 255,
                slot.place as u32,
                "{name}, state {i}"
            );
        }
    }

    /// The states that the chunk is entered with: each is a version, decayed since it was written.
    fn chunk_state(&self, chunk: &Chunk<'_>) {
        let Case { dims, .. } = self.case;
        let entry = self.entry(chunk);
        let versions = self.rig.workspace("versions").expect("versions");
        let first_cell = self.sequence * self.rig.plan().segment_chunks;
        for (i, state) in chunk.entered.entered().into_iter().enumerate() {
            let (place, version) = (entry[2 + 2 * i] & 255, entry[2 + 2 * i] >> 8);
            let stale = f32::from_bits(entry[3 + 2 * i]);
            let row = (first_cell + version as usize) * dims.capacity + place as usize;
            let matrix = versions[row * dims.state_len()..][..dims.state_len()].iter();
            let got: Vec<f32> = matrix
                .map(|&word| stale.exp() * f32::from_bits(word))
                .collect();
            let name = self.name(chunk, "versions");
            assert_near(&name, "entered", &got, state, TOLERANCE);
        }
    }

    fn chunk_output(&self, chunk: &Chunk<'_>, expected: &[f64]) {
        let Case { dims, .. } = self.case;
        let o = self.rig.read(&self.rig.arrays.o).expect("the output");
        let (b, h) = (self.sequence / dims.heads, self.sequence % dims.heads);
        for (t, expected) in expected.chunks_exact(dims.value_dim).enumerate() {
            let at = dims.token_head(b, chunk.first + t, h) * dims.value_dim;
            let got = floats(&o[at..][..dims.value_dim]);
            assert_near(&self.name(chunk, "o"), "o", &got, expected, TOLERANCE);
        }
    }

    /// Compares a range of the chunk's record of `size` values in a workspace buffer.
    fn near(
        &self,
        chunk: &Chunk<'_>,
        buffer: &'static str,
        range: std::ops::Range<usize>,
        size: usize,
        expected: &[f64],
    ) {
        let got = floats(&self.cell(chunk, buffer, size)[range]);
        let name = self.name(chunk, buffer);
        assert_near(&name, buffer, &got, expected, TOLERANCE);
    }

    /// The chunk's record of `words` words in a workspace buffer.
    fn cell(&self, chunk: &Chunk<'_>, buffer: &'static str, words: usize) -> Vec<u32> {
        let cell = self.sequence * self.rig.plan().segment_chunks + chunk.index;
        let all = self.rig.workspace(buffer).expect(buffer);
        all[cell * words..][..words].to_vec()
    }

    /// The chunk's record in `entries`: live states and tokens, then each state's place and version, and decay.
    fn entry(&self, chunk: &Chunk<'_>) -> Vec<u32> {
        let words = 2 * (self.case.dims.capacity + 1);
        let records = self.rig.plan().segment_chunks + 1;
        let all = self.rig.workspace("entries").expect("entries");
        all[(self.sequence * records + chunk.index) * words..][..words].to_vec()
    }

    fn name(&self, chunk: &Chunk<'_>, buffer: &str) -> String {
        let (case, sequence) = (self.case.name, self.sequence);
        format!(
            "{case}, {buffer} of sequence {sequence}, chunk {}",
            chunk.index
        )
    }
}

/// A, the running sum of g.
fn running_decay(tokens: &[Token<'_, f64>]) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |token: &Token<'_, f64>| {
        sum += token.g;
        sum
    };
    tokens.iter().map(add).collect()
}

fn floats(words: &[u32]) -> Vec<f32> {
    words.iter().map(|&word| f32::from_bits(word)).collect()
}
