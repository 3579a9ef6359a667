//! Parameters on the device: value, gradient and the optimiser's two means of each.

use std::collections::HashMap;

use dla_core::Result;
use dla_core::model::training::AdamWOptions;
use dla_core::model::{ModelConfig, ModelTensors, TensorName};
use dla_wgpu::nn::backward::{self, Decays, Halve};
use dla_wgpu::nn::{self, Matrix, WeightType};
use dla_wgpu::{Dispatch, Gpu, Readback};

use super::layout::{Kind, Layout, ModelLayout, Named};
use crate::settings::Precision;

/// All parameters of a model.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) layout: ModelLayout,
    all: Vec<Parameter>,
}

/// One parameter four times: its value, its gradient, the means of gradients and of their squares.
#[derive(Debug)]
struct Parameter {
    parts: [Part; 4],
    /// The value in f16, where linear maps read that.
    half: Option<Matrix>,
    decays: Decays,
}

#[derive(Debug)]
enum Part {
    Matrix(Matrix),
    Vector(wgpu::Buffer, usize),
}

/// Which of a parameter's four.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    Value = 0,
    Gradient = 1,
    Mean = 2,
    Square = 3,
}

impl Parameters {
    /// Room for the parameters of a model, zeros.
    pub(super) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        options: &AdamWOptions,
        precision: Precision,
    ) -> Result<Self> {
        let layout = ModelLayout::new(config, options)?;
        let mut all = Vec::with_capacity(layout.parameters.len());
        for (place, part) in layout.parameters.iter().enumerate() {
            let [value, gradient, mean, square] = [(); 4].map(|()| Part::new(gpu, part));
            let value = value.await?;
            let half = match &value {
                Part::Matrix(matrix) if precision == Precision::F16 && layout.is_map(place) => {
                    Some(matrix.halved(gpu).await?)
                }
                _ => None,
            };
            all.push(Parameter {
                parts: [value, gradient.await?, mean.await?, square.await?],
                half,
                decays: part.decays,
            });
        }
        Ok(Self { layout, all })
    }

    /// The matrix at a place.
    pub(super) fn matrix(&self, place: usize, which: Which) -> &Matrix {
        match &self.all[place].parts[which as usize] {
            Part::Matrix(matrix) => matrix,
            Part::Vector(..) => unreachable!("the layout has a matrix there"),
        }
    }

    /// The weights of the linear map at a place, as products read them.
    pub(super) fn weight(&self, place: usize) -> &Matrix {
        let half = self.all[place].half.as_ref();
        half.unwrap_or_else(|| self.matrix(place, Which::Value))
    }

    /// The dispatches that make all weights in f16 from the values again.
    pub(super) async fn halve(&self, gpu: &Gpu) -> Result<Vec<Dispatch>> {
        let mut dispatches = Vec::new();
        for (place, parameter) in self.all.iter().enumerate() {
            if let Some(half) = &parameter.half {
                let from = self.matrix(place, Which::Value);
                dispatches.extend(Halve { from }.prepare(gpu, half).await?);
            }
        }
        Ok(dispatches)
    }

    /// The array at a place.
    pub(super) fn vector(&self, place: usize, which: Which) -> &wgpu::Buffer {
        match &self.all[place].parts[which as usize] {
            Part::Vector(buffer, _) => buffer,
            Part::Matrix(_) => unreachable!("the layout has an array there"),
        }
    }

    /// What the optimiser moves.
    pub(super) fn moved(&self) -> Result<Vec<backward::Parameter<'_>>> {
        let mut moved = Vec::new();
        for Parameter { parts, decays, .. } in &self.all {
            match parts {
                [
                    Part::Matrix(x),
                    Part::Matrix(g),
                    Part::Matrix(m),
                    Part::Matrix(v),
                ] => {
                    moved.extend(backward::Parameter::of([x, g, m, v], *decays)?);
                }
                [
                    Part::Vector(x, values),
                    Part::Vector(g, _),
                    Part::Vector(m, _),
                    Part::Vector(v, _),
                ] => {
                    moved.push(backward::Parameter {
                        buffers: [x, g, m, v],
                        values: *values,
                        decays: *decays,
                    });
                }
                _ => unreachable!("four of a kind"),
            }
        }
        Ok(moved)
    }

    /// Records zeros in the place of every gradient.
    pub(super) fn clear_gradients(&self, encoder: &mut wgpu::CommandEncoder) {
        for parameter in &self.all {
            match &parameter.parts[Which::Gradient as usize] {
                Part::Matrix(matrix) => matrix.clear(encoder),
                Part::Vector(buffer, _) => encoder.clear_buffer(buffer, 0, None),
            }
        }
    }

    /// Writes a tree of tensors to one of the four.
    pub(super) async fn write(
        &self,
        gpu: &Gpu,
        config: &ModelConfig,
        which: Which,
        tensors: &ModelTensors<Vec<f32>>,
    ) -> Result<()> {
        let names = ModelTensors::<TensorName>::names(config)?;
        let named: Named = names
            .zip(tensors.each_ref())?
            .into_iter()
            .map(|(name, values)| (name.name, values.clone()))
            .collect();
        for (layout, parameter) in self.layout.parameters.iter().zip(&self.all) {
            let packed = layout.pack(&named)?;
            match &parameter.parts[which as usize] {
                Part::Matrix(matrix) => matrix.write(gpu, 0, &packed).await?,
                Part::Vector(buffer, _) => {
                    gpu.queue()
                        .write_buffer(buffer, 0, bytemuck::cast_slice(&packed));
                }
            }
        }
        gpu.queue().submit([]);
        Ok(())
    }

    /// Reads one of the four back as a tree of tensors.
    pub(super) async fn read(
        &self,
        gpu: &Gpu,
        config: &ModelConfig,
        which: Which,
    ) -> Result<ModelTensors<Vec<f32>>> {
        let mut named: Named = HashMap::new();
        for (layout, parameter) in self.layout.parameters.iter().zip(&self.all) {
            let packed = match &parameter.parts[which as usize] {
                Part::Matrix(matrix) => matrix.read(gpu).await?,
                Part::Vector(buffer, values) => {
                    let mut encoder = gpu.device().create_command_encoder(&Default::default());
                    let size = *values as u64 * 4;
                    let readback = Readback::record(gpu, &mut encoder, buffer, size).await?;
                    gpu.queue().submit([encoder.finish()]);
                    bytemuck::pod_collect_to_vec(&readback.bytes().await?)
                }
            };
            layout.unpack(&packed, &mut named);
        }
        let names = ModelTensors::<TensorName>::names(config)?;
        Ok(names.map(|tensor| named.remove(&tensor.name).unwrap_or_default()))
    }
}

impl Part {
    async fn new(gpu: &Gpu, layout: &Layout) -> Result<Self> {
        match layout.kind {
            Kind::Matrix { columns } => {
                let rows = layout.len() / columns;
                Ok(Self::Matrix(
                    Matrix::new(gpu, rows, columns, WeightType::F32).await?,
                ))
            }
            Kind::Vector { .. } | Kind::Conv { .. } => {
                let values = layout.len();
                Ok(Self::Vector(
                    nn::buffer(gpu, "parameter", values).await?,
                    values,
                ))
            }
        }
    }
}
