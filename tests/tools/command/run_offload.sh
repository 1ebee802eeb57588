# --gpu and --offload: what the job is given, and what the summary says of it.
. "$(dirname "$0")/common.sh"
# A layout of its own, so that this is about the launcher alone: the preloads, and a package that only shows itself.
mkdir -p alone/bin alone/lib alone/share/terrace/python/auto
libraries=$(dirname "$terrace")/../lib
cp "$terrace" alone/bin/terrace
cp "$libraries/libterrace_preload.so" "$libraries/libterrace_gpu_preload.so" alone/lib/ || skip "the preload libraries are not built"
run() { alone/bin/terrace run "$@"; }

expect_code 1 "offloading without the package" run --offload activations -- true
expect_text err "sitecustomize.py" "what is missing"
touch alone/share/terrace/python/auto/sitecustomize.py

expect_code 0 "a job on an emulated GPU" run --gpu emulated:64M --gpu-budget 64M -- \
  sh -c 'echo "$TERRACE_GPU $TERRACE_GPU_BUDGET"; echo "$LD_PRELOAD"; grep -c libterrace_gpu_preload /proc/self/maps; echo "p:$PYTHONPATH"'
expect_text out "^emulated:64M 64M$" "the variables"
expect_text out "libterrace_preload.so:.*libterrace_gpu_preload.so$" "the order of the preloads"
expect_text out "^p:$" "no package without --offload"
grep -q "^0$" out && fail "the GPU preload is not in the job"

expect_code 0 "a job that offloads" env PYTHONPATH=/mine alone/bin/terrace run --offload activations --offload-budget 1G --dram 128M \
  --offload-tiers dram,nvme --pool "$directory" -- sh -c 'echo "$PYTHONPATH $TERRACE_OFFLOAD $TERRACE_OFFLOAD_BUDGET $TERRACE_DRAM"; echo "p:$LD_PRELOAD"'
expect_text out "share/terrace/python/auto:/mine activations 1024M 128M$" "what Python is given"
grep -q gpu_preload out && fail "the GPU preload came without --gpu"

expect_code 7 "the summary of a job that offloads" run --offload activations --summary --json-summary summary.json -- \
  sh -c 'echo "{\"stored\": 1204, \"stored_bytes\": 3221225472, \"nvme_written_bytes\": 1073741824, \"host_wait_ns\": 200000000}" >>"$TERRACE_OFFLOAD_SUMMARY"; echo "$TERRACE_OFFLOAD_SUMMARY"; exit 7'
expect_text err "offload  3.00 GiB stored in 1.20 k tensors, 1.00 GiB to NVMe, waited 200 ms" "the summary"
expect_text summary.json '"stored_bytes": 3221225472' "the summary as JSON"
[ -e "$(cat out)" ] && fail "the file of statistics was left behind"

expect_code 0 "a summary of nothing" run --offload activations --summary -- true
expect_text err "offload  nothing is known" "the summary of nothing"
finish
