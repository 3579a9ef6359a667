//! `dla bench decode` and `dla bench prefill`: whole models.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dla_core::model::{AttentionConfig, ModelConfig, Rows};
use dla_core::{Error, Result};
use dla_wgpu::model::{Batch, Model, Wanted};
use dla_wgpu::profile::Profile;
use dla_wgpu::{Dispatch, Gpu};
use serde_json::json;

use super::ceiling::Ceiling;
use super::preset::{self, RandomWeights};
use super::{median, millis, scaled};
use crate::args::{Backend, BenchModel, Global};
use crate::report::Report;
use crate::{backend, progress, runner};

/// What generation asks of a step: the most probable token.
const GREEDY: Wanted<'static> = Wanted {
    logits: Rows::None,
    top: 1,
    traces: false,
    lambda: false,
    replay: None,
};

/// Times single tokens after a prompt, each waited for as generation does.
///
/// # Errors
/// Without an adapter, or when model or device refuse.
pub fn decode(args: &BenchModel, global: &Global) -> Result<Report> {
    let bench = Bench::new(args, global)?;
    progress::watched("timing single tokens", || bench.decode(args))
}

/// Times prompts.
///
/// # Errors
/// Without an adapter, or when model or device refuse.
pub fn prefill(args: &BenchModel, global: &Global) -> Result<Report> {
    let bench = Bench::new(args, global)?;
    progress::watched("timing prompts", || bench.prefill(args))
}

struct Bench {
    gpu: Gpu,
    model: Model,
    ceiling: Ceiling,
    name: String,
}

impl Bench {
    fn new(args: &BenchModel, global: &Global) -> Result<Self> {
        if global.backend == Backend::Cpu {
            let expected = "auto or gpu: it times a device";
            return Err(Error::unsupported("bench", "--backend", expected, "cpu"));
        }
        let gpu = backend::open_gpu(global.adapter.clone())?;
        let ceiling = pollster::block_on(Ceiling::measure(&gpu))?;
        let model = progress::watched("loading the model", || load(&gpu, args))?;
        let name = match (&args.model, args.preset) {
            (Some(folder), _) => folder.display().to_string(),
            (None, preset) => format!("random weights, {preset:?}"),
        };
        Ok(Self {
            gpu,
            model,
            ceiling,
            name,
        })
    }

    /// The batch after its prompt.
    fn after_prompt(&self, args: &BenchModel) -> Result<Batch> {
        let mut batch = self.gpu.block_on(self.model.batch(args.batch))?;
        let ids = self.ids(args.tokens);
        let ids = vec![&ids[..]; args.batch];
        self.gpu.block_on(batch.run(&ids, &GREEDY))?;
        Ok(batch)
    }

    fn ids(&self, tokens: usize) -> Vec<u32> {
        let vocabulary = self.model.config().vocabulary as u64;
        let ids = (0..tokens as u64).map(|t| t.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
        ids.map(|id| (id % vocabulary) as u32).collect()
    }

    fn decode(&self, args: &BenchModel) -> Result<Report> {
        let mut batch = self.after_prompt(args)?;
        let mut walls = Vec::new();
        let mut id = 1;
        for _ in 0..args.runs + 2 {
            let start = Instant::now();
            let token = [id];
            let ids = vec![&token[..]; args.batch];
            let taken = self.gpu.block_on(batch.run(&ids, &GREEDY))?;
            walls.push(start.elapsed());
            id = taken[0].top[0].0;
        }
        let wall = median(walls.split_off(2));
        let dispatches = self.gpu.block_on(batch.dispatches(1, &GREEDY))?;
        let (passes, device) = self.profile(&dispatches, args.runs)?;
        let config = self.model.config();
        let states = args.batch as u64 * (2 * config.state_bytes() + attended(config, args.tokens));
        let bytes = self.model.weight_bytes() + states;
        let mut text = format!(
            "{}: {}, weights {}, batch {}, after {} tokens\n\
             {} dispatches a token; {} of weights, {} of states moved\n\
             device {:.3} ms a token ({:.0}% of the copy ceiling), submitted and read back {:.3} ms: {:.0} tokens/s\n",
            self.gpu.info().name,
            self.name,
            scaled(self.model.weight_bytes() as f64, "B"),
            args.batch,
            args.tokens,
            dispatches.len(),
            scaled(self.model.weight_bytes() as f64, "B"),
            scaled(states as f64, "B"),
            millis(device),
            100.0 * bytes as f64 / self.ceiling.bytes / device.as_secs_f64().max(1e-9),
            millis(wall),
            args.batch as f64 / wall.as_secs_f64(),
        );
        text += &table(&passes);
        let json = json!({
            "device": self.gpu.info().name, "model": self.name, "batch": args.batch, "tokens": args.tokens,
            "dispatches": dispatches.len(), "weight_bytes": self.model.weight_bytes(), "state_bytes": states,
            "device_ms": millis(device), "wall_ms": millis(wall), "passes": by_pass(&passes),
            "copy_bytes_per_s": self.ceiling.bytes,
        });
        Ok(Report { text, json })
    }

    fn prefill(&self, args: &BenchModel) -> Result<Report> {
        let ids = self.ids(args.tokens);
        let ids = vec![&ids[..]; args.batch];
        let mut batch = self.gpu.block_on(self.model.batch(args.batch))?;
        let mut walls = Vec::new();
        for _ in 0..args.runs.min(5) + 1 {
            let start = Instant::now();
            self.gpu.block_on(batch.run(&ids, &GREEDY))?;
            walls.push(start.elapsed());
            for item in 0..args.batch {
                self.gpu.block_on(batch.reset(item))?;
            }
        }
        let wall = median(walls.split_off(1));
        let dispatches = self.gpu.block_on(batch.dispatches(args.tokens, &GREEDY))?;
        let (passes, device) = self.profile(&dispatches, 3)?;
        let all = args.batch * args.tokens;
        let flop = 2.0 * parameters(self.model.config()) * all as f64;
        let mut text = format!(
            "{}: {}, weights {}, batch {} of {} tokens\n\
             {:.1} ms: {:.0} tokens/s, {} in the weights alone ({:.0}% of the f32 ceiling)\n\
             the longest piece: {} dispatches, {:.1} ms by the device's clock\n",
            self.gpu.info().name,
            self.name,
            scaled(self.model.weight_bytes() as f64, "B"),
            args.batch,
            args.tokens,
            millis(wall),
            all as f64 / wall.as_secs_f64(),
            scaled(flop / wall.as_secs_f64(), "FLOP/s"),
            100.0 * flop / wall.as_secs_f64() / self.ceiling.f32_flop,
            dispatches.len(),
            millis(device),
        );
        text += &table(&passes);
        let json = json!({
            "device": self.gpu.info().name, "model": self.name, "batch": args.batch, "tokens": args.tokens,
            "wall_ms": millis(wall), "tokens_per_s": all as f64 / wall.as_secs_f64(),
            "piece_dispatches": dispatches.len(), "piece_device_ms": millis(device), "passes": by_pass(&passes),
            "f32_flop_per_s": self.ceiling.f32_flop,
        });
        Ok(Report { text, json })
    }

    /// Time of every pass by name, and of all from the first to the last: medians.
    fn profile(&self, dispatches: &[Dispatch], runs: usize) -> Result<(Passes, Duration)> {
        let (mut spans, mut all) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for _ in 0..runs {
            let mut encoder = self
                .gpu
                .device()
                .create_command_encoder(&Default::default());
            let mut profile = pollster::block_on(Profile::new(&self.gpu, dispatches.len()))?;
            profile.record(dispatches, &mut encoder);
            let readback = pollster::block_on(profile.finish(&self.gpu, &mut encoder))?;
            self.gpu.queue().submit([encoder.finish()]);
            let bytes = readback.wait(&self.gpu)?;
            spans.push(profile.span(&self.gpu, &bytes));
            for (name, time) in profile.times(&self.gpu, &bytes) {
                all.entry(name).or_default().push(time);
            }
        }
        let passes = all.into_iter().map(|(name, times)| (name, median(times)));
        Ok((passes.collect(), median(spans)))
    }
}

type Passes = BTreeMap<&'static str, Duration>;

fn load(gpu: &Gpu, args: &BenchModel) -> Result<Model> {
    let weights = args.weights.into();
    match (&args.model, args.preset) {
        (Some(folder), _) => {
            let checkpoint = runner::open(folder)?;
            let mut source = checkpoint.weights()?;
            gpu.block_on(Model::load(gpu, checkpoint.config(), &mut source, weights))
        }
        (None, Some(preset)) => {
            let config = preset::config(preset, args.capacity);
            let mut source = RandomWeights::new();
            gpu.block_on(Model::load(gpu, &config, &mut source, weights))
        }
        (None, None) => Err(Error::input(
            "bench",
            "--model",
            "a model or a preset",
            "none",
        )),
    }
}

/// Bytes of the keys and values that a token of softmax attention reads after `tokens` tokens.
fn attended(config: &ModelConfig, tokens: usize) -> u64 {
    let values = |attention: &AttentionConfig| 2 * attention.inner() * tokens * config.layers;
    config.attention().map_or(0, values) as u64 * 4
}

/// Weights that every token is multiplied with; only the last token meets the head.
fn parameters(config: &ModelConfig) -> f64 {
    use dla_core::model::{ModelTensors, Names};
    let tensors = ModelTensors::load(config, &mut Names);
    let blocks = tensors.map_or_else(|_| Vec::new(), |tensors| tensors.blocks);
    blocks.iter().map(|block| block.matrices() as f64).sum()
}

fn table(passes: &Passes) -> String {
    let mut rows: Vec<_> = passes.iter().collect();
    rows.sort_by(|a, b| b.1.cmp(a.1));
    let row = |(name, time): (&&str, &Duration)| format!("{name:<24}{:>10.3} ms\n", millis(*time));
    rows.into_iter().map(row).collect()
}

fn by_pass(passes: &Passes) -> serde_json::Value {
    passes
        .iter()
        .map(|(name, time)| ((*name).to_owned(), json!(millis(*time))))
        .collect()
}
