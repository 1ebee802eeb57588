#!/bin/bash
# On which NUMA node memory lies, in an emulated machine of two nodes with a processor each, which runs without
# KVM and on a Linux that Debian 12 has (6.1: no UFFDIO_MOVE, so the mover is mremap; no PAGEMAP_SCAN).
#
# While the pager sleeps, fresh memory lies on the node of the thread that touches it, as stock. The other shares, of
# memory that was used before and of runs that came back, are printed (docs/decisions/049-numa.md). Nowhere is a byte
# wrong, with the kernel's automatic balancing on as well.
#
#   numa.sh [SECONDS]     how long a thread goes on reading with balancing on: 2
. "$(dirname "$0")/../e2e.sh"

PATH=$PATH:/usr/sbin:/sbin
at_most_s=150
what="apt-get install qemu-system-x86 busybox-static cpio linux-image-cloud-amd64; tools/setup leaves them out"

# The newest kernel that may be read, or the one that is named.
kernel() {
  local file
  for file in ${TERRACE_NUMA_KERNEL:-$(ls -v -r /boot/vmlinuz-* 2>/dev/null)}; do
    [ -r "$file" ] && echo "$file" && return
  done
}

has() {
  command -v "$1" >/dev/null || skip "$1 is missing ($what)"
}

# What the guest is made of: busybox, our library and program, and what these two need.
fill_root() {
  local file
  mkdir -p "$1"/{bin,lib,proc,sys,dev,pool}
  cp "$(command -v busybox)" "$1/bin/busybox"
  cp "$TERRACE_TOUCHED_ON" "$1/bin/touched_on"
  cp "$TERRACE_PRELOAD" "$1/lib/libterrace_preload.so"
  cp "$TERRACE_SOURCE/tests/e2e/numa/guest_init" "$1/init"
  chmod +x "$1/init"
  for file in $(ldd "$TERRACE_PRELOAD" "$TERRACE_TOUCHED_ON" | grep -o '/[^ :]*\.so[^ :]*' | sort -u); do
    [ "$file" -ef "$TERRACE_PRELOAD" ] || install -D "$file" "$1$file"
  done
}

boot() {
  timeout -s KILL "$at_most_s" qemu-system-x86_64 -accel tcg -cpu max -machine q35 -smp 2 -m 2G \
    -object memory-backend-ram,size=1G,id=m0 -numa node,nodeid=0,cpus=0,memdev=m0 \
    -object memory-backend-ram,size=1G,id=m1 -numa node,nodeid=1,cpus=1,memdev=m1 \
    -display none -vga none -nodefaults -no-reboot -serial "file:$work/console" \
    -kernel "$1" -initrd "$work/root.cpio.gz" -append "console=ttyS0 quiet panic=-1 -- ${2:-2}" \
    </dev/null >"$work/qemu" 2>&1
}

# of_share NAME WHAT: the percentage on that line
of_share() {
  sed -n "s/^$1: $2 \([0-9.]*\) [1-9][0-9]*$/\1/p" "$work/lines"
}

has qemu-system-x86_64
has busybox
has cpio
image=$(kernel) || true
[ -n "$image" ] || skip "no kernel image can be read in /boot; TERRACE_NUMA_KERNEL may name one ($what)"
free_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
[ "$free_kib" -gt 2500000 ] || skip "less than 2.5 GB of memory are free for a machine of two nodes"

fill_root "$work/root"
(cd "$work/root" && find . | cpio -o -H newc 2>/dev/null | gzip -1 >"$work/root.cpio.gz")
code=0
boot "$image" "${1:-}" || code=$?
tr -d '\r' <"$work/console" | grep -aE '^[a-z-]+: ' >"$work/lines" || true
cat "$work/lines"
[ "$code" -ne 137 ] || skip "the emulated machine was not done in $at_most_s s: this one is too slow"
[ "$code" -eq 0 ] || fail "qemu: code $code ($(tail -n 3 "$work/qemu"))"
grep -q '^kernel: .* nodes 0-1 cpus 0 1$' "$work/lines" || skip "$image does not run two nodes ($(tail -n 3 "$work/console"))"
grep -q '^done: ' "$work/lines" || fail "the emulated machine stopped ($(tail -n 5 "$work/console"))"

for name in stock-always stock-madvise terrace-always terrace-madvise balanced; do
  grep -q "^$name: code 0$" "$work/lines" || fail "$name: $(grep "^$name: " "$work/lines" | tail -n 2)"
done
for name in stock-always stock-madvise terrace-always terrace-madvise; do
  for kind in fresh fresh-zeroed fresh-striped fresh-bound; do
    share=$(of_share $name $kind)
    awk "BEGIN { exit !(${share:-0} >= 95) }" || fail "$name: only ${share:-0}% of $kind pages lie where they should"
  done
done
! grep -E ': terrace:' "$work/lines" || fail "the library complained (above)"
! grep -E 'failures [1-9]|lost [1-9]' "$work/lines" || fail "data was lost (above)"
