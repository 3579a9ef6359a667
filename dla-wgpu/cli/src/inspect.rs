//! `dla inspect`: what a model directory holds.

use dla_core::checkpoint::Checkpoint;
use dla_core::model::{DlaConfig, ModelConfig, SpecialIds};
use dla_core::{Result, Schedule};
use serde_json::{Value, json};

use crate::args::Inspect;
use crate::report::Report;
use crate::runner;

/// Reads the settings and the headers of the weights, and tells of them.
///
/// # Errors
/// When a file cannot be read or the settings are refused.
pub fn run(args: &Inspect) -> Result<Report> {
    let checkpoint = Checkpoint::open(&args.model)?;
    let refused: Vec<_> = checkpoint
        .faults()
        .iter()
        .map(ToString::to_string)
        .collect();
    let config = checkpoint.config();
    let mut text = text(config, checkpoint.parameters(), &refused);
    if let Some(skipped) = runner::skipped(&checkpoint) {
        text += &format!("\nskipped      {skipped}");
    }
    let mut json = json(config, checkpoint.parameters(), &refused);
    json["skipped"] = json!(checkpoint.skipped());
    Ok(Report { text, json })
}

fn text(config: &ModelConfig, parameters: u64, refused: &[String]) -> String {
    let dims = config.dims();
    let head = if config.tied { "tied" } else { "its own" };
    let plain = match config.attention() {
        Some(_) => "none: keys and values of every token",
        None => "none: a single state",
    };
    let dla = config.dla.map_or(plain.into(), |dla| {
        let operator = dla.operator;
        format!(
            "capacity {}, schedule {}, norm {}, merge {}, epsilon {:e}",
            dla.capacity,
            schedule(operator.schedule),
            operator.norm,
            operator.merge,
            operator.epsilon
        )
    });
    let mut lines = vec![
        format!("family       {}", config.family),
        format!(
            "layers       {}, hidden {}, vocabulary {}, head {head}",
            config.layers, config.hidden, config.vocabulary
        ),
        format!(
            "mixer        {}, {} heads of {}x{}, {} key groups",
            mixer(config),
            dims.heads,
            dims.key_dim,
            dims.value_dim,
            dims.groups
        ),
        format!("parameters   {parameters}"),
        format!("state bytes  {} per sequence", config.state_bytes()),
        format!("dla          {dla}"),
        format!("special ids  {}", special(&config.special)),
    ];
    lines.extend(refused.iter().map(|fault| format!("refused      {fault}")));
    lines.join("\n")
}

/// The ids of special tokens that the model's own files name.
fn special(ids: &SpecialIds) -> String {
    let named = |name: &str, ids: &[u32]| match ids {
        [] => format!("{name} none"),
        ids => {
            let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
            format!("{name} {}", ids.join(" "))
        }
    };
    let one = |id: Option<u32>| id.into_iter().collect::<Vec<_>>();
    let all = [
        named("begin", &one(ids.bos)),
        named("end", &ids.eos),
        named("padding", &one(ids.pad)),
    ];
    all.join(", ")
}

/// What the mixers are.
fn mixer(config: &ModelConfig) -> String {
    match config.attention() {
        Some(_) => "softmax attention".to_owned(),
        None => format!("{} backbone", config.backbone()),
    }
}

fn json(config: &ModelConfig, parameters: u64, refused: &[String]) -> Value {
    let dims = config.dims();
    let recurrent = config.attention().is_none();
    let backbone = recurrent.then(|| config.backbone().to_string());
    json!({
        "family": config.family.to_string(),
        "layers": config.layers,
        "hidden": config.hidden,
        "vocabulary": config.vocabulary,
        "tied": config.tied,
        "backbone": backbone,
        "heads": dims.heads,
        "groups": dims.groups,
        "key_dim": dims.key_dim,
        "value_dim": dims.value_dim,
        "parameters": parameters,
        "state_bytes": config.state_bytes(),
        "dla": config.dla.map(dla_json),
        "special": {
            "bos": config.special.bos, "eos": config.special.eos, "pad": config.special.pad,
        },
        "refused": refused,
    })
}

fn dla_json(dla: DlaConfig) -> Value {
    let block = match dla.operator.schedule {
        Schedule::Fixed { block } => Some(block),
        _ => None,
    };
    json!({
        "capacity": dla.capacity,
        "schedule": schedule(dla.operator.schedule),
        "block": block,
        "norm": dla.operator.norm.to_string(),
        "merge": dla.operator.merge.to_string(),
        "epsilon": dla.operator.epsilon,
    })
}

/// The word of a schedule in config.json.
pub(crate) fn schedule(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::Single => "single",
        Schedule::Fixed { .. } => "fixed",
        Schedule::Fenwick => "fenwick",
        Schedule::Dynamic => "dynamic",
        Schedule::Offline => "offline",
    }
}
