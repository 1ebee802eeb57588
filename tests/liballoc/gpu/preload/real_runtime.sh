#!/bin/bash
# The preload and its self-test with programs that are linked to NVIDIA's own runtime, on an emulated GPU.
#   real_runtime.sh DIRECTORY_OF_PROGRAMS LIBRARY_DIRECTORY WORK_DIRECTORY
# LIBRARY_DIRECTORY holds libterrace_gpu_preload.so and libterrace_gpu.so.
set -u
programs=$1 libraries=$2 work=$3
mkdir -p "$work"
unset TERRACE_DISABLE PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF LD_LIBRARY_PATH
grep -q terrace_gpu_alloc "$libraries/libterrace_gpu.so.0" 2>/dev/null ||
  { echo "SKIP: there is no libterrace_gpu.so with a heap"; exit 77; }
export TERRACE_GPU=emulated:64M TERRACE_GPU_SELFTEST=1
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
# run CODE command…
run() {
  local wanted=$1
  shift
  env LD_PRELOAD="$libraries/libterrace_gpu_preload.so" timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null
  local code=$?
  [ "$code" -eq "$wanted" ] || fail "$*: exit code $code instead of $wanted: $(cat "$work/out" "$work/err")"
}
says() { grep -q -- "$1" "$work/err" || fail "$2: no '$1' in: $(cat "$work/err")"; }

run 0 "$programs/allocate_shared"
says "allocate_shared: .*cudaMalloc.*: seen" "the shared runtime"
says ": 2 allocations went through Terrace\|: 1 allocations went through Terrace" "the count"

# No GPU is needed to see that nothing was seen; with one, the program's memory is the GPU's and cannot be written to.
[ -e /dev/nvidiactl ] && static=(true) || static=("$programs/allocate_static")
run "$([ "${static[0]}" = true ] && echo 0 || echo 2)" "${static[@]}"
[ "${static[0]}" = true ] || says "allocate_static: NOT SEEN.*cudart_static" "the static runtime"
if command -v strip >/dev/null && [ "${static[0]}" != true ]; then
  strip -o "$work/stripped" "$programs/allocate_static"
  run 2 "$work/stripped"
  says "stripped: NOT SEEN.*cudart_static" "the static runtime without symbols"
fi

run 0 "$programs/deep_bind" "$programs/liballocate_library.so" usual
says "liballocate_library.so: .*: seen" "a library that was opened later"
if [ ! -e /dev/nvidiactl ]; then
  run 2 "$programs/deep_bind" "$programs/liballocate_library.so"
  says "liballocate_library.so: NOT SEEN: .*libcudart.so.*RTLD_DEEPBIND" "RTLD_DEEPBIND"
fi

run 0 true
grep -v "0 allocations went through Terrace" "$work/err" && fail "a program without CUDA has more to say than that"
TERRACE_GPU_SELFTEST='' run 0 true
[ -s "$work/err" ] && fail "speaks without being asked: $(cat "$work/err")"
[ "$failures" -eq 0 ] && echo ok
exit "$((failures > 0))"
