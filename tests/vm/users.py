"""Users who mean harm: strangers stay outside, and members can neither see, nor change, nor starve each other's jobs."""
import json
import subprocess
import sys

from machine import MEDIA, MIB, SOCKET, Job, answer, as_user, attempt, check, main_pid, refusal, run, user, wait_for

RAW = str(MEDIA / "tests/raw.py")


def raw_as(who, *words, seconds=120):
    return attempt(sys.executable, "-B", RAW, *words, user=who, seconds=seconds)


def ask_as(who, verb, **arguments):
    done = raw_as(who, "control", json.dumps({"verb": verb, **arguments}))
    check(done.returncode == 0, done.stderr)
    return json.loads(done.stdout)


def paging(name, who):
    job = Job(name, user=who)
    job.goes_on().pages()
    return job


def case_stranger():
    """A user outside of the group is refused with a line that says what to do; nothing of his reaches the service."""
    mallory = user("mallory", member=False)
    line = refusal(4, "terrace", "run", "--", "touch", "/tmp/of_mallory", user=mallory)
    for word in (SOCKET, "group terrace", "usermod", "--private"):
        check(word in line, f"{word} is not in: {line}")
    check(attempt("test", "-e", "/tmp/of_mallory").returncode != 0, "his job ran all the same")
    line = refusal(3, "terrace", "status", user=mallory)
    check("Permission denied" in line and "group of that socket (terrace)" in line, line)
    done = raw_as(mallory, "control", '{"verb": "ping"}')
    check(done.returncode == 1 and "PermissionError" in done.stderr, f"the socket let him in: {done}")


def case_changes():
    """A member's set, trim, pause and resume of another's job are refused; the job has what it had."""
    alice, bob = user("alice"), user("bob")
    uid = int(run("id", "--user", alice))
    job = paging("hers", alice)
    before = job.row()["budget_bytes"]
    whose = ("hers", "--uid", str(uid))
    for words in (("set", *whose, "--dram", "40M"), ("set", *whose, "--dram-limit", "40M"),
                  ("set", *whose, "--pool-limit", "4M"), ("set", *whose, "--weight", "9"),
                  ("trim", *whose), ("pause", *whose), ("resume", *whose)):
        refusal(4, "terrace", *words, user=bob)
    for request in (("set_budget", {"bytes": 40 * MIB}), ("set_limit", {"bytes": 40 * MIB}), ("trim", {}),
                    ("pause", {"stays": True}), ("set_weight", {"weight": 9}),
                    ("set_tier_limit", {"tier": "pool", "bytes": 4 * MIB}), ("shutdown", {})):
        said = ask_as(bob, request[0], job="hers", uid=uid, **request[1])
        check(said["ok"] is False and said["errno"] == 1, f"{request[0]}: {said}")
    check(job.row()["budget_bytes"] == before and "dram_limit_bytes" not in job.row(), job.row())
    check(run("terrace", "set", "hers", "--dram", "72M", user=alice) != "", "she herself may not")
    job.goes_on().ends_right()


def case_addresses():
    """Events of another user's job have no address and no call site; its own user and root see them."""
    alice, bob = user("alice"), user("bob")
    job = paging("hers", alice)
    fields = {}
    for who in (alice, "root", bob):
        events = ask_as(who, "events", last=400)["events"]
        events = [event for event in events if event.get("job") == "hers" and "bytes" in event]
        check(events, f"{who} is told of none")
        fields[who] = sum("address" in event or "call_site" in event for event in events)
    check(fields[bob] == 0, f"another member is told {fields[bob]} addresses")
    check(fields[alice] > 0 and fields["root"] > 0, f"nobody is told addresses: the test says nothing: {fields}")
    uid = int(run("id", "--user", alice))
    sites = ask_as(bob, "lifetimes", job="hers", uid=uid, last=50)
    check("call_site" not in json.dumps(sites), f"another member is told call sites: {sites}")
    pid = job.row()["pid"]
    check(attempt("cat", f"/proc/{pid}/maps", user=bob).returncode != 0, "the kernel tells him its addresses")
    job.ends_right()


def case_promises():
    """What one user asks for leaves another her part: beyond `per_user`, a half, he is refused."""
    alice, bob = user("alice"), user("bob")
    whole = next(tier["capacity_bytes"] for tier in answer("tiers")["tiers"] if tier["tier"] == "dram")

    def dram(percent):
        return f"{whole * percent // 100}B"

    greedy = [Job(f"greedy{number}", user=bob, mib=8, dram=dram(20)) for number in range(2)]
    for job in greedy:
        job.goes_on()
    for name, percent in (("third", 20), ("large", 60)):
        beyond = Job(name, user=bob, mib=8, dram=dram(percent))
        beyond.goes_on()
        check(beyond.row() is None, f"{name} was promised more than a half: {beyond.row()}")
        check("per_user" in beyond.output(), f"{name} is not told why: {beyond.output()!r}")
        beyond.ends_right()
    hers = Job("hers", user=alice, mib=64, dram=dram(40))
    row = wait_for(hers.row, "her job")
    check(row["budget_bytes"] >= whole * 4 // 10 - MIB, f"she has not what she asked for: {row}")
    for job in (hers, *greedy):
        job.goes_on().ends_right()


def case_hostile_packets():
    """Garbage ends its own connection alone; 300 idle connections and a flood of requests keep nobody else out."""
    alice, bob = user("alice"), user("bob")
    pid = main_pid()
    job = paging("hers", alice)
    check(raw_as(bob, "garbage", "50").stdout.strip() == "50", "garbage did not end its connection")
    idle = subprocess.Popen(as_user(bob, [sys.executable, "-B", RAW, "connections", "400"]), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    try:
        check(int(idle.stdout.readline()) > 0, "he could not connect at all")
        flood = subprocess.Popen(as_user(bob, [sys.executable, "-B", RAW, "flood", "30"]), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        job.goes_on()
        newer = paging("newer", alice)
        run("terrace", "set", "newer", "--dram", "80M", user=alice)
        check(flood.poll() is None, "the flood was over before she was served: the test says nothing")
        flood.kill()
        flood.wait()
    finally:
        idle.stdin.close()
        idle.wait()
    for one in (job, newer):
        one.goes_on().ends_right()
    check(main_pid() == pid, "the service did not survive it")
