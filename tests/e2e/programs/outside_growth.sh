#!/bin/bash
# Memory outside the heap grows faster than a drive writes, under a limit: the heap makes room, and nobody is killed
# while it can. Nor is a job in which who makes room needs a page for it. What no heap can make room for is killed, soon,
# and the user is told why.
. "$(dirname "$0")/../e2e.sh"

under_limit() { # code that is expected, then the program and its words
  local expected=$1 code=0
  shift
  timeout -s KILL 60 "$TERRACE_BIN" run --limit 600M --pool "$work" --summary -- "$@" \
    >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq "$expected" ] || fail "$TERRACE_MOVER, $*: code $code, not $expected ($(tail -n 6 "$work/err"))"
}

"$TERRACE_BIN" run --limit 600M --pool "$work" -- true 2>"$work/err" || skip "$(tail -n 1 "$work/err")"
for TERRACE_MOVER in move mremap; do
  export TERRACE_MOVER
  for pages in small huge; do
    under_limit 0 "$TERRACE_OUTSIDE_GROWTH" 900 300 2 $pages
    grep -q grown "$work/out" || fail "$TERRACE_MOVER, $pages: the program did not grow"
  done
done
under_limit 137 "$TERRACE_OUTSIDE_GROWTH" 900 700 2 small
grep -q 'KILLED' "$work/err" || fail "the summary does not say who was killed: $(tail -n 6 "$work/err")"
if [ -e /sys/fs/cgroup/memory/memory.oom_control ]; then
  grep -q 'none of its memory can leave' "$work/err" || fail "nobody said why: $(tail -n 6 "$work/err")"
  under_limit 0 "$TERRACE_LATE_HELPER" 500 200
  grep -q filled "$work/out" || fail "the program did not fill its memory"
fi
