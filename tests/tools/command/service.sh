# The machine's service as `terrace run` finds it: one that may not be used, one that is dead, one whose pool is not
# where --pool says. The service's socket has one place: the script runs with a /run of its own.
[ "$(id -u)" = 0 ] || { echo "SKIP: only root can have a /run of its own"; exit 77; }
if [ -z "${TERRACE_TEST_OWN_RUN:-}" ]; then
  unshare --mount true 2>/dev/null || { echo "SKIP: no mount namespace can be made"; exit 77; }
  TERRACE_TEST_OWN_RUN=1 exec unshare --mount bash "$0" "$@"
fi
. "$(dirname "$0")/common.sh"
mount -t tmpfs none /run && mkdir /run/terrace || skip "no tmpfs can be mounted"
small=$directory/small own=$directory/own
mkdir "$small" "$own"
mount -t tmpfs -o size=64M none "$small" || skip "no tmpfs can be mounted"
socket=/run/terrace/terraced.sock

# as_stranger command…: a user who is in no group of the service's, with a runtime directory of his own.
stranger=$(mktemp -d /tmp/terrace-test-XXXXXX)
chown nobody "$stranger"
trap 'kill $(jobs -p) 2>/dev/null; umount "$small"; rm -rf "$XDG_RUNTIME_DIR" "$stranger"' EXIT
as_stranger() { setpriv --reuid=nobody --regid=nogroup --clear-groups env XDG_RUNTIME_DIR="$stranger" "$@"; }
as_stranger "$terrace" version >/dev/null 2>&1 || skip "another user cannot execute $terrace"

# What a job with more than its budget has open below a directory: its pool files.
pool_of_a_job='import os, sys
blocks = [bytearray(os.urandom(16 << 20)) for _ in range(6)]
links = []
for number in os.listdir("/proc/self/fd"):
    try: links.append(os.readlink("/proc/self/fd/" + number))
    except OSError: pass
print(len({link for link in links if link.startswith(sys.argv[1] + "/")}))
'
pool_files_below() {
  local below=$1
  shift
  "$terrace" run --dram 64M "$@" -- /usr/bin/python3 -c "$pool_of_a_job" "$below" 2>err
}

expect_code 0 "no service at all" "$terrace" run -- true
[ -s err ] && fail "no service: something is said: $(cat err)"

"$(dirname "$terrace")/terraced" --dram 512M --pool "$small" --pool-size 48M >service.log 2>&1 &
service=$!
wait_for 10 "$terrace" status --socket "$socket" || fail "the service did not start: $(cat service.log)"
expect_code 4 "a service that may not be used" as_stranger "$terrace" run -- touch "$stranger/ran"
for word in "^terrace: the service at $socket may not be used: Permission denied" "group root" "usermod" "--private --dram"; do
  expect_text err "$word" "a service that may not be used"
done
[ "$(wc -l <err)" -eq 1 ] || fail "more than one line: $(cat err)"
[ -e "$stranger/ran" ] && fail "the job ran all the same"
# shellcheck disable=SC2016
expect_code 0 "--private beside it" as_stranger "$terrace" run --private --dram 64M -- sh -c 'echo $TERRACE_SOCKET'
expect_text out "^$stranger/terrace/" "--private beside it"
expect_code 2 "--private and --socket" "$terrace" run --private --socket "$socket" -- true
expect_text err "leave one of them out" "--private and --socket"

# The service's file is in its directory, the job's own where --pool says; room is looked for where the pool will be.
[ "$(pool_files_below "$small")" = 1 ] || fail "without --pool there is no pool file in $small: $(cat err)"
[ "$(pool_files_below "$own" --pool "$own")" = 1 ] || fail "--pool $own is not obeyed: $(cat err)"
[ "$(pool_files_below "$small" --pool "$own")" = 0 ] || fail "--pool $own: a pool file is in $small"
expect_code 2 "--pool-size that the service has not" "$terrace" run --pool-size 100M -- true
expect_text err "--pool-size 100M cannot be met: the daemon at $socket has 48M left in $small" "--pool-size"
expect_code 0 "the same in a directory of one's own" "$terrace" run --pool "$own" --pool-size 100M -- true

kill -9 "$service"
wait "$service" 2>/dev/null
# shellcheck disable=SC2016
expect_code 0 "a dead service" "$terrace" run --dram 64M -- sh -c 'echo $TERRACE_SOCKET'
expect_text err "the service at $socket does not answer: Connection refused" "a dead service"
expect_text out "^$XDG_RUNTIME_DIR/terrace/" "a dead service"
finish
