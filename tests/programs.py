#!/usr/bin/env python3
"""Runs a list of CUDA programs natively and through cuspan, and compares their exit statuses and outputs.

  tests/programs.py LIST.csv FOLDER… --cuspan build/dev/bin/cuspan --json results.json

LIST.csv names programs in the columns `program` and `small_run` (the command line; its first word is replaced). Each
FOLDER holds a binary of each program under its name, built in one way, for example with the static or the shared
CUDA runtime. In every folder each program runs twice natively and once through cuspan, in an empty working folder,
with a time limit. The two native runs show the times and addresses differing from run to run.

Through cuspan, a program has no access to a driver if this script runs as root: its device files are hidden in a
mount namespace.

Every result is written to the JSON file at once, and results already there are not measured again. An interrupted
run can therefore be resumed. Native results of a machine with a GPU can also be compared on a machine without one
(--no-native), with the software GPU. Exit status 1: a program differs.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

NATIVE, AGAIN, CUSPAN = "native", "native again", "cuspan"
KEPT = 256 * 1024  # Bytes of an output kept and compared.

NUMBER = re.compile(r"0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\b-?(?:nan|inf)\b")
# Pattern of lines with a duration or a rate; their numbers are not compared.
MEASURED = re.compile(r"\btim(?:e|er|es|ing)\b|\d *(?:[num]?s|us|µs|sec\w*|milli\w*|micro\w*)\b|elapsed|second|\w/s(?:ec)?\b|"
                      r"[GMT]?FLOP|bandwidth|throughput|rate\b|\bcycles|speed-?up|faster|latency|perf|"
                      r"GPts|cost\b|free|\bper [num]?s\b", re.IGNORECASE)
HIDE = ('for file in /dev/nvidia*; do if [ -d "$file" ]; then mount -t tmpfs none "$file"; '
        'else mount --bind /dev/null "$file"; fi; done; exec "$@"')


def hidden(command):
    """The command in a mount namespace without the driver's device files, if this process is root."""
    if os.geteuid() == 0 and shutil.which("unshare") and any(pathlib.Path("/dev").glob("nvidia*")):
        command = ["unshare", "--mount", "sh", "-c", HIDE, "sh", *command]
    return command


def run(command, limit):
    """Runs the command once in an empty folder: status (or "timeout"), both outputs, seconds."""
    with tempfile.TemporaryDirectory(prefix="programs-") as folder:
        paths = [pathlib.Path(folder, name) for name in ("out", "err")]
        work = pathlib.Path(folder, "work")
        work.mkdir()
        start = time.monotonic()
        with paths[0].open("wb") as out, paths[1].open("wb") as err:
            process = subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True)
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = "timeout"
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        seconds = round(time.monotonic() - start, 2)
        texts = []
        for path in paths:
            with path.open("rb") as file:
                texts.append(file.read(KEPT).decode(errors="replace").replace(folder, "FOLDER"))
        return {"status": status, "out": texts[0], "err": texts[1], "seconds": seconds}


def split(line):
    """The line with "#" for each number and single spaces, and the list of its numbers."""
    return re.sub(r"\s+", " ", NUMBER.sub("#", line)).strip(), NUMBER.findall(line)


def different_lines(first, second, given):
    """Lines of `given` not explained by either native run; [] if only measured values differ."""
    first, second, given = ([line for line in text.splitlines() if line.strip()] for text in (first, second, given))
    one, two, three = ([split(line)[0] for line in lines] for lines in (first, second, given))
    if one != three:
        if one != two and sorted(one) == sorted(three):
            return []  # The order changes natively too.
        known = set(one + two)
        missing = [line for line in one if line in two and line not in three]
        added = [line for line in three if line not in known]
        if missing or added:
            return ["- " + line for line in missing[:5]] + ["+ " + line for line in added[:5]]
        return [] if one != two else ["the order or the number of the same lines"]
    found = []
    for index, (native, ours) in enumerate(zip(first, given)):
        if native == ours or MEASURED.search(native):
            continue
        numbers = split(native)[1], split(second[index])[1] if one == two else None, split(ours)[1]
        for position, (a, c) in enumerate(zip(numbers[0], numbers[2])):
            varies = numbers[1] is None or numbers[1][position] != a
            if a != c and not varies and not a.startswith("0x"):
                found.append(f"- {native}\n+ {ours}")
                break
    return found[:5]


def compare(native, again, ours):
    """Differences, as readable lines; [] without a difference."""
    if ours["status"] != native["status"]:
        tail = (ours["err"] + ours["out"]).strip().splitlines()[-4:]
        return [f"status {native['status']} natively, {ours['status']} through cuspan", *tail]
    return [f"{name}: {line}" for name in ("out", "err") for line in different_lines(native[name], again[name], ours[name])]


class Results:
    """The JSON file of results."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.lock = threading.Lock()
        self.runs = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}

    def put(self, key, value):
        with self.lock:
            self.runs[key] = value
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(self.runs, indent=1), encoding="utf-8")
            new.replace(self.path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--cuspan", required=True, help="the command")
    parser.add_argument("--json", required=True, help="the file of results")
    parser.add_argument("--device", default="cuda", help="as for cuspan run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="programs at a time")
    parser.add_argument("--limit", type=float, default=60, help="seconds a run may take")
    parser.add_argument("--only", nargs="*", help="names of programs")
    parser.add_argument("--no-native", action="store_true", help="native results come from the JSON file alone")
    parser.add_argument("--again", action="store_true", help="run through cuspan again what is in the JSON file")
    options = parser.parse_args()

    with open(options.list, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not options.only or row["program"] in options.only]
    results = Results(options.json)
    cuspan = str(pathlib.Path(options.cuspan).resolve())
    jobs, names = [], []
    for folder in map(pathlib.Path, options.folders):
        for row in rows:
            binary = folder.resolve() / row["program"]
            key = f"{folder.name}/{row['program']}"
            names.append(key)
            command = [str(binary), *shlex.split(row["small_run"])[1:]]
            for how in (NATIVE, AGAIN, CUSPAN):
                if how != CUSPAN and options.no_native:
                    continue
                if f"{key} {how}" in results.runs and not (how == CUSPAN and options.again):
                    continue
                full = command if how != CUSPAN else [cuspan, "run", "--gpus", "1", "--device", options.device, "--",
                                                      *hidden(command)]
                jobs.append((f"{key} {how}", full))

    # Several programs use the GPU at once, without leases.
    os.environ.setdefault("CUSPAN_LEASES", "off")

    def work(job):
        results.put(job[0], run(job[1], options.limit))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, jobs))

    same = 0
    for key in names:
        runs = [results.runs.get(f"{key} {how}") for how in (NATIVE, AGAIN, CUSPAN)]
        if None in runs:
            print(f"{key}: not run {'natively' if runs[2] else 'through cuspan'}")
            continue
        found = compare(*runs)
        same += not found
        if found:
            print(f"{key}: differs")
            print("\n".join("    " + line for text in found for line in text.splitlines()))
    print(f"{same} of {len(names)} behave through cuspan as they do natively")
    sys.exit(same != len(names))


if __name__ == "__main__":
    main()
