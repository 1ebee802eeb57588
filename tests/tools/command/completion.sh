# The completion script completes verbs, options and choices in a real bash.
. "$(dirname "$0")/common.sh"
"$terrace" completion bash >completion
complete_words() { bash -c '. ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _terrace; echo "${COMPREPLY[@]}"' x "$@"; }
[ "$(complete_words terrace do)" = doctor ] || fail "verb: $(complete_words terrace do)"
[ "$(complete_words terrace run --dr)" = --dram ] || fail "option: $(complete_words terrace run --dr)"
[ "$(complete_words terrace run --mover mr)" = mremap ] || fail "choice: $(complete_words terrace run --mover mr)"
[ "$(complete_words terrace run --pool /va)" = /var ] || fail "directory: $(complete_words terrace run --pool /va)"
[ "$(complete_words terrace run --pool /tmp,/va)" = /tmp,/var ] || fail "second directory: $(complete_words terrace run --pool /tmp,/va)"
expect_code 2 "unknown shell" "$terrace" completion csh

# In fish and zsh where they are installed: each prints what it would offer.
"$terrace" completion fish >completion.fish
"$terrace" completion zsh >completion.zsh
for verb in $("$terrace" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\) .*/\1/p'); do
  grep -q -- "-a $verb -d" completion.fish || fail "fish does not complete $verb"
  grep -q -- "^    '$verb:" completion.zsh || fail "zsh does not complete $verb"
  for option in $("$terrace" "$verb" --help | grep -oE '^  (-[a-z],)?--[a-z][a-z-]*' | grep -oE '\-\-[a-z-]+'); do
    grep -q -- "_verb_is $verb' -l ${option#--}[ $]" completion.fish || fail "fish does not complete $verb $option"
  done
done
if command -v fish >/dev/null; then
  # Of the words before the cursor, with what they mean.
  in_fish() { HOME=$PWD fish --no-config -c 'source completion.fish; complete -C $argv[1]' "$1"; }
  [ "$(in_fish 'terrace do' | cut -f 1)" = doctor ] || fail "fish, verb: $(in_fish 'terrace do')"
  in_fish 'terrace do' | grep -q 'Show what this machine can do' || fail "fish says nothing of doctor"
  [ "$(in_fish 'terrace run --dra' | cut -f 1)" = --dram ] || fail "fish, option: $(in_fish 'terrace run --dra')"
  [ "$(in_fish 'terrace run --mover mr' | cut -f 1)" = mremap ] || fail "fish, choice: $(in_fish 'terrace run --mover mr')"
  in_fish 'terrace jobs --dra' | grep -q dram && fail "fish offers an option of run to jobs"
else
  echo "SKIP: fish is not installed (tools/setup): what it makes of its script was not looked at"
fi
if command -v zsh >/dev/null; then
  # On a terminal of zsh's own, with a tab; both ways to load the script.
  cat >completed.zsh <<'SCRIPT'
zmodload zsh/zpty
zpty shell "ZDOTDIR=$PWD TERM=dumb zsh -f -i"
ask() { zpty -w shell "$1"; zpty -r -m shell text "*$2*" }
ask "PS1=; RPS1=; fpath=($PWD/functions \$fpath); autoload -U compinit; compinit -u -D; $1; print loa\ded" loaded
zpty -w -n shell "terrace $2"$'\t'
zpty -r -m -t shell text "*" || sleep 2
zpty -w -n shell $'\C-a: \C-e ; print e\\nd\n'
zpty -r -m shell text "*end*"
print -r -- "$text"
SCRIPT
  mkdir -p functions && cp completion.zsh functions/_terrace
  in_zsh() { timeout 60 zsh -f completed.zsh "$1" "$2" | tr -d '\r\a'; }
  for how in true '. ./completion.zsh'; do
    in_zsh "$how" do | grep -q 'terrace doctor' || fail "zsh, verb ($how): $(in_zsh "$how" do)"
    in_zsh "$how" 'run --dra' | grep -q -- '--dram' || fail "zsh, option ($how): $(in_zsh "$how" 'run --dra')"
    in_zsh "$how" 'run --mover mr' | grep -q 'mremap' || fail "zsh, choice ($how): $(in_zsh "$how" 'run --mover mr')"
  done
else
  echo "SKIP: zsh is not installed (tools/setup): what it makes of its script was not looked at"
fi
finish
