#!/usr/bin/python3
"""What a job does not use goes back: `terrace trim`, and lower limits.

    giving_back.py trim      what a job keeps for reuse goes back to the kernel
    giving_back.py space     what a job does not use of the pool's disk goes back, and what it stored stays
"""
import sys

from machine import MIB, Machine, check, run, wait_for


def test_trim(directory):
    machine = Machine(directory)
    try:
        machine.start("job", "hold")
        wait_for(lambda: machine.row("job")["recycled_bytes"] >= 100 * MIB, "memory that is kept for reuse")
        resident = machine.resident_bytes("job")
        (trimmed,) = machine.answer("trim")["jobs"]
        check(trimmed["previous_recycled_bytes"] >= 100 * MIB and trimmed["recycled_bytes"] == 0, trimmed)
        check(trimmed["processes"] == 1, trimmed)
        check(machine.resident_bytes("job") <= resident - 100 * MIB, "the kernel did not get it back")
        check("kept for reuse 0 B -> 0 B" in machine.terrace("trim", "job").stdout, "trimmed once more")
        machine.refusal(5, "trim", "nobody")
        machine.end("job")
        check(machine.answer("trim")["jobs"] == [], "nobody is left")
    finally:
        machine.close()


def test_space(directory):
    machine = Machine(directory)
    try:
        for name, words in (("trimmed", ("trim", "trimmed")), ("limited", ("set", "limited", "--pool-limit", "128M"))):
            machine.start(name, "hoard", 64 * MIB)
            before = machine.pool_file_bytes(name)
            check(before >= 384 * MIB, f"{name}: {before} bytes of the pool's disk")
            machine.goes_on(name)
            check(machine.pool_file_bytes(name) == before, f"{name}: space that may be needed again is gone")
            machine.answer(*words)
            wait_for(lambda: machine.pool_file_bytes(name) <= 192 * MIB, f"{name}: space to go back", 30)
            machine.goes_on(name)
            machine.result(name)
    finally:
        machine.close()


if __name__ == "__main__":
    sys.exit(run({"trim": test_trim, "space": test_space}))
