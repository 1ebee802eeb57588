#!/bin/bash
# The preload in front of jemalloc, mimalloc and tcmalloc: small blocks go on to them, results stay the same.
. "$(dirname "$0")/../e2e.sh"

found=0
arrays env >"$work/stock.out"
for name in libjemalloc.so.2 libmimalloc.so.2 libtcmalloc.so.4; do
  library=/usr/lib/x86_64-linux-gnu/$name
  [ -e "$library" ] || continue
  found=$((found + 1))
  CHAINED=$library preload sh -c "grep -q $name /proc/self/maps" || fail "$name is not loaded"
  CHAINED=$library preload_is_live
  CHAINED=$library arrays preload EXPECT_EVICTED_BYTES=400000000 >"$work/$name.out" 2>"$work/$name.err" ||
    fail "with $name: $(tail -n 3 "$work/$name.err")"
  cmp "$work/stock.out" "$work/$name.out" || fail "another result with $name"
  quiet "$work/$name.err"
done
[ $found -gt 0 ] || skip "none of jemalloc, mimalloc, tcmalloc is installed (tools/setup)"
echo "chained with $found allocators"
