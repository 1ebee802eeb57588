"""Removal leaves the settings and the counts, a purge leaves the group alone, and both can be installed over again."""
import os
from pathlib import Path

from machine import MEDIA, PACKAGES, SETTINGS, Job, attempt, check, of_unit, run, wait_up

OUTSIDE = ("/proc", "/sys", "/dev", "/media", "/run/vm", "/run/systemd", "/var/lib/dpkg", "/var/cache", "/var/log", "/tmp", "/var/tmp",
           "/home", "/etc/systemd/system/terrace-vm.service", "/etc/systemd/system/multi-user.target.wants/terrace-vm.service")


def ours():
    """Every path with Terrace's name, but what belongs to dpkg, to logs and to these tests."""
    found = set()
    for directory, folders, files in os.walk("/"):
        folders[:] = [folder for folder in folders if str(Path(directory, folder)) not in OUTSIDE]
        found |= {str(Path(directory, name)) for name in (*folders, *files) if "terrace" in name}
        folders[:] = [folder for folder in folders if "terrace" not in folder]
    return {path for path in found if path not in OUTSIDE}


def install():
    run("apt-get", "install", "--yes", *sorted(MEDIA.glob("packages/*.deb")), seconds=500)
    wait_up()


def case_remove():
    """`apt remove` stops the service and leaves settings and counts; a reinstallation keeps edited settings."""
    job = Job("leaves_counts")
    job.goes_on().pages()
    job.ends_right()
    SETTINGS.write_text(SETTINGS.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
    run("apt-get", "remove", "--yes", *PACKAGES, seconds=300)
    for unit in ("terraced", "terraced.socket"):
        check(of_unit(unit, "ActiveState") == "inactive", f"{unit} runs on")
    left = ours()
    check({"/etc/terrace", "/var/lib/terrace"} <= left, f"the settings or the counts are gone: {left}")
    check(not {path for path in left if path.startswith("/usr")}, f"programs are left: {left}")
    install()
    check(SETTINGS.read_text(encoding="utf-8").endswith("# edited\n"), "a reinstallation overwrites settings")
    run("sed", "-i", "/^# edited$/d", SETTINGS)


def case_purge():
    """`apt purge` leaves the group, and nothing else; a fresh installation starts the service."""
    run("apt-get", "purge", "--yes", *PACKAGES, seconds=300)
    check(ours() == set(), f"left: {sorted(ours())}")
    check(attempt("getent", "group", "terrace").returncode == 0, "the group is gone, whose number another could get")
    check(of_unit("terraced", "LoadState") in ("not-found", "masked"), of_unit("terraced", "LoadState"))
    install()
    job = Job("afterwards")
    job.goes_on().pages()
    job.ends_right()
