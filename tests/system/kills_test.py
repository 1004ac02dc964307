"""Processes of runs are killed at random moments: no run hangs, computes wrong numbers or leaves anything.

KILLS: number of kills; KILLS_SEED: seed of the random choices. Without KILLS_SEED, the seed is printed.
"""
import os
import random
import shutil
import signal
import subprocess
import time

from harness import STARTER, SystemTest, program, wait_until, ways

KILLS = int(os.environ.get("KILLS", "50"))
SEED = int(os.environ.get("KILLS_SEED", str(random.SystemRandom().randrange(1 << 32))))
VICTIMS = ("waits", "cuspan", "cuspan-agent", "cuspan-proxy", STARTER)
# Latest kill after a run's start: in the middle of its work on an idle machine.
LATEST_S = 1.5
# Time for a program to end; a longer wait counts as hanging.
LIMIT_S = 10


class Kills(SystemTest):
    def test_at_random_moments(self):
        print(f"KILLS_SEED={SEED}", flush=True)
        choices = random.Random(SEED)
        for number in range(KILLS):
            way = choices.choice(ways())
            moment = choices.uniform(0, LATEST_S)
            choice = choices.random()
            with self.subTest(number=number, same_node=way[0], relay=way[1], moment=moment, choice=choice, seed=SEED):
                self.round(way, moment, choice)
        self.assert_nothing_left()

    def round(self, way, moment, choice):
        path, self.relay = way
        self.kill_leftovers()
        # Leftovers of a round must not count in the next one.
        shutil.rmtree(self.temporary)
        self.temporary.mkdir()
        process = self.start(self.cuspan("run", "--same-node", path, "--", program("waits", "static"), "work"))
        time.sleep(moment)
        living = wait_until(lambda: [victim for victim in self.processes() if victim[1].removesuffix("-ucx") in VICTIMS],
                            "something of the run is there")
        pid, name = living[int(choice * len(living))]
        # Before the program starts, a proxy describes the GPUs. After its answer the run needs it no longer.
        describes = name == "cuspan-proxy" and "waits" not in [victim[1] for victim in living]
        os.kill(pid, signal.SIGKILL)
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.assertTrue(describes, f"{name} was killed, and after {LIMIT_S} s there are still {self.processes()}")
            process.terminate()
            process.communicate(timeout=LIMIT_S)
            self.assert_nothing_left()
            return
        # The program may have ended before its first line, or only because of the launcher's death.
        self.assertIn([line for line in out.splitlines() if line != "waits"],
                      ([], ["cudaErrorDevicesUnavailable"], ["cudaErrorNoDevice"]), f"{name} was killed; {err}")
        self.assertNotEqual(process.returncode, 1, err)
        self.assert_nothing_left()
