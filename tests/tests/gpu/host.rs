//! An application's own device: the operator records into its encoders, submits nothing, and never panics.

use dla_core::dla::recurrent;
use dla_tests::cases::{Arrays, Case, dims};
use dla_tests::gpu::gpu;
use dla_tests::rig::{POISON, Rig};
use dla_tests::tolerance::assert_near;
use dla_wgpu::op::{self, Decider, Operator, Options, Path};
use dla_wgpu::{Gpu, Readback, Variant};

/// A device as an application opens it: default limits, no features.
fn host() -> Option<Gpu> {
    let name = gpu()?.info().name;
    let adapters = Gpu::adapters();
    let adapter = adapters
        .iter()
        .find(|adapter| adapter.get_info().name == name)
        .expect("the tests' adapter");
    let (device, queue) = pollster::block_on(adapter.request_device(&Default::default()))
        .expect("a device with default limits");
    Some(Gpu::from_host(device, queue, false))
}

fn case() -> Case {
    Case::new("host", dims([2, 40, 2, 1, 12, 8, 4]))
}

fn options(path: Path) -> Options {
    Options {
        chunk: Some(16),
        path,
        ..Default::default()
    }
}

fn reference(case: &Case, arrays: &Arrays) -> Vec<f64> {
    let wide = arrays.wide();
    let output = recurrent::forward(&case.dims, &case.config, &wide.inputs(None), None);
    output.expect("a case of the table").o
}

#[test]
fn a_call_runs_between_the_hosts_own_work_when_the_host_submits() {
    let Some(gpu) = host() else { return };
    assert_eq!(gpu.variant(), Variant::default(), "no features");
    let (case, arrays) = (case(), case().arrays());
    for path in [Path::Chunks, Path::Steps] {
        let rig = Rig::new(&gpu, &case, &options(path)).expect("a rig");
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        let kept = gpu.device().create_buffer(&wgpu::BufferDescriptor {
            label: Some("the host's"),
            size: rig.arrays.o.size(),
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        encoder.copy_buffer_to_buffer(&rig.arrays.o, 0, &kept, 0, kept.size());
        rig.record(&arrays, &mut encoder).expect("a recording");
        encoder.clear_buffer(&rig.arrays.trace, 0, None);

        // The rest of the queue goes on; what was recorded has not happened.
        let before = rig.read(&rig.arrays.o).expect("the output");
        assert!(before.iter().all(|&word| word == POISON), "{path:?}");
        gpu.queue().submit([encoder.finish()]);
        let o = rig.output().expect("the output");
        assert_near(case.name, "o", &o, &reference(&case, &arrays), 1e-4);
        let kept = rig.read(&kept).expect("the host's copy");
        assert!(kept.iter().all(|&word| word == POISON), "{path:?}: before");
        let trace = rig.read(&rig.arrays.trace).expect("the trace");
        assert!(trace.iter().all(|&word| word == 0), "{path:?}: behind");
    }
}

#[test]
fn futures_can_move_between_threads() {
    fn movable<T: Send>(future: T) -> T {
        future
    }
    let Some(gpu) = host() else { return };
    let (case, arrays) = (case(), case().arrays());
    let (inputs, options) = (arrays.inputs(None), Options::default());
    let run = op::run_async(&gpu, &case.dims, &case.config, &inputs, None, &options);
    let output = gpu.block_on(movable(run)).expect("a run");
    assert_near(case.name, "o", &output.o, &reference(&case, &arrays), 1e-4);
}

#[test]
fn kind_21_a_lost_device_is_an_error_and_another_takes_over() {
    let (case, arrays) = (case(), case().arrays());
    for path in [Path::Chunks, Path::Steps] {
        let Some(gpu) = host() else { return };
        let run = |gpu: &Gpu| {
            let inputs = arrays.inputs(None);
            op::run(gpu, &case.dims, &case.config, &inputs, None, &options(path))
        };
        run(&gpu).expect("a run");
        let mut encoder = gpu.device().create_command_encoder(&Default::default());
        let rig = Rig::new(&gpu, &case, &options(path)).expect("a rig");
        rig.record(&arrays, &mut encoder).expect("a recording");
        let readback = Readback::record(&gpu, &mut encoder, &rig.arrays.o, rig.arrays.o.size());
        let readback = pollster::block_on(readback).expect("a readback");
        let commands = encoder.finish();
        gpu.device().destroy();
        gpu.queue().submit([commands]);
        for error in [
            readback
                .wait(&gpu)
                .map(drop)
                .expect_err("a readback on its way"),
            run(&gpu).map(drop).expect_err("a new call"),
        ] {
            assert!(error.is_device(), "{error}");
            assert!(error.to_string().contains("lost"), "{error}");
        }
        let output = run(&host().expect("another device")).expect("a run");
        assert_near(case.name, "o", &output.o, &reference(&case, &arrays), 1e-4);
    }
}

#[test]
fn kind_27_what_the_device_refuses_is_an_error() {
    let Some(gpu) = host() else { return };
    let case = case();
    let rig = Rig::new(&gpu, &case, &options(Path::Chunks)).expect("a rig");
    let operator = pollster::block_on(Operator::new(
        &gpu,
        &case.dims,
        &case.config,
        Decider::Scores,
        &options(Path::Chunks),
    ));
    let operator = operator.expect("an operator");
    let buffer = |size, usage| {
        gpu.device().create_buffer(&wgpu::BufferDescriptor {
            label: Some("wrong"),
            size,
            usage,
            mapped_at_creation: false,
        })
    };
    let bind = |q: wgpu::Buffer| {
        let arrays = op::Arrays {
            q,
            ..rig.arrays.clone()
        };
        pollster::block_on(operator.bind(&arrays, &rig.cache)).map(drop)
    };
    let size = rig.arrays.q.size();
    let error = bind(buffer(size, wgpu::BufferUsages::COPY_DST)).expect_err("not a storage buffer");
    assert!(error.is_device(), "{error}");
    let error = bind(buffer(4, wgpu::BufferUsages::STORAGE)).expect_err("too small a buffer");
    assert!(error.is_input(), "{error}");

    let mut encoder = gpu.device().create_command_encoder(&Default::default());
    let readback = Readback::record(&gpu, &mut encoder, &rig.arrays.q, size + 4);
    let error = pollster::block_on(readback)
        .map(drop)
        .expect_err("more than there is");
    assert!(error.is_input(), "{error}");
}

#[test]
fn more_memory_than_the_device_has_is_an_error() {
    let Some(gpu) = host() else { return };
    // One head's cache fits a binding of 128 MiB, all heads' do not; a long sequence's arrays do not either.
    for sizes in [[1, 1, 16, 1, 256, 256, 64], [1, 1 << 20, 1, 1, 256, 256, 2]] {
        let case = Case::new("large", dims(sizes));
        for path in [Path::Chunks, Path::Steps] {
            let operator = pollster::block_on(Operator::new(
                &gpu,
                &case.dims,
                &case.config,
                Decider::Scores,
                &options(path),
            ));
            let error = operator.map(drop).expect_err("larger than a binding");
            assert!(error.is_unsupported(), "{error}");
        }
    }
}
