# Exit codes, signals, arguments, environment, standard streams: as if `terrace run` were not there. Each with
# and without a parent that stays (--summary).
. "$(dirname "$0")/common.sh"
for stay in "" "--summary"; do
  # shellcheck disable=SC2086
  run() { "$terrace" run $stay --disable -- "$@"; }
  # What the job's shell becomes when it is this function run in the background: the command itself.
  run_in_background() { exec "$terrace" run $stay --disable -- "$@"; }
  expect_code 0 "true $stay" run true
  expect_code 7 "exit 7 $stay" run sh -c 'exit 7'
  expect_code 127 "no such command $stay" run /nonexistent/command
  expect_code 126 "not executable $stay" run /etc/passwd
  expect_code 143 "killed by TERM $stay" run sh -c 'kill -TERM $$'
  expect_code 137 "killed by KILL $stay" run sh -c 'kill -KILL $$'
  [ "$(run printf '%s|' 'a b' '' --dram '*')" = 'a b||--dram|*|' ] || fail "arguments changed $stay"
  [ "$(echo input | run cat)" = input ] || fail "standard input does not pass $stay"
  # A handler in the job sees each signal that is sent to us, and decides.
  for signal in INT TERM HUP QUIT USR1 USR2; do
    rm -f ready
    run_in_background /usr/bin/python3 -c "
import signal, sys, time
signal.signal(signal.SIG$signal, lambda *_: sys.exit(9))
open('ready', 'w').close()
time.sleep(30)" 2>/dev/null &
    pid=$!
    wait_for 10 test -e ready || fail "the job did not start $stay"
    kill "-$signal" "$pid"
    wait "$pid"
    code=$?
    [ "$code" -eq 9 ] || fail "$signal was not passed on: $code $stay"
  done
  # Stopped from outside and continued: still there, still ends.
  rm -f ready
  run_in_background sh -c 'touch ready; sleep 1; exit 4' 2>/dev/null &
  pid=$!
  wait_for 10 test -e ready
  kill -TSTP "$pid"
  sleep 0.2
  kill -CONT "$pid"
  wait "$pid"
  code=$?
  [ "$code" -eq 4 ] || fail "stop and continue: $code $stay"
done
preload=$("$terrace" run -- sh -c 'echo $LD_PRELOAD')
case "$preload" in */libterrace_preload.so) ;; *) fail "LD_PRELOAD is '$preload'" ;; esac
jemalloc=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2
if [ -e "$jemalloc" ]; then
  preload=$(LD_PRELOAD=$jemalloc "$terrace" run -- sh -c 'echo $LD_PRELOAD')
  case "$preload" in *libterrace_preload.so:"$jemalloc") ;; *) fail "LD_PRELOAD lost what it held: '$preload'" ;; esac
fi
[ "$("$terrace" run --dram 128M --mover mremap --io pread --threshold 1M -- \
  sh -c 'echo $TERRACE_DRAM $TERRACE_MOVER $TERRACE_IO $TERRACE_THRESHOLD')" = "128M mremap pread 1M" ] || fail "options do not reach the job"
finish
