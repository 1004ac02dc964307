"""Many threads with few lines: all reads end, and are right."""
from harness import LOCAL
from store_case import NATIVE, StoreCase

# Threads of a block are 256. In all 10^7 reads of 10^5 threads that hold lines, with caches of 4, 16 and 64 lines.
BLOCKS = 400
READS = 33


class StoreDeadlock(StoreCase):
    def stress(self, place, line, slots, reads, blocks, holds):
        with self.subTest(place=place, line=line, slots=slots, holds=holds):
            self.assert_passes(self.run_store(place, "stress", self.folder, line, slots, reads, blocks, holds),
                               "store stress: PASS\n")

    def test_lines_held_while_others_miss(self):
        for slots in (4, 16, 64):
            self.stress(LOCAL, 512, slots, READS, BLOCKS, 1)

    def test_lines_thrown_out_while_they_are_read(self):
        for place in (NATIVE, LOCAL):
            for line, slots in ((512, 4), (4096, 8), (65536, 64)):
                self.stress(place, line, slots, 20, 40, 0)
