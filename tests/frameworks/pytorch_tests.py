#!/usr/bin/env python3
"""Runs PyTorch's own tests natively and through cuspan on one node, and prints the differences.

Usage: pytorch_tests.py FOLDER [options], FOLDER being "test" of PyTorch's sources, of the installed version or the
nearest one.

Runs each case of test_cuda, test_torch, test_nn and test_linalg, and the cases of test_ops and
inductor/test_torchinductor named by pytorch_cases.txt. Cases of other devices than CUDA's do not run. If a case
passes natively and fails through cuspan, it runs again both ways, alone. It counts as passed if it then passes;
these cases are listed with their first error. If it then fails natively, it does not count. Exit status 1: less than
99 of 100 natively passing cases pass through cuspan.

    pytorch_tests.py FOLDER --sample     writes pytorch_cases.txt anew
"""

import argparse
import collections
import contextlib
import math
import os
import pathlib
import queue
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE = HERE / "pytorch_cases.txt"
SAMPLED = {"test_ops": 2000, "inductor.test_torchinductor": 300}
MODULES = ("test_cuda", "test_torch", "test_nn", "test_linalg", *SAMPLED)
SEED = 21
CASES_A_TURN = 25
SECONDS_A_CASE = 180
SECONDS_TO_START = 300
PASS, SKIP, FAIL, CRASH, HANG = "pass", "skip", "fail", "crash", "hang"

Outcome = collections.namedtuple("Outcome", "what seconds reason")


# ---- Worker: a process loading one module and running the requested cases, one by one. ----


def case_names(module):
    """Cases of a module, as Class.test, in the order of its classes."""
    import unittest

    loader = unittest.TestLoader()
    for name, value in sorted(vars(module).items()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            for test in loader.getTestCaseNames(value):
                yield f"{name}.{test}"


def run_case(module, name):
    import unittest

    class_name, test = name.split(".")
    # The sample may be from another GPU or another PyTorch.
    if not hasattr(getattr(module, class_name, None), test):
        return SKIP, "there is no such case here"
    result = unittest.TestResult()
    unittest.TestSuite([getattr(module, class_name)(test)]).run(result)
    problems = result.failures + result.errors
    if problems:
        # PyTorch adds advice after the line of the error.
        errors = re.findall(r"^\w[\w.]*(?:Error|Exception)\b.*", problems[0][1], re.MULTILINE)
        return FAIL, errors[-1] if errors else problems[0][1].strip().splitlines()[-1]
    if result.unexpectedSuccesses:
        return FAIL, "unexpected success"
    if result.skipped:
        return SKIP, result.skipped[0][1].splitlines()[0]
    return PASS, ""


def spoiled():
    """True if the device rejects all further calls of this process: later cases would fail too."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


class Missing:
    """Replaces a helper imported by tests of a later PyTorch and missing in the installed one. As a condition it is
    false, as a decorator it does nothing. A case using it is skipped, or fails both ways."""

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(())

    def __call__(self, *arguments, **_):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self

    def __enter__(self):
        import unittest

        raise unittest.SkipTest("needs a later PyTorch")

    def __exit__(self, *_):
        return False


def load(module_name):
    import importlib

    while True:
        try:
            return importlib.import_module(module_name)
        except ImportError as error:
            missing = re.match(r"cannot import name '(\w+)' from '(torch\.testing\.[\w.]+)'", str(error))
            if not missing:
                raise
            name, helpers = missing.groups()
            print(f"{module_name}: {helpers} has no {name}", file=sys.stderr)
            setattr(sys.modules[helpers], name, Missing())


def work(module_name):
    """Answers each line of the standard input, the name of a case, by one line: outcome, reason, and "spoiled" if the
    process cannot run further cases. The answer to an empty line is the names of all cases."""
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # Standard input of tests and their children,
    os.dup2(2, 1)  # and standard output.
    sys.path.insert(0, os.getcwd())
    sys.path.append(os.path.join(os.getcwd(), module_name.rpartition(".")[0]))
    sys.argv[1:] = []
    module = load(module_name)
    for line in questions:
        name = line.strip()
        if not name:
            print(*case_names(module), file=answers, flush=True)
            continue
        what, reason = run_case(module, name)
        lost = "spoiled" if what == FAIL and spoiled() else ""
        print(what, " ".join(reason.split()), lost, sep="\t", file=answers, flush=True)


# ---- Parent process: workers and their answers. ----


class Worker:
    """A process running one module natively or through cuspan."""

    def __init__(self, way, module, folder, log):
        self.way, self.module = way, module
        command = [*way.command, sys.executable, str(pathlib.Path(__file__).resolve())]
        self.process = subprocess.Popen(
            [*command, "--worker", module], cwd=folder, env=way.environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding="utf-8", bufsize=1,
        )
        self.started = False

    def ask(self, name):
        """The answer to a line. If the process has ended, CRASH or HANG with a reason."""
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.lost()
        limit = SECONDS_A_CASE if self.started else SECONDS_A_CASE + SECONDS_TO_START
        if not select.select([self.process.stdout], [], [], limit)[0]:
            self.stop()
            return f"{HANG}\tno answer in {limit} s"
        answer = self.process.stdout.readline()
        self.started = True
        return answer.rstrip("\n") if answer.endswith("\n") else self.lost()

    def lost(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)  # Waits for its own exit status.
        self.stop()
        return f"{CRASH}\tthe process ended with {self.process.returncode}"

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        for sign, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
                break
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def finish(self):
        """Ends the process by the end of its input; kills it after 60 s."""
        if self.process.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        self.stop()


class Way:
    def __init__(self, name, command, results):
        self.name, self.command = name, command
        # The processes share the GPU, as they do natively.
        self.environment = dict(
            os.environ, PYTORCH_TESTING_DEVICE_ONLY_FOR="cuda", PYTHONDONTWRITEBYTECODE="1",
            TORCHINDUCTOR_CACHE_DIR=str(results / f"inductor-{name}"), OMP_NUM_THREADS="1", CUSPAN_LEASES="off",
        )
        self.outcomes = {}  # Key: module and name.
        self.file = open(results / f"outcomes-{name}.tsv", "a", encoding="utf-8", buffering=1)

    def add(self, module, name, outcome):
        """Also written to a file. The last line of a case counts."""
        self.outcomes[module, name] = outcome
        self.file.write(f"{module}\t{name}\t{outcome.what}\t{outcome.seconds:.2f}\t{outcome.reason}\n")


class Runner:
    def __init__(self, folder, results, seconds):
        self.folder, self.results = folder, results
        self.deadline = time.monotonic() + seconds
        self.say_lock = threading.Lock()

    def say(self, text):
        with self.say_lock:
            print(text, flush=True)

    def log(self, name):
        return open(self.results / f"{name}.log", "ab")

    def names(self, way, module):
        with self.log("list") as log:
            worker = Worker(way, module, self.folder, log)
            answer = worker.ask("")
            worker.finish()
        if "\t" in answer:
            sys.exit(f"pytorch_tests.py: {module} can not be loaded ({answer}): {self.results}/list.log")
        return answer.split()

    def outcome(self, worker, name):
        start = time.monotonic()
        what, reason, *lost = worker.ask(name).split("\t")
        if lost == ["spoiled"]:
            worker.finish()
        return Outcome(what, time.monotonic() - start, reason)

    def serve(self, way, turns, log_name):
        """Runs groups of cases until the queue `turns` is empty; keeps its worker while the module stays the same."""
        worker = None
        with self.log(log_name) as log:
            while time.monotonic() < self.deadline:
                try:
                    module, names = turns.get_nowait()
                except queue.Empty:
                    break
                for name in names:
                    if time.monotonic() >= self.deadline:
                        break
                    if worker and (worker.module != module or not worker.alive()):
                        worker.finish()
                        worker = None
                    worker = worker or Worker(way, module, self.folder, log)
                    way.add(module, name, self.outcome(worker, name))
                if len(names) > 1:
                    self.say(f"      {way.name}: {len(way.outcomes)} cases done ({module})")
            if worker:
                worker.finish()

    def run_all(self, ways, cases, jobs):
        threads = []
        for way in ways:
            turns = queue.Queue()
            for module, names in cases.items():
                for first in range(0, len(names), CASES_A_TURN):
                    turns.put((module, names[first : first + CASES_A_TURN]))
            threads += [
                threading.Thread(target=self.serve, args=(way, turns, f"{way.name}-{job}"))
                for job in range(jobs)
            ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def differing(ways):
    native, remote = (way.outcomes for way in ways)
    return [
        key for key, outcome in native.items()
        if outcome.what == PASS and key in remote and remote[key].what != PASS
    ]


def report(ways, cases, again):
    """Prints a table and each difference. `again`: first outcomes of the repeated cases. Returns True if 99 of 100
    natively passing cases pass through cuspan."""
    native, remote = (way.outcomes for way in ways)
    print(f"\n{'module':30}{'cases':>8}{'native':>9}{'cuspan':>9}{'of 100':>9}")
    passed = wanted = 0
    for module, names in cases.items():
        ours = [name for name in names if native[module, name].what == PASS]
        good = sum(remote[module, name].what == PASS for name in ours)
        share = f"{100 * good / len(ours):9.2f}" if ours else f"{'-':>9}"
        print(f"{module:30}{len(names):8}{len(ours):9}{good:9}{share}")
        passed, wanted = passed + good, wanted + len(ours)
    print(f"\nnative: cases that pass. cuspan: those of them that pass, too. {len(again)} ran again, alone.")
    for module, name in differing(ways):
        outcome = remote[module, name]
        print(f"{outcome.what.upper():6}{module} {name}: {outcome.reason[:240]}")
    for (module, name), first in again.items():
        if native[module, name].what != PASS:
            print(f"-     {module} {name}: fails natively when alone; before, through cuspan: {first.reason[:240]}")
        elif remote[module, name].what == PASS:
            print(f"PASS  {module} {name}, alone; before: {first.what}: {first.reason[:240]}")
    return wanted > 0 and passed >= 0.99 * wanted


def read_sample():
    cases = collections.defaultdict(list)
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            module, name = line.split()
            cases[module].append(name)
    return cases


def write_sample(runner, way):
    chooser = random.Random(SEED)
    with open(SAMPLE, "w", encoding="utf-8") as file:
        print(f"# Written by pytorch_tests.py --sample, seed {SEED}.", file=file)
        for module, count in SAMPLED.items():
            # Classes of tests for a device end with its name.
            names = [name for name in runner.names(way, module) if name.split(".")[0].endswith(("CUDA", "GPUTests"))]
            for name in sorted(chooser.sample(names, min(count, len(names)))):
                print(module, name, file=file)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build/gpu")
    parser.add_argument("--device", default="cuda", help="of `cuspan run`; the default is cuda")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2 - 1),
                        help="processes of each way at once")
    parser.add_argument("--modules", nargs="+", choices=MODULES, default=MODULES)
    parser.add_argument("--minutes", type=float, default=math.inf,
                        help="after so many, only what differed runs again, and the report counts what was reached")
    parser.add_argument("--first", type=int, help="run no more than so many cases of a module")
    parser.add_argument("--results", type=pathlib.Path, help="folder for outcomes and logs")
    parser.add_argument("--sample", action="store_true")
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        parser.error("--jobs: at least 1")
    if not (arguments.folder / "test_torch.py").exists():
        parser.error(f'{arguments.folder} is not the folder "test" of PyTorch\'s sources: test_torch.py is not there')
    results = (arguments.results or pathlib.Path(tempfile.mkdtemp(prefix="pytorch-tests-"))).resolve()
    results.mkdir(parents=True, exist_ok=True)
    cuspan = (arguments.build / "bin/cuspan").resolve()
    ways = [
        Way("native", [], results),
        Way("cuspan", [str(cuspan), "run", "--gpus", "1", "--device", arguments.device, "--"], results),
    ]
    if not cuspan.exists():
        sys.exit(f"pytorch_tests.py: {cuspan} is missing: build it, or name the build with --build")
    runner = Runner(arguments.folder.resolve(), results, 60 * arguments.minutes)
    if arguments.sample:
        write_sample(runner, ways[1])
        return
    sample = read_sample() if SAMPLED.keys() & set(arguments.modules) else {}
    cases = {}
    for module in arguments.modules:
        cases[module] = sample[module] if module in SAMPLED else runner.names(ways[0], module)
        cases[module] = cases[module][: arguments.first]
        runner.say(f"      {module}: {len(cases[module])} cases")
    runner.run_all(ways, cases, arguments.jobs)
    reached = collections.defaultdict(list)
    for module, names in cases.items():
        reached[module] = [name for name in names if all((module, name) in way.outcomes for way in ways)]
    again = {key: ways[1].outcomes[key] for key in differing(ways)}
    if again:
        report(ways, reached, {})
        runner.say(f"\n{len(again)} cases run again, alone:")
    runner.deadline = math.inf
    for module, name in again:
        runner.run_all(ways, {module: [name]}, 1)
    good = report(ways, reached, again)
    if (missed := sum(map(len, cases.values())) - sum(map(len, reached.values()))) != 0:
        print(f"{missed} cases were not reached in time")
    print(f"\noutcomes and logs: {results}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2])
    else:
        main()
