#!/bin/bash
# python3 with numpy on three times the budget: equal results, and pages really left DRAM.
. "$(dirname "$0")/../e2e.sh"

arrays env >"$work/stock.out"
arrays preload EXPECT_EVICTED_BYTES=400000000 >"$work/preload.out" 2>"$work/preload.err" ||
  fail "under the preload: $(tail -n 3 "$work/preload.err")"
cmp "$work/stock.out" "$work/preload.out" || fail "numpy gives another result under the preload"
quiet "$work/preload.err"
