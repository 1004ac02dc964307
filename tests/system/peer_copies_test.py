"""Copies between devices without access to each other's memory: from proxy to proxy, never through the program."""
import re

from harness import Statistics, SystemTest, app, own_lines

# Placement of the devices. apart: an agent per device; mixed: two on the program's node and two on others; one-node:
# all on one node with connected proxies, without or with agents on the path to the program.
SPREADS = ("apart", "mixed", "one-node", "one-node-agents")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


class PeerCopies(SystemTest):
    def spread(self, how, command, **more):
        """The command with four devices without access to each other, and its environment."""
        if how == "apart":
            return self.mpirun(4, "agents", command), self.environment(1, **more)
        if how == "mixed":
            full = self.mpirun(3, "agents", command)
            at = full.index("--same-node")
            return [*full[:at], "--serve", "1", *full[at:]], self.environment(1, **more)
        full = self.cuspan("run", "--gpus", "4", "--stats", "--same-node", "never" if how.endswith("agents") else "auto",
                           "--", *command)
        return full, self.environment(4, CUSPAN_PEER_MEMORY="never", **more)

    def copies(self, how, kind, *arguments, **settings):
        """Runs the program of all copies; only data it reads itself may be sent to it."""
        command, environment = self.spread(how, [app("peer_copies", kind), *map(str, arguments)], **settings)
        result = self.run_command(command, environment)
        self.assertIn("4 devices: PASS", result.stdout)
        self.assertEqual(own_lines(result.stderr), [], "cuspan has something to say")
        statistics = Statistics(result.stderr)
        self.assertEqual(statistics.devices(), set(range(4)))
        # Bytes read by the program: the final values of the chain, and a few counters.
        read = arguments[0] * 1024 // 3 * 4 + 4096 if arguments else 64 * 1024 // 3 * 4 + 4096
        for row in statistics.rows:
            self.assertEqual(size(row["to device"]), 0, row)
            self.assertLessEqual(size(row["from device"]), read * 1.01, row)
        for op in ("PeerSend", "PeerReceive"):
            self.assertGreaterEqual(len(re.findall(rf"posted: .*\b{op} [1-9]", result.stderr)), 4, result.stderr)

    def test_spreads(self):
        for how in SPREADS:
            for kind in ("shared", "static"):
                with self.subTest(how=how, kind=kind):
                    self.copies(how, kind)
                    self.assert_nothing_left()

    def test_sizes_of_buffers(self):
        """Staging buffers of the chunk size used by the program, from two to many."""
        for buffers, kib in ((2, 16), (3, 64), (16, 256)):
            with self.subTest(buffers=buffers, kib=kib):
                self.copies("apart", "shared", kib, buffers, CUSPAN_STAGING_BUFFERS=str(buffers),
                            CUSPAN_STAGING_BYTES=f"{kib}K")

    def test_not_pipelined(self):
        self.copies("apart", "static", 16, 4, CUSPAN_PIPELINE="off", CUSPAN_STAGING_BYTES="16K")

    def test_seeds(self):
        for seed in range(2, 8):
            with self.subTest(seed=seed):
                self.copies("mixed", "shared", 16, 3, seed, CUSPAN_STAGING_BUFFERS="2", CUSPAN_STAGING_BYTES="8K")
