"""After its installation the service runs, is as closed as it promises, and serves root and members of its group."""
from machine import SOCKET, Job, answer, check, of_unit, run, user


def case_starts():
    """The service and its socket are active and enabled; it has told systemd that it is ready."""
    for name, value in (("Type", "notify"), ("ActiveState", "active"), ("SubState", "running"), ("NRestarts", "0"),
                        ("UnitFileState", "enabled")):
        check(of_unit("terraced", name) == value, f"{name} is {of_unit('terraced', name)}, not {value}")
    check(of_unit("terraced.socket", "ActiveState") == "active", "the socket is not active")
    check(run("stat", "--format", "%U:%G %a", SOCKET).strip() == "root:terrace 660", "the socket is not the group's")


def case_exposure():
    """`systemd-analyze security` counts 1.5 at most."""
    said = run("systemd-analyze", "security", "--no-pager", "--threshold=15", "terraced.service")
    check("Overall exposure level" in said, said)


def case_answers():
    """`terrace doctor`, `terrace status` and bare `terrace` answer root and a member of the group."""
    for who in ("root", user("alice")):
        (daemon,) = answer("status", user=who)["daemons"]
        check((daemon["private"], daemon["socket"]) == (False, SOCKET), f"{who}: {daemon}")
        check(SOCKET in run("terrace", user=who) + run("terrace", "status", user=who), f"{who}: the summary names no service")
        said = run("terrace", "doctor", user=who, seconds=300)
        check("pool" in said and "mremap" in said, f"{who}: {said}")


def case_jobs():
    """A job of root and one of a member page through the service, with right bytes."""
    for who in ("root", user("alice")):
        job = Job(f"of_{who}", user=who)
        row = job.goes_on(2).pages()
        check((row["socket"], row["pager"]) == (SOCKET, "active"), row)
        check(row["resident_peak_bytes"] <= row["budget_bytes"] + (8 << 20), f"over its budget: {row}")
        job.ends_right()
