//! The page: static files and the models beside them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::{Result, stand_in};

/// The shipped model under `models/`.
const MODEL: &str = "dla-tiny";
/// The same model trained with a single state, to be shown beside it.
const TWIN: &str = "dla-tiny-single";
/// The layer and head of the shipped model whose states are easiest to follow.
const SHOWN: (usize, usize) = (1, 1);
/// The files of a model directory.
const FILES: [&str; 2] = ["config.json", "model.safetensors"];
/// What a model directory has whose tokens are not bytes.
const TOKENIZER: &str = "tokenizer.json";

/// Builds `web-demo/dist`.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn build(web_demo: &Path, pkg: &Path, dist: &Path) -> Result<()> {
    if dist.exists() {
        fs::remove_dir_all(dist)?;
    }
    copy_all(&web_demo.join("page"), dist, |_| true)?;
    copy_all(pkg, &dist.join("pkg"), |name| {
        name.ends_with(".js") || name.ends_with(".wasm")
    })?;
    let shipped = web_demo.join("../models");
    let models = dist.join("models");
    let list = if shipped.join(MODEL).join(FILES[0]).exists() {
        let present = [(MODEL, "model"), (TWIN, "twin")].into_iter();
        let present = present.filter(|(name, _)| shipped.join(name).join(FILES[0]).exists());
        let mut list = Vec::new();
        for (name, role) in present {
            if shipped.join(name).join(TOKENIZER).exists() {
                return Err(format!("{name}: {TOKENIZER}: a page reads bytes only").into());
            }
            fs::create_dir_all(models.join(name))?;
            for file in FILES {
                fs::copy(shipped.join(name).join(file), models.join(name).join(file))?;
            }
            list.push(entry(name, role));
        }
        list
    } else {
        stand_in::write(&models.join("stand-in"))?;
        vec![json!({ "folder": "stand-in", "role": "model", "files": FILES, "trained": false })]
    };
    let list = json!({ "models": list });
    fs::write(models.join("index.json"), format!("{list:#}\n"))?;
    println!("{}", dist.canonicalize()?.display());
    Ok(())
}

/// A shipped model in the page's list.
fn entry(folder: &str, role: &str) -> Value {
    let (layer, head) = SHOWN;
    let shown = json!({ "layer": layer, "head": head });
    json!({ "folder": folder, "role": role, "files": FILES, "trained": true, "shown": shown })
}

/// Copies the files of a folder whose names are `wanted`, and those of its folders.
fn copy_all(from: &Path, to: &Path, wanted: fn(&str) -> bool) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to, wanted)?;
        } else if wanted(&entry.file_name().to_string_lossy()) {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Every colour in a text, in order.
    fn colours(text: &str) -> Vec<&str> {
        let starts = text.match_indices('#').map(|(at, _)| at);
        let colours = starts.filter_map(|at| text.get(at..at + 7));
        let is_colour = |word: &&str| word[1..].bytes().all(|byte| byte.is_ascii_hexdigit());
        colours.filter(is_colour).collect()
    }

    /// States look the same in the page and in the pictures of `dla segment`.
    #[test]
    fn the_page_has_the_colours_of_the_pictures() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path| fs::read_to_string(here.join(path)).unwrap_or_default();
        let page = read("../page/palette.css");
        let pictures = read("../../dla-wgpu/cli/src/segment/palette.rs");
        assert_eq!(colours(&page).len(), 36);
        assert_eq!(colours(&page), colours(&pictures));
    }

    /// A state's colour follows one rule in both.
    #[test]
    fn the_page_has_the_rule_of_the_pictures() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path| fs::read_to_string(here.join(path)).unwrap_or_default();
        let page = read("../page/colours.js");
        assert!(!page.is_empty());
        assert_eq!(page, read("../../dla-wgpu/cli/assets/segment/colours.js"));
    }
}
