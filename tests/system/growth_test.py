"""Memory and other resources do not grow with the objects created and destroyed by a program: neither the program's own
nor those of proxies and agents.

Objects of each kind are created and destroyed some thousand times. A leak, however small, grows with each doubling
of the rounds. All other growth ends: caches fill, and hash tables and buffers reach their size. A kind therefore
passes if one doubling adds nothing. On a busy machine, memory growing with the longest queue so far needs many
rounds to reach its end. Its growth per round falls with each doubling; a leak's does not. Heaps are compared by
allocated bytes.
"""
import os
import pathlib
import re
import socket
import time

from harness import SystemTest, build, program

# Total rounds of each kind of tests/system/programs/grows.cu.
ROUNDS = int(os.environ.get("GROWTH_ROUNDS", "10000"))
# Divisors of the rounds for slow kinds.
SLOW = {"arrays": 5, "communicators": 50, "conditional graphs": 10, "contexts": 200, "damaged modules": 4,
        "fat binaries": 10, "graphs": 8, "inter-process": 10, "large modules": 100, "libraries": 5, "linkers": 10,
        "managed allocations": 5, "modules that run": 10, "nvml": 100, "peers": 10, "processes": 20, "resets": 200,
        "threads": 10, "virtual memory": 10}
# Minimum of rounds, to fill caches: an agent keeps the reports of 256 processes, a proxy buffers for NCCL.
FEWEST = {"communicators": 800, "processes": 500}
KINDS = ("allocations", "copies", "damaged modules", "events", "files", "host allocations", "host functions",
         "host registrations", "modules", "pools", "stream allocations", "stream memory operations", "streams")
# Doublings of the rounds, at most.
DOUBLINGS = 9
# Growth not counted as a leak: freed blocks in the cache of a thread, or a connection just before its end.
SLACK = {"bytes of heap": 4096, "descriptors": 2, "threads": 2, "mappings": 32, "processes": 0}
# Additional growth allowed per round, in bytes; a lost block has at least 24. MPI's pools in agents grow with the
# longest queue so far.
SLACK_OF_ROUND = {("program", "bytes of heap"): 4, ("cuspan-proxy", "bytes of heap"): 4,
                  ("cuspan-agent", "bytes of heap"): 16}
SETTLES_S = 1


def of_process(pid):
    """Resources of a process, as counted by the kernel."""
    folder = pathlib.Path(f"/proc/{pid}")
    return {"descriptors": len(os.listdir(folder / "fd")), "threads": len(os.listdir(folder / "task")),
            "mappings": len((folder / "maps").read_text(encoding="utf-8").splitlines())}


def heap_of(pid):
    """Bytes allocated by a process of cuspan, reported by its heap_service."""
    with socket.socket(socket.AF_UNIX) as service:
        service.connect(f"\0heap-{pid}")
        text = b""
        while part := service.recv(32):
            text += part
    return int(text)


class Growth(SystemTest):
    def held(self, heap):
        """Resources now held by all processes of the run, summed by process name; `heap` is the program's."""
        held = {("program", "bytes of heap"): heap}
        for pid, name in self.processes():
            numbers = {"processes": 1}
            try:
                if re.match("cuspan-(agent|proxy)", name):
                    numbers.update(of_process(pid), **{"bytes of heap": heap_of(pid)})
                elif name == "grows":
                    numbers.update(of_process(pid))
            except OSError:
                continue  # The process has ended meanwhile.
            for what, number in numbers.items():
                held[name, what] = held.get((name, what), 0) + number
        return held

    def growth(self, before, heap, rounds=0):
        """Growth since `before` in this number of rounds, after it has settled; and the resources held now."""
        end = time.monotonic() + SETTLES_S
        while True:
            after = self.held(heap)
            grown = {" ".join(key): number - before.get(key, 0) for key, number in after.items()
                     if number - before.get(key, 0) > SLACK[key[1]] + rounds * SLACK_OF_ROUND.get(key, 0)}
            if not grown or time.monotonic() > end:
                return grown, after
            time.sleep(0.05)

    def check(self, kind, grows, rounds):
        def make(count):
            return int(self.ask(grows, f"{kind} {count}"))
        done = max(rounds // 8, 4)
        heap = make(done)
        # Reference values, after the first rounds have settled.
        _, before = self.growth(self.held(heap), heap)
        for _ in range(DOUBLINGS):
            grown, before = self.growth(before, make(done), done)
            if not grown and done >= rounds // 2:
                return
            done *= 2
        self.fail(f"{kind}: from round {done // 2} to round {done} these have grown: {grown}")

    def check_all(self, rounds, *options):
        environment = self.environment(devices=2, MALLOC_ARENA_MAX="1",
                                       LD_PRELOAD=str(build() / "tests/system/programs/heap_service.so"))
        command = self.cuspan("run", "--gpus", "2", *options, "--", program("grows", "static"))
        with open(self.folder / "errors", "w", encoding="utf-8") as errors:
            grows = self.start(command, environment, stderr=errors)
        chosen = os.environ.get("GROWTH_KINDS")
        for kind in chosen.split(",") if chosen else sorted({*KINDS, *SLOW}):
            with self.subTest(kind=kind):
                self.check(kind, grows, max(rounds // SLOW.get(kind, 1), FEWEST.get(kind, 0)))
        grows.stdin.close()
        self.assertEqual(grows.wait(), 0, (self.folder / "errors").read_text(encoding="utf-8")[-2000:])

    def test_on_one_node(self):
        self.check_all(ROUNDS)

    def test_over_agents(self):
        self.check_all(ROUNDS // 5, "--hosts", "localhost:2", "--same-node", "never")
