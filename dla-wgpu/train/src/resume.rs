//! What a run goes on from must be the same run.

use std::collections::BTreeMap;

use dla_core::{Error, Result};
use serde_json::Value;

use crate::store::State;

/// Settings that may grow.
const STEPS: &str = "steps";

/// The state to go on from, if it is of the run whose settings and texts `new` tells.
pub(crate) fn same_run(new: State, saved: State) -> Result<State> {
    let expected = "those that the run was started with";
    match (&new.options, &saved.options) {
        (Some(new), Some(saved)) => same_options(new, saved)?,
        _ if new.settings != saved.settings => {
            let error = Error::input("train", "settings", expected, "others");
            return Err(error.advise("go on with the settings that the run was started with"));
        }
        _ => {}
    }
    if new.data != saved.data {
        let error = Error::input("train", "data", expected, "other texts");
        return Err(error.advise("go on with the texts that the run was started with"));
    }
    Ok(State {
        settings: new.settings,
        options: new.options,
        ..saved
    })
}

/// Refuses settings that differ, by their names. More steps than before are not refused.
fn same_options(new: &Value, saved: &Value) -> Result<()> {
    let [mut new, mut saved] = [new, saved].map(|options| {
        let mut values = BTreeMap::new();
        flatten("", options, &mut values);
        values
    });
    let steps = [&new, &saved].map(|values| values.get(STEPS).and_then(|steps| steps.as_u64()));
    if let [Some(asked), Some(before)] = steps {
        if asked < before {
            let expected = format!("at least the {before} that the run was started with");
            return Err(Error::input("train", STEPS, expected, asked));
        }
        new.remove(STEPS);
        saved.remove(STEPS);
    }
    // What only one of them names is none in the other.
    let names = new
        .keys()
        .chain(saved.keys())
        .collect::<std::collections::BTreeSet<_>>();
    let differing: Vec<_> = names
        .into_iter()
        .filter(|&name| new.get(name) != saved.get(name))
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    let list = |word: &dyn Fn(&String) -> String| {
        differing
            .iter()
            .map(|name| word(name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let values = |of: &BTreeMap<String, &Value>| list(&|name| shown(name, of.get(name).copied()));
    let expected = format!("{}, as the run was started with", values(&saved));
    let error = Error::input("train", list(&|name| name.clone()), expected, values(&new));
    Err(error.advise("set it back, or start a new run in another output"))
}

/// Every value by its name, sections before it; what is null is left out.
fn flatten<'a>(prefix: &str, value: &'a Value, into: &mut BTreeMap<String, &'a Value>) {
    match value {
        Value::Object(section) => {
            let dot = if prefix.is_empty() { "" } else { "." };
            for (key, value) in section {
                flatten(&format!("{prefix}{dot}{key}"), value, into);
            }
        }
        Value::Array(parts) if parts.iter().any(Value::is_object) => {
            for (i, part) in parts.iter().enumerate() {
                flatten(&format!("{prefix}[{i}]"), part, into);
            }
        }
        Value::Null => {}
        value => {
            into.insert(prefix.to_owned(), value);
        }
    }
}

/// A value as a person writes it.
fn shown(name: &str, value: Option<&Value>) -> String {
    match value {
        Some(value) => value.to_string(),
        // JSON has no infinity.
        None if name.ends_with(".tau") => "inf".into(),
        None => "none".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::same_options;

    #[test]
    fn what_differs_is_named_with_both_values() {
        let saved = json!({
            "steps": 10, "model": { "dla": { "tau": null, "theta": 0.1 }, "vocabulary": null },
            "data": { "task": "mixture", "parts": [{ "weight": 1.0 }, { "weight": 2.0 }] },
        });
        same_options(&saved, &saved).expect("the same");
        let mut grown = saved.clone();
        grown["steps"] = json!(11);
        same_options(&grown, &saved).expect("more steps");
        let fewer = same_options(&saved, &grown).expect_err("fewer steps");
        assert_eq!(
            fewer.to_string(),
            "train, steps: expected at least the 11 that the run was started with, got 10"
        );
        for (change, told) in [
            (
                json!({ "dla": { "tau": 0.6, "theta": 0.1 } }),
                "train, model.dla.tau: expected inf, as the run was started with, got 0.6",
            ),
            (
                json!({ "dla": { "tau": null, "theta": 0.2 }, "vocabulary": 300 }),
                "train, model.dla.theta, model.vocabulary: expected 0.1, none, as the run was started with, got \
                 0.2, 300",
            ),
        ] {
            let mut new = saved.clone();
            new["model"] = change;
            let error = same_options(&new, &saved).expect_err("others");
            assert!(error.to_string().starts_with(told), "{error}");
        }
        let mut new = saved.clone();
        new["data"]["parts"][1]["weight"] = json!(3.0);
        let error = same_options(&new, &saved).expect_err("others");
        assert_eq!(error.argument(), "data.parts[1].weight");
    }
}
