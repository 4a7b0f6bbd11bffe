#!/bin/bash
# Tunes the ladders of three mixtures of experts on the GPU of this machine, checks the files, and reads them with vLLM's own loader.
#
#     tests/gpu/serving.sh BLUEFIN PACKAGE [OUT]
#
# BLUEFIN: the binary. PACKAGE: the folder of the package vllm, installed or unpacked; of it fused_moe.py and its configs are read. OUT: a folder
# for state and files [serving-out]. Triton has to be in the Python that BLUEFIN_PYTHON names. TOKENS=1,64,1024 tunes those batch sizes alone.
set -euo pipefail
bluefin=$1 package=$2 out=${3:-serving-out}
here=$(cd "$(dirname "$0")" && pwd)
shipped=$package/model_executor/layers/fused_moe/configs
tokens=${TOKENS:+--tokens $TOKENS}
mkdir -p "$out"

layer() {
    name=$1
    shift
    began=$(date +%s)
    # shellcheck disable=SC2086
    "$bluefin" serving tune --engine vllm --installed "$package" --shipped "$shipped" --device gpu $tokens --state "$out/$name.db" \
        -o "$out/tuned" "$@" 2>"$out/$name.log" | tee "$out/$name.txt"
    echo "$name: $(($(date +%s) - began)) s"
    "$bluefin" results --state "$out/$name.db" --json >"$out/$name.jsonl" || true
}

# Experts, intermediate size, hidden size, experts a token.
layer mixtral --moe 8,14336,4096,2 --tp 2
layer qwen3 --moe 128,768,2048,8
layer deepseek --moe 256,2048,7168,8 --tp 8 --dtype fp8_w8a8 --block-shape 128,128
"$bluefin" serving check "$out/tuned" || true
"${BLUEFIN_PYTHON:-python3}" "$here/serving_loader.py" "$package" "$out"/tuned/*.json
