"""A full disk is reported once, and does not affect results."""
import json
import os
import subprocess

from harness import OWN_FAILURE, SystemTest, app, own_lines

SMALL = 'mount -t tmpfs -o mode=700,size="$1" none "$2" && shift 2 && exec "$@"'


class FullDisk(SystemTest):
    def setUp(self):
        super().setUp()
        self.small = self.folder / "small"
        self.small.mkdir(mode=0o700)
        probe = subprocess.run(self.with_small("64k", ["true"]), capture_output=True, text=True, check=False)
        if probe.returncode != 0:
            self.skipTest(f"a small file system can not be mounted here: {probe.stderr.strip()}")

    def with_small(self, size, command):
        """The command; only for this command, `self.small` is a file system of `size` bytes."""
        return self.mounted(SMALL, command, size, str(self.small))

    def test_of_the_kernel_cache(self):
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = self.cuspan("run", "--same-node", path, "--", app("vector_add", "shared"))
                result = self.run_command(self.with_small("4k", command),
                                          self.environment(CUSPAN_SOFT_CACHE=str(self.small)))
                self.assertIn("PASS", result.stdout)
                lines = own_lines(result.stderr)
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn(f"{self.small}: No space left on device", lines[0])
        self.assert_nothing_left()

    def test_of_a_trace(self):
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = self.cuspan("run", "--same-node", path, "--trace", str(self.small / "trace.json"), "--",
                                      app("vector_add", "shared"))
                result = self.run_command(self.with_small("4k", command))
                self.assertIn("PASS", result.stdout)
                lines = own_lines(result.stderr)
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn(f"{self.small}/trace.json: No space left on device", lines[0])
        self.assert_nothing_left()

    def test_of_the_lock_folder(self):
        """Without a lease the run does not start; the message names a remedy."""
        fill = 'head -c 65536 /dev/zero > "$1/fill" 2>/dev/null; shift; exec "$@"'
        command = self.cuspan("run", "--", "true")
        result = self.run_command(self.with_small("4k", ["sh", "-c", fill, "sh", str(self.small), *command]),
                                  self.environment(CUSPAN_LEASES="on", CUSPAN_LEASE_FOLDER=str(self.small)),
                                  status=OWN_FAILURE)
        self.assertEqual(result.stdout, "")
        lines = own_lines(result.stderr)
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn(f"no space for GPU locks in {self.small}", lines[0])
        self.assert_nothing_left()

    def test_with_room_all_is_written(self):
        trace = self.small / "trace.json"
        kept = self.folder / "kept.json"
        script = f'"$@" && cp {trace} {kept} && test -n "$(ls {self.small}/*.kernel)"'
        command = self.cuspan("run", "--trace", str(trace), "--", app("vector_add", "shared"))
        result = self.run_command(self.with_small("64m", ["sh", "-c", script, "sh", *command]),
                                  self.environment(CUSPAN_SOFT_CACHE=str(self.small)))
        self.assertEqual(own_lines(result.stderr), [])
        self.assertTrue(json.loads(kept.read_text(encoding="utf-8"))["traceEvents"])
        self.assertEqual(os.listdir(self.small), [])
