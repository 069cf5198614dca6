#!/usr/bin/env python3
"""Puts a run of the demo into the README, between its markers.

    cargo run --release -- demo --seconds 10 --json | python3 tools/readme_demo.py

The record is read from standard input and is all that the table is made of; the line below it says
on what machine this script runs. Run it on a machine that does nothing else.
"""

import json
import os
import pathlib
import platform
import sys

BEGIN, END = "<!-- demo:begin -->", "<!-- demo:end -->"
README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


def row(name: str, completed: int, wake_ns: dict, cpu_percent: float) -> str:
    """One way of waiting."""
    wake = " | ".join(f"{wake_ns[at] / 1000:,.1f}" for at in ("p50", "p99", "p999"))
    return f"| {name} | {completed:,} | {wake} | {cpu_percent:.1f} |"


def block(record: dict) -> str:
    """The text between the markers."""
    cpu = record["cpu"]
    together = cpu["daemon_percent"] + cpu["clients_percent"]
    names = {"spin": "each client spins", "poll-100us": "each client polls every 100 us"}
    ways = record["baselines"]
    rows = [row("**parkd**", record["completed"], record["wake_ns"], together)]
    rows += [row(names[w["name"]], w["completed"], w["wake_ns"], w["cpu_percent"]) for w in ways]
    faults = ", ".join(f"{record[name]} {name}" for name in ("lost", "duplicated", "early"))
    cores = len(os.sched_getaffinity(0))
    release = ".".join(platform.release().split(".")[:2])
    return "\n".join(
        [
            "| way of waiting | completed | p50 us | p99 us | p99.9 us | CPU % |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            f"{record['clients']} clients, {record['tickets']:,} tickets: {faults}. Executor",
            f"{record['executor']}; {cores} cores, Linux {release}. us: from the device's silent",
            "store to the client running. CPU: daemon and clients together, 100 is one core.",
        ]
    )


def main() -> None:
    """Reads the record, writes the README."""
    record = json.load(sys.stdin)
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    text = f"{before}{BEGIN}\n{block(record)}\n{END}{after}"
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
