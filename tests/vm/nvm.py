"""Memory that is slower than DRAM takes what leaves it: a node without a processor, and a file system with DAX."""
from pathlib import Path

from machine import MIB, PMEM, SETTINGS, Job, answer, check, mounted, restart, run, user, wait_for

PLACE = Path("/mnt/pmem")


def nvm_tier():
    return next(tier for tier in answer("tiers")["tiers"] if tier["tier"] == "nvm")


def with_tier(*lines):
    with open(SETTINGS, "a", encoding="utf-8") as file:
        file.write("\n".join(["", "[[tier]]", 'kind = "nvm"', *lines, ""]))
    restart()


def uses_nvm(look=lambda: None):
    """Jobs of root and of a member have data there, as their rows and the tier say; a promise goes with its job."""
    for who in ("root", user("alice")):
        job = Job(f"of_{who}", user=who)
        row = wait_for(lambda job=job: (job.goes_on().row() or {}).get("nvm_read_bytes", 0) > 0 and job.row(),
                       "pages to come back from NVM")
        check(row["nvm_bytes"] > 0 and row["nvm_written_bytes"] > 0, row)
        check(nvm_tier()["used_bytes"] > 0, nvm_tier())
        look()
        check(row["lost_runs"] == 0, row)
        job.ends_right()
    wait_for(lambda: nvm_tier()["promised_bytes"] == 0, "the promise to end")


def file_bytes_on(node):
    lines = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[3]) * 1024 for line in lines if "Shmem:" in line)


def case_node():
    """`nodes = "1"`: pages lie on the node without a processor."""
    cpus = Path("/sys/devices/system/node/node1/cpulist").read_text(encoding="utf-8").strip()
    check(cpus == "", f"node 1 has processors: {cpus}")
    with_tier('size = "256M"', 'nodes = "1"')
    check(nvm_tier()["capacity_bytes"] == 256 * MIB, nvm_tier())
    before = file_bytes_on(1)

    def look():
        check(file_bytes_on(1) >= before + 16 * MIB, f"node 1 had {before} bytes of files in memory, and has {file_bytes_on(1)}")

    uses_nvm(look)


def case_fsdax():
    """`directory` on ext4 with DAX on /dev/pmem0: pages lie there."""
    mounted(PMEM, PLACE, "-o", "dax")
    options = run("findmnt", "--noheadings", "--output", "OPTIONS", str(PLACE))
    check("dax" in options, f"it is not mounted with DAX: {options}")
    (PLACE / "terrace").mkdir()
    with_tier('size = "128M"', f'directory = "{PLACE / "terrace"}"')
    check(nvm_tier()["directory"] == str(PLACE / "terrace"), nvm_tier())
    free = int(run("stat", "--file-system", "--format", "%f", str(PLACE)))

    def look():
        now = int(run("stat", "--file-system", "--format", "%f", str(PLACE)))
        check(now < free, "nothing of that file system is used")

    uses_nvm(look)
    check(str(PLACE) in run("terrace", "doctor", seconds=300), "terrace doctor does not see it")
    run("umount", "--lazy", str(PLACE))


def case_named_by_job():
    """`terrace run --tiers nvm=64M@DIRECTORY` without a tier of the service's."""
    mounted(PMEM, PLACE, "-o", "dax")
    job = Job("names_it", "--tiers", f"nvm=64M@{PLACE}")
    row = wait_for(lambda: (job.goes_on().row() or {}).get("nvm_written_bytes", 0) > 0 and job.row(), "pages to go there")
    check(row["nvm_bytes"] <= 64 * MIB, row)
    job.ends_right()
    run("umount", "--lazy", str(PLACE))
