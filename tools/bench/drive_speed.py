"""How fast a drive reads and writes, by `terrace doctor`; and what that bounds."""
import json
import subprocess


def speeds(terrace, directory):
    """The facts that doctor measures; empty where they cannot be measured: doctor says why."""
    command = [terrace, "doctor", "--json", "--pool", directory]
    try:
        checks = json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout)["checks"]
    except (ValueError, KeyError):
        return {}
    return next((check.get("facts") for check in checks if (check["area"], check["name"]) == ("speed", "pool")), None) or {}


def read_bytes_per_second(terrace, directory):
    """None where it cannot be measured."""
    return speeds(terrace, directory).get("read_bytes_per_second")


def fastest(measured):
    """(read, write) in bytes per second, the fastest of several measurements: a bound must not be too high. A block that is
    written anew and one that is overwritten count as the same. None where neither was measured."""
    reads = [facts["read_bytes_per_second"] for facts in measured if facts.get("read_bytes_per_second")]
    writes = [max(facts.get(name) or 0 for name in ("write_bytes_per_second", "fresh_write_bytes_per_second")) for facts in measured]
    return (max(reads), max(writes)) if reads and any(writes) else None


def transfer_seconds(excess_bytes, drive, writes=True):
    """What does not fit goes out and comes back once in a step, one after the other: a drive that does both at once at full
    speed can be faster. What is never changed (`writes` False) only comes back."""
    if drive is None:
        return None
    read, write = drive
    return max(excess_bytes, 0) * (1 / read + (1 / write if writes else 0))
