//! Opening a device that is not there.

use dla_wgpu::{Gpu, GpuOptions};

#[test]
fn kind_18_no_such_adapter_is_an_error() {
    let options = GpuOptions {
        adapter: Some("no adapter has this name".into()),
        ..Default::default()
    };
    let error = Gpu::new_blocking(&options).expect_err("no such adapter");
    assert!(error.is_unsupported(), "{error}");
    assert!(
        error.to_string().contains("no adapter has this name"),
        "{error}"
    );
}
