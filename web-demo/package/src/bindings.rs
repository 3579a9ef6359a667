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
    // index.d.ts has the types, and the API says where the module lies.
    bindgen.input_path(module).web(true)?.typescript(false);
    bindgen.omit_default_module_path(true);
    bindgen
        .remove_name_section(true)
        .remove_producers_section(true);
    bindgen
        .generate(pkg)
        .map_err(|error| format!("{error:#}"))?;
    for entry in fs::read_dir(web_demo.join("api"))? {
        let entry = entry?;
        fs::copy(entry.path(), pkg.join(entry.file_name()))?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root.join(licence), pkg.join(licence))?;
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

/// What npm and bundlers are told of the package.
fn manifest() -> Value {
    let mut manifest = json!({
        "name": "dla-web",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Dynamic Linear Attention language models in a page, a worker or Node, on WebGPU or on the CPU",
        "keywords": [
            "linear-attention", "dynamic-linear-attention", "mamba2", "gated-deltanet", "language-model", "llm",
            "webgpu", "wasm", "webassembly", "inference",
        ],
        "license": env!("CARGO_PKG_LICENSE"),
        "type": "module",
        "exports": {
            ".": { "types": "./index.d.ts", "default": "./index.js" },
            "./worker": { "types": "./worker.d.ts", "default": "./worker.js" },
            "./dla_web_bg.wasm": "./dla_web_bg.wasm",
            "./package.json": "./package.json",
        },
        "main": "./index.js",
        "module": "./index.js",
        "types": "./index.d.ts",
        "sideEffects": ["./worker.js"],
        "files": ["*.js", "*.d.ts", "*.wasm", "LICENSE-*"],
        "engines": { "node": ">=20.16" },
    });
    let repository = env!("CARGO_PKG_REPOSITORY");
    if !repository.is_empty() {
        manifest["repository"] = json!({ "type": "git", "url": format!("git+{repository}.git") });
    }
    manifest
}
