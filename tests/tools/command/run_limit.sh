# --limit: the kernel holds the job to it, the cgroup is gone afterwards, the summary has its peak.
. "$(dirname "$0")/common.sh"
"$terrace" doctor --quick --json --pool "$directory" >doctor.json
/usr/bin/python3 - <<'P' || skip "no memory cgroup can be made here"
import json, sys
checks = {c["name"]: c for c in json.load(open("doctor.json"))["checks"]}
sys.exit(0 if checks.get("child", {}).get("health") == "ok" else 1)
P
expect_code 0 "job under a limit" "$terrace" run --limit 200M --summary --json-summary summary.json -- \
  sh -c 'echo $TERRACE_LIMIT_CGROUP; cat $TERRACE_LIMIT_CGROUP/memory.limit_in_bytes $TERRACE_LIMIT_CGROUP/memory.max 2>/dev/null; grep -c "^" $TERRACE_LIMIT_CGROUP/cgroup.procs'
expect_text out '^209715200$' "the limit"
cgroup=$(head -1 out)
[ -e "$cgroup" ] && fail "the cgroup $cgroup is still there"
expect_text err "under a limit of 200 MiB" "the summary"
/usr/bin/python3 - <<'P' || fail "the JSON summary: $(cat summary.json)"
import json
summary = json.load(open("summary.json"))
assert summary["limit_bytes"] == 209715200 and 0 < summary["peak_bytes"] <= 209715200
assert summary["exit"] == {"code": 0} and summary["wall_seconds"] > 0
P
# What is over the limit and cannot be tiered is killed by the kernel, and said.
expect_code 137 "job that needs more than its limit" "$terrace" run --limit 64M --disable --summary -- \
  /usr/bin/python3 -c 'x = bytearray(200 << 20)'
expect_text err "KILLED" "the summary of a killed job"
# A process that outlives the job keeps its cgroup, and the user is told.
"$terrace" run --limit 200M -- sh -c 'echo $TERRACE_LIMIT_CGROUP; setsid sleep 2 >/dev/null 2>&1 </dev/null & exit 0' >out 2>err
[ -d "$(head -1 out)" ] || fail "the cgroup of a process that runs on was removed"
expect_text err "still in" "the note about processes left"
sleep 2.2
"$terrace" run --limit 200M -- true
[ -d "$(head -1 out)" ] && fail "the next run did not remove the abandoned cgroup"
finish
