# A job that pages is recorded: the page and the trace hold it, a browser opens the page, lifetimes lists its objects.
. "$(dirname "$0")/common.sh"
job_py='
import sys, time, numpy
blocks = [numpy.ones(2 << 20) for _ in range(16)]          # 16 MiB each
while True:
    for block in blocks:
        block += 1
    extra = numpy.ones(2 << 20)
    time.sleep(0.01)
'
/usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "no numpy"
"$terrace" run --name recorded --dram 96M -- /usr/bin/python3 -c "$job_py" 2>run.err &
job=$!
pages() { "$terrace" jobs --json | grep -q '"evictions": [1-9]'; }
wait_for 20 pages || skip "the job does not page here: $(cat run.err)"

expect_code 2 "timeline without a file" "$terrace" timeline recorded
expect_text err "--html" "timeline says what it wants"
expect_code 5 "timeline of no job" "$terrace" timeline recordet --html no.html
expect_text err "did you mean 'recorded'" "timeline suggests"
expect_code 1 "a page that cannot be written" "$terrace" timeline recorded --seconds 0.2 --html /nowhere/page.html
expect_text err "/nowhere/page.html" "timeline names the file"
expect_code 0 "timeline" "$terrace" timeline recorded --seconds 3 --html page.html --perfetto trace.json
expect_text out "wrote page.html" "timeline says what it wrote"
/usr/bin/python3 - <<'P' || fail "the trace is no trace"
import json
events = json.load(open("trace.json"))["traceEvents"]
names = {event["name"] for event in events}
assert {"live", "in DRAM", "budget", "away"} <= names, names
P
# A busy machine moves few blocks in a second: up to 20 recordings, until one has most of them.
knows_the_blocks() {
  "$terrace" lifetimes recorded --seconds 2 -n 50 --json >out 2>err </dev/null || return 1
  /usr/bin/python3 - <<'P' 2>>err
import json
objects = json.load(open("out"))["objects"]
large = [o for o in objects if o["object_bytes"] >= 16 << 20]
assert len(large) >= 10, objects
assert any(o["left_runs"] > 0 and o["returned_runs"] > 0 for o in large), objects
assert any("born_seconds" in o and o["place"] == "freed" for o in objects), objects
P
}
wait_for 1 knows_the_blocks || fail "lifetimes does not know the blocks: $(tail -n 1 err)"
expect_code 0 "lifetimes as a table" "$terrace" lifetimes recorded --seconds 0.5
expect_text out "REASON" "lifetimes has columns"
if command -v chromium >/dev/null; then
  # A browser's state, sandbox and sockets are its own; the page must draw without any error.
  HOME=$PWD timeout 60 chromium --headless=new --no-sandbox --disable-gpu --dump-dom "file://$PWD/page.html" >dom 2>dom.err ||
    fail "the browser: $(tail -n 3 dom.err)"
  expect_text dom 'data-opened-ms="[0-9]' "the page draws to its end"
  expect_text dom '<td>16.0 MiB</td>' "the table has the blocks"
else
  echo "the page was opened by nobody: chromium is not installed"
fi
# Ctrl-C ends the recording, not its page.
"$terrace" timeline recorded --seconds 60 --html early.html >early.out 2>&1 &
early=$!
sleep 1
kill -INT "$early"
wait "$early" || fail "an interrupted recording fails: $(cat early.out)"
expect_text early.out "wrote early.html" "an interrupted recording is written"
# And so does the end of the job.
"$terrace" timeline recorded --seconds 60 --html last.html >last.out 2>&1 &
last=$!
sleep 1
kill "$job"
wait "$last" || fail "a recording whose job ended fails: $(cat last.out)"
expect_text last.out "the job has ended" "a recording says that its job ended"
finish
