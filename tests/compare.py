#!/usr/bin/env python3
"""Mamba-2 in float64, by the formulas of mamba_ssm, against this project and, if it is installed, transformers.

    pip install numpy safetensors            # and, for the rows about it, torch and transformers
    cargo build && tests/compare.py          # from the root of the repository

Prints ||got - float64|| / ||float64|| of the logits. docs/transformers.md explains the rows. Not a part of tests/run.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

MODEL = "tests/golden/model/mamba2_groups"
DLA = os.environ.get("DLA", "target/debug/dla")
PREFILL = 37
LIMITS = [(0.0, np.inf), (0.0, 0.3), (0.5, 0.7)]


def silu(x):
    return x / (1 + np.exp(-x))


def rms_norm(x, weight, epsilon, groups=1):
    rows = x.reshape(*x.shape[:-1], groups, -1)
    rows = rows / np.sqrt((rows * rows).mean(-1, keepdims=True) + epsilon)
    return rows.reshape(x.shape) * weight


def logits(config, weights, ids, limit, clamped, tile=False, whole=False):
    """Logits [T, vocabulary] of one sequence, token by token; Δ of its first `clamped` tokens is clamped.

    `tile` gives head h the keys of group h mod G instead of h // (H / G); `whole` norms the whole width instead of
    each group: two mistakes, to recognise them by.
    """
    heads, width, groups = config["num_heads"], config["head_dim"], config["n_groups"]
    state, kernel, epsilon = config["state_size"], config["conv_kernel"], config["layer_norm_epsilon"]
    inner, keys, tokens = heads * width, groups * state, len(ids)
    share = (lambda x: np.tile(x, (1, heads // groups, 1))) if tile else (lambda x: x.repeat(heads // groups, 1))
    x = weights["backbone.embeddings.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        w = lambda name: weights[f"backbone.layers.{layer}.{name}"]
        projected = rms_norm(x, w("norm.weight"), epsilon) @ w("mixer.in_proj.weight").T
        z, mixed, dt = np.split(projected, [inner, 2 * inner + 2 * keys], -1)
        padded = np.concatenate([np.zeros((kernel - 1, mixed.shape[1])), mixed])
        taps = w("mixer.conv1d.weight")[:, 0]
        mixed = silu(sum(padded[i : i + tokens] * taps[:, i] for i in range(kernel)) + w("mixer.conv1d.bias"))
        values, b, c = np.split(mixed, [inner, inner + keys], -1)
        values = values.reshape(tokens, heads, width)
        b, c = (share(part.reshape(tokens, groups, state)) for part in (b, c))
        dt = np.logaddexp(0, dt + w("mixer.dt_bias"))
        dt[:clamped] = np.clip(dt[:clamped], *limit)
        a = -np.exp(w("mixer.A_log"))
        memory, y = np.zeros((heads, width, state)), np.zeros((tokens, heads, width))
        for t in range(tokens):
            step = dt[t][:, None, None]
            memory = memory * np.exp(step * a[:, None, None]) + step * values[t][:, :, None] * b[t][:, None]
            y[t] = (memory * c[t][:, None]).sum(-1) + w("mixer.D")[:, None] * values[t]
        gated = y.reshape(tokens, inner) * silu(z)
        gated = rms_norm(gated, w("mixer.norm.weight"), epsilon, 1 if whole else groups)
        x = x + gated @ w("mixer.out_proj.weight").T
    return rms_norm(x, weights["backbone.norm_f.weight"], epsilon) @ weights["lm_head.weight"].T


def by_dla(folder, ids, *options):
    """Logits of `dla logits`, a prefill of PREFILL tokens and then steps."""
    with tempfile.TemporaryDirectory() as work:
        source, target = f"{work}/ids.safetensors", f"{work}/logits.safetensors"
        save_file({"input_ids": ids.astype(np.int64)}, source)
        command = [DLA, "logits", "--model", folder, "--ids", source, "--output", target, "--prefill", str(PREFILL)]
        subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
        return load_file(target)["logits"]


def by_transformers(folder, ids, limit):
    """Logits of one prefill, and of a prefill of PREFILL tokens and then steps; None where it is not installed."""
    try:
        import torch
        import transformers
    except ImportError:
        return None
    transformers.logging.set_verbosity_error()
    config = transformers.AutoConfig.from_pretrained(folder)
    config.time_step_limit = limit
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, config=config).eval()
    ids = torch.from_numpy(ids)
    with torch.no_grad():
        whole = model(ids).logits
        reply = model(ids[:, :PREFILL], use_cache=True)
        parts = [reply.logits]
        for t in range(PREFILL, ids.shape[1]):
            word = "cache" if hasattr(reply, "cache") else "cache_params"
            step = {word: getattr(reply, word), "use_cache": True}
            if word == "cache_params":
                step["cache_position"] = torch.tensor([t])
            reply = model(ids[:, t : t + 1], **step)
            parts.append(reply.logits)
    return transformers.__version__, whole.numpy(), torch.cat(parts, 1).numpy()


def main():
    config = json.load(open(f"{MODEL}/config.json"))
    weights = {name: x.astype(np.float64) for name, x in load_file(f"{MODEL}/model.safetensors").items()}
    ids = load_file(f"{MODEL}/ref.safetensors")["input_ids"]
    tokens = ids.shape[1]
    truth = lambda limit, clamped=tokens, **mistakes: np.stack(
        [logits(config, weights, row, limit, clamped, **mistakes) for row in ids]
    )
    off = lambda got, want: f"{np.linalg.norm(got - want) / np.linalg.norm(want):.1e}"
    for limit in LIMITS:
        want = truth(limit)
        print(f"time_step_limit {limit}")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("model.safetensors", "config.json"):
                shutil.copy(f"{MODEL}/{name}", folder)
            plain = {**config, "time_step_limit": [x if np.isfinite(x) else {"__float__": "Infinity"} for x in limit]}
            json.dump(plain, open(f"{folder}/config.json", "w"))
            for backend in ("cpu", "gpu"):
                got = by_dla(folder, ids, "--backend", backend)
                print(f"  dla, --backend {backend}: {off(got, want)}")
            old = {**plain, "time_step_limit": [float(x) for x in limit], "torch_dtype": "float32"}
            json.dump(old, open(f"{folder}/config.json", "w"))  # as every version of transformers reads it
            found = by_transformers(folder, ids, limit)
        if found is None:
            print("  transformers is not installed")
            continue
        version, whole, stepped = found
        print(f"  transformers {version}: prefill {off(whole, want)}, prefill and steps {off(stepped, want)}")
        for name, mistakes in [
            ("steps unclamped", {"clamped": PREFILL}),
            ("norm of the whole width", {"whole": True}),
            ("groups tiled, norm of the whole width", {"tile": True, "whole": True}),
        ]:
            other = truth(limit, **mistakes)
            print(f"    float64 with {name}: prefill {off(whole, other)}, prefill and steps {off(stepped, other)}")


if __name__ == "__main__":
    sys.exit(main())
