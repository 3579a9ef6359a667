//! A model on the device of an application, in its frames and its submissions.

use std::error::Error;
use std::path::Path;

use dla_core::checkpoint::Checkpoint;
use dla_core::model::Rows;
use dla_text::Tokenizer;
use dla_wgpu::model::{Batch, Model, Pending, Wanted};
use dla_wgpu::nn::WeightType;
use dla_wgpu::{Gpu, wgpu};

/// The application: its device, and something that it computes itself in every frame.
struct App {
    device: wgpu::Device,
    queue: wgpu::Queue,
    frames: wgpu::Buffer,
}

impl App {
    /// Opens a device as the application does for its own work.
    async fn new(adapter: &wgpu::Adapter) -> Result<Self, Box<dyn Error>> {
        // Optional: the kernels are faster where a device has these, and limits of large models are the adapter's.
        let useful = wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
        let descriptor = wgpu::DeviceDescriptor {
            required_features: adapter.features() & useful,
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let (device, queue) = adapter.request_device(&descriptor).await?;
        let frames = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("the application's"),
            size: 4,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        Ok(Self {
            device,
            queue,
            frames,
        })
    }

    /// One frame: the application's own commands and the model's, in one submission.
    async fn frame(&self, batch: &mut Batch, ids: &[u32]) -> dla_core::Result<Pending> {
        let wanted = Wanted {
            logits: Rows::None,
            top: 1,
            ..Wanted::default()
        };
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.clear_buffer(&self.frames, 0, None); // here the application draws
        let pending = batch.record(&mut encoder, &[ids], &wanted).await?;
        self.queue.submit([encoder.finish()]);
        Ok(pending)
    }
}

/// The `count` most probable tokens after `text`, a frame for each.
fn go_on(app: &App, folder: &Path, text: &str, count: usize) -> Result<String, Box<dyn Error>> {
    let gpu = Gpu::from_host(app.device.clone(), app.queue.clone(), false);
    let checkpoint = Checkpoint::open(folder)?;
    let mut weights = checkpoint.weights()?;
    let load = Model::load(&gpu, checkpoint.config(), &mut weights, WeightType::F32);
    let model = gpu.block_on(load)?;
    let mut batch = gpu.block_on(model.batch(1))?;
    let tokenizer = Tokenizer::of(folder, model.config())?;
    let mut ids = tokenizer.encode(text)?;
    let mut decoder = tokenizer.decoder(&ids);
    let mut made = String::new();
    for _ in 0..count {
        let pending = gpu.block_on(app.frame(&mut batch, &ids))?;
        // An application with a loop of its own polls the device there and asks for the answer in a later frame.
        let taken = gpu.block_on(pending.taken())?;
        let (id, _) = taken[0].top[0];
        made += &decoder.push(id);
        if tokenizer.is_end(id) {
            break;
        }
        ids = vec![id];
    }
    Ok(made + &decoder.finish())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, text] = &words[..] else {
        return Err("usage: own_device MODEL TEXT".into());
    };
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&Default::default()))?;
    let app = pollster::block_on(App::new(&adapter))?;
    println!("{text}{}", go_on(&app, folder.as_ref(), text, 60)?);
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
    use super::{App, adapter, go_on, tiny};
    use dla_core::Model;
    use dla_core::model::Rows;
    use dla_core::sample::largest;
    use dla_text::Tokenizer;
    use dla_wgpu::Gpu;
    use std::path::Path;

    fn on_cpu(folder: &Path, text: &str, count: usize) -> String {
        let model = Model::load(folder).expect("a model");
        let tokenizer = Tokenizer::of(folder, model.config()).expect("a tokenizer");
        let mut ids = tokenizer.encode(text).expect("ids");
        let mut decoder = tokenizer.decoder(&ids);
        let (mut session, mut made) = (model.session(), String::new());
        for _ in 0..count {
            let last = model.prefill(&mut session, &ids, Rows::Last);
            let last = last.expect("logits");
            let (id, _) = largest(&last, 1).expect("logits")[0];
            made += &decoder.push(id);
            if tokenizer.is_end(id) {
                break;
            }
            ids = vec![id];
        }
        made + &decoder.finish()
    }

    #[test]
    fn the_applications_frames_carry_the_model() {
        let Some(gpu) = adapter::gpu() else { return };
        let name = gpu.info().name;
        let adapters = Gpu::adapters();
        let same = |adapter: &&dla_wgpu::wgpu::Adapter| adapter.get_info().name == name;
        let adapter = adapters.iter().find(same).expect("the tests' adapter");
        let app = pollster::block_on(App::new(adapter)).expect("a device");
        let folder = tiny::model();
        let text = go_on(&app, folder.path(), "w7 w9", 10).expect("a text");
        assert!(text.contains(" w"), "{text:?}");
        assert_eq!(text, on_cpu(folder.path(), "w7 w9", 10));
    }
}
