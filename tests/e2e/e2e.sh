# shellcheck shell=bash
# Sourced by every end-to-end script: how to run a program stock and under the preload, and how to compare.
#
# ctest gives TERRACE_BIN, TERRACE_PRELOAD and TERRACE_SOURCE. Each script works in a directory of its own, which
# goes away with it. A script ends with 0, or 77 with "SKIP: reason" where the machine lacks something.
set -euo pipefail

PYTHON=/usr/bin/python3 # Debian's: the one that has Debian's torch and numpy
: "${TERRACE_BIN:?}" "${TERRACE_PRELOAD:?}" "${TERRACE_SOURCE:?}"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/terrace-e2e.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

skip() {
  echo "SKIP: $*"
  exit 77
}

need() {
  command -v "$1" >/dev/null || skip "$1 is not installed (tools/setup)"
}

# Runs a command under the preload with a small budget and no daemon; settings given as VARIABLE=value before it
# win. LAUNCHER comes before all of it and does not see the preload itself.
LAUNCHER=()
preload() {
  "${LAUNCHER[@]}" env LD_PRELOAD="$TERRACE_PRELOAD${CHAINED:+:$CHAINED}" TERRACE_DRAM=128M TERRACE_POOL_DIR="$work" "$@"
}

# The same command stock and under the preload, each in an empty directory of its own: equal output, both succeed.
same_result() {
  preload_is_live
  mkdir -p "$work/stock" "$work/preload"
  (cd "$work/stock" && "$@") >"$work/stock.out" 2>"$work/stock.err" || fail "stock: $* ($(tail -n 3 "$work/stock.err"))"
  (cd "$work/preload" && preload "$@") >"$work/preload.out" 2>"$work/preload.err" ||
    fail "under the preload: $* (code $?, $(tail -n 3 "$work/preload.err"))"
  [ -s "$work/stock.out" ] || fail "$* printed nothing to compare"
  cmp "$work/stock.out" "$work/preload.out" || fail "$* gives another result under the preload"
  quiet "$work/preload.err"
}

# A healthy run says nothing.
quiet() {
  ! grep '^terrace:' "$1" || fail "the library complained (above)"
}

# The tests would pass without a preload; this is what notices its absence.
preload_is_live() {
  preload sh -c 'grep -q libterrace_preload /proc/self/maps' || fail "the preload is not loaded"
}

arrays() {
  "$@" "$PYTHON" "$TERRACE_SOURCE/tests/e2e/arrays.py"
}
