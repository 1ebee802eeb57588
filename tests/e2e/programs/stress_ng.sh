#!/bin/bash
# stress-ng's malloc and mmap stressors under the preload, verifying what they wrote.
. "$(dirname "$0")/../e2e.sh"
need stress-ng

preload_is_live
stress() {
  preload stress-ng --verify --temp-path "$work" "$@" >"$work/out" 2>&1 || fail "stress-ng $*: $(cat "$work/out")"
  grep -q 'successful run completed' "$work/out" || fail "stress-ng $* did not complete: $(cat "$work/out")"
}
stress --malloc 2 --malloc-bytes 4M --malloc-max 128 --malloc-touch --malloc-ops 2000
stress --mmap 2 --mmap-bytes 128M --mmap-ops 10
