//! Text from a model on a GPU, written as it comes.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use dla_core::checkpoint::Checkpoint;
use dla_core::model::Rows;
use dla_core::sample::{Candidates, Needs, Sampler, SamplerOptions};
use dla_text::Tokenizer;
use dla_wgpu::model::{Model, Wanted};
use dla_wgpu::nn::WeightType;
use dla_wgpu::{Gpu, GpuOptions};

/// Writes the `max_tokens` tokens that follow `prompt`, piece by piece.
fn generate(
    gpu: &Gpu,
    folder: &Path,
    (prompt, max_tokens): (&str, usize),
    options: SamplerOptions,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let checkpoint = Checkpoint::open(folder)?;
    let mut weights = checkpoint.weights()?;
    let load = Model::load(gpu, checkpoint.config(), &mut weights, WeightType::F32);
    let model = gpu.block_on(load)?;
    let mut batch = gpu.block_on(model.batch(1))?; // one sequence
    let vocabulary = model.config().vocabulary;
    let tokenizer = Tokenizer::of(folder, model.config())?;
    let mut sampler = Sampler::new(options)?;
    let wanted = match sampler.needs() {
        Needs::Top(top) => Wanted {
            logits: Rows::None,
            top,
            ..Wanted::default()
        },
        Needs::All => Wanted {
            logits: Rows::Last,
            ..Wanted::default()
        },
    };
    let mut unread = tokenizer.encode(prompt)?;
    let mut decoder = tokenizer.decoder(&unread);
    unread.iter().for_each(|&id| sampler.accept(id));
    for _ in 0..max_tokens {
        let taken = gpu.block_on(batch.run(&[&unread], &wanted))?;
        let candidates = match sampler.needs() {
            Needs::Top(_) => Candidates::Top {
                vocabulary,
                largest: &taken[0].top,
            },
            Needs::All => Candidates::Row(&taken[0].logits),
        };
        let id = sampler.sample(&candidates)?;
        sampler.accept(id);
        out.write_all(decoder.push(id).as_bytes())?;
        out.flush()?;
        if tokenizer.is_end(id) {
            break;
        }
        unread = vec![id];
    }
    out.write_all(decoder.finish().as_bytes())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, prompt] = &words[..] else {
        return Err("usage: gpu MODEL PROMPT".into());
    };
    let gpu = Gpu::new_blocking(&GpuOptions::default())?;
    eprintln!("on {}", gpu.info().name);
    let options = SamplerOptions {
        temperature: 0.8,
        top_k: 40,
        ..SamplerOptions::default()
    };
    generate(
        &gpu,
        folder.as_ref(),
        (prompt, 100),
        options,
        &mut io::stdout(),
    )?;
    println!();
    Ok(())
}

#[cfg(test)]
#[path = "../adapter.rs"]
mod adapter;

#[cfg(test)]
#[path = "../tiny.rs"]
mod tiny;

#[cfg(test)]
mod tests {
    use super::{adapter, generate, tiny};
    use dla_core::Model;
    use dla_core::model::Rows;
    use dla_core::sample::{Candidates, Sampler, SamplerOptions};
    use dla_text::Tokenizer;
    use std::path::Path;

    const TOKENS: usize = 12;

    /// The same text by the CPU's model.
    fn on_cpu(folder: &Path, options: SamplerOptions) -> String {
        let model = Model::load(folder).expect("a model");
        let tokenizer = Tokenizer::of(folder, model.config()).expect("a tokenizer");
        let mut sampler = Sampler::new(options).expect("options");
        let mut session = model.session();
        let mut unread = tokenizer.encode("w7 w9").expect("ids");
        let mut decoder = tokenizer.decoder(&unread);
        let mut text = String::new();
        for _ in 0..TOKENS {
            let last = model.prefill(&mut session, &unread, Rows::Last);
            let last = last.expect("logits");
            let id = sampler.sample(&Candidates::Row(&last)).expect("a token");
            text += &decoder.push(id);
            if tokenizer.is_end(id) {
                break;
            }
            unread = vec![id];
        }
        text + &decoder.finish()
    }

    #[test]
    fn the_text_is_the_cpus_whether_some_logits_are_read_or_all() {
        let Some(gpu) = adapter::gpu() else { return };
        let folder = tiny::model();
        for top_k in [0, 5] {
            let options = SamplerOptions {
                top_k,
                seed: 3,
                ..SamplerOptions::default()
            };
            let mut text = Vec::new();
            let made = ("w7 w9", TOKENS);
            generate(&gpu, folder.path(), made, options, &mut text).expect("a text");
            let text = String::from_utf8(text).expect("UTF-8");
            assert!(text.contains(" w"), "{text:?}");
            assert_eq!(text, on_cpu(folder.path(), options), "top-k of {top_k}");
        }
    }
}
