#!/bin/bash
# terraced as systemd runs it: the unit files pass systemd's own check, and the daemon takes its socket from the
# service manager, says when it is ready, keeps the watchdog fed, reloads and ends as it is told.
. "$(dirname "$0")/../e2e.sh"
need systemd-analyze
need systemd-socket-activate
daemon=$(dirname "$TERRACE_BIN")/terraced
DESTDIR=$work/installed cmake -DCMAKE_INSTALL_PREFIX=/usr -P "$1" >"$work/install.log" || fail "the units are not installed"
units=$work/installed/usr/lib/systemd/system

# The socket unit listens in the directory when the service is stopped: it must not go then.
check_directory() {
  grep -qx 'RuntimeDirectoryPreserve=yes' "$units/terraced.service" || fail "a stop removes the socket's directory"
}

check_units() {
  sed "s|^ExecStart=.*|ExecStart=$daemon|" "$units/terraced.service" >"$work/terraced.service"
  cp "$units/terraced.socket" "$units/terraced-metrics.socket" "$work/"
  # The manual pages are not installed here, and systemd looks for them.
  systemd-analyze verify --man=no "$work/terraced.service" "$work/terraced.socket" "$work/terraced-metrics.socket" 2>"$work/verify.log" ||
    fail "systemd-analyze verify: $(cat "$work/verify.log")"
  ! grep -F "$work/" "$work/verify.log" || fail "systemd-analyze verify has remarks (above)"
}

# At most 1.5 of 10, by systemd's own count. Given as tenths of it: 15.
check_exposure() {
  systemd-analyze security --offline=yes --no-pager --threshold=15 "$work/terraced.service" >"$work/security.log" 2>&1 ||
    fail "the unit is exposed more than 1.5: $(grep -v '^✓' "$work/security.log")"
  grep -q 'Overall exposure level' "$work/security.log" || fail "systemd-analyze security: $(cat "$work/security.log")"
}

# However often it is killed, systemd starts it again.
check_restarts() {
  for line in Restart=always StartLimitIntervalSec=0 FileDescriptorStoreMax=4; do
    grep -qx "$line" "$units/terraced.service" || fail "the unit lacks $line"
  done
}

# A service manager's end of the notification socket: writes every message on a line of its own.
listen_for_notifications() {
  "$PYTHON" - "$work/notify" >"$work/notifications" <<'SCRIPT' &
import socket, sys
end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
end.bind(sys.argv[1])
end.settimeout(60)
while True:
    message = end.recv(4096).decode()
    print(message, flush=True)
    if "STOPPING=1" in message:
        break
SCRIPT
  listener=$!
  wait_for test -S "$work/notify"
}

wait_for() {
  for _ in $(seq 300); do
    "$@" 2>/dev/null && return
    sleep 0.1
  done
  fail "waited 30 s for: $*"
}

check_units
check_directory
check_exposure
check_restarts
listen_for_notifications
mkdir "$work/pool"
group=$(id -gn)
[ "$(id -u)" != 0 ] || group=daemon
printf '[daemon]\nsocket = "%s/elsewhere"\ngroup = "%s"\n' "$work" "$group" >"$work/settings.toml"
: >"$work/daemon.log"
systemd-socket-activate --seqpacket --listen="$work/socket" -E NOTIFY_SOCKET="$work/notify" -E WATCHDOG_USEC=400000 \
  -E JOURNAL_STREAM="$(stat -c %d:%i "$work/daemon.log")" \
  "$daemon" --config "$work/settings.toml" --dram 1G --pool "$work/pool" 2>"$work/daemon.log" &
service=$!
wait_for test -S "$work/socket"
"$TERRACE_BIN" status --json --socket "$work/socket" >"$work/status.json" || fail "no answer: $(cat "$work/daemon.log")"
wait_for grep -q READY=1 "$work/notifications"
grep -q "serving $work/socket:" "$work/daemon.log" || fail "says another socket: $(cat "$work/daemon.log")"
grep -q "elsewhere is not used" "$work/daemon.log" || fail "does not say that its setting is not used"
grep -qF "\"socket\":\"$work/socket\"" <<<"$(tr -d ' \n' <"$work/status.json")" || fail "status names another socket"
[ "$(stat -c %G "$work/socket")" = "$group" ] || fail "the socket was not given to the group $group"
grep -q "^<6>serving " "$work/daemon.log" || fail "the journal gets no priority: $(cat "$work/daemon.log")"
grep -q "^<4>.*elsewhere is not used" "$work/daemon.log" || fail "a warning is none in the journal"
wait_for grep -q WATCHDOG=1 "$work/notifications"
kill -HUP $service
wait_for grep -qE '^MONOTONIC_USEC=[0-9]+$' "$work/notifications"
# A line for each word: when the reload began, and afterwards that it is over.
wait_for awk '/^RELOADING=1$/ { began = 1 } began && /^READY=1$/ { over = 1 } END { exit !over }' "$work/notifications"
"$TERRACE_BIN" status --json --socket "$work/socket" >/dev/null || fail "no answer after a reload"
kill -TERM $service
wait $service || fail "ended with $?: $(cat "$work/daemon.log")"
wait $listener
grep -q STOPPING=1 "$work/notifications" || fail "did not say that it was stopping"
