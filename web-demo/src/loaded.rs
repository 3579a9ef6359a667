//! A model that is loaded: on the browser's GPU, or on the CPU.

use std::rc::Rc;

use dla_core::checkpoint::Checkpoint;
use dla_core::model::ModelConfig;
use dla_core::{Error, Model as CpuModel, Result};
use dla_wgpu::model::Model as GpuModel;
use dla_wgpu::nn::WeightType;
use dla_wgpu::{Gpu, GpuOptions};
use js_sys::{Float32Array, Object};
use wasm_bindgen::JsValue;

use crate::object::object;
use crate::settings::{Adapted, Settings, word};

/// What runs it.
#[derive(Debug)]
pub(crate) enum Engine {
    /// The reference in plain Rust.
    Cpu(Box<CpuModel>),
    /// The passes on a device.
    Gpu(GpuModel),
}

/// A model that is loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    pub(crate) config: ModelConfig,
    checkpoint: Rc<Checkpoint>,
    /// Why the CPU runs it though a GPU was looked for.
    note: Option<String>,
}

impl Loaded {
    pub(crate) async fn open(
        checkpoint: Rc<Checkpoint>,
        settings: &Settings,
        backend: &str,
    ) -> Result<Self> {
        checkpoint.config().require_states("load", "model_type")?;
        if !["auto", "gpu", "cpu"].contains(&backend) {
            return Err(Error::input("load", "backend", "auto, gpu or cpu", backend));
        }
        if backend != "cpu" {
            let opened = match Gpu::new(&GpuOptions::default()).await {
                Ok(gpu) => Self::on_gpu(&gpu, &checkpoint, settings).await,
                Err(error) => Err(error),
            };
            return match opened {
                Err(error) if backend == "auto" && !error.is_input() => {
                    Self::on_cpu(checkpoint, settings, Some(error.to_string()))
                }
                opened => opened,
            };
        }
        Self::on_cpu(checkpoint, settings, None)
    }

    async fn on_gpu(gpu: &Gpu, checkpoint: &Rc<Checkpoint>, settings: &Settings) -> Result<Self> {
        let trained = checkpoint.config();
        let config = settings.apply(trained)?;
        let mut weights = Adapted::new(checkpoint.weights()?, trained, settings);
        let model = GpuModel::load(gpu, &config, &mut weights, WeightType::F32).await?;
        Ok(Self {
            engine: Engine::Gpu(model),
            config,
            checkpoint: checkpoint.clone(),
            note: None,
        })
    }

    fn on_cpu(
        checkpoint: Rc<Checkpoint>,
        settings: &Settings,
        note: Option<String>,
    ) -> Result<Self> {
        let trained = checkpoint.config();
        let config = settings.apply(trained)?;
        let mut weights = Adapted::new(checkpoint.weights()?, trained, settings);
        let model = CpuModel::build(&config, &mut weights)?;
        drop(weights);
        Ok(Self {
            engine: Engine::Cpu(model.into()),
            config,
            checkpoint,
            note,
        })
    }

    pub(crate) async fn with(&self, settings: &Settings) -> Result<Self> {
        match &self.engine {
            Engine::Cpu(_) => Self::on_cpu(self.checkpoint.clone(), settings, self.note.clone()),
            Engine::Gpu(model) => Self::on_gpu(model.gpu(), &self.checkpoint, settings).await,
        }
    }

    /// τ of each head of layer `layer`; empty where the schedule has none.
    fn tau(&self, layer: usize) -> &[f32] {
        match &self.engine {
            Engine::Cpu(model) => model.tau(layer),
            Engine::Gpu(model) => model.tau(layer),
        }
    }

    pub(crate) fn info(&self) -> Object {
        let (config, dims) = (&self.config, self.config.dims());
        let tau: Vec<f32> = (0..config.layers)
            .flat_map(|layer| self.tau(layer))
            .copied()
            .collect();
        let (backend, device) = match &self.engine {
            Engine::Cpu(_) => ("cpu", "CPU".to_owned()),
            Engine::Gpu(model) => ("gpu", model.gpu().info().name),
        };
        object([
            ("family", config.family.to_string().into()),
            ("parameters", (self.checkpoint.parameters() as f64).into()),
            ("layers", config.layers.into()),
            ("heads", dims.heads.into()),
            ("hidden", config.hidden.into()),
            ("vocabulary", config.vocabulary.into()),
            ("capacity", dims.capacity.into()),
            ("schedule", word(config.operator().schedule).into()),
            ("stateBytes", (config.state_bytes() as f64).into()),
            ("tau", Float32Array::from(&tau[..]).into()),
            ("backend", backend.into()),
            ("device", device.into()),
            ("note", self.note.clone().map_or(JsValue::NULL, Into::into)),
            ("trained", trained(self.checkpoint.config()).into()),
        ])
    }
}

/// The memory's settings in the checkpoint.
fn trained(config: &ModelConfig) -> Object {
    object([
        ("capacity", config.dims().capacity.into()),
        ("schedule", word(config.operator().schedule).into()),
    ])
}
