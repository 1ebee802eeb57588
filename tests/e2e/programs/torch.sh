#!/bin/bash
# python3 with torch under the bare preload, without the launcher and without a daemon.
. "$(dirname "$0")/../e2e.sh"

train() {
  "$@" "$PYTHON" "$TERRACE_SOURCE/tools/bench/workloads/train.py" --model relu_cnn --batch 8 --steps 3 |
    sed -n 's/.*\(loss .*\)/\1/p; /sha256/p'
}

preload_is_live
export OMP_WAIT_POLICY=passive # other tests may use the processors too
train env >"$work/stock.out"
train preload >"$work/preload.out" 2>"$work/preload.err" || fail "under the preload: $(tail -n 3 "$work/preload.err")"
[ -s "$work/stock.out" ] || fail "the training printed nothing to compare"
cmp "$work/stock.out" "$work/preload.out" || fail "training gives another result under the preload"
quiet "$work/preload.err"
