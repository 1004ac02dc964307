"""Several runs on one GPU: their time slices have the promised shares, and no run harms another. Kernels of the
software GPUs take a fixed time, long enough to make other load of the processors insignificant. The numbers of
kernels run therefore show each run's share."""
import json
import os
import random
import re
import signal
import unittest

from harness import OWN_FAILURE, own_lines, program, wait_until
from sharing_case import Counter, SharingTest

PATHS = ("auto", "never")
MIB = 1 << 20


class Sharing(SharingTest):
    def share(self, *options, path="auto", app=None, limit=4):
        return self.cuspan("run", "--gpus", "1", "--same-node", path, *(() if "--share=pair" in options else ("--share",)),
                           f"--share-limit={limit}", *options, "--",
                           *(app or [program("counts", "shared"), "4"]))

    def counter(self, *options, path="auto", blocks=4, limit=4, **environment):
        return Counter(self, self.start(self.share(*options, path=path, limit=limit,
                                                   app=[program("counts", "shared"), str(blocks)]),
                                        self.environment(**environment)))

    def test_two_runs_take_turns(self):
        for path in PATHS:
            with self.subTest(path=path):
                runs = [self.counter(path=path) for _ in range(2)]
                for run in runs:
                    run.go()
                for _ in range(3):
                    for run in runs:
                        run.runs(64)
                for run in runs:
                    run.end()
                self.assert_nothing_left()

    def test_equal_runs_have_equal_parts(self):
        """Equal shares, independent of the lengths of the kernels."""
        short, long = self.counter(blocks=4), self.counter(blocks=20)
        short.go(), long.go()
        short.runs(64), long.runs(16)
        before = short.count, long.count
        long.runs(96)
        had = (short.count - before[0]) * 4, (long.count - before[1]) * 20
        self.assertGreater(had[0], had[1] * 0.4, had)
        self.assertLess(had[0], had[1] * 1.6, had)
        short.end(), long.end()
        self.assert_nothing_left()

    def test_priority(self):
        low = self.counter("--priority", "low").go()
        low.runs(32)
        high = self.counter("--priority", "high").go()
        high.runs(32)
        before = low.count, high.count
        high.runs(400)
        gone = low.count - before[0], high.count - before[1]
        self.assertLess(gone[0], gone[1] * 0.5, "it has what the other leaves")
        high.end()
        low.runs(64)
        low.end()
        self.assert_nothing_left()

    def test_the_niceness_of_the_program_counts(self):
        nice = Counter(self, self.start(["nice", "-n", "10", *self.share()], self.environment())).go()
        nice.runs(32)
        other = self.counter().go()
        other.runs(32)
        before = nice.count, other.count
        other.runs(400)
        self.assertLess(nice.count - before[0], (other.count - before[1]) * 0.5)
        other.end()
        nice.end()

    def test_quotas(self):
        runs = [self.counter("--quota", quota) for quota in ("60%", "30%", "10%")]
        for run in runs:
            run.go()
        for run in runs:
            run.runs(16)
        before = [run.count for run in runs]
        runs[0].runs(640)
        gone = [run.count - count for run, count in zip(runs, before)]
        for more, less in zip(gone, gone[1:]):
            self.assertGreater(more, less * 1.4, gone)
        self.assertGreater(gone[2], gone[0] / 12, gone)
        for run in runs:
            run.end()
        self.assert_nothing_left()

    def test_a_limit(self):
        limited, other = self.counter("--limit", "20%").go(), self.counter().go()
        limited.runs(16), other.runs(16)
        before = limited.count, other.count
        limited.runs(96)
        self.assertGreater(other.count - before[1], (limited.count - before[0]) * 2)
        other.end()
        limited.end()

    def test_a_limit_holds_alone(self):
        """Compares it with a run alone on another GPU."""
        apart = {"CUSPAN_LEASE_FOLDER": str(self.folder / "more-locks"), "CUSPAN_SHARE_FOLDER": str(self.folder / "more-tables")}
        for folder in apart.values():
            os.mkdir(folder)
        limited = self.counter("--limit", "20%").go()
        free = Counter(self, self.start(self.share(), self.environment(**apart))).go()
        limited.runs(32), free.runs(32)
        before = limited.count, free.count
        free.runs(400)
        self.assertLess(limited.count - before[0], (free.count - before[1]) * 0.5)
        self.assertGreater(limited.count, before[0], "it goes on")
        limited.end()
        free.end()

    def test_a_fault_ends_its_own_run(self):
        for path in PATHS:
            with self.subTest(path=path):
                faulty, other = self.counter(path=path).go(), self.counter(path=path).go()
                other.runs(32), faulty.runs(32)
                self.tell(faulty.process, "fault")
                faulty.reader.join(60)
                self.assertEqual(faulty.last, "cudaErrorIllegalAddress")
                self.assertEqual(faulty.process.wait(60), 0)
                other.runs(64)
                other.end()
                self.assert_nothing_left()

    def test_killed_processes_hold_up_nobody(self):
        """Kills any process of any run, at any moment: the others continue, and nothing is left."""
        chance = random.Random(4)
        runs = [self.counter().go() for _ in range(4)]
        for _ in range(12):
            index = chance.randrange(4)
            victim = runs[index]
            others = [run for run in runs if run is not victim]
            wait_until(lambda: chance.random() < 0.1, "a moment")
            kind = chance.choice(("cuspan", "cuspan-agent", "cuspan-proxy", "counts"))
            # Processes of one run are the descendants of its launcher.
            mine = [pid for pid, _ in self.processes(kind) if pid == victim.process.pid or self.descends(pid, victim.process.pid)]
            if mine:
                os.kill(mine[0], signal.SIGKILL)
            for run in others:
                run.runs(16)
            self.finish(victim.process)
            runs[index] = self.counter().go()
        for run in runs:
            run.runs(16)
            run.end()
        self.assert_nothing_left()

    @staticmethod
    def descends(pid, ancestor):
        while pid > 1:
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    pid = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                return False
            if pid == ancestor:
                return True
        return False

    def test_a_stopped_process_holds_up_nobody(self):
        stopped, other = self.counter().go(), self.counter().go()
        stopped.runs(32), other.runs(32)
        for pid, _ in self.processes("cuspan-proxy")[:1]:
            os.kill(pid, signal.SIGSTOP)
        # The stopped proxy belongs to either of the two runs.
        before = stopped.count, other.count
        wait_until(lambda: max(stopped.count - before[0], other.count - before[1]) > 200, "the other goes on")
        for pid, _ in self.processes("cuspan-proxy"):
            os.kill(pid, signal.SIGCONT)
        stopped.runs(32), other.runs(32)
        stopped.end(), other.end()

    def test_a_run_that_shares_and_one_that_does_not(self):
        run = self.counter().go()
        alone = self.cuspan("run", "--gpus", "1", "--no-wait", "--", "true")
        result = self.run_command(alone, self.environment(CUSPAN_LEASES="on"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: 1 GPU of .*held by run [0-9a-f]{16} of \S+ \(counts\)")
        self.assertEqual(len(result.stderr.splitlines()), 1)
        run.end()
        holder = self.start(self.cuspan("run", "--gpus", "1", "--", "sh", "-c", "echo here; cat"), self.environment(CUSPAN_LEASES="on"))
        self.assertEqual(holder.stdout.readline().strip(), "here")
        result = self.run_command(self.share("--no-wait"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: 1 GPU of .*held by run [0-9a-f]{16} of \S+ \(sh\)")
        self.ends(holder)

    def test_who_does_not_fit_waits_and_is_told_why(self):
        first = self.counter("--quota", "70%").go()
        result = self.run_command(self.share("--no-wait", "--quota", "40%"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: .*the quotas of its runs are 70 % of its time")
        second = self.counter(limit=2).go()
        result = self.run_command(self.share("--no-wait"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: .*2 runs share it already")
        waiter = self.start(self.share(app=["echo", "mine"]))
        self.assertIn("waiting for", waiter.stderr.readline())
        second.end()
        self.assertEqual(self.ends(waiter)[:2], (0, "mine\n"))
        first.end()
        self.assert_nothing_left()

    def memory(self, *options, path="auto", limit=4):
        run = self.start(self.share(*options, path=path, limit=limit, app=[program("allocates", "shared")]), self.environment())
        self.assertEqual(self.answer(run).strip(), "ready", "it has its GPU")
        return run

    def asks(self, run, line):
        self.tell(run, line)
        return self.answer(run).strip()

    def info(self, run):
        return [int(word) for word in self.asks(run, "info").split()]

    def test_a_memory_cap_holds_to_the_byte(self):
        """The cap covers all ways to allocate device memory, and the program sees it as the GPU's memory."""
        for path in PATHS:
            with self.subTest(path=path):
                run = self.memory("--memory", "128M", path=path)
                self.assertEqual(self.info(run), [128 * MIB] * 3)
                self.assertEqual(self.asks(run, f"take {128 * MIB + 1}"), "cudaErrorMemoryAllocation")
                self.assertEqual(self.asks(run, f"take {128 * MIB}"), "taken")
                self.assertEqual(self.asks(run, "touch"), "touched")
                self.assertEqual(self.info(run), [0, 128 * MIB, 128 * MIB])
                for refused in ("take 1", "array 1024"):
                    self.assertEqual(self.asks(run, refused), "cudaErrorMemoryAllocation", refused)
                self.assertEqual(self.asks(run, f"create {2 * MIB}"), "CUDA_ERROR_OUT_OF_MEMORY")
                self.assertEqual(self.asks(run, "drop"), "dropped")
                for size in (64 * MIB, 32 * MIB):
                    self.assertEqual(self.asks(run, f"create {size}"), "taken")
                self.assertEqual(self.asks(run, f"array {4 << 10}"), "taken", "16 MiB")
                self.assertEqual(self.asks(run, f"take {16 * MIB}"), "taken")
                self.assertEqual(self.asks(run, f"create {2 * MIB}"), "CUDA_ERROR_OUT_OF_MEMORY")
                self.assertEqual(self.asks(run, "drop"), "dropped")
                for _ in range(64):
                    self.assertEqual(self.asks(run, f"take {2 * MIB}"), "taken")
                self.assertEqual(self.asks(run, "take 1"), "cudaErrorMemoryAllocation")
                self.ends(run)
                self.assert_nothing_left()

    def test_a_long_kernel_is_handed_over_in_slices(self):
        """The slices run only beside a run of high priority; the kernel has the same results as unsliced."""
        for path in PATHS:
            with self.subTest(path=path):
                # 180 ms per launch; 4 blocks run at once.
                trace = self.folder / "trace.json"
                app = [program("long_kernel", "shared"), "6", "5", "12"]
                low = Counter(self, self.start(self.share("--priority", "low", "--trace", str(trace), path=path, app=app),
                                               self.environment())).go()
                low.runs(4)
                high = self.memory("--priority", "high", path=path)
                self.assertEqual(self.asks(high, f"take {MIB}"), "taken")
                self.assertEqual(self.asks(high, "touch"), "touched")
                # The first launches run unsliced and start the compilation of the sliced kernel.
                low.runs(6)
                self.assertEqual(self.asks(high, "touch"), "touched")
                self.ends(high)
                low.runs(2)
                low.end()
                self.assert_nothing_left()
                events = json.loads(trace.read_text())["traceEvents"]
                kernels = [event for event in events if event.get("cat") == "kernel" and "NoteBlocks" in event["name"]]
                self.assertGreater(len(kernels), low.count + 2 * 20, "slices of two launches at least")
                turns = [event for event in events if event.get("cat") == "turn"]
                self.assertGreater(len(turns), 1, "the other one took the GPU")
                self.assertEqual({event["name"] for event in turns}, {"turn"})
                for before, after in zip(turns, turns[1:]):
                    self.assertLessEqual(before["ts"] + before["dur"], after["ts"])

    def test_kernel_times_are_kept(self):
        times = self.folder / "times"
        environment = self.environment(CUSPAN_KERNEL_TIMES=str(times))
        for _ in range(2):
            run = Counter(self, self.start(self.share(), environment)).go()
            wait_until(lambda: any("Count" in file.read_text() for file in times.glob("*")), lambda: list(times.glob("*")))
            run.end()
            names = {file.name for file in times.glob("*") if file.suffix != ".new"}
            self.assertEqual(names, {"cuspan_software_GPU"}, "a file for the GPU's model")
        self.assert_nothing_left()

    def test_a_run_that_ends_keeps_the_times_that_it_has_measured(self):
        """Even a short run writes them: its proxy is not ended before."""
        for path in PATHS:
            with self.subTest(path=path):
                times = self.folder / f"times-{path}"
                run = self.counter(path=path, CUSPAN_KERNEL_TIMES=str(times), CUSPAN_LOG="info").go()
                run.runs(16)
                self.assertRegex(run.end(), r"the times of \d+ kernels were predicted with a median error of \d+\.\d %")
                self.assertIn("Count", (times / "cuspan_software_GPU").read_text(encoding="utf-8"))
        self.assert_nothing_left()

    def shared_runs(self):
        result = self.run_command(self.cuspan("top", "--json"), self.environment())
        return json.loads(result.stdout)[0]["runs"]

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
    def test_users_of_a_common_folder_take_turns(self):
        """The folder belongs to root and is writable by the members of a group."""
        group = 65534
        os.chown(self.tables, 0, group)
        self.tables.chmod(0o3770)
        self.folder.chmod(0o711)
        home = self.folder / "home"
        home.mkdir()
        os.chown(home, group, group)
        first = self.counter().go()
        other = self.start(["setpriv", "--reuid", str(group), "--regid", str(group), "--clear-groups", *self.share()],
                           self.environment(HOME=str(home), XDG_CACHE_HOME=str(home), TMPDIR="/tmp"))
        second = Counter(self, other).go()
        for run in (first, second):
            run.runs(200)
        self.assertEqual(len({run["user"] for run in self.shared_runs()}), 2)
        self.assertTrue(all(run["turns"] > 4 for run in self.shared_runs()), self.shared_runs())
        result = self.run_command(self.share("--share=pair", "--no-wait"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: .*held by run [0-9a-f]{16} of ")
        second.end(), first.end()
        self.assert_nothing_left()

    def test_pairs_are_on_the_gpu_together(self):
        """Pairs begin when the run times of their kernels alone are known. Software GPUs of two processes do not slow
        each other down."""
        for path in PATHS:
            with self.subTest(path=path):
                runs = [self.counter("--share=pair", path=path).go() for _ in range(2)]
                wait_until(lambda: all(run["paired"] for run in self.shared_runs()), self.shared_runs)
                wait_until(lambda: all((run["pair_sum"] or 0) > 1.5 for run in self.shared_runs()), self.shared_runs)
                before = [run["turns"] for run in self.shared_runs()]
                for run in runs:
                    run.runs(64)
                self.assertEqual([run["turns"] for run in self.shared_runs()], before, "nobody waits for a turn")
                for run in runs:
                    run.end()
                self.assert_nothing_left()

    def test_pairs_and_turns_do_not_mix(self):
        run = self.counter("--share=pair").go()
        result = self.run_command(self.share("--no-wait"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: .*runs share it in pairs, but this run would share it by time")
        run.end()
        run = self.counter().go()
        result = self.run_command(self.share("--share=pair", "--no-wait"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: .*runs share it by time, but this run would share it in pairs")
        run.end()
        self.assert_nothing_left()

    def test_priority_in_pairs(self):
        """Priorities hold as with time slices, unless the lower one is limited to a part of the multiprocessors."""
        high = self.counter("--share=pair", "--priority", "high").go()
        high.runs(32)
        low = self.counter("--share=pair", "--priority", "low").go()
        before = high.count
        high.runs(400)
        self.assertLess(low.count, 100, "it has what the other leaves")
        low.end()
        low = self.counter("--share=pair", "--priority", "low", "--limit", "50%").go()
        wait_until(lambda: all(run["paired"] for run in self.shared_runs()), self.shared_runs)
        low.runs(200)
        low.end(), high.end()
        self.assertGreater(high.count, before)
        self.assert_nothing_left()

    def test_what_is_kept_for_a_run_is_no_others(self):
        capped, other = self.memory("--memory", "256M"), self.memory()
        free, total, _ = self.info(other)
        self.assertEqual(total, 512 * MIB)
        self.assertEqual(free, 224 * MIB, "what is neither kept nor needed by the contexts")
        self.assertEqual(self.asks(other, f"take {free + 1}"), "cudaErrorMemoryAllocation")
        self.assertEqual(self.asks(other, f"take {free}"), "taken")
        self.assertEqual(self.asks(capped, f"take {256 * MIB}"), "taken")
        self.ends(capped)
        wait_until(lambda: self.info(other)[0] >= 256 * MIB, "what was kept is free")
        self.ends(other)
        self.assert_nothing_left()

    def test_a_run_whose_memory_is_not_there_waits(self):
        first = self.memory("--memory", "384M")
        result = self.run_command(self.share("--no-wait", "--memory", "128M"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: .*512 MiB of memory .*384 MiB.*128 MiB")
        self.assertEqual(len(result.stderr.splitlines()), 1)
        waiter = self.start(self.share("--memory", "128M", app=["echo", "mine"]))
        self.assertIn("waiting for", waiter.stderr.readline())
        self.ends(first)
        self.assertEqual(self.ends(waiter)[:2], (0, "mine\n"))
        result = self.run_command(self.share("--memory", "1G"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: .*at least 1\.0 GiB of memory")
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assert_nothing_left()

    def test_wrong_options_are_one_line(self):
        for options, words in ((["--quota", "30%"], "--quota"), (["--priority", "high"], "--priority"),
                               (["--share", "--quota", "120%"], "--quota"), (["--share", "--quota", "50%", "--limit", "40%"], "--limit"),
                               (["--share", "--priority", "urgent"], "--priority"), (["--share=pairs"], "--share"),
                               (["--share", "--share-limit", "1"], "--share-limit"), (["--memory", "1G"], "--memory"),
                               (["--share", "--memory", "much"], "--memory"), (["--share", "--memory", "0"], "--memory")):
            with self.subTest(options=options):
                result = self.run_command(self.cuspan("run", *options, "--", "true"), status=OWN_FAILURE)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(words, result.stderr)
        result = self.run_command(self.share(app=["true"]), self.environment(CUSPAN_LEASES="off"), status=None)
        self.assertEqual(len(own_lines(result.stderr)), 1, result.stderr)
        self.assertIn("CUSPAN_LEASES", result.stderr)

    def test_what_lies_in_the_folder_of_the_tables(self):
        """An unused damaged table is replaced; other objects of its name are refused in one line."""
        run = self.counter().go()
        name, = os.listdir(self.tables)
        run.end()
        wait_until(lambda: not os.listdir(self.tables), "the table is gone")
        (self.tables / name).write_text("garbage", encoding="utf-8")
        self.run_command(self.share(app=["true"]))
        (self.tables / name).mkdir()
        result = self.run_command(self.share("--no-wait", app=["true"]), status=OWN_FAILURE)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(name, result.stderr)
        (self.tables / name).rmdir()
        result = self.run_command(self.share("--no-wait", app=["true"]), self.environment(CUSPAN_SHARE_FOLDER="/nowhere"), status=OWN_FAILURE)
        self.assertIn("CUSPAN_SHARE_FOLDER", result.stderr)
        self.assertTrue(re.search("/nowhere", result.stderr))
