# What cannot be met is refused with 2, before anything runs, saying what is possible.
. "$(dirname "$0")/common.sh"
refused() {
  local pattern=$1
  shift
  rm -f ran
  expect_code 2 "$*" "$terrace" run "$@" -- touch ran
  expect_text err "$pattern" "$*"
  [ "$(wc -l <err)" -eq 1 ] || fail "$*: more than one line: $(cat err)"
  [ -e ran ] && fail "$*: the job ran all the same"
}
refused "ask for at most" --dram 900T
refused "ask for at most" --limit 900T
refused "smallest possible is 32.0 MiB" --dram 1M
refused "smallest possible is 64.0 MiB" --limit 1M
refused "is not a size" --dram lots
refused "is not a percentage" --dram 120%
refused "is more than --limit" --dram 200M --limit 100M
refused "is not a directory" --pool /etc/passwd
refused "is not a directory" --pool /nonexistent
refused "has .* free" --pool "$directory" --pool-size 900T
refused "--pool /nonexistent is not a directory" --pool "$directory,/nonexistent"
refused "is missing before, between or after its commas" --pool "$directory,,/tmp"
refused "at most 63 characters" --name "$(printf 'x%.0s' $(seq 64))"
refused "No such file" --json-summary /nonexistent/summary.json
refused "--plan /nonexistent: No such file" --plan /nonexistent
echo '{"format":"terrace-budget-curve","version":1}' >curve.json
refused "this is a terrace-budget-curve, no point of a budget curve; 'terrace plan --job JOB --budget-curve --point" --plan curve.json
refused "no kind of device" --gpu rocm
refused "need --gpu" --gpu-budget 1G
refused "needs --offload activations" --offload-min 1M
refused "dram,nvme" --offload activations --offload-tiers dram --writes-total 1T
refused "auto, or none" --offload activations --offload-limit lots
# An empty value, as of a variable that is not set, is no option left out.
for option in dram limit pool pool-size threshold compress socket name json-summary offload-budget offload-tiers; do
  expect_code 2 "--$option ''" "$terrace" run "--$option" "" -- touch ran
  expect_text err "--$option: .*\(the value is empty\|'' is none of\)" "--$option ''"
done
expect_code 2 "an unknown mover" "$terrace" run --mover teleport -- touch ran
expect_text err "'teleport' is none of auto|move|mremap" "an unknown mover"
[ -e ran ] && fail "a job ran all the same"
refused "cannot be met" --offload activations --offload-budget 900T
PYTORCH_ALLOC_CONF=expandable_segments:True refused "expandable_segments" --gpu cuda
# A shared daemon that has less left than the machine has.
daemon=$(dirname "$terrace")/terraced
[ -x "$daemon" ] || skip "terraced is not built"
"$daemon" --private --socket "$XDG_RUNTIME_DIR/d.sock" --dram 256M --pool "$directory" >daemon.log 2>&1 &
pid=$!
wait_for 10 "$terrace" status --socket "$XDG_RUNTIME_DIR/d.sock" || fail "the daemon did not start: $(cat daemon.log)"
expect_code 0 "a socket where nobody listens" "$terrace" run --socket "$XDG_RUNTIME_DIR/none.sock" -- true
expect_text err "name another with --socket" "a socket where nobody listens"
grep -q "start a job with" err && fail "terrace run advises to use terrace run: $(cat err)"
refused "256M left of 256M" --socket "$XDG_RUNTIME_DIR/d.sock" --dram 300M
expect_code 0 "two directories for a shared daemon" "$terrace" run --socket "$XDG_RUNTIME_DIR/d.sock" --dram 200M --pool "$directory,/tmp" -- true
grep -q "one file" err && fail "two directories for a shared daemon are not obeyed: $(cat err)"
expect_code 0 "what does fit" "$terrace" run --socket "$XDG_RUNTIME_DIR/d.sock" --dram 200M -- true
kill "$pid"
finish
