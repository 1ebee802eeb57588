#!/bin/bash
# terrace bench gpu on the emulated device: that it runs, says where, compares bits, and judges. No figure is looked at.
. "$(dirname "$0")/../e2e.sh"

"$PYTHON" -c 'import torch' 2>/dev/null || skip "PyTorch is not installed for $PYTHON (tools/setup)"
[ -e "$TERRACE_SOURCE/liballoc/python/terrace/torch" ] || skip "this tree has no terrace.torch"

OMP_NUM_THREADS=1 "$TERRACE_BIN" bench gpu --gpu emulated:1G,h2d=4G,d2h=4G --quick --only steps copies --pool "$work" \
  --contenders "plain again" streams "terrace dram" --json "$work/gpu.json" >"$work/out" 2>"$work/err" ||
  fail "it ended with $?: $(tail -n 5 "$work/out" "$work/err")"
grep -q 'not what a GPU does' "$work/out" || fail "the heading does not say what the figures are"
"$PYTHON" - "$work/gpu.json" <<'CHECK' || fail "the document is wrong (above)"
import json
import sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
entries = {entry["contender"]: entry for entry in document["steps"]["entries"]}
assert document["device"]["kind"] == "emulated", document["device"]
assert {"plain again", "streams", "terrace dram"} <= entries.keys(), entries.keys()
assert all(entry["bit_identical"] for entry in entries.values()), entries
assert entries["terrace dram"]["statistics"]["stored"] > 0, entries["terrace dram"]
assert set(document["copies"]["ways"]) == {"to_host", "to_device", "both"}, document["copies"]
verdicts = {item["claim"]: item["verdict"] for item in document["targets"]}
assert verdicts["largest batch in the same memory"] == "not measured", verdicts
assert verdicts["losses and parameters equal to plain's to the last bit"] == "met", verdicts
CHECK
