"""A service that keeps its connections over its own death, by systemd's protocol and nothing else.

Each connection says lines and is answered. What a line asks for is in `answer`.
"""

import os
import select
import signal
import socket
import sys


def notify(text, fds=()):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.connect(os.environ["NOTIFY_SOCKET"])
        socket.send_fds(out, [text.encode()], fds)


def barrier():
    here, there = os.pipe()
    notify("BARRIER=1", [there])
    os.close(there)
    seen = os.read(here, 1)
    os.close(here)
    assert seen == b"", seen


def answer(name, connection, line):
    word, _, rest = line.partition(" ")
    if word == "who":
        return f"{os.getpid()} {os.environ['LISTEN_FDNAMES']}"
    if word == "keep":  # under another name too
        notify(f"FDSTORE=1\nFDNAME={rest}", [os.memfd_create(rest)])
    elif word == "drop":
        notify(f"FDSTOREREMOVE=1\nFDNAME={rest}")
    elif word == "again":
        notify("FDSTORE=1\nFDNAME=again", [connection.fileno()])
    elif word == "say":
        notify(rest)
    elif word == "child":
        if os.fork() == 0:
            notify("STATUS=a child")
            os._exit(0)
        os.wait()
    elif word == "die":  # at once: what it sent is not yet read
        notify("FDSTORE=1\nFDNAME=last", [os.memfd_create("last")])
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "fail":
        sys.exit(7)
    barrier()
    return "done"


def main():
    assert int(os.environ["LISTEN_PID"]) == os.getpid()
    names = os.environ["LISTEN_FDNAMES"].split(":")
    assert len(names) == int(os.environ["LISTEN_FDS"]), names
    assert names[0] == "listen" and os.get_blocking(3)
    passed = {name: fd for fd, name in enumerate(names, start=3)}
    sockets = {
        name: socket.socket(fileno=fd)
        for name, fd in passed.items()
        if name == "listen" or name.startswith("c")
    }
    notify("READY=1\nSTATUS=serving")
    while True:
        ready, _, _ = select.select(list(sockets.values()), [], [])
        for name in [name for name, one in sockets.items() if one in ready]:
            if name == "listen":
                new = f"c{len(sockets)}"
                sockets[new], _ = sockets[name].accept()
                notify(f"FDSTORE=1\nFDNAME={new}", [sockets[new].fileno()])
                barrier()
                continue
            line = sockets[name].recv(1000).decode()
            if line:
                sockets[name].send(answer(name, sockets[name], line).encode())
            else:
                del sockets[name]


main()
