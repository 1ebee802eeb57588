"""What end-to-end tests share: a condition that holds, or comes to hold in time."""
import time


class Failed(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Failed(what)


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise Failed(f"waited {seconds} s for: {what}")
