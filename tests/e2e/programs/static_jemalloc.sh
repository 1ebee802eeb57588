#!/bin/bash
# A program that carries its own allocator: its blocks are not ours, and nothing is freed across the border.
. "$(dirname "$0")/../e2e.sh"
[ -x "${TERRACE_STATIC_JEMALLOC:-}" ] || skip "libjemalloc.a is not installed (tools/setup)"

same_result "$TERRACE_STATIC_JEMALLOC"
grep -q 'jemalloc serves malloc' "$work/preload.out" || fail "the program does not use its own allocator"
