# The documented exit codes, each once.
. "$(dirname "$0")/common.sh"
expect_code 0 "version" "$terrace" version
expect_code 0 "--version" "$terrace" --version
expect_code 0 "help" "$terrace" --help
expect_code 0 "overview without a daemon" "$terrace"
expect_code 0 "doctor" "$terrace" doctor --quick --pool "$directory"
expect_code 2 "unknown verb" "$terrace" frobnicate
expect_code 2 "unknown option" "$terrace" jobs --frobnicate
expect_code 2 "wrong choice" "$terrace" run --mover teleport true
for wrong in frobnicate "run --compress= true" "jobs --frobnicate"; do
  # shellcheck disable=SC2086
  expect_code 2 "$wrong" "$terrace" $wrong
  expect_text err "^terrace: " "$wrong names who refuses"
done
expect_code 2 "a misspelt verb" "$terrace" stauts
expect_text err "^terrace: there is no verb 'stauts'; did you mean 'status'?" "a misspelt verb"
expect_code 2 "a misspelt option" "$terrace" run --drm 2G -- true
expect_text err "did you mean '--dram'?" "a misspelt option"
expect_code 2 "a misspelt column" "$terrace" jobs -o budgt
expect_text err "did you mean 'budget'?" "a misspelt column"
expect_code 2 "run without a command" "$terrace" run
expect_code 2 "unknown column" "$terrace" jobs -o nonsense
expect_code 2 "top without a terminal" "$terrace" top
for verb in status jobs tiers events; do
  expect_code 3 "$verb without a daemon" "$terrace" "$verb" --socket "$directory/none.sock"
  expect_text err "terrace run" "$verb says how to start one"
done
expect_code 5 "unknown benchmark" "$terrace" bench nonsense
expect_code 0 "doctor of several pool directories" "$terrace" doctor --quick --pool "$directory,/tmp"
expect_text out "kept in $directory and /tmp" "doctor of several pool directories"
expect_code 2 "doctor of a list with a fault" "$terrace" doctor --quick --pool "$directory,,/tmp"
expect_code 6 "doctor --check where one of two pools cannot be used" "$terrace" doctor --quick --check --pool "$directory,/nonexistent"
expect_text out "/nonexistent: No such file" "the directory that cannot be used"
expect_code 6 "doctor --check where the pool cannot be used" "$terrace" doctor --quick --check --pool /nonexistent
expect_code 0 "the columns of events" "$terrace" events -o help
[ -s "$(sed -n 's/.*what the words mean: //p' out)" ] || fail "events -o help names a file that is not there: $(tail -n 1 out)"
[ "$(sed '$d; s/^..//' out | awk '$1 != "text" && NF < 4')" = "" ] || fail "events: a column without a word about it: $(cat out)"
code=0
"$terrace" bench >out 2>err || code=$?
[ "$code" -eq 5 ] || [ "$(awk 'NF < 3' out)" = "" ] || fail "bench: a benchmark without a word about it: $(cat out)"
if [ -x "$(dirname "$terrace")/terrace-bench-planner" ]; then
  expect_code 2 "reference data that are not there" "$terrace" bench planner --quick --only minimalloc --data /nonexistent
  expect_text err "CONTRIBUTING.md" "reference data that are not there"
  TERRACE_REFERENCE_DATA=/nonexistent expect_code 0 "no reference data" "$terrace" bench planner --quick --only minimalloc
  expect_text out "SKIP: no minimalloc/" "no reference data"
  expect_text err "no reference data at /nonexistent" "no reference data"
  expect_code 2 "limits of time that do not rise" "$terrace" bench planner --only capacities --seconds 10,5
  expect_text err "seconds must be a list of rising" "limits of time that do not rise"
fi
if [ -x "$(dirname "$terrace")/terrace-bench-policies" ]; then
  expect_code 2 "a group of policies that does not exist" "$terrace" bench policies --only nonsense
  expect_text err "there is no such group" "a group of policies that does not exist"
  TERRACE_REFERENCE_DATA=/nonexistent expect_code 0 "policies without reference data" "$terrace" bench policies --quick --only g10-a100-ssd,made-up-60 --json "$directory/policies.json"
  expect_text out "SKIP: no g10/" "policies without reference data"
  expect_text out "swapadvisor  *1 of 1 .*yes" "policies on made-up steps"
  grep -q '"to_bound"' "$directory/policies.json" || fail "bench policies --json has no bounds"
  TERRACE_REFERENCE_DATA=/nonexistent expect_code 0 "policies on two memories" "$terrace" bench policies --quick --only memories --plot "$directory/memories"
  expect_text out "made up  sentinel  *[0-9.]* .*yes" "Sentinel on a made-up step"
  expect_text out "made up  search  *[0-9.]* .*yes" "the search on a made-up step"
  # A legend without a panel would be 56 pixels high; the height is the second number of a PNG's first chunk.
  height=$(od -An -t u1 -j 20 -N 4 "$directory/memories.png" | awk '{print $3 * 256 + $4}')
  [ "${height:-0}" -gt 300 ] || fail "the picture of two memories is ${height:-0} pixels high: it has no panel"
  [ -s "$directory/memories.svg" ] || fail "bench policies --only memories --plot wrote no SVG"
fi
for name in $("$terrace" bench 2>/dev/null | awk '{print $1}'); do
  expect_code 0 "bench $name --help" "$terrace" bench "$name" --help
  expect_text out "^usage: terrace bench $name " "bench $name names itself"
done
daemon=$(dirname "$terrace")/terraced
[ -x "$daemon" ] || skip "terraced is not built"
expect_code 0 "terraced: settings that can work" "$daemon" --check-config --dram 1G --pool "$directory" --pool-size 64M
grep -q warning err && [ "${directory#/home/}" = "$directory" ] && [ "${directory#/root/}" = "$directory" ] &&
  fail "terraced warns of a directory that the service sees: $(cat err)"
expect_code 2 "terraced: a pool directory that does not exist" "$daemon" --check-config --dram 1G --pool /nonexistent
expect_text err "no file can be made in /nonexistent" "what is wrong with the pool directory"
expect_code 124 "terraced: a start with the same, which goes on without a pool" timeout 2 "$daemon" --dram 1G --pool /nonexistent --socket "$XDG_RUNTIME_DIR/d.sock"
expect_text err "no file can be made in /nonexistent.*jobs have no pool" "what is wrong with the pool directory, at the start"
expect_code 1 "terraced: a start with a pool that cannot be" timeout 20 "$daemon" --dram 1G --pool "$directory" --pool-size 100000T --socket "$XDG_RUNTIME_DIR/d.sock"
expect_text err "\[pool\] size" "why there is no start"
# Programs of benchmarks that no verb starts take the options that they name.
clock=$(dirname "$terrace")/terrace-event-clock
if [ -x "$clock" ]; then
  expect_code 0 "terrace-event-clock with its options" "$clock" --events 1000 --rounds 1 --json clock.json
  expect_code 2 "terrace-event-clock with another one" "$clock" --evens 1000
  expect_code 0 "bench timeline" "$terrace" bench timeline --events 2000 --keep made.html
fi
finish
