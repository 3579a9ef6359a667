//! A call in pieces, the cache handed on from one to the next.

use dla_core::{Decisions, Dims, Output, Trace};
use dla_wgpu::Gpu;
use dla_wgpu::op::{self, Options};

use crate::cases::{Arrays, Case, cut};

/// The whole call's output from calls of `sizes` tokens, all of them following `replay` where it is given.
///
/// # Panics
/// When the sizes are not the case's tokens, or the device refuses a piece.
pub fn in_pieces(
    gpu: &Gpu,
    case: &Case,
    arrays: &Arrays,
    replay: Option<&Decisions>,
    sizes: &[usize],
    options: &Options,
) -> Output<f32> {
    let dims = &case.dims;
    assert_eq!(sizes.iter().sum::<usize>(), dims.tokens, "all tokens");
    let mut whole = Output {
        o: vec![0.0; dims.value_len()],
        trace: Trace::new(dims),
        cache: case.empty_cache(),
    };
    let mut first = 0;
    for &size in sizes {
        let (piece, end) = (
            Dims {
                tokens: size,
                ..*dims
            },
            first + size,
        );
        let replay = replay.map(|decisions| Decisions {
            boundary: cut(dims, &decisions.boundary, dims.heads, first, end),
            merge_at: cut(dims, &decisions.merge_at, dims.heads, first, end),
        });
        let arrays = arrays.tokens(dims, first, end);
        let inputs = arrays.inputs(replay.as_ref());
        let cache = Some(&whole.cache);
        let part = op::run(gpu, &piece, &case.config, &inputs, cache, options)
            .unwrap_or_else(|error| panic!("{}, tokens from {first}: {error}", case.name));
        put(dims, &mut whole, part, first, size);
        first = end;
    }
    whole
}

fn put(dims: &Dims, whole: &mut Output<f32>, part: Output<f32>, first: usize, size: usize) {
    fn rows<T: Copy>(dims: &Dims, whole: &mut [T], part: &[T], first: usize, size: usize) {
        let width = part.len() / (dims.batch * size).max(1);
        for (b, part) in part.chunks_exact((size * width).max(1)).enumerate() {
            let at = (b * dims.tokens + first) * width;
            whole[at..at + part.len()].copy_from_slice(part);
        }
    }
    rows(dims, &mut whole.o, &part.o, first, size);
    let (trace, more) = (&mut whole.trace, part.trace);
    rows(dims, &mut trace.score, &more.score, first, size);
    rows(dims, &mut trace.count, &more.count, first, size);
    let (decisions, taken) = (&mut trace.decisions, more.decisions);
    rows(dims, &mut decisions.boundary, &taken.boundary, first, size);
    rows(dims, &mut decisions.merge_at, &taken.merge_at, first, size);
    trace.non_finite += more.non_finite;
    whole.cache = part.cache;
}
