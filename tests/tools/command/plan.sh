# `terrace plan` and `terrace import` as a user meets them: totals, files, exit codes, and Ctrl-C.
. "$(dirname "$0")/common.sh"
printf 'id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n' >five.csv
cat >step.json <<'P'
{"format":"terrace-trace","version":1,"name":"small",
 "ops":[{"name":"a","time_us":10,"inputs":[7],"outputs":[1]},
        {"name":"b","time_us":20,"inputs":[1],"outputs":[2],"workspace_bytes":100},
        {"name":"c","time_us":30,"inputs":[2,7],"outputs":[7]}],
 "tensors":[{"id":7,"bytes":1000,"kind":"weight","persistent":true},
            {"id":1,"bytes":300,"kind":"activation"},{"id":2,"bytes":200,"kind":"gradient"}]}
P

expect_code 0 "the list" "$terrace" plan --list
expect_text out "tflite_by_size" "the list"
expect_text out "^a100-g10  *gpu 40.0 GiB in pages, host 128 GiB, ssd without limit  *pcie 15.8 GB/s in, 15.8 out; ssd 3.2 GB/s in, 3.2 out$" \
  "the machines that are built in"
expect_text out "^a100-ssd " "the machines that are built in"

# Known totals: 20 bytes side by side, 12 at best.
expect_code 0 "plan" "$terrace" plan five.csv --policy tflite_naive,tflite_by_size --bytes
expect_text out "tflite_naive  *20  *+66.7% .*yes" "plan"
expect_text out "tflite_by_size  *12  *0% .*yes" "plan"
expect_code 0 "all policies" "$terrace" plan five.csv --time 1
grep -q ' NO ' out && fail "a policy's plan is wrong: $(cat out)"
expect_code 0 "all policies as JSON" "$terrace" plan five.csv --time 1 --json
/usr/bin/python3 - <<'P' || fail "the JSON of all policies"
import json
plan = json.load(open("out"))
assert plan["format"] == "terrace-plan" and plan["bounds"]["max_live_bytes"] == 12, plan
placed = [p for p in plan["placements"] if "refused" not in p]
assert len(placed) > 10 and all(p["valid"] and p["total_bytes"] >= 12 for p in placed), plan
P

# Another order of a chain is the same order; lifetimes alone have none.
expect_code 0 "an order" "$terrace" plan step.json --order memory_minimising --policy terrace --bytes
expect_text out "small memory_minimising .* at most 1600 alive at once" "an order"
expect_text out "at the peak, operation 1 ('b'): weight 1000, rounding to 512 bytes 960, activation 300, gradient 200, workspace 100" "the classes at the peak"
expect_code 2 "an order of lifetimes" "$terrace" plan five.csv --order breadth_first
expect_code 2 "an unknown order" "$terrace" plan step.json --order alphabetical

# Nor has a trace that does not tell what its operations read, also after it was written: here D = g(B, C) is
# logged only as the release of B and C, and another order would release them before.
cat >profile.json <<'P'
{"traceEvents":[
 {"ph":"X","cat":"cpu_op","name":"make B","pid":1,"tid":1,"ts":0,"dur":8},
 {"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":1,"args":{"Device Type":0,"Addr":1,"Bytes":1000}},
 {"ph":"X","cat":"cpu_op","name":"make C","pid":1,"tid":1,"ts":10,"dur":8},
 {"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":11,"args":{"Device Type":0,"Addr":2,"Bytes":10}},
 {"ph":"X","cat":"cpu_op","name":"D = g(B, C)","pid":1,"tid":1,"ts":20,"dur":8},
 {"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":21,"args":{"Device Type":0,"Addr":3,"Bytes":10}},
 {"ph":"X","cat":"cpu_op","name":"free B","pid":1,"tid":1,"ts":30,"dur":8},
 {"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":31,"args":{"Device Type":0,"Addr":1,"Bytes":-1000}}]}
P
expect_code 2 "an order of a profile" "$terrace" plan profile.json --order memory_minimising
expect_text err "does not tell what each operation reads" "an order of a profile"
expect_code 0 "the profile as it is" "$terrace" plan profile.json --policy tflite_naive
expect_text out "but not which operations read it" "what the importer says"
for file in profile.json five.csv; do
  expect_code 0 "import of $file" "$terrace" import $file --out imported.json
  expect_code 2 "an order of what was imported from $file" "$terrace" plan imported.json --order breadth_first
  expect_text err "does not tell what each operation reads" "an order of what was imported from $file"
done

# With a machine that holds everything the step takes as long as its operations.
expect_code 0 "a machine" "$terrace" plan step.json --machine a100-g10 --policy all --time 1 --json
/usr/bin/python3 - <<'P' || fail "the steps: $(head -c 600 out)"
import json
plan = json.load(open("out"))
steps = [s for s in plan["steps"] if "refused" not in s]
assert len(steps) > 2 and all(s["valid"] for s in steps), plan
assert any(abs(s["total_us"] - 60) < 1e-6 for s in steps), plan
P

# A step with an optimizer's states: with the update on the CPU it is another step, which no file can hold.
cat >adam.json <<'J'
{"format":"terrace-trace","version":1,"name":"adam",
 "ops":[{"name":"forward","time_us":100,"inputs":[1],"outputs":[2]},
        {"name":"backward","time_us":200,"inputs":[1,2],"outputs":[3]},
        {"name":"adam","time_us":50,"inputs":[1,3,4],"outputs":[1,4]}],
 "tensors":[{"id":1,"bytes":15754000,"kind":"weight","persistent":true},{"id":2,"bytes":1000,"kind":"activation"},
            {"id":3,"bytes":15754000,"kind":"gradient"},
            {"id":4,"bytes":31508000,"kind":"optimizer","persistent":true}]}
J
expect_code 0 "the update on the CPU" "$terrace" plan adam.json --machine a100-g10 --policy zero_offload,zero_offload_delayed --json
/usr/bin/python3 - <<'P' || fail "the update on the CPU: $(head -c 900 out)"
import json
first, delayed = json.load(open("out"))["steps"]
assert first["update_on_cpu"] and first["valid"] and delayed["valid"] and "bound" not in first, first
# 300 us, the gradient leaves in 1,000, the weight comes in 1,000; the CPU, which is faster, hides in that.
assert abs(first["total_us"] - 2300) < 1, first
assert delayed["total_us"] < first["total_us"], delayed
assert first["tiers"][1]["peak_bytes"] == 2 * 15754000 + 31508000, first
P
expect_code 2 "a schedule of another step" "$terrace" plan adam.json --machine a100-g10 --policy zero_offload --out none.json
expect_text err "takes the update out" "plan says why there is no schedule"
expect_code 1 "no state" "$terrace" plan step.json --machine a100-g10 --policy zero_offload
expect_text out "optimizer has states" "plan says what the step lacks"

# Ten budgets from the smallest on; more memory is never slower.
expect_code 0 "a budget curve" "$terrace" plan step.json --machine a100-g10 --budget-curve --time 1 --json --plot curve
[ -s curve-budgets.svg ] && [ -s curve-budgets.png ] || fail "the curve was not drawn"
/usr/bin/python3 - <<'P' || fail "the curve: $(head -c 600 out)"
import json
curve = json.load(open("out"))
assert curve["format"] == "terrace-budget-curve" and curve["smallest_bytes"] >= curve["needed_bytes"], curve
points = curve["points"]
assert points and points[0]["budget_bytes"] == curve["smallest_bytes"], curve
assert all(a["total_us"] >= b["total_us"] for a, b in zip(points, points[1:])), curve
P
expect_code 2 "a curve without a machine" "$terrace" plan step.json --budget-curve
expect_code 2 "a curve by two policies" "$terrace" plan step.json --machine a100-g10 --budget-curve --policy lru,fifo
# One of its points becomes a file that a job can run at.
expect_code 0 "a point of the curve" "$terrace" plan step.json --machine a100-g10 --budget-curve --policy lru --point 100% --out point.json
expect_text err "wrote point.json; 'terrace run --plan point.json --summary'" "plan says what the point is for"
/usr/bin/python3 - <<'P' || fail "the point: $(head -c 600 point.json)"
import json
point = json.load(open("point.json"))
assert point["format"] == "terrace-plan-point" and point["version"] == 1 and point["policy"] == "lru", point
assert point["budget_bytes"] == point["live_bytes"] and point["step_us"] >= point["compute_us"] > 0 and "program" not in point, point
P
expect_code 6 "a point in which nothing runs" "$terrace" plan step.json --machine a100-g10 --budget-curve --policy lru --point 1 --out none.json
expect_text err "smallest budget that fits" "plan says what the step needs"
[ ! -e none.json ] || fail "a point that there is none of was written"
expect_code 2 "a point of no curve" "$terrace" plan step.json --machine a100-g10 --point 1G --out none.json
expect_code 2 "a point that is written nowhere" "$terrace" plan step.json --machine a100-g10 --budget-curve --point 1G
expect_text err "--out FILE says where" "plan says what is missing"
expect_code 2 "a point that is no size" "$terrace" plan step.json --machine a100-g10 --budget-curve --point much --out none.json
expect_text err "--point: 'much' is not a size" "the point is named"

expect_code 0 "files" "$terrace" plan step.json --machine a100-g10 --policy tflite_by_size,lru \
  --plot picture --out schedule.json --perfetto timeline.json
for file in picture-placement.svg picture-placement.png picture-memory.svg picture-memory.png schedule.json timeline.json; do
  [ -s "$file" ] || fail "$file was not written"
  expect_text err "wrote $file" "what was written is said"
done
/usr/bin/python3 - <<'P' || fail "schedule or timeline"
import json
schedule = json.load(open("schedule.json"))
assert (schedule["format"], schedule["version"], schedule["policy"]) == ("terrace-schedule", 2, "on demand"), schedule
predicted = schedule["predicted"]
assert predicted["step_us"] > 0 and len(predicted["tier_peak_bytes"]) == 3, schedule
assert schedule["period"]["ordinals"] > 0 and len(schedule["period"]["hash"]) == 16, schedule
json.load(open("timeline.json"))
P
expect_code 0 "a placement" "$terrace" plan step.json --policy tflite_naive --out placement.json.gz
gzip -dc placement.json.gz | grep -q '"total_bytes": 1600' || fail "placement.json.gz"

# import and plan meet in a pipe.
expect_code 0 "import" "$terrace" import five.csv --out five.json.gz
expect_code 0 "what import wrote" "$terrace" plan five.json.gz --policy tflite_by_size --bytes
expect_text out "tflite_by_size  *12 " "what import wrote"
"$terrace" import step.json --out - 2>/dev/null | "$terrace" plan - --policy tflite_naive --bytes >out || fail "the pipe"
expect_text out "1600" "the pipe"

# A name that is not UTF-8 is replaced in what is written.
printf 'id,lower,upper,size\nb1,0,3,4\n' >"$(printf 'na\377me.csv')"
expect_code 0 "a name that is not UTF-8" "$terrace" plan "$(printf 'na\377me.csv')" --policy tflite_naive --json --out name.json
for file in out name.json; do
  /usr/bin/python3 -c 'import json, sys; json.load(open(sys.argv[1], encoding="utf-8"))' $file || fail "$file of a name that is not UTF-8"
done

# What cannot be read or met.
gzip -c step.json | head -c 90 >half.json.gz
expect_code 1 "truncated gzip" "$terrace" plan half.json.gz
expect_code 1 "wrong version" "$terrace" plan <(sed 's/"version":1/"version":7/' step.json)
expect_code 1 "directory" "$terrace" plan "$directory"
expect_code 5 "no such file" "$terrace" plan nothing.json
expect_code 5 "no such machine" "$terrace" plan step.json --machine nothing
expect_code 2 "no trace" "$terrace" plan
expect_code 2 "no such policy" "$terrace" plan five.csv --policy nonsense
expect_code 2 "moves without a machine" "$terrace" plan step.json --policy lru
expect_code 2 "a machine for lifetimes" "$terrace" plan five.csv --machine a100-g10 --time 1
expect_code 2 "negative size" "$terrace" plan five.csv --capacity=-4
expect_code 2 "negative time" "$terrace" plan five.csv --time=-1
expect_code 2 "no time" "$terrace" plan five.csv --time=nan
expect_code 2 "negative seed" "$terrace" plan five.csv --seed=-1
expect_code 2 "no such format" "$terrace" import five.csv --format msgpack
expect_code 2 "import of nothing" "$terrace" import
expect_code 1 "no folder to write to" "$terrace" plan five.csv --policy tflite_naive --out /nonexistent/x.json
# Before anything is searched: a search without limit would take as long as the test may.
for option in --out --plot --perfetto; do
  expect_code 1 "no folder for $option" timeout 20 "$terrace" plan step.json --machine a100-g10 --time 0 $option /nonexistent/x
  expect_text err "$option /nonexistent/x: nothing can be written into /nonexistent: No such file" "no folder for $option"
done
expect_code 2 "a timeline without a machine" "$terrace" plan step.json --perfetto timeline.json
expect_code 2 "a schedule without moves" "$terrace" plan step.json --machine a100-g10 --policy tflite_naive --out none.json
expect_code 6 "nothing fits" "$terrace" plan five.csv --policy tflite_by_size --capacity 11
expect_text err "fits into 11" "nothing fits"
expect_code 0 "it fits" "$terrace" plan five.csv --policy tflite_by_size --capacity 12

# Ctrl-C ends a long search; the best so far is printed, and what had not begun is left out.
/usr/bin/python3 - <<'P' >hard.csv
import random
random.seed(1)
print("id,lower,upper,size")
for i in range(1500):
    a = random.randrange(4000)
    print(f"{i},{a},{a + 1 + random.randrange(600)},{random.randrange(1, 1000)}")
P
# A shell without job control ignores SIGINT for what it puts into the background; Python resets that.
/usr/bin/python3 - "$terrace" <<'P' || fail "Ctrl-C"
import signal, subprocess, sys, time
job = subprocess.Popen([sys.argv[1], "plan", "hard.csv", "--policy", "tvm_hill_climb,tflite_naive", "--time", "0"],
                       stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(1)
assert job.poll() is None, "the search ended by itself"
job.send_signal(signal.SIGINT)
out, _ = job.communicate(timeout=30)
assert job.returncode == 130, (job.returncode, out)
assert "stopped: the best so far" in out and "tflite_naive" not in out, out
P
# With a machine there is no schedule yet: what was found is written, what was not is left out.
expect_code 0 "the hard one as a trace" "$terrace" import hard.csv --out hard.json
/usr/bin/python3 - "$terrace" <<'P' || fail "Ctrl-C with files"
import os, signal, subprocess, sys, time
job = subprocess.Popen([sys.argv[1], "plan", "hard.json", "--policy", "tvm_hill_climb,lru", "--machine", "a100-g10", "--time", "0",
                        "--out", "hard.out", "--perfetto", "hard.timeline", "--plot", "hard"], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(1)
assert job.poll() is None, "the search ended by itself"
job.send_signal(signal.SIGINT)
out, err = job.communicate(timeout=30)
assert job.returncode == 130, (job.returncode, out, err)
assert os.path.exists("hard-placement.svg") and not os.path.exists("hard.out") and "no valid" not in err, err
P
# A policy that never asks whether to stop is left behind.
/usr/bin/python3 - <<'P' >many.csv
print("id,lower,upper,size")
for i in range(200000):
    print(f"{i},{i % 2},{i % 2 + 1},{1 + i * 7919 % 1000003}")
P
/usr/bin/python3 - "$terrace" <<'P' || fail "Ctrl-C and a policy that never asks"
import signal, subprocess, sys, time
job = subprocess.Popen([sys.argv[1], "plan", "many.csv", "--policy", "tflite_naive,tflite_by_breadth"],
                       stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(2)
assert job.poll() is None, "the policy ended by itself"
job.send_signal(signal.SIGINT)
out, _ = job.communicate(timeout=30)
assert job.returncode == 130, (job.returncode, out)
assert "tflite_by_breadth: interrupted before it had an answer" in out and "tflite_naive" in out, out
P
finish

# A plan to begin with: the step with other times, under the plan of the one before.
cat >one.json <<'P'
{"format":"terrace-machine","version":1,"name":"one","tiers":[{"name":"gpu","capacity_bytes":1700},{"name":"dram"}],
 "links":[{"name":"pcie","in_bytes_per_second":1e8,"out_bytes_per_second":1e8}],"routes":[{"tier":"dram","links":["pcie"]}]}
P
expect_code 0 "a plan" "$terrace" plan step.json --machine one.json --policy joint --out before.json
sed 's/"time_us":20/"time_us":24/' step.json >drifted.json
expect_code 0 "a plan from the one before" "$terrace" plan drifted.json --machine one.json --policy joint --from before.json
expect_text out "^joint .* yes" "a plan from the one before"
expect_code 2 "a plan from another one without joint" "$terrace" plan drifted.json --machine one.json --policy lru --from before.json
expect_text err "only the policy joint begins with a plan" "a plan from another one without joint"
expect_code 1 "a plan from what is none" "$terrace" plan drifted.json --machine one.json --policy joint --from step.json
expect_text err "^terrace: --from: step.json: " "a plan from what is none"
sed 's/"bytes":300/"bytes":301/' step.json >other.json
expect_code 1 "a plan from another step's" "$terrace" plan other.json --machine one.json --policy joint --from before.json
expect_code 2 "a curve from a plan" "$terrace" plan step.json --machine one.json --budget-curve --from before.json
