#!/bin/bash
# A training under `terrace run --offload activations`, on CPU tensors and on an emulated GPU that it does not fit: the
# same losses and parameters as stock, to the last bit.
. "$(dirname "$0")/../e2e.sh"

"$PYTHON" -c 'import torch, torchvision' 2>/dev/null || skip "$PYTHON has no PyTorch with torchvision"
export OMP_WAIT_POLICY=passive XDG_RUNTIME_DIR=$work
train() {
  "$@" "$PYTHON" "$TERRACE_SOURCE/tools/bench/workloads/train.py" --model relu_cnn --batch 12 --size 96 --steps 3 |
    sed -n 's/.*\(loss .*\)/\1/p; /sha256/p'
}

train env >"$work/stock.out"
[ -s "$work/stock.out" ] || fail "the training printed nothing to compare"
for gpu in "" "--gpu emulated:$1"; do
  # shellcheck disable=SC2086 # an option and its value, or nothing
  train "$TERRACE_BIN" run --pool "$work" --offload activations --json-summary "$work/summary" $gpu -- >"$work/out" 2>"$work/err" ||
    fail "with '$gpu': $(tail -n 3 "$work/err")"
  cmp "$work/stock.out" "$work/out" || fail "training gives another result with '$gpu'"
  ! grep 'cannot be stored' "$work/err" || fail "the engine refused a tensor though the machine has memory (above)"
done
grep -q '"stored": [1-9]' "$work/summary" || fail "nothing was offloaded from the emulated GPU"
