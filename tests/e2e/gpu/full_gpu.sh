#!/bin/bash
# An emulated GPU that is too small: torch on the CPU meets its own out-of-memory error, once told by one line, and has
# room again after it has freed something.
. "$(dirname "$0")/../e2e.sh"

preload_is_live
TERRACE_GPU=emulated:64M TERRACE_OFFLOAD=activations preload "$PYTHON" - >"$work/out" 2>"$work/err" <<'PROGRAM'
import torch

first = torch.empty(48 << 20, dtype=torch.uint8)
for _ in range(2):
    try:
        torch.empty(32 << 20, dtype=torch.uint8)
        print("had room for more than there is")
    except RuntimeError as error:
        print("refused" if "memory" in str(error) else error)
del first
torch.ones(56 << 20, dtype=torch.uint8)
print("room again")
PROGRAM
printf 'refused\nrefused\nroom again\n' >"$work/wanted"
cmp "$work/out" "$work/wanted" || fail "another end: $(cat "$work/out" "$work/err")"
[ "$(grep -c 'the emulated GPU of 64.0 MiB is full' "$work/err")" -eq 1 ] || fail "not one line: $(cat "$work/err")"

TERRACE_GPU=emulated:64M preload "$PYTHON" -c 'import torch; torch.empty(128 << 20, dtype=torch.uint8)' 2>"$work/err" ||
  fail "a job that offloads nothing is limited, too: $(cat "$work/err")"
