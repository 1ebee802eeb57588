"""How fast a drive reads, by `terrace doctor`."""
import json
import subprocess


def read_bytes_per_second(terrace, directory):
    """None where it cannot be measured: doctor says why."""
    command = [terrace, "doctor", "--json", "--pool", directory]
    try:
        checks = json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout)["checks"]
    except (ValueError, KeyError):
        return None
    facts = next((check.get("facts") for check in checks if (check["area"], check["name"]) == ("speed", "pool")), None)
    return facts.get("read_bytes_per_second") if facts else None
