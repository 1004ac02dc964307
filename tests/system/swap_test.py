"""Runs with more memory together than one GPU has (--memory all): each keeps its data, in alternation."""
import os
import random
import signal

from harness import OWN_FAILURE, own_lines, program, wait_until
from sharing_case import Counter, SharingTest

PATHS = ("auto", "never")
MIB = 1 << 20
# Memory per run, in MiB. Two runs have 480 of the GPU's 512 MiB: twice MUCH is far more than this, twice LITTLE
# slightly more.
MUCH, LITTLE = 384, 240


class Swap(SharingTest):
    def share(self, *options, path="auto", app=None, memory="all"):
        return self.cuspan("run", "--gpus", "1", "--same-node", path, "--share", "--share-limit=4", "--memory", memory, *options, "--",
                           *(app or ["true"]))

    def fills(self, mebibytes, *options, path="auto"):
        return Counter(self, self.start(self.share(*options, path=path, app=[program("fills", "shared"), str(mebibytes)]),
                                        self.environment(CUSPAN_LOG="info")))

    def allocates(self, *options, **more):
        run = self.start(self.share(*options, app=[program("allocates", "shared")], **more))
        self.assertEqual(self.answer(run).strip(), "ready", "it has its GPU")
        return run

    def asks(self, run, line):
        self.tell(run, line)
        return self.answer(run).strip()

    def test_an_idle_run_makes_room(self):
        """Memory allocated in any way is restored when the run needs it."""
        for path in PATHS:
            with self.subTest(path=path):
                first, second = self.fills(MUCH, path=path), self.fills(MUCH, path=path)
                first.go().runs(3)
                said = first.end()
                self.assertIn("memory to the host: ", said)
                self.assertIn("memory back from the host: ", said)
                second.go().runs(3)
                self.assertIn("memory back from the host: ", second.end())
                self.assert_nothing_left()

    def test_two_that_work_take_turns(self):
        first, second = self.fills(LITTLE), self.fills(LITTLE)
        first.go(), second.go()
        for _ in range(3):
            first.runs(2), second.runs(2)
            before = first.count, second.count
            wait_until(lambda before=before: first.count > before[0] + 1 and second.count > before[1] + 1, "both go on")
        for said in (first.end(), second.end()):
            self.assertGreater(said.count("memory back from the host: "), 1, said)
        self.assert_nothing_left()

    def test_a_run_whose_memory_is_kept_is_not_held_up(self):
        """A run with a fixed memory size has its time slices as usual, and swapping runs continue beside it."""
        small = Counter(self, self.start(self.share(memory="16M", app=[program("counts", "shared"), "4"])))
        first, second = self.fills(LITTLE), self.fills(LITTLE)
        small.go(), first.go(), second.go()
        for run, more in ((small, 64), (first, 2), (second, 2), (small, 64)):
            run.runs(more)
        for run in (small, first, second):
            run.end()
        self.assert_nothing_left()

    def test_what_is_kept_for_a_run_is_made_free_for_it(self):
        first, second = self.fills(256), self.fills(256)
        first.go().runs(2)
        kept = self.allocates(memory="128M")
        self.assertEqual(self.asks(kept, f"take {128 * MIB}"), "taken")
        self.assertEqual(self.asks(kept, "touch"), "touched")
        first.runs(2)
        first.end()
        second.go().runs(2)
        second.end()
        self.assertEqual(self.ends(kept)[0], 0)
        self.assert_nothing_left()

    def test_runs_that_are_killed_leave_their_room(self):
        """Kills runs at any time, also while memory is swapped out or in for them."""
        chance = random.Random(7)
        stays = self.fills(MUCH).go()
        mine = {one for one, _ in self.processes("fills")}
        for number in range(6):
            goal = stays.count + 2
            run = self.start(self.share(app=[program("fills", "shared"), str(MUCH)]))
            if number % 2:
                self.answer(run)
                self.tell(run, "go")
            pid = run.pid
            if number % 3:
                pid, = wait_until(lambda: {one for one, _ in self.processes("fills")} - mine, "it is there")
            # The first run has resumed, is being swapped out, or neither yet.
            if number % 4 > 1:
                stays.runs(chance.randrange(1, 4))
            os.kill(pid, signal.SIGKILL)
            run.wait(60)
            stays.runs(max(1, goal - stays.count))
        stays.end()
        self.assert_nothing_left()

    def test_what_there_is_is_what_a_run_can_have(self):
        other = self.allocates()
        self.assertEqual(self.asks(other, f"take {300 * MIB}"), "taken")
        run = self.allocates()
        free, total, _ = (int(word) for word in self.asks(run, "info").split())
        self.assertEqual((free, total), (448 * MIB, 512 * MIB), "all but what the contexts of four runs need")
        self.assertEqual(self.asks(run, f"take {free + 1}"), "cudaErrorMemoryAllocation")
        self.assertEqual(self.asks(run, f"array {40 << 10}"), "cudaErrorMemoryAllocation", "160 MiB that could not go for the other")
        for request in (f"take {190 * MIB}", f"create {190 * MIB}", f"array {16 << 10}"):
            self.assertEqual(self.asks(run, request), "taken", request)
        self.assertEqual(self.asks(run, "touch"), "touched")
        self.assertEqual(self.asks(other, "touch"), "touched")
        self.assertEqual(self.asks(run, "drop"), "dropped")
        self.assertEqual(self.asks(other, "drop"), "dropped")
        for one in (run, other):
            self.assertEqual(self.ends(one)[0], 0)
        self.assert_nothing_left()

    def test_who_can_not_make_room_does_not_share_with_who_needs_it(self):
        first = self.allocates()
        result = self.run_command(self.cuspan("run", "--gpus", "1", "--share", "--no-wait", "--", "true"), status=OWN_FAILURE)
        self.assertRegex(result.stderr, r"^cuspan: not available now: .*--memory all")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.run_command(self.share(memory="64M"))
        self.ends(first)
        for options, words in ((["--share=pair", "--gpus", "1"], "--share=time"), (["--share", "--gpus", "2"], "--gpus 1"), (["--share"], "--gpus 1")):
            result = self.run_command(self.cuspan("run", *options, "--memory", "all", "--", "true"), status=OWN_FAILURE)
            self.assertEqual(len(own_lines(result.stderr)), 1, result.stderr)
            self.assertIn(words, result.stderr)
        self.assert_nothing_left()
