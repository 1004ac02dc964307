"""Arrays in files: failing files and killed processes while kernels ask for lines."""
import os
import random
import signal

from harness import LOCAL, program, ways
from store_case import NATIVE, StoreCase, image

# Random points at which a process is killed. By hand: CUSPAN_TEST_KILLS=200.
KILLS = int(os.environ.get("CUSPAN_TEST_KILLS", "9"))


class StoreFaults(StoreCase):
    def test_files_that_can_not_be_read(self):
        for place in (NATIVE, LOCAL):
            for resident in ("off", "copied"):
                with self.subTest(place=place, resident=resident):
                    result = self.run_store(place, "damaged", self.folder, 4096, CUSPAN_FILE_IO="pread",
                                            CUSPAN_FILE_RESIDENT=resident, STORE_READS_FAIL="1",
                                            LD_PRELOAD=program("reads_fail.so", "store"))
                    lines = result.stdout.splitlines()
                    self.assertEqual(lines[0], "check: 5", result.stdout)
                    self.assertRegex(lines[1], "the file can not be read at byte [0-9]+: Input/output error")
                    self.assertEqual(lines[-1], "store damaged: PASS", result.stdout)

    def starts_asking(self, way, relay):
        self.relay = relay
        root = ["--file-root", str(self.folder)] if way == "never" else []
        process = self.start(self.cuspan("run", "--same-node", way, *root, "--", program("store", "store"), image(),
                                         "asks", str(self.folder), "4096"))
        self.assertEqual(self.answer(process), "asks")
        return process

    def test_processes_killed_while_kernels_ask(self):
        chance = random.Random(64)
        places = ways()
        for i in range(KILLS):
            way, relay = places[i % len(places)]
            victim = ("store", "cuspan-proxy", "cuspan")[i // len(places) % 3]
            with self.subTest(way=way, relay=relay, victim=victim, number=i):
                process = self.starts_asking(way, relay)
                # Kernels go on meanwhile.
                for _ in range(chance.randrange(20)):
                    self.processes()
                os.kill(self.processes(victim)[0][0], signal.SIGKILL)
                status, _, _ = self.ends(process)
                self.assertNotEqual(status, 0)
                self.assert_nothing_left()
        # The device is free again.
        self.assert_passes(self.run_store(LOCAL, "cold", self.folder, 4096), "store cold: PASS\n")
