"""The packages are installed by apt from a local folder, as docs/install.md says."""
import shutil

from machine import INSTALLED, MEDIA, PACKAGES, SETTINGS, check, run


def case_apt():
    """Apt installs all five, without a network and without a question."""
    run("apt-get", "install", "--yes", *sorted(MEDIA.glob("packages/*.deb")), seconds=500)
    for package in PACKAGES:
        status = run("dpkg-query", "--show", "--showformat", "${db:Status-Status}", package)
        check(status == "installed", f"{package} is {status}")
    shutil.copy(SETTINGS, INSTALLED)
