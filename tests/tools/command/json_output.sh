# Whatever --json prints is JSON, versioned; with --watch one document a line.
. "$(dirname "$0")/common.sh"
valid() {
  /usr/bin/python3 -m json.tool <out >/dev/null || fail "$1 is not JSON: $(head -c 200 out)"
  expect_text out '"version": *1' "$1"
}
expect_code 0 "version" "$terrace" version --json
valid version
expect_code 0 "doctor" "$terrace" doctor --quick --json --pool "$directory"
valid doctor
for check in encryption cuda_driver device_0 emulated pinned_memory gpudirect_storage; do
  expect_text out "\"name\": *\"$check\"" "doctor names $check"
done
"$terrace" run --name json-job -- sleep 30 &
job=$!
socket=$XDG_RUNTIME_DIR/terrace/$job.sock
wait_for 10 test -S "$socket" || skip "no private daemon came up"
for verb in status jobs tiers events; do
  expect_code 0 "$verb" "$terrace" "$verb" --json --socket "$socket"
  valid "$verb"
  expect_code 0 "$verb --watch" "$terrace" "$verb" --json --watch 0.05 3 --socket "$socket"
  while read -r line; do
    echo "$line" | /usr/bin/python3 -m json.tool >/dev/null || fail "$verb --watch: not a JSON line: $line"
  done <out
  expect_code 0 "$verb as a table" "$terrace" "$verb" --watch 0.05 2 --socket "$socket"
  grep -q $'\033' out && fail "$verb: colour off a terminal"
done
[ "$("$terrace" status --json --watch 0.05 3 --socket "$socket" | wc -l)" -eq 3 ] || fail "status --watch 0.05 3: not 3 lines"
expect_code 0 "columns" "$terrace" tiers --no-headings -o tier --socket "$socket"
[ "$(tr '\n' ' ' <out)" = "dram nvme " ] || fail "tiers -o tier: $(cat out)"
kill "$job"
finish
