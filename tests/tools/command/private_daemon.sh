# `terrace run` brings a daemon where there is none; it serves the other verbs, survives ^C at the terminal's
# foreground group, and ends by itself.
. "$(dirname "$0")/common.sh"
[ -S /run/terrace/terraced.sock ] && skip "this machine has a system daemon"
program='import time
x = [bytearray(8 << 20) for _ in range(24)]
open("ready", "w").close()
while True:
    for block in x: block[::4096] = b"1" * len(block[::4096])
'
"$terrace" run --dram 128M --pool "$directory" --name my-job -- /usr/bin/python3 -c "$program" 2>job.err &
job=$!
wait_for 20 test -e ready || fail "the job did not start: $(cat job.err)"
# Counters reach the daemon a moment after the fact.
job_is_shown() {
  "$terrace" jobs --json >out && /usr/bin/python3 - <<'P'
import json
(job,) = [one for one in json.load(open("out"))["jobs"] if one["job"] == "my-job"]  # of others, only the test's own
assert job["job"] == "my-job" and job["budget_bytes"] == 128 << 20 and job["heap_live_bytes"] >= 24 * (8 << 20), job
P
}
wait_for 10 job_is_shown || fail "jobs: $(cat out)"
expect_code 0 "tiers" "$terrace" tiers
expect_text out "$directory" "the pool directory"
expect_code 0 "events" "$terrace" events -n 50
[ "$(stat -c %a "$XDG_RUNTIME_DIR/terrace")" = 700 ] || fail "the private directory is open to others"
daemon=$(/usr/bin/python3 - "$XDG_RUNTIME_DIR/terrace/$job.sock" <<'P'
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
print(struct.unpack("iII", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
P
)
[ "$(ps -o sid= -p "$daemon" | tr -d ' ')" = "$daemon" ] && fail "the daemon leads a session with a terminal to get"
[ "$(ps -o ppid= -p "$daemon" | tr -d ' ')" = "$job" ] && fail "the daemon is a child of the job"
# A job that was started without XDG_RUNTIME_DIR, as by cron, is found by somebody who has it.
env -u XDG_RUNTIME_DIR "$terrace" run --name elsewhere -- sleep 30 2>elsewhere.err &
elsewhere=$!
if wait_for 10 test -S "/tmp/terrace-$(id -u)/$elsewhere.sock"; then
  expect_code 0 "daemons of another session" "$terrace" status --json
  expect_text out "/tmp/terrace-$(id -u)/$elsewhere.sock" "daemons of another session"
  TERRACE_SOCKET=$XDG_RUNTIME_DIR/terrace/$job.sock expect_code 0 "the daemon that TERRACE_SOCKET names" "$terrace" status --json
  grep -q "$elsewhere.sock" out && fail "status asks others than TERRACE_SOCKET names"
else
  fail "no daemon came up in /tmp/terrace-$(id -u): $(cat elsewhere.err)"
fi
kill "$elsewhere"
kill "$job"
wait "$job" 2>/dev/null
wait_for 15 sh -c "! kill -0 $daemon" || fail "the daemon did not end after its job"
finish
