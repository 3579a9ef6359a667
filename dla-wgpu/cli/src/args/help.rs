//! The long help of commands that read files of their own.

/// The format, as `dla op --help` tells it.
pub(super) const CASE: &str = "\
The input, a safetensors file (B sequences, T tokens, G key groups, H heads, K states):
  q, k                   [B,T,G,Dk]       f32, or f16 that is widened
  v                      [B,T,H,Dv]       f32, or f16 that is widened
  lambda                 [B,T,H,K]        f32, read weights by rank (by level for fenwick)
  g, beta                [B,T,H]          f32, where the backbone has them
  tau                    [H]              f32, instead of the metadata's
  lengths                [B]              i32, tokens of each sequence
  h0, n0, info0          [B,H,K(,Dk,Dv)]  f32, i32, f32, the states to start from
  boundary, merge_at     [B,T,H]          u8, i32, decisions to replay
  do                     [B,T,H,Dv]       f32, asks for the gradients of the sum of o·do
Its metadata, words [default]:
  backbone   plain|decay|delta
  schedule   dynamic|single|fixed|fenwick|offline [dynamic]
  tau        threshold, inf for a single state; needed for dynamic
  block      tokens of a state; needed for fixed
  norm       rms|none [rms]
  merge      density|ward|oldest [density]
  epsilon    [1e-12]
  capacity   K, if given
  gate       hard|straight-through|soft [straight-through], how tau learns
  theta      the gate's width [0.1]
The output: o [B,T,H,Dv]; score, boundary, merge_at, count [B,T,H]; states [B,H,K,Dk,Dv];
n, info [B,H,K]; with do the gradients dq, dk, dv, dg, dbeta, dlambda, dh0 in their inputs' shapes
and dtau [H]; and the metadata word non_finite, the number of scores that were not finite.
To go on where an output ended, pass its states, n, info as h0, n0, info0.
";

/// The formats, as `dla logits --help` tells them.
pub(super) const LOGITS: &str = "\
The input, a safetensors file (B sequences of T tokens; other tensors are not read):
  input_ids  [B,T]    i64
The output (V rows of the embedding, padding included):
  logits     [B,T,V]  f32, after each token
What --decisions writes and --replay follows (L layers of H heads):
  boundary   [L,B,T,H]  u8, 1 where the token opened a state
  merge_at   [L,B,T,H]  i32, the older of the two states merged before that, oldest first; -1 for none
";

/// What the long help adds.
pub(super) const GENERATE: &str = "\
The text goes to stdout as it is generated, everything else to stderr. With --json, stdout gets one
object at the end instead: text, ids (the generated ones), prompt_tokens, ending (max-tokens,
end-of-text or stop-string), stop_string, backend, seconds, tokens_per_second and, with
--show-states, states.
Filters apply in this order: repetition penalty, temperature, top-k, top-p, min-p. Equal options and
an equal prompt give equal text on one backend.
Without a tokenizer.json in the model directory tokens are bytes, and ids from 256 on have no text.
The text ends at any end-of-text token that generation_config.json names, else config.json
(eos_token_id, one id or a list), else tokenizer_config.json or special_tokens_map.json (eos_token).
An empty prompt starts at the begin of text that these files name, else at the end of text; where
they name neither, a prompt is needed.
";

/// An example of it.
pub(super) const OP_EXAMPLE: &str =
    "Example:\n  dla op --input case.safetensors --output out.safetensors --chunk 64";

/// An example of it.
pub(super) const LOGITS_EXAMPLE: &str = "Example:\n  dla logits --model mamba2-780m --ids ids.safetensors --output logits.safetensors --prefill 64";

/// An example of it.
pub(super) const GENERATE_EXAMPLE: &str = "Example:\n  dla generate --model mamba2-780m --prompt 'Once upon a time' --max-tokens 100 --top-p 0.9 --seed 1";
