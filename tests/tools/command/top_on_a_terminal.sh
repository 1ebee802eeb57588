# top draws on a terminal, follows a job, and gives the terminal back on q and on signals.
. "$(dirname "$0")/common.sh"
command -v tmux >/dev/null || skip "tmux is not installed"
tmux() { command tmux -L "terrace-test-$$" "$@"; }
trap 'tmux kill-server 2>/dev/null; rm -rf "$XDG_RUNTIME_DIR"' EXIT
"$terrace" run --name shown-job -- sleep 30 &
job=$!
socket=$XDG_RUNTIME_DIR/terrace/$job.sock
wait_for 10 test -S "$socket" || skip "no private daemon came up"
tmux new-session -d -x 100 -y 30 "sh" || skip "tmux cannot start here"
screen_has() { tmux capture-pane -p | grep -q -- "$1"; }
shell_is_back() { [ "$(tmux display-message -p '#{pane_current_command}')" = sh ]; }
for ending in q C-c; do
  tmux send-keys "clear; $terrace top --socket $socket" Enter
  wait_for 10 screen_has "q quits" || fail "top did not draw: $(tmux capture-pane -p)"
  wait_for 10 screen_has "private daemon" || fail "top shows no daemon: $(tmux capture-pane -p)"
  tmux send-keys "$ending"
  wait_for 10 shell_is_back || fail "$ending does not end top"
  # The shell echoes again, and on the screen that was there before.
  tmux send-keys "clear; echo back-\$((40 + 2))" Enter
  wait_for 10 screen_has "^back-42" || fail "the terminal was not given back after $ending: $(tmux capture-pane -p)"
done
kill "$job"
finish
