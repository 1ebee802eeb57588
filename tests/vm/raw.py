#!/usr/bin/python3
"""A client of the service's socket with no library of ours behind it (docs/formats/wire.md): what any program could send.

    raw.py control JSON       asks, and prints the answer
    raw.py garbage COUNT      sends so many packets that are none, each on a connection of its own; prints how many ended
    raw.py connections COUNT  opens so many connections that say nothing; prints how many, and holds them until its input ends
    raw.py flood SECONDS      asks for everything, over and over, on eight connections, without reading the answers

As a program it is run by users who are to be refused; imported, it asks for the tests.
"""
import json
import random
import socket
import struct
import sys
import time

SOCKET = "/run/terrace/terraced.sock"
HEADER = struct.Struct("<IHHII")  # magic, version, type, length, reserved
FLAGS = struct.Struct("<II")  # of a reply: flags, reserved
MAGIC, VERSION, CONTROL, REPLY = 0x43525254, 1, 32, 33


def connect(seconds=30):
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.settimeout(seconds)
    end.connect(SOCKET)
    return end


def packet_of(request):
    body = json.dumps(request).encode()
    return HEADER.pack(MAGIC, VERSION, CONTROL, len(body), 0) + body


def ask(end, request):
    """The whole answer to one control request."""
    end.send(packet_of(request))
    text, more = b"", True
    while more:
        packet = end.recv(1 << 17)
        if len(packet) < HEADER.size + FLAGS.size:
            raise ConnectionError("the service ended the connection")
        kind = HEADER.unpack_from(packet)[2]
        if kind != REPLY:
            raise ConnectionError(f"a packet of type {kind} is no answer")
        more = FLAGS.unpack_from(packet, HEADER.size)[0] & 1
        text += packet[HEADER.size + FLAGS.size:]
    return json.loads(text)


def control(verb, seconds=30, **arguments):
    with connect(seconds) as end:
        return ask(end, {"verb": verb, **arguments})


def garbage(count):
    ended = 0
    for number in range(count):
        dice = random.Random(number)
        with connect() as end:
            end.send(dice.randbytes(dice.randrange(1, 3000)))
            ended += end.recv(1 << 16) == b""
    print(ended)


def connections(count):
    held = []
    for _ in range(count):
        try:
            held.append(connect(5))
        except OSError:
            break
    print(len(held), flush=True)
    sys.stdin.read()


def flood(seconds):
    ends = []
    until = time.monotonic() + seconds
    sent = 0
    while time.monotonic() < until:
        while len(ends) < 8:
            ends.append(connect())
            ends[-1].setblocking(False)
        for end in list(ends):
            try:
                sent += end.send(packet_of({"verb": "events", "last": 4096})) > 0
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:  # disconnected: a new one takes its place
                ends.remove(end)
                end.close()
    print(sent)


def main(what, argument):
    if what == "control":
        print(json.dumps(control(**json.loads(argument))))
    else:
        {"garbage": garbage, "connections": connections, "flood": flood}[what](int(argument))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
