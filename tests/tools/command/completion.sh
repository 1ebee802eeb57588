# The completion script completes verbs, options and choices in a real bash.
. "$(dirname "$0")/common.sh"
"$terrace" completion bash >completion
complete_words() { bash -c '. ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _terrace; echo "${COMPREPLY[@]}"' x "$@"; }
[ "$(complete_words terrace do)" = doctor ] || fail "verb: $(complete_words terrace do)"
[ "$(complete_words terrace run --dr)" = --dram ] || fail "option: $(complete_words terrace run --dr)"
[ "$(complete_words terrace run --mover mr)" = mremap ] || fail "choice: $(complete_words terrace run --mover mr)"
[ "$(complete_words terrace run --pool /va)" = /var ] || fail "directory: $(complete_words terrace run --pool /va)"
[ "$(complete_words terrace run --pool /tmp,/va)" = /tmp,/var ] || fail "second directory: $(complete_words terrace run --pool /tmp,/va)"
expect_code 2 "unknown shell" "$terrace" completion fish
finish
