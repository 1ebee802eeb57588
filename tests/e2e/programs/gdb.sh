#!/bin/bash
# gdb itself under the preload runs a program under the preload, stops in it, and reads its memory.
. "$(dirname "$0")/../e2e.sh"
need gdb

gdb -batch -ex run --args /bin/true >"$work/probe" 2>&1 || true
grep -q 'exited normally' "$work/probe" || skip "gdb cannot trace here: $(tail -n 1 "$work/probe")"
cat >"$work/victim.c" <<'C'
#include <stdlib.h>
#include <string.h>
char* block;
void stop_here(void) {}
int main(void) {
  block = malloc(64 << 20);
  memset(block, 'x', 64 << 20);
  stop_here();
  return 7;
}
C
preload_is_live
gcc -g -O0 -o "$work/victim" "$work/victim.c"
preload gdb -batch -ex 'break stop_here' -ex run -ex 'print block[12345678]' -ex backtrace -ex continue \
  --args "$work/victim" >"$work/out" 2>&1 || fail "gdb: $(cat "$work/out")"
grep -q "= 120 'x'" "$work/out" || fail "gdb does not see the block: $(cat "$work/out")"
grep -q 'main () at' "$work/out" || fail "gdb gives no backtrace: $(cat "$work/out")"
grep -q 'exited with code 07' "$work/out" || fail "the program did not end as it should: $(cat "$work/out")"
