//! The package: WebAssembly, the JavaScript that calls it, and the API over both.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wasm_bindgen_cli_support::Bindgen;

use crate::Result;

const TARGET: &str = "wasm32-unknown-unknown";
/// Every browser with WebGPU has 128-bit vectors, and so has every one without from 2023 on.
const FLAGS: &str = "-Ctarget-feature=+simd128";

/// Builds `web-demo/pkg`.
///
/// # Errors
/// When cargo or the generator fails, or a file cannot be written.
pub(crate) fn build(web_demo: &Path, pkg: &Path) -> Result<()> {
    let root = web_demo.join("..");
    let target = compile(&root)?;
    let module = Path::new(&target).join(TARGET).join("web/dla_web.wasm");
    if pkg.exists() {
        fs::remove_dir_all(pkg)?;
    }
    fs::create_dir_all(pkg)?;
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).web(true)?.typescript(true);
    bindgen.omit_default_module_path(false);
    bindgen
        .remove_name_section(true)
        .remove_producers_section(true);
    bindgen
        .generate(pkg)
        .map_err(|error| format!("{error:#}"))?;
    for file in ["index.js", "index.d.ts", "book.js"] {
        fs::copy(web_demo.join("api").join(file), pkg.join(file))?;
    }
    fs::write(pkg.join("package.json"), format!("{:#}\n", manifest()))?;
    Ok(())
}

/// Compiles the module; gives the target folder.
fn compile(root: &Path) -> Result<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let flags = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS";
    let build = Command::new(&cargo)
        .args([
            "build",
            "-p",
            "dla-web",
            "--lib",
            "--target",
            TARGET,
            "--profile",
            "web",
        ])
        .env(flags, FLAGS)
        .current_dir(root)
        .status()?;
    if !build.success() {
        return Err("cargo could not build dla-web for the browser".into());
    }
    let metadata = Command::new(&cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
    let target = metadata["target_directory"].as_str();
    Ok(target
        .ok_or("cargo metadata names no target folder")?
        .to_owned())
}

fn manifest() -> Value {
    json!({
        "name": "dla-web",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Dynamic Linear Attention language models in a page, on WebGPU or on the CPU",
        "license": env!("CARGO_PKG_LICENSE"),
        "type": "module",
        "main": "index.js",
        "module": "index.js",
        "types": "index.d.ts",
        "sideEffects": false,
        "files": ["*.js", "*.d.ts", "*.wasm"],
    })
}
