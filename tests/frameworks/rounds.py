#!/usr/bin/env python3
"""Runs a program of this folder natively, natively again, on one node, and over agents (TCP). The four processes run at
once and measure alternately, one at a time. Each starts and compiles only once, and the measurements of a round are
close together in time.

Usage: rounds.py PROGRAM ROUNDS CUSPAN ROWS [fresh]

If the two native processes compute different results, further native ones follow; only their results count.

CUSPAN is the command. The program's output is appended to the file ROWS, for table.py. fresh: each round starts the
program anew, one way after the other, for programs measuring their own start. Exit status 1: one of the processes
failed.
"""

import collections
import contextlib
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
WAYS = ("native", "native again", "one node", "over agents")
DEVICES = {"torch_two_devices": 2, "torch_ranks": 2, "jax_two_devices": 2, "cupy_ranks": 2}  # Others need one.
MORE_NATIVE = 4  # Further native runs if the first two compute different results: they show the spread.
LIMIT = 300  # Seconds between two lines of a program, at most.


class Way:
    """The program, run in one of these ways."""

    def __init__(self, name, program, cuspan, rounds):
        self.name = name
        self.failure = None
        command, environment = [], dict(os.environ, PYTHONDONTWRITEBYTECODE="1", XLA_PYTHON_CLIENT_PREALLOCATE="false")
        if rounds:
            environment["CUSPAN_TEST_ROUNDS"] = "1"
        if name in ("one node", "over agents"):
            devices = DEVICES.get(program, 1)
            # Two runs use the GPUs at once.
            environment.update(CUSPAN_LEASES="off", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            command = [cuspan, "run", "--gpus", str(devices), "--device", os.environ.get("CUSPAN_DEVICE", "cuda")]
            if name == "over agents":
                environment["OMPI_MCA_btl"] = "tcp,self"
                command += ["--hosts", f"localhost:{devices}", "--same-node", "never"]
            command.append("--")
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*command, sys.executable, str(HERE / f"{program}.py")], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n").split("\t"))
        self.lines.put(None)

    def line(self):
        """The words of the next line written by report.py; None at the end or after a timeout."""
        try:
            while (line := self.lines.get(timeout=LIMIT)) is not None and line[0] not in ("time", "value", "ready"):
                pass  # Output of libraries.
            return line
        except queue.Empty:
            self.process.kill()
            self.failure = f"nothing for {LIMIT} s"
            return None

    def tell(self, word):
        try:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # Its end is reported by line().

    def end(self):
        """Waits for the end; the reason of a failure, or None."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            status = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
            self.failure = self.failure or f"it does not end for {LIMIT} s"
        if status != 0 and self.failure is None:
            self.failure = f"exit status {status}"
        if self.failure is None:
            return None
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace").splitlines()[-15:]
        return "\n      ".join([self.failure, *last])


class Rows:
    """The file of printed rows."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.native = collections.defaultdict(set)  # Native values by row.
        self.only_values = False

    def add(self, way, line):
        kind, row, figure = line
        if kind == "value" and way.name in WAYS[:2]:
            self.native[row].add(figure)
        if kind == "time" and self.only_values:
            return
        self.file.write(f"{kind}\t{way.name}\t{row}\t{figure}\n")
        self.file.flush()


def until_ready(way, rows):
    """The next row ready to be measured; None when the process has ended. Records the output before it."""
    while (line := way.line()) is not None:
        if line[0] == "ready":
            return line[1]
        rows.add(way, line)
    return None


def in_turns(program, rounds, cuspan, rows, names=WAYS):
    ways = [Way(name, program, cuspan, True) for name in names]
    at_work = list(ways)
    while at_work:
        ready = {way: until_ready(way, rows) for way in at_work}
        at_work = [way for way in at_work if ready[way] is not None]
        if at_work:
            row = ready[at_work[0]]
            print(f"      {row}", flush=True)
            for way in set(ready) - set(at_work):
                way.failure = way.failure or f"it ended before {row}"
        for round_number in range(rounds):
            for way in list(at_work):
                way.tell("go")
                line = way.line()
                if line is not None and line[0] == "time":
                    rows.add(way, line)
                    continue
                at_work.remove(way)
                way.failure = way.failure or f"no time of round {round_number + 1}, but {line}"
        for way in at_work:
            way.tell("next")
    ended = [(way.name, way.end()) for way in ways]
    if not rows.only_values and any(len(values) > 1 for values in rows.native.values()):
        print("      more native runs", flush=True)
        rows.only_values = True
        ended += in_turns(program, rounds, cuspan, rows, WAYS[:1] * MORE_NATIVE)
    return ended


def fresh(program, rounds, cuspan, rows):
    ended = []
    for _ in range(rounds):
        for name in WAYS:
            way = Way(name, program, cuspan, False)
            until_ready(way, rows)
            ended.append((name, way.end()))
    return ended


def main():
    if len(sys.argv) not in (5, 6) or sys.argv[5:] not in ([], ["fresh"]) or not sys.argv[2].isdecimal():
        print(f"usage: {sys.argv[0]} PROGRAM ROUNDS CUSPAN ROWS [fresh]", file=sys.stderr)
        return 2
    program, rounds, cuspan, path = sys.argv[1:5]
    run = fresh if sys.argv[5:] else in_turns
    failures = [(name, why) for name, why in run(program, int(rounds), cuspan, Rows(path)) if why is not None]
    for name, why in failures:
        print(f"FAIL  {program}, {name}: {why}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
