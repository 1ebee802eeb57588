# The scripts that install and build say what they do before they do it, and refuse what they do not know.
tools=$(cd "$(dirname "$0")/../../../tools" && pwd)
. "$(dirname "$0")/common.sh"
for script in setup check demo; do
  expect_code 0 "$script --help" timeout 10 "$tools/$script" --help
  expect_text out "^  tools/$script --help  *this text" "$script --help"
  [ "$(sed -n 's/^#!.*/shebang/p; /set -euo/p' out)" = "" ] || fail "$script --help shows its code"
  expect_code 2 "$script with an unknown option" timeout 10 "$tools/$script" --frobnicate
  expect_text err "usage: tools/$script " "$script with an unknown option"
done
finish
