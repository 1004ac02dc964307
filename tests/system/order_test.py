"""Litmus tests of pinned memory used by the host and kernels at the same time, on one node and over agents."""
import os

from harness import SystemTest, app, own_lines, program

# Rounds of each thread. Use more on a machine with enough time, to test the memory models.
ROUNDS = int(os.environ.get("SYSTEM_TEST_ORDER_ROUNDS", "6"))
# Threads of the kernel, and bytes of a payload.
SHAPES = ((1, 8), (1, 16384), (4, 64), (8, 4096), (32, 64), (64, 8), (64, 256))
PLACES = {"one node": [], "agents": ["--same-node", "never"],
          "two hosts": ["--hosts", "localhost:1,localhost:1", "--same-node", "never"]}


class Order(SystemTest):
    def litmus(self, name, threads=1, payload=8, rounds=ROUNDS):
        for place, options in PLACES.items():
            with self.subTest(place, threads=threads, payload=payload):
                command = self.cuspan("run", *options, "--", program("order", "shared"), name, str(threads), str(payload), str(rounds))
                result = self.run_command(command)
                self.assertEqual((result.stdout, own_lines(result.stderr)),
                                 (f"{name}: {threads} threads, payloads of {payload} bytes, {rounds} rounds: 0 forbidden outcomes\n", []))

    def test_messages_to_kernels(self):
        for threads, payload in SHAPES:
            self.litmus("to_kernel", threads, payload)

    def test_messages_to_kernels_with_their_flags_in_one_page(self):
        for threads, payload in SHAPES:
            self.litmus("packed", threads, payload)

    def test_messages_to_the_host(self):
        for threads, payload in SHAPES:
            self.litmus("to_host", threads, payload)

    def test_store_buffering(self):
        self.litmus("buffering", rounds=10 * ROUNDS)

    def test_load_buffering(self):
        self.litmus("loads", rounds=10 * ROUNDS)

    def test_coherence_of_one_word(self):
        self.litmus("words", rounds=100 * ROUNDS)


class Streams(SystemTest):
    """Random operations of several threads in shared streams: tests/apps/stream_order.cu."""

    def random_operations(self, threads, streams, operations, *options):
        command = self.cuspan("run", *options, "--", app("stream_order", "shared"), str(threads), str(streams), str(operations), "7")
        result = self.run_command(command)
        self.assertEqual((result.stdout, own_lines(result.stderr)),
                         (f"stream_order: {threads} threads, {streams} streams, {operations} operations: PASS\n", []))

    def test_a_million_operations(self):
        self.random_operations(8, 16, 1_000_000)

    def test_over_agents(self):
        self.random_operations(8, 16, 100_000, "--same-node", "never")

    def test_one_stream(self):
        self.random_operations(4, 1, 50_000)
