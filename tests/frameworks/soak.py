#!/usr/bin/env python3
"""Trains for long over agents (TCP) on a machine with NVIDIA GPUs and PyTorch, and kills a proxy in a step.

1. torch_soak.py runs natively three times and over agents once. At each checkpoint the memory of the program, the
   agents and the proxy is recorded. The losses must equal the native ones bit for bit where all native runs agree.
   Elsewhere the distance to the nearest native loss must not exceed the spread of the native losses. After the
   second checkpoint no process may grow by more than 8 MiB, and the device's memory must not grow.
2. torch_soak.py runs over agents five times, and its proxy is killed (SIGKILL) in a step, each time at another
   moment. The program must end by itself within the heartbeat time, by a Python exception naming the host. (Its
   batches do not come from pinned memory then: PyTorch aborts when a process frees pinned memory after a device
   error, natively too: https://github.com/pytorch/pytorch/pull/178154.)

--ranks 2: the same by two processes of torchrun, with a GPU each. The proxy of one is killed; both end. In a last
run torchrun restarts them: the training continues from its checkpoint, with the losses of the native runs.

Exit status 1: a check failed.
"""

import argparse
import contextlib
import glob
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
NATIVE_RUNS = 3
KILLS = 5
SECONDS_BETWEEN_MOMENTS = 0.004  # A fraction of a step.
HEARTBEAT_S = 10
MOST_GROWTH = 8 << 20
SECONDS_TO_END = 120  # Limit for a hanging program.
NAMES = ("program", "cuspan-agent", "cuspan-proxy")


def read(path):
    """"" if the process has ended meanwhile."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def children(pid):
    """The process and all its descendants: pid and name."""
    found = [(pid, read(f"/proc/{pid}/comm").strip())]
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        for child in read(path).split():
            found += children(int(child))
    return found


def resident(pid):
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def memory(pid):
    """Resident bytes by role of the processes; all agents together."""
    sizes = dict.fromkeys(NAMES, 0)
    for process, name in children(pid):
        if name.startswith(("python", "pt_")) or name in sizes:  # PyTorch names some threads.
            sizes[name if name in sizes else "program"] += resident(process)
    return sizes


class Training:
    """A run of torch_soak.py."""

    ranks = 1

    def __init__(self, command, steps, steps_a_checkpoint, folder, batches="pinned", restarts=0):
        self.errors = open(folder / "errors", "w+", encoding="utf-8")
        environment = dict(
            os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", PYTHONDONTWRITEBYTECODE="1",
            OMPI_MCA_btl="tcp,self", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            CUSPAN_HEARTBEAT_SECONDS=str(HEARTBEAT_S),
            # Prevents restarted ranks from getting an id of their predecessors:
            # https://github.com/pytorch/pytorch/issues/135712
            TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
        )
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.ranks),
                    "--max-restarts", str(restarts)]
        self.process = subprocess.Popen(
            [*command, sys.executable, *(torchrun if self.ranks > 1 else []), HERE / "torch_soak.py", str(steps), str(steps_a_checkpoint), folder, batches],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, encoding="utf-8",
            start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends all its processes."""
        self.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.errors.close()

    def checkpoints(self):
        """Step, loss, bytes of the device in use, number of restarts of the ranks, and memory() at each checkpoint."""
        for line in self.process.stdout:
            step, loss, used, restarts = line.split()
            sizes = memory(self.process.pid)
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write("\n")
                self.process.stdin.flush()
            yield int(step), float.fromhex(loss), int(used), int(restarts), sizes

    def kill(self):
        """Kills all descendants of a running process: ranks have process groups of their own."""
        for pid, _ in children(self.process.pid) if self.process.poll() is None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def proxies(self):
        return [pid for pid, name in children(self.process.pid) if name == "cuspan-proxy"]

    def what_it_said(self):
        self.errors.seek(0)
        return self.errors.read()


def as_natively(loss, native):
    return min(abs(loss - one) for one in native) <= max(native) - min(native)


def soak(run, steps, steps_a_checkpoint, folder, losses):
    """Prints a table; returns the problems. Appends the losses of the native runs to `losses`."""
    for number in range(NATIVE_RUNS):
        with Training([], steps, steps_a_checkpoint, folder) as training:
            losses.append([loss for _, loss, *_ in training.checkpoints()])
            if training.process.wait() != 0:
                return [f"native run {number + 1}: status {training.process.returncode}\n{training.what_it_said()}"]
    print(f"| step | loss, natively ({NATIVE_RUNS} runs) | over agents | program | agents | proxy | device |")
    print("|---|---|---|---|---|---|---|")
    problems, sizes = [], []
    with Training(run, steps, steps_a_checkpoint, folder) as training:
        for (step, loss, used, _, resident_bytes), native in zip(training.checkpoints(), zip(*losses)):
            sizes.append({**resident_bytes, "device": used})
            megabytes = " | ".join(f"{size / 2**20:.1f} MiB" for size in sizes[-1].values())
            natively = ", ".join(sorted({f"{one:.7f}" for one in native}))
            print(f"| {step} | {natively} | {loss:.7f} | {megabytes} |", flush=True)
            if not as_natively(loss, native):
                problems.append(f"step {step}: loss {loss!r}, natively {native}")
        if training.process.wait() != 0:
            problems.append(f"over agents: exit status {training.process.returncode}\n{training.what_it_said()}")
    if len(sizes) != len(losses[0]):
        return [*problems, f"{len(sizes)} checkpoints over agents, {len(losses[0])} natively"]
    for name in sizes[0]:
        growth = max(size[name] for size in sizes[1:]) - sizes[1][name]
        if growth > (0 if name == "device" else MOST_GROWTH) or not sizes[1][name]:
            problems.append(f"memory of {name}: {sizes[1][name]} bytes at the second checkpoint, {growth} more later")
    return problems


def kill_proxy(run, moment, folder):
    """Kills a proxy `moment` seconds after a checkpoint."""
    with Training(run, 1_000_000, 20, folder, "resident") as training:
        checkpoints = training.checkpoints()
        for _ in range(3):
            if not next(checkpoints, None):
                return [f"the training to be killed ended early\n{training.what_it_said()}"]
        proxies = training.proxies()
        if len(proxies) != Training.ranks:
            return [f"{len(proxies)} proxies were found, not {Training.ranks}"]
        time.sleep(moment)
        os.kill(proxies[-1], signal.SIGKILL)
        start = time.monotonic()
        try:
            # The pipe's end is no sign of the program's end: a hanging program holds it open.
            status = training.process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return [f"the program still ran {SECONDS_TO_END} s after its proxy was killed\n{training.what_it_said()}"]
        seconds = time.monotonic() - start
        said = training.what_it_said()
    exceptions = re.findall(r"^Traceback .*?^(\S+: .*?)$", said, re.MULTILINE | re.DOTALL)
    print(f"proxy killed in a step: the program ended by itself after {seconds:.1f} s with status {status}:")
    print("     ", *exceptions)
    problems = []
    if status != 1 or not any(f"on host {socket.gethostname()}) is lost" in line for line in said.splitlines()
                              if Training.ranks > 1 or line in exceptions):
        problems.append(f"no exception that names the host\n{said}")
    if seconds > HEARTBEAT_S:
        problems.append(f"the program ended {seconds:.1f} s after its proxy was killed")
    return problems


def restart(run, steps, steps_a_checkpoint, folder, losses):
    """A proxy is killed after the first checkpoint, and torchrun restarts the ranks."""
    problems, said, restarts = [], {}, 0
    with Training(run, steps, steps_a_checkpoint, folder, restarts=1) as training:
        limit = threading.Timer(SECONDS_TO_END, training.kill)  # Runs until the ranks continue.
        for step, loss, _, restarts, _ in training.checkpoints():
            first = not said
            said.setdefault(step, []).append(loss)
            if not first:
                limit.cancel()
                continue
            if len(proxies := training.proxies()) != Training.ranks:
                problems.append(f"{len(proxies)} proxies were found, not {Training.ranks}")
                break
            os.kill(proxies[-1], signal.SIGKILL)
            limit.start()
        if not problems and training.process.wait() != 0:
            problems.append(f"with a restart: exit status {training.process.returncode}\n{training.what_it_said()}")
        limit.cancel()
    if restarts != 1:
        problems.append(f"the ranks were started again {restarts} times, not once")
    for number, native in enumerate(zip(*losses), 1):
        step = number * steps_a_checkpoint
        if not said.get(step) or not all(as_natively(loss, native) for loss in said[step]):
            problems.append(f"with a restart, step {step}: loss {said.get(step)}, natively {native}")
    print(f"proxy killed, ranks started again: losses {[f'{said[step][-1]:.7f}' for step in sorted(said)]}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build/gpu")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--checkpoint", type=int, default=200, help="steps from one checkpoint to the next")
    parser.add_argument("--ranks", type=int, default=1, choices=(1, 2))
    arguments = parser.parse_args()
    Training.ranks = arguments.ranks
    if arguments.checkpoint < 1 or arguments.steps < 2 * arguments.checkpoint or arguments.steps % arguments.checkpoint:
        parser.error("--steps: a multiple of --checkpoint, two of them at least")
    cuspan = (arguments.build / "bin/cuspan").resolve()
    if not cuspan.exists():
        sys.exit(f"soak.py: {cuspan} is missing: build it, or name the build with --build")
    gpus = str(arguments.ranks)
    run = [cuspan, "run", "--gpus", gpus, "--device", "cuda", "--hosts", f"localhost:{gpus}", "--same-node", "never", "--"]
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        losses = []
        problems = soak(run, arguments.steps, arguments.checkpoint, pathlib.Path(folder), losses)
        for kill in range(KILLS):
            problems += kill_proxy(run, kill * SECONDS_BETWEEN_MOMENTS, pathlib.Path(folder))
        if arguments.ranks > 1:
            problems += restart(run, arguments.steps, arguments.checkpoint, pathlib.Path(folder), losses)
    for problem in problems:
        print(f"FAIL  {problem}")
    print(f"== {len(problems)} failures")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
