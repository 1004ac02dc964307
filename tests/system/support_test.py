"""Unsupported features: named once, refused, and with --strict the end of the program."""
import json

from harness import KINDS, SystemTest, own_lines, program

# EX_UNAVAILABLE of sysexits.h.
UNAVAILABLE = 69


class Support(SystemTest):
    def test_refused_and_named_once(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                result = self.run_command(self.cuspan("run", "--", program("unsupported", kind)))
                self.assertEqual(result.stdout.split(), ["before"] + 3 * ["cudaErrorNotSupported"])
                lines = own_lines(result.stderr)
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn("cudaGraphicsUnmapResources", lines[0])

    def test_strict_ends_the_program(self):
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = self.cuspan("run", "--strict", "--same-node", path, "--", program("unsupported", "static"))
                result = self.run_command(command, status=UNAVAILABLE)
                self.assertEqual(result.stdout, "before\n")
                lines = own_lines(result.stderr)
                self.assertEqual(len(lines), 2, result.stderr)
                self.assertIn("cudaGraphicsUnmapResources", lines[0])
                self.assertIn("CUSPAN_STRICT", lines[1])
        self.assert_nothing_left()

    def test_a_kernel_refused_at_its_launch(self):
        """The launch compiles it: the error is printed once; a strict run ends before its results are read."""
        for path in ("auto", "never"):
            with self.subTest(same_node=path):
                command = ["--same-node", path, "--", program("refused_kernel", "shared")]
                result = self.run_command(self.cuspan("run", *command))
                self.assertEqual(result.stdout.split(), ["before"] + 2 * ["cudaErrorInvalidPtx"])
                self.assertEqual(len(own_lines(result.stderr)), 1, result.stderr)
                self.assertRegex(result.stderr, "kernel .*Refused.*tex.2dms.*CUDA error 218")
                result = self.run_command(self.cuspan("run", "--strict", *command), status=UNAVAILABLE)
                self.assertEqual(result.stdout, "before\n")
                lines = own_lines(result.stderr)
                self.assertEqual(len(lines), 2, result.stderr)
                self.assertTrue(any("tex.2dms" in line for line in lines), result.stderr)
                self.assertTrue(any("CUSPAN_STRICT" in line for line in lines), result.stderr)

    def test_strict_lets_others_be(self):
        self.run_command(self.cuspan("run", "--strict", "--", program("ends", "static"), "exit", "0"))

    def test_table(self):
        result = self.run_command(self.cuspan("support"))
        rows = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
        self.assertEqual(rows["cudaMalloc"], "supported")
        self.assertEqual(rows["cudaGraphicsUnmapResources"], "not supported")
        self.assertRegex(rows["cudaHostRegister"], "^partly: ")
        self.assertEqual(sorted(rows), list(rows))
        self.assertFalse([name for name in rows if name.startswith("__") or name.endswith("_ptsz")])

    def test_named_functions_and_json(self):
        result = self.run_command(self.cuspan("support", "--json", "cudaFree", "cudaGraphicsUnmapResources"))
        self.assertEqual(json.loads(result.stdout),
                         [{"function": "cudaFree", "support": "supported", "missing": ""},
                          {"function": "cudaGraphicsUnmapResources", "support": "not", "missing": ""}])

    def test_unknown_function(self):
        result = self.run_command(self.cuspan("support", "cudaNoSuchThing"), status=1)
        self.assertEqual(result.stdout, "")
        self.assertIn("cudaNoSuchThing", result.stderr)
