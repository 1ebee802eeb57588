# What the scripts share. $1 is the terrace command, $2 a directory of the script's own; private daemons live in
# it, so that scripts may run side by side, and nothing of the caller's environment leaks in.
set -u
terrace=$1
directory=$2
rm -rf "$directory"
mkdir -p "$directory"
cd "$directory" || exit 1
# A socket path has at most 107 characters, and build directories can be deep.
XDG_RUNTIME_DIR=$(mktemp -d /tmp/terrace-test-XXXXXX)
export XDG_RUNTIME_DIR
unset TERRACE_DRAM TERRACE_SOCKET TERRACE_POOL_DIR TERRACE_POOL_SIZE TERRACE_DISABLE TERRACE_LOG TERRACE_MOVER TERRACE_IO TERRACE_WORKERS \
  TERRACE_THRESHOLD TERRACE_JOB TERRACE_LIMIT_CGROUP TERRACE_GPU TERRACE_GPU_BUDGET TERRACE_GPU_SELFTEST \
  TERRACE_OFFLOAD TERRACE_OFFLOAD_BUDGET TERRACE_OFFLOAD_TIERS TERRACE_OFFLOAD_MIN TERRACE_OFFLOAD_LIMIT TERRACE_OFFLOAD_SUMMARY \
  TERRACE_POLICY TERRACE_WEIGHT TERRACE_WRITES_PER_DAY TERRACE_WRITES_TOTAL PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTHONPATH LD_PRELOAD
trap 'rm -rf "$XDG_RUNTIME_DIR"' EXIT
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect_code CODE what command…
expect_code() {
  local wanted=$1 what=$2
  shift 2
  "$@" >out 2>err </dev/null
  local code=$?
  [ "$code" -eq "$wanted" ] || fail "$what: exit code $code instead of $wanted; $(head -c 300 err)"
}

# expect_text FILE pattern what
expect_text() { grep -q -- "$2" "$1" || fail "$3: no '$2' in: $(head -c 400 "$1")"; }

# wait_for seconds command…
wait_for() {
  local tries=$(($1 * 20))
  shift
  while ! "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.05
  done
}

skip() {
  echo "SKIP: $*"
  exit 77
}

finish() {
  [ "$failures" -eq 0 ] && echo "ok"
  exit "$((failures > 0))"
}
