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
expect_code 2 "run without a command" "$terrace" run
expect_code 2 "unknown column" "$terrace" jobs -o nonsense
expect_code 2 "top without a terminal" "$terrace" top
for verb in status jobs tiers events; do
  expect_code 3 "$verb without a daemon" "$terrace" "$verb" --socket "$directory/none.sock"
  expect_text err "terrace run" "$verb says how to start one"
done
expect_code 5 "unknown benchmark" "$terrace" bench nonsense
expect_code 6 "doctor --check where the pool cannot be used" "$terrace" doctor --quick --check --pool /nonexistent
finish
