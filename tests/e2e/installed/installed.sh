#!/bin/bash
# The tree that `cmake --install` makes of a build works from where it lies: command, daemon, preloads, Python package,
# headers with their libraries, manual pages and units. Nothing is built for it.
. "$(dirname "$0")/../e2e.sh"
build=$1

DESTDIR=$work/root cmake --install "$build" >"$work/install.log" 2>&1 ||
  fail "cmake --install: $(tail -n 3 "$work/install.log")"
prefix=$work/root$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")
unset TERRACE_GPU_LIBRARY PYTHONPATH
export XDG_RUNTIME_DIR=$work TERRACE_POOL_DIR=$work
terrace() { "$prefix/bin/terrace" "$@"; }

# installed PATTERN…: each is there, below the prefix.
installed() {
  local pattern
  for pattern; do compgen -G "$prefix/$pattern" >/dev/null || fail "not installed: $pattern"; done
}

# Our libraries that the job has in its memory.
loaded() {
  terrace run --dram 64M "$@" -- sed -n 's|^[^/]*\(/.*libterrace[a-z_]*\.so\).*|\1|p' /proc/self/maps | sort -u
}

libraries=$(dirname "$(find "$prefix" -name libterrace_preload.so)")
[ "$(loaded)" = "$libraries/libterrace_preload.so" ] || fail "terrace run loads '$(loaded)'"
if [ -e "$libraries/libterrace_gpu_preload.so" ]; then
  loaded --gpu emulated:64M | grep -qx "$libraries/libterrace_gpu_preload.so" || fail "--gpu loads no GPU preload"
fi

# A private daemon out of the installation, which `terrace status` finds from within the job.
terrace run --dram 64M -- "$prefix/bin/terrace" status --json >"$work/status" 2>"$work/status.err" ||
  fail "terrace status in a job: $(cat "$work/status.err")"
grep -q '"jobs"' "$work/status" || fail "terrace status lists no jobs: $(head -c 300 "$work/status")"
code=0
terrace doctor --pool "$work" >"$work/doctor" 2>&1 || code=$?
case $code in 0 | 6) ;; *) fail "terrace doctor ends with $code: $(tail -n 3 "$work/doctor")" ;; esac

unit=$prefix/lib/systemd/system/terraced.service
installed lib/systemd/system/terraced.socket
installed lib/systemd/system/terraced-metrics.socket
installed share/terrace/grafana/terrace.json
read -r daemon option config < <(sed -n 's/^ExecStart=//p' "$unit") || true
[ -x "$work/root$daemon" ] || fail "terraced.service starts $daemon, which is not installed"
[ "${option:---config}" = --config ] || fail "terraced.service gives terraced $option"
[ -e "$work/root${config:-/etc/terrace/terraced.toml}" ] || fail "${config:-/etc/terrace/terraced.toml} is not installed"
# A second installation leaves the administrator's settings alone; another prefix has settings and units of its own.
settings=$work/root${config:-/etc/terrace/terraced.toml}
echo '# edited' >>"$settings"
DESTDIR=$work/root cmake --install "$build" >"$work/install.log" 2>&1 || fail "a second cmake --install"
tail -n 1 "$settings" | grep -qx '# edited' || fail "a second installation overwrites $settings"
cmake --install "$build" --prefix "$work/elsewhere" >"$work/install.log" 2>&1 || fail "cmake --install --prefix"
[ -e "$work/elsewhere/etc/terrace/terraced.toml" ] || fail "--prefix: no settings below it"
grep -qx "ExecStart=$work/elsewhere/sbin/terraced --config $work/elsewhere/etc/terrace/terraced.toml" \
  "$work/elsewhere/lib/systemd/system/terraced.service" || fail "--prefix: the unit does not name it"
for program in "$prefix"/bin/terrace*; do
  ! ldd "$program" | grep "not found" || fail "$program lacks a library"
done
! command -v scdoc >/dev/null || installed share/man/man1/terrace.1 share/man/man8/terraced.8 share/man/man5/terraced.toml.5

# compiled HEADER LIBRARY EXPRESSION: a C program with the installed header and library in which it is true.
compiled() {
  printf '#include <%s>\nint main(void) { return !(%s); }\n' "$1" "$3" >"$work/program.c"
  cc -std=c11 -Wall -Werror -I"$prefix/include" "$work/program.c" -o "$work/program" -L"$libraries" "-l$2" \
    -Wl,-rpath,"$libraries" || fail "a C program with $1 does not build"
  "$work/program" || fail "a C program with $1 does not run"
}
compiled terrace.h terrace 'terrace_version()[0]'
[ ! -e "$libraries/libterrace_gpu.so" ] || compiled terrace_gpu.h terrace_gpu 'terrace_offload_open(0, 0, 0, 0) < 0'
[ ! -e "$libraries/libterrace_gpu.so" ] || compiled terrace_optimizer.h terrace_gpu 'terrace_optimizer_open(0, 0, 0, 0) < 0'

"$PYTHON" -c 'import torch' 2>/dev/null || skip "$PYTHON has no PyTorch; everything but the Python package is fine"
PYTHONPATH=$prefix/share/terrace/python "$PYTHON" - "$prefix" <<'SCRIPT' || fail "the installed Python package"
import sys
import torch
import terrace.torch
from terrace import library
for file in (terrace.torch.__file__, library.load().file):
    assert file.startswith(sys.argv[1]), file
with terrace.torch.offload(budget="64M", device="cpu", min_bytes=1, limit=None, keep_last=0) as session:
    torch.ones(4096, requires_grad=True).exp().sum().backward()
assert session.statistics()["fetched"] == 1, session.statistics()
SCRIPT
terrace run --dram 64M --offload activations -- "$PYTHON" -c 'import torch, sys
assert sys.modules["terrace.torch"].__file__.startswith(sys.argv[1])' "$prefix" || fail "terrace run --offload activations"
