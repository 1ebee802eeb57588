# A job that repeats a step: the step is recorded, planned, and what it takes stands beside what less or more memory would.
. "$(dirname "$0")/common.sh"
/usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "no numpy"
# Blocks of many sizes that are freed in the reverse order, as activations are, over weights that each step reads.
step_py='
import time, numpy
weights = [numpy.ones(1 << 20) for _ in range(4)]          # 8 MiB each
while True:
    held = []
    for i in range(60):
        held.append(numpy.ones(32768 * (1 + i * i % 11)))  # 256 KiB and more, 75 MiB together
        if i % 15 == 0:
            weights[i // 15] += 1
    time.sleep(0.05)
    while held:
        held.pop()[:] += 1
'
"$terrace" run --name stepping --dram 64M --threshold 256K -- /usr/bin/python3 -c "$step_py" 2>run.err &
job=$!
steps() { "$terrace" events -n 4096 --json | grep -q '"step"'; }
wait_for 30 steps || skip "the job has no steps here: $(cat run.err)"

expect_code 2 "a trace and a job" "$terrace" plan step.json --job stepping --budget-curve
expect_code 2 "how long is recorded of no job" "$terrace" plan step.json --seconds 3
expect_code 5 "no such job" "$terrace" plan --job steppint --budget-curve
expect_text err "did you mean 'stepping'" "plan suggests"
expect_code 1 "too short for two steps" "$terrace" timeline stepping --seconds 0.05 --trace short.json
expect_text err "--seconds" "a recording that was too short says what to do"
[ ! -e short.json ] || fail "what could not be made was written"

expect_code 0 "a step is recorded" "$terrace" timeline stepping --seconds 5 --trace step.json.gz
expect_text out "wrote step.json.gz" "timeline says what it wrote"
gzip -dc step.json.gz >step.json || fail "the trace is not packed"
/usr/bin/python3 - <<'P' || fail "the trace: $(head -c 600 step.json)"
import json
trace = json.load(open("step.json"))
assert trace["format"] == "terrace-trace" and trace["reads_known"] is False and trace["name"] == "stepping", trace
born = [t for t in trace["tensors"] if not t.get("persistent")]
assert len(born) >= 60, len(born)
sizes = [t["bytes"] for t in born]
wanted = [262144 * (1 + i * i % 11) for i in range(60)]
# A step begins wherever the clock saw it; numpy's blocks have a few bytes more.
near = lambda a, b: b <= a <= b + 16384
assert all(any(near(s, w) for s in sizes) for w in wanted), sizes
outputs = {t for op in trace["ops"] for t in op["outputs"]}
assert {t["id"] for t in born} <= outputs, "something is never made"
assert sum(op["time_us"] for op in trace["ops"]) > 50_000, "the pause is not in it"
P
expect_code 0 "the trace loads" "$terrace" plan step.json.gz --machine a100-ssd --policy lru --capacity 64M --json
/usr/bin/python3 - <<'P' || fail "the plan: $(head -c 600 out)"
import json
steps = json.load(open("out"))["steps"]
assert len(steps) == 1 and steps[0]["valid"] and steps[0]["total_us"] > 50_000, steps
P

expect_code 0 "a curve" "$terrace" plan --job stepping --seconds 4 --budget-curve --policy lru --time 2 --json --plot curve
[ -s curve-budgets.svg ] || fail "the curve was not drawn"
expect_text err "machine: DRAM and the pool; reading" "plan says which machine it took"
expect_text err "like steps of" "plan says what it recorded"
/usr/bin/python3 - <<'P' || fail "the curve: $(head -c 900 out)"
import json
curve = json.load(open("out"))
measured = curve["measured"]
assert measured["budget_bytes"] == 64 << 20 and measured["steps"] >= 2 and measured["total_us"] > 50_000, measured
assert 0 < curve["smallest_bytes"] < curve["live_bytes"], curve
budgets = [p["budget_bytes"] for p in curve["points"]]
assert 64 << 20 in budgets or curve["smallest_bytes"] > 64 << 20, budgets
assert curve["machine"] == "DRAM and the pool", curve
P
expect_code 0 "a curve as a table" "$terrace" plan --job stepping --seconds 3 --budget-curve --policy lru --time 2
expect_text out "smallest budget that fits" "the table has the smallest budget"
expect_text out "64.0 MiB .*measured, [0-9]* steps" "the measured point is marked"
expect_text out "predicted" "the others are, too"
expect_code 0 "a plan of a job" "$terrace" plan --job stepping --seconds 3 --policy lru --json
/usr/bin/python3 -c 'import json; assert json.load(open("out"))["steps"][0]["valid"]' || fail "no plan: $(head -c 300 out)"
# A point of its curve is run at, and compared with.
expect_code 0 "a point of a job's curve" "$terrace" plan --job stepping --seconds 4 --budget-curve --policy lru --time 2 --point 100% --out point.json
expect_code 0 "a job at that point" "$terrace" run --plan point.json --threshold 256K --summary --json-summary summary.json -- \
  /usr/bin/python3 -c "${step_py/while True/for _ in range(12)}"
expect_text err "  plan     a step was to take" "the summary compares"
/usr/bin/python3 - <<'P' || fail "the summary: $(head -c 900 summary.json) of $(head -c 600 point.json)"
import json
point, summary = json.load(open("point.json")), json.load(open("summary.json"))
assert point["program"] == "python3", point
assert summary["dram_bytes"] == point["budget_bytes"] == summary["plan"]["budget_bytes"], summary
assert summary["plan"]["predicted_step_seconds"] == point["step_us"] / 1e6, summary
if summary["counters"]["steps"]:
    assert summary["plan"]["step_seconds"] > 0.05, summary["plan"]
P
expect_code 2 "a point of another program" "$terrace" run --plan point.json -- touch ran
expect_text err "recorded of python3, and this command starts touch" "both programs are named"
[ -e ran ] && fail "another program ran"
kill "$job"
wait "$job" 2>/dev/null
finish
