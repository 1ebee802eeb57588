#!/bin/bash
# Switched off, or on a machine that lacks something: the program runs with the same result, and where something
# that was asked for is missing exactly one line says what.
#
#   degraded.sh disabled | no_daemon | no_userfaultfd | no_io_uring | neither
. "$(dirname "$0")/../e2e.sh"

arrays env >"$work/stock.out"

run() {
  arrays preload "$@" >"$work/out" 2>"$work/err" || fail "$* ended with $?: $(tail -n 3 "$work/err")"
  cmp "$work/stock.out" "$work/out" || fail "another result with $*"
}

one_line_about() {
  [ "$(grep -c '^terrace:' "$work/err")" = 1 ] || fail "expected one line about $1, got: $(cat "$work/err")"
  grep -q "^terrace:.*$1" "$work/err" || fail "no line about $1: $(cat "$work/err")"
}

case $1 in
  disabled)
    run TERRACE_DISABLE=1 EXPECT_EVICTED_BYTES=0
    quiet "$work/err"
    ;;
  no_daemon)
    run TERRACE_SOCKET="$work/nobody.sock" EXPECT_EVICTED_BYTES=400000000
    one_line_about daemon
    ;;
  no_userfaultfd)
    LAUNCHER=("$TERRACE_DENY_SYSCALLS" userfaultfd --)
    run EXPECT_EVICTED_BYTES=0
    one_line_about userfaultfd
    ;;
  no_io_uring)
    LAUNCHER=("$TERRACE_DENY_SYSCALLS" io_uring --)
    run EXPECT_EVICTED_BYTES=400000000
    ;;
  neither)
    LAUNCHER=("$TERRACE_DENY_SYSCALLS" userfaultfd io_uring --)
    run EXPECT_EVICTED_BYTES=0
    one_line_about userfaultfd
    ;;
  *) fail "unknown case $1" ;;
esac
