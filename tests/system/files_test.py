"""Files read into device memory and written from it, on one node and through agents."""
import json
import os
import random
import signal
import subprocess

from harness import KINDS, LOCAL, SystemTest, build, own_lines, program, wait_until, ways

KILLS = int(os.environ.get("SYSTEM_TEST_FILE_KILLS", "12"))
SEED = int(os.environ.get("KILLS_SEED", str(random.SystemRandom().randrange(1 << 32))))
# Time for a program to end; a longer wait counts as hanging.
LIMIT_S = 20

# CUSPAN_FILE_… of each call, the same on every way to a device.
BAD = """\
no place for the handle: 1
a negative descriptor: 5
a descriptor that is not open: 5
a negative device: 1
a device that does not exist: 1
a pipe: 7
a directory: 7
a device file: 7
a file in memory: 0
closing it: 0
closing it again: 2
closing nothing: 2
closing an address: 2
a read of a closed file: 2
a read of no file: 2
a negative offset: 1
a size of a negative number: 1
a size and an offset that overflow: 1
host memory: 3
managed memory: 3
a managed variable: 3
pinned memory: 3
memory of a pool: 0
no memory: 3
freed memory: 3
more than the allocation: 3
the end of the allocation: 3
a stream that does not exist: 6
no place for the outcome: 1
a write from host memory: 3
a write from more than the allocation: 3
a write to a descriptor for reading: 4
a read from a descriptor for writing: 4
a write with O_APPEND: 4
a stream in capture: 6
a write that the system refuses: 5, errno 1
files bad: PASS
"""


class Files(SystemTest):
    def command(self, way, kind, *arguments):
        path, self.relay = way
        return self.cuspan("run", "--same-node", path, "--", program("files", kind), *arguments)

    def file(self):
        return str(self.folder / "file")

    def on_all_ways(self, expected, *arguments, kinds=KINDS):
        for way in ways():
            for kind in kinds:
                with self.subTest(way=way, kind=kind):
                    result = self.run_command(self.command(way, kind, *arguments))
                    self.assertEqual((result.stdout, own_lines(result.stderr)), (expected, []))

    def test_all_sizes_and_alignments(self):
        self.on_all_ways("files sizes: PASS\n", "sizes", self.file())

    def test_random_operations_of_streams(self):
        for seed in ("1", "2"):
            self.on_all_ways("files random: PASS\n", "random", self.file(), "1000", seed, kinds=("shared",))

    def test_random_operations_without_page_cache(self):
        self.on_all_ways("files random: PASS\n", "random", self.file(), "500", "3", "direct", kinds=("shared",))

    def test_more_bytes_than_buffers(self):
        self.on_all_ways("files large: PASS\n", "large", self.file(), "100", kinds=("static",))

    def test_bad_calls(self):
        self.on_all_ways(BAD, "bad", self.file(), str(self.folder))

    def test_more_files_than_a_proxy_opens(self):
        expected = "1024 files, then 5 the file can not be opened: Too many open files\nfiles many: PASS\n"
        self.on_all_ways(expected, "many", self.file(), "1100", kinds=("shared",))

    def test_two_devices(self):
        for way in ways():
            with self.subTest(way=way):
                path, self.relay = way
                command = self.cuspan("run", "--gpus", "2", "--same-node", path, "--", program("files", "shared"), "devices",
                                      self.file())
                result = self.run_command(command, self.environment(2))
                self.assertEqual((result.stdout, own_lines(result.stderr)), ("files devices: PASS\n", []))

    def test_reset_with_open_files(self):
        self.on_all_ways("files resets: PASS\n", "resets", self.file(), kinds=("shared",))

    def test_behind_a_kernel_that_waits_for_the_host(self):
        self.on_all_ways("files waits: PASS\n", "waits", self.file(), kinds=("shared",))

    def test_threads_close_files_in_use(self):
        self.on_all_ways("files threads: PASS\n", "threads", self.file(), kinds=("shared",))

    def test_statistics_metrics_and_trace(self):
        for way in ways():
            with self.subTest(way=way):
                path, self.relay = way
                trace, metrics = self.folder / "trace.json", self.folder / "metrics.prom"
                command = self.cuspan("run", "--stats", "--trace", str(trace), "--metrics", str(metrics),
                                      "--same-node", path, "--", program("files", "shared"), "large", self.file(), "3")
                result = self.run_command(command)
                self.assertIn("session 1 device 0, files: 3.0 MiB read, 3.0 MiB written\n", result.stderr)
                lines = metrics.read_text(encoding="utf-8").splitlines()
                for direction in ("read", "written"):
                    found = [float(line.rsplit(" ", 1)[1]) for line in lines
                             if line.startswith("cuspan_file_bytes_total{") and f'direction="{direction}"' in line]
                    self.assertEqual(found, [(3 << 20) + 1])
                pieces = [event["name"] for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
                          if event["ph"] == "X" and event["name"].startswith("files: ")]
                # Over agents, the program's node reads and writes them: chunks are shown instead.
                self.assertEqual({kind: pieces.count(kind) for kind in sorted(set(pieces))},
                                 {"files: read": 2, "files: written": 2} if way == LOCAL else {})

    def test_outside_of_a_run(self):
        libraries = {"LD_LIBRARY_PATH": str(build() / "lib/cuspan/runtime")}
        result = self.run_command([program("files", "shared"), "bad", self.file(), str(self.folder)],
                                  self.environment(1, **libraries), status=1)
        self.assertIn("CUSPAN_SOCKET and CUSPAN_SECRET are not set", result.stderr)


class Kills(SystemTest):
    """A process is killed in the middle of reads and writes: no wait hangs, nothing is left."""

    def test_at_work(self):
        print(f"KILLS_SEED={SEED}", flush=True)
        choices = random.Random(SEED)
        for number in range(KILLS):
            way = choices.choice(ways())
            victim = choices.choice(("cuspan-proxy", "files", "cuspan-agent"))
            if way == LOCAL and victim == "cuspan-agent":
                victim = "cuspan-proxy"
            with self.subTest(number=number, way=way, victim=victim, seed=SEED):
                self.round(way, victim)

    def round(self, way, victim):
        path, self.relay = way
        self.kill_leftovers()
        process = self.start(self.cuspan("run", "--same-node", path, "--", program("files", "shared"), "endless",
                                         str(self.folder / "file")))
        self.assertEqual(self.answer(process), "at work")
        pids = wait_until(lambda: [pid for pid, _ in self.processes(victim)],
                          f"{victim} is there")
        os.kill(pids[-1], signal.SIGKILL)
        try:
            _, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.fail(f"{victim} was killed, and after {LIMIT_S} s there are still {self.processes()}")
        if victim == "cuspan-proxy":
            self.assertIn("cudaErrorDevicesUnavailable", errors)
        self.assertNotEqual(process.returncode, 0)
        self.assert_nothing_left()
