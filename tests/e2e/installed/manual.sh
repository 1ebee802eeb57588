#!/bin/bash
# The manual pages name every option and verb that --help does, and every key of the default configuration.
. "$(dirname "$0")/../e2e.sh"

manual=$TERRACE_SOURCE/docs/man
missing=0

# named FILE WORD: the page shows the word in bold, as options and verbs are.
named() {
  grep -qE -- "\*$2\*" "$manual/$1" && return
  echo "$1 does not name $2"
  missing=1
}

options_of() {
  grep -E '^ +-' | grep -oE -- '--[a-z][a-z-]*' | sort -u | grep -vxE -- '--help|--version'
}

for verb in $("$TERRACE_BIN" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\) .*/\1/p'); do
  named terrace.1.scd "$verb"
  for option in $("$TERRACE_BIN" "$verb" --help | options_of); do named terrace.1.scd "$option"; done
done
for option in $("${TERRACE_BIN}d" --help | options_of); do named terraced.8.scd "$option"; done
for key in $(sed -n 's/^\(# \)\?\([a-z]\+\) = .*/\2/p' "$TERRACE_SOURCE/daemon/terraced.toml"); do
  named terraced.toml.5.scd "$key"
done
# What scdoc does not take for markup is printed as it stands: "128+_n_".
if command -v scdoc >/dev/null; then
  for page in "$manual"/*.scd; do
    scdoc <"$page" | grep -E '(^|[^[:alnum:]_])_[[:alnum:]]+_([^[:alnum:]_]|$)' && fail "markup is left in $(basename "$page")"
  done
fi
[ $missing = 0 ] || fail "the manual lacks what is listed above"
