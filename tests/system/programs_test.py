"""Each program of tests/apps on both paths. By `cuspan run`: both kinds of binary in one run, one after the other;
programs using all devices with 1, 2 and 4 devices. By mpirun, with agents starting the program: one kind of binary
with the largest number of devices."""
import pathlib

from harness import KINDS, Statistics, SystemTest, app, own_lines

# cufile_test has the programs of cuFile.
APPS = sorted(path.stem for path in (pathlib.Path(__file__).resolve().parents[1] / "apps").glob("*.cu")
              if not path.stem.startswith("cufile"))
# Arguments of programs: smaller sizes for long runs on a software GPU, and actions not possible natively (continuing
# after a fault, loading damaged code).
ARGUMENTS = {"collectives": ["1001"], "completions": ["2"], "errors": ["reset"], "ipc": ["1000"], "latches": ["10"], "launch_waits": ["100"], "libraries": ["damaged"], "managed": ["30000"], "mapped": ["30000"],
             "memory": ["16"], "peer_copies": ["16"], "peers": ["100"], "reduction": ["50007"], "registered": ["30000"], "resets": ["2", "fault"], "small_stacks": ["24", "first"]}
INPUT = {"filter": "one line\nand another\n"}
# Programs using all existing devices.
ALL_DEVICES = {"collectives", "communicators", "completions", "fft", "libraries", "managed", "mapped", "matmul", "multi_device",
               "peer_copies", "peers", "prefetch", "registered", "transfers", "vector_add"}
# Programs using two devices.
TWO_DEVICES = {"conditions", "driver_vmm", "ipc", "latches"}
NO_DEVICE = {"never_cuda"}
# Programs causing a device fault, loading damaged code, or using features missing in the software GPU. cuspan prints a
# line about each.
FAULTS = {"after_fault", "clusters", "driver_api", "driver_bad_input", "driver_link", "errors", "launch_blocking", "libraries", "misaligned",
          "resets"}
# Programs with simultaneous accesses to registered or pinned memory, by host and kernels or by kernels of two devices.
# cuspan does not keep their order, and prints a line about it.
UNORDERED = {"latches", "mapped", "registered"}
PATHS = ("same-node", "agents")


def numbers_of_devices(name):
    if name in TWO_DEVICES:
        return (1, 2)
    return (1, 2, 4) if name in ALL_DEVICES else (1,)


ONE = 'exec "$@" < input'
# Runs each kind of the program with the arguments and the input; this line separates the outputs.
BETWEEN = "--- the next program"
BOTH = f"""shared=$1 static=$2
           shift 2
           "$shared" "$@" < input && echo '{BETWEEN}' && exec "$static" "$@" < input"""


class Programs(SystemTest):
    """_add_cases() adds a method for each combination of program, path and way to start it."""

    def commands(self, name, kinds):
        """Commands of the runs, as (kinds, command)."""
        arguments = ARGUMENTS.get(name, [])
        # After a device fault, no other program can start in the run.
        if name in FAULTS or len(kinds) == 1:
            return [((kind,), ["sh", "-c", ONE, "sh", app(name, kind), *arguments]) for kind in kinds]
        return [(KINDS, ["sh", "-c", BOTH, "sh", *(app(name, kind) for kind in KINDS), *arguments])]

    def check_output(self, name, kinds, result):
        if name not in FAULTS:
            lines = [line for line in own_lines(result.stderr) if name not in UNORDERED or "in another order" not in line]
            self.assertEqual(lines, [], "cuspan has something to say")
        outputs = result.stdout.split(f"{BETWEEN}\n")
        self.assertEqual(len(outputs), len(kinds), result.stdout)
        for output in outputs:
            if name == "filter":
                self.assertEqual(output, INPUT[name].upper())
            else:
                self.assertIn("PASS", output)

    def check_statistics(self, name, kinds, path, devices, result):
        statistics = Statistics(result.stderr)
        if name in NO_DEVICE:
            self.assertEqual(statistics.rows, [])
            return
        self.assertEqual(statistics.paths(), {path})
        self.assertGreaterEqual(len(statistics.sessions()), len(kinds))
        for session in statistics.sessions():
            self.assertLessEqual(statistics.devices(session), set(range(devices)))
            if name in ALL_DEVICES:
                self.assertEqual(statistics.devices(session), set(range(devices)))

    def check(self, name, path, numbers, kinds, run):
        """run(command, devices) → (command of the run, environment) to run the command."""
        (self.folder / "input").write_text(INPUT.get(name, ""), encoding="utf-8")
        for devices in numbers:
            for kinds, command in self.commands(name, kinds):
                with self.subTest(devices=devices, kinds=kinds):
                    result = self.run_command(*run(command, devices))
                    self.check_statistics(name, kinds, path, devices, result)
                    self.check_output(name, kinds, result)

    def through_cuspan_run(self, name, path):
        same_node = "auto" if path == "same-node" else "never"
        shown = "same-node" if path == "same-node" else self.relay
        self.check(name, shown, numbers_of_devices(name), KINDS, lambda command, devices: (
            self.cuspan("run", "--gpus", str(devices), "--same-node", same_node, "--stats", "--", *command),
            self.environment(devices)))

    def through_mpirun(self, name, path):
        # On the agent path each agent has one device.
        shown = "same-node" if path == "same-node" else "mpi"
        kind = KINDS[APPS.index(name) % len(KINDS)]
        self.check(name, shown, numbers_of_devices(name)[-1:], (kind,), lambda command, devices: (
            self.mpirun(devices, path, command), self.environment(devices if path == "same-node" else 1)))


def _add_cases():
    for name in APPS:
        for path in PATHS:
            for how in ("cuspan_run", "mpirun"):
                def case(self, name=name, path=path, how=how):
                    getattr(self, f"through_{how}")(name, path)
                setattr(Programs, f"test_{name}_{how}_{path.replace('-', '_')}", case)


_add_cases()
