//! `dla segment`, as users run it: what it prints, its JSON, its pictures, what it refuses.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Raw, assert_refused, dla, golden, stderr, stdout};
use dla_cli::tensors::TensorFile;
use serde_json::Value;

const PLAIN: &str = "model/mamba2_groups";

/// The golden model with an embedding for every byte, turned into DLA.
fn model(folder: &Path) -> PathBuf {
    let (plain, dla_model) = (folder.join("plain"), folder.join("tiny <dla>"));
    fs::create_dir(&plain).expect("created");
    let config = fs::read_to_string(golden(PLAIN).join("config.json")).expect("text");
    let wider = config.replace(r#""vocab_size": 83"#, r#""vocab_size": 256"#);
    assert_ne!(config, wider);
    fs::write(plain.join("config.json"), wider).expect("written");
    let file = TensorFile::read(&golden(PLAIN).join("model.safetensors")).expect("golden");
    let mut out = Raw {
        words: Vec::new(),
        tensors: Vec::new(),
    };
    for name in file.names() {
        let tensor = file.require(&name).expect("there");
        let mut values = tensor.values::<f32>("", tensor.shape()).expect("f32");
        let mut shape = tensor.shape().to_vec();
        if shape[0] == 83 {
            shape[0] = 256;
            let rows = values.clone();
            // The same rows again, shifted, so that no two bytes are equal.
            values = (0..256 * shape[1])
                .map(|i| rows[(i * 31 + i / 97) % rows.len()])
                .collect();
        }
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        out.tensor(&name, "F32", &shape, bytes);
    }
    fs::write(plain.join("model.safetensors"), out.bytes()).expect("written");
    let words: [&OsStr; 9] = [
        "upcycle".as_ref(),
        "--model".as_ref(),
        plain.as_os_str(),
        "--output".as_ref(),
        dla_model.as_os_str(),
        "--capacity".as_ref(),
        "4".as_ref(),
        "--tau".as_ref(),
        "1.35".as_ref(),
    ];
    let run = dla(words);
    assert!(run.status.success(), "{}", stderr(&run));
    dla_model
}

fn segment(model: &Path, text: &Path, more: &[&OsStr]) -> Output {
    let mut words: Vec<&OsStr> = ["segment", "--backend", "cpu", "--model"]
        .map(OsStr::new)
        .into();
    words.extend([model.as_os_str(), "--text-file".as_ref(), text.as_os_str()]);
    words.extend(more);
    dla(words)
}

/// Letters of several lengths, markup, control characters, bytes that are no text.
const AWKWARD: &[u8] = b"Caf\xc3\xa9 costs \xe2\x82\xac5, <b>&amp; \"so\" 'on'</b></script><!-- \xff\xfe\x00\x1b[31m\x07\r\n\
    {{data}} {{script}} {{title}} \xf0\x9f\x8c\x8d and again; and again the light, the light, and the darkness.\n";

/// A folder with a model and an awkward text.
fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = model(folder.path());
    let text = folder.path().join("a & b <c>.txt");
    fs::write(&text, AWKWARD).expect("written");
    (folder, model, text)
}

fn json(run: &Output) -> Value {
    assert!(run.status.success(), "{}", stderr(run));
    serde_json::from_str(&stdout(run)).expect("a JSON report")
}

#[test]
fn the_text_is_printed_with_its_boundaries_and_a_table() {
    let (_folder, model, text) = folder();
    let run = segment(&model, &text, &[]);
    assert!(run.status.success(), "{}", stderr(&run));
    let page = stdout(&run);
    assert!(
        !page.contains('\u{1b}'),
        "neither colours nor the text's own escapes"
    );
    assert!(!page.contains('\0'), "control characters are pictures");
    for shown in ["the most telling head", "[1 ", "␛", "All layers and heads"] {
        assert!(page.contains(shown), "{shown} in\n{page}");
    }
    let rows = page
        .lines()
        .filter(|line| line.ends_with(|c: char| c.is_ascii_digit()) && line.contains('%'));
    assert_eq!(rows.count(), 3 * 6, "a row for each layer and head");
    let asked = segment(
        &model,
        &text,
        &[
            "--layer".as_ref(),
            "2".as_ref(),
            "--head".as_ref(),
            "5".as_ref(),
        ],
    );
    let page = stdout(&asked);
    assert!(
        page.starts_with("a & b <c>.txt by the states of layer 2, head 5 of tiny <dla>\n\n"),
        "{page}"
    );
}

#[test]
fn json_has_every_token_and_its_columns_agree() {
    let (_folder, model, text) = folder();
    let report = json(&segment(
        &model,
        &text,
        &["--json".as_ref(), "--layer".as_ref(), "1".as_ref()],
    ));
    assert_eq!(report["tokens"], AWKWARD.len());
    assert_eq!(report["chosen"]["layer"], 1);
    let pieces: String = report["pieces"]
        .as_array()
        .expect("pieces")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(pieces, lossy(AWKWARD));
    let stories = report["segmentations"].as_array().expect("a list");
    assert_eq!(stories.len(), 3 * 6);
    let mut merges = 0;
    for story in stories {
        let column = |name: &str| story[name].as_array().expect("a column").clone();
        let number = |value: &Value| value.as_u64().expect("a number");
        assert_eq!(column("score").len(), AWKWARD.len());
        let state: Vec<u64> = column("state").iter().map(number).collect();
        assert_eq!(state.len(), AWKWARD.len());
        assert!(state[0] == 0 && state.windows(2).all(|w| w[1] == w[0] || w[1] == w[0] + 1));
        let boundaries = number(&story["boundaries"]);
        assert_eq!(state.last().map(|last| last + 1), Some(boundaries));
        let live = column("live");
        assert_eq!(live.len() as u64, boundaries - number(&story["merges"]));
        let tokens: u64 = live.iter().map(|state| number(&state["n"])).sum();
        assert_eq!(tokens, AWKWARD.len() as u64);
        for name in ["token", "older", "newer", "n", "density"] {
            let column = story["merged"][name].as_array().expect("a column");
            assert_eq!(column.len() as u64, number(&story["merges"]), "{name}");
        }
        merges += number(&story["merges"]);
    }
    assert!(merges > 0, "a case with merges");
}

/// Invalid bytes one by one, as the tokens are.
fn lossy(bytes: &[u8]) -> String {
    let chunks = bytes.utf8_chunks();
    chunks
        .map(|chunk| chunk.valid().to_owned() + &"\u{fffd}".repeat(chunk.invalid().len()))
        .collect()
}

fn picture(model: &Path, text: &Path, path: &Path) -> String {
    let run = segment(model, text, &["--picture".as_ref(), path.as_os_str()]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(stdout(&run).contains("Picture: "));
    fs::read_to_string(path).expect("UTF-8")
}

/// Nothing is fetched: the only address is the name of SVG.
fn assert_self_contained(file: &str) {
    let file = file.replace("http://www.w3.org/2000/svg", "");
    for address in [
        "http:",
        "https:",
        "//cdn",
        "src=",
        "href=",
        "@import",
        "url(",
        "fetch(",
        "XMLHttp",
        "WebSocket",
    ] {
        assert!(!file.contains(address), "{address}");
    }
}

#[test]
fn the_page_is_self_contained_and_holds_its_text_safely() {
    let (folder, model, text) = folder();
    let page = picture(&model, &text, &folder.path().join("page.html"));
    assert_self_contained(&page);
    assert!(
        page.contains("<title>a &amp; b &lt;c&gt;.txt, as tiny &lt;dla&gt; remembers it</title>")
    );
    assert!(
        !page.chars().any(|c| c.is_control() && c != '\n'),
        "control characters are escaped"
    );
    let (_, data) = page.split_once(r#"id="data">"#).expect("the data");
    let (data, rest) = data.split_once("</script>").expect("its end");
    assert!(!data.contains('<'), "nothing in the data ends it");
    assert_eq!(
        rest.matches("</script>").count(),
        1,
        "only the script follows"
    );
    let data: Value = serde_json::from_str(data).expect("JSON");
    let shown = data["text"].as_str().expect("text");
    assert!(shown.contains("<b>&amp; \"so\" 'on'</b></script><!-- \u{fffd}\u{fffd}␀␛[31m␇␍\n{{data}} {{script}} {{title}} 🌍"), "{shown}");
    assert_eq!(data["stories"].as_array().map(Vec::len), Some(3 * 6));
    let runs = data["tokens"].as_array().expect("runs");
    let tokens: u64 = runs
        .chunks(2)
        .map(|run| run[0].as_u64().unwrap_or(0) * run[1].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(tokens, AWKWARD.len() as u64);
    for label in [
        "<label>Layer",
        "<label>Head",
        "<caption",
        "aria-live",
        "role=\"slider\"",
        "<html lang",
    ] {
        assert!(page.contains(label), "{label}");
    }
}

/// What the page's script makes of its data, as JSON: for each head the states and merges.
const FOLLOWED: &str = "
const told = data.stories.map((_, i) => {
  const story = new Story(i);
  const live = story.cache(TOKENS - 1).map(({ id, start, n, density }) => ({ id, start, n, density }));
  const half = story.cache(TOKENS >> 1).reduce((sum, { n }) => sum + n, 0);
  const colours = story.cache(TOKENS - 1).map(({ colour }) => `c${colour.level}-${colour.hue}`);
  const recoloured = [];
  for (let token = 1; token < TOKENS; token++) {
    const before = new Map(story.cache(token - 1).map(({ id, fill }) => [id, fill]));
    const after = story.cache(token), kept = new Set(after.map(({ id }) => id));
    let last;
    const grown = new Set();
    for (const id of before.keys()) kept.has(id) ? (last = id) : grown.add(last);
    for (const { id, fill } of after) if (before.has(id) && before.get(id) !== fill && !grown.has(id)) recoloured.push([token, id]);
  }
  return { live, half, colours, recoloured, merged: story.merges.map(({ token, n, density }) => ({ token, n: n[0] + n[1], density })) };
});
console.log(JSON.stringify({ told, said: said(0, TOKENS) }));
";

/// What [`FOLLOWED`] prints for a page; none without Node.
fn followed(folder: &Path, page: &str) -> Option<Value> {
    let (_, data) = page.split_once(r#"id="data">"#).expect("the data");
    let (data, _) = data.split_once("</script>").expect("its end");
    let colours = include_str!("../assets/segment/colours.js").replace("\nexport ", "\n");
    let story = include_str!("../assets/segment/story.js");
    let stub = "globalThis.document = { getElementById: () => ({ textContent:";
    let script = folder.join("script.js");
    let data = serde_json::to_string(data).expect("a string");
    let text = format!("{stub} {data} }}) }};\n{colours}\n{story}\n{FOLLOWED}");
    fs::write(&script, text).expect("written");
    match std::process::Command::new("node").arg(&script).output() {
        Ok(run) => Some(json(&run)),
        Err(_) => {
            println!("SKIP: the script of dla segment's page, Node is missing");
            None
        }
    }
}

/// The colours of each strip of a still picture.
fn strips(picture: &str) -> Vec<Vec<String>> {
    let strips = picture.split("<g><title>layer ").skip(1);
    let colours = strips.map(|strip| {
        let (strip, _) = strip.split_once("</g>").expect("its end");
        let rects = strip.split("<rect class=\"").skip(1);
        let classes = rects.map(|rect| rect.split_once('"').expect("a class").0.to_owned());
        classes.collect()
    });
    colours.collect()
}

#[test]
fn kind_60_page_and_still_picture_give_a_state_one_colour() {
    let (folder, model, text) = folder();
    let page = picture(&model, &text, &folder.path().join("page.html"));
    let still = picture(&model, &text, &folder.path().join("still.svg"));
    let Some(followed) = followed(folder.path(), &page) else {
        return;
    };
    let told = followed["told"].as_array().expect("a list");
    let strips = strips(&still);
    assert_eq!(told.len(), strips.len());
    let merges = told
        .iter()
        .map(|told| told["merged"].as_array().map_or(0, Vec::len));
    assert!(merges.sum::<usize>() > 0, "a case with merges");
    for (told, strip) in told.iter().zip(strips) {
        assert_eq!(told["colours"], Value::from(strip));
        // From token to token a state keeps its colour unless it merges.
        assert_eq!(told["recoloured"], Value::Array(Vec::new()));
    }
}

#[test]
fn the_script_of_the_page_follows_the_same_events() {
    let (folder, model, text) = folder();
    let page = picture(&model, &text, &folder.path().join("page.html"));
    let report = json(&segment(&model, &text, &["--json".as_ref()]));
    let Some(followed) = followed(folder.path(), &page) else {
        return;
    };
    let said = followed["said"].as_str().expect("text");
    assert_eq!(said.chars().count(), lossy(AWKWARD).chars().count());
    let told = followed["told"].as_array().expect("a list");
    let stories = report["segmentations"].as_array().expect("a list");
    assert_eq!(told.len(), stories.len());
    for (told, story) in told.iter().zip(stories) {
        assert_eq!(told["half"], AWKWARD.len() / 2 + 1, "the cache halfway");
        let live = told["live"].as_array().expect("states");
        let want = story["live"].as_array().expect("states");
        assert_eq!(live.len(), want.len());
        for (got, want) in live.iter().zip(want) {
            for name in ["id", "start", "n"] {
                assert_eq!(got[name], want[name], "{name}");
            }
            let info = want["info"].as_f64().expect("a number");
            let density = info / want["n"].as_f64().expect("a number");
            assert_close(&got["density"], density);
        }
        let merged = told["merged"].as_array().expect("merges");
        assert_eq!(merged.len() as u64, story["merges"]);
        for (i, got) in merged.iter().enumerate() {
            assert_eq!(got["token"], story["merged"]["token"][i]);
            assert_eq!(got["n"], story["merged"]["n"][i]);
            let want = story["merged"]["density"][i].as_f64().expect("a number");
            assert_close(&got["density"], want);
        }
    }
}

/// Within what 16 bits of a score leave.
fn assert_close(got: &Value, want: f64) {
    let got = got.as_f64().expect("a number");
    assert!((got - want).abs() <= 1e-4, "{got} is not {want}");
}

/// Fails unless tags nest, attributes are quoted and every `&` begins a known entity.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let (text, from) = rest.split_at(at);
        assert_entities(text);
        let end = from.find('>').expect("a tag ends");
        let tag = &from[1..end];
        assert_entities(tag);
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
        rest = &from[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(rest, "\n");
}

fn assert_entities(text: &str) {
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        assert!(
            known.iter().any(|entity| text[at..].starts_with(entity)),
            "{}",
            &text[at..]
        );
    }
}

#[test]
fn the_still_picture_is_well_formed() {
    let (folder, model, text) = folder();
    let svg = picture(&model, &text, &folder.path().join("strip.SVG"));
    assert_self_contained(&svg);
    assert_well_formed(&svg);
    assert!(svg.contains("a &amp; b &lt;c&gt;.txt, as tiny &lt;dla&gt; remembers it"));
    assert_eq!(
        svg.matches("<g><title>layer ").count(),
        3 * 6,
        "a strip for each"
    );
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn long_texts_give_small_pictures() {
    let (folder, model, text) = folder();
    let passage = include_str!("../assets/passage.txt").repeat(6);
    fs::write(&text, &passage).expect("written");
    let (page, strip) = (folder.path().join("p.html"), folder.path().join("s.svg"));
    let token_heads = passage.len() * 3 * 6;
    let size = picture(&model, &text, &page).len();
    assert!(
        size < 60_000 + 7 * token_heads,
        "{size} bytes of {token_heads} scores and decisions"
    );
    let size = picture(&model, &text, &strip).len();
    assert!(size < 30_000 * 3 * 6, "{size}");
}

#[test]
fn a_plain_model_keeps_one_state() {
    let (folder, _, text) = folder();
    let page = folder.path().join("page.html");
    let run = segment(
        &folder.path().join("plain"),
        &text,
        &["--json".as_ref(), "--picture".as_ref(), page.as_os_str()],
    );
    let report = json(&run);
    assert_eq!(report["schedule"], "single");
    assert_eq!(
        report["chosen"],
        serde_json::json!({ "layer": 0, "head": 0 })
    );
    for story in report["segmentations"].as_array().expect("a list") {
        assert_eq!(
            (&story["states"], &story["boundaries"]),
            (&1.into(), &1.into())
        );
    }
}

#[test]
fn a_text_of_one_byte_is_a_text() {
    let (folder, model, text) = folder();
    fs::write(&text, "x").expect("written");
    for name in ["p.html", "p.svg"] {
        picture(&model, &text, &folder.path().join(name));
    }
}

#[test]
fn wrong_usage_is_refused_and_leaves_no_picture() {
    let (folder, model, text) = folder();
    let picture = folder.path().join("p.html");
    let drawn: [&OsStr; 2] = ["--picture".as_ref(), picture.as_os_str()];
    let with = |more: [&'static str; 2]| [drawn[0], drawn[1], more[0].as_ref(), more[1].as_ref()];
    assert_refused(
        "layer",
        &segment(&model, &text, &with(["--layer", "3"])),
        "--layer: expected 0 to 2, got 3",
    );
    assert_refused(
        "head",
        &segment(&model, &text, &with(["--head", "6"])),
        "--head: expected 0 to 5, got 6",
    );
    assert_refused(
        "sign",
        &segment(&model, &text, &with(["--head", "-1"])),
        "-1",
    );
    for name in ["p.png", "p", "p.html.gz"] {
        let path = folder.path().join(name);
        let run = segment(&model, &text, &["--picture".as_ref(), path.as_os_str()]);
        assert_refused(name, &run, "a file ending in .html or .svg");
        assert!(!path.exists(), "{name}");
    }
    let nowhere = folder.path().join("none/p.svg");
    assert_refused(
        "no folder",
        &segment(&model, &text, &["--picture".as_ref(), nowhere.as_os_str()]),
        "existing folder",
    );
    assert_refused(
        "no text",
        &segment(&model, &folder.path().join("none"), &drawn),
        "a readable file",
    );
    assert_refused(
        "no model",
        &segment(folder.path(), &text, &drawn),
        "config.json",
    );
    assert_refused(
        "vocabulary",
        &segment(&golden(PLAIN), &text, &drawn),
        "bytes below 83, the model's vocabulary, got byte 97 at offset 1",
    );
    fs::write(&text, "").expect("written");
    assert_refused("empty", &segment(&model, &text, &drawn), "an empty file");
    fs::write(model.join("tokenizer.json"), "{}").expect("written");
    assert_refused(
        "tokenizer",
        &segment(&model, &text, &drawn),
        "tokenizer.json",
    );
    assert_refused("nothing", &dla(["segment"]), "see `dla segment --help`");
    assert!(!picture.exists(), "refused runs leave nothing");
}
