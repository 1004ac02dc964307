"""Each program of tests/apps on both paths: by `cuspan run` both kinds of binary, and those that use all
devices with 1, 2 and 4 of them; by mpirun, where the agents start the program and it does the same, one kind
with most devices. The two kinds share a run, which starts them one after the other."""
import pathlib

from harness import KINDS, Statistics, SystemTest, app, own_lines

APPS = sorted(path.stem for path in (pathlib.Path(__file__).resolve().parents[1] / "apps").glob("*.cu"))
# Smaller than a program's own choice where that takes long on a software GPU; and what a program does not
# do natively: to go on after a fault, or to load damaged code.
ARGUMENTS = {"collectives": ["1001"], "completions": ["2"], "errors": ["reset"], "ipc": ["1000"], "latches": ["10"], "libraries": ["damaged"], "managed": ["30000"], "mapped": ["30000"],
             "memory": ["16"], "peer_copies": ["16"], "peers": ["100"], "reduction": ["50007"], "resets": ["2", "fault"], "small_stacks": ["24", "first"]}
INPUT = {"filter": "one line\nand another\n"}
# Those that use every device there is.
ALL_DEVICES = {"collectives", "communicators", "completions", "fft", "libraries", "managed", "mapped", "matmul", "multi_device",
               "peer_copies", "peers", "prefetch", "transfers", "vector_add"}
# And those that use two.
TWO_DEVICES = {"conditions", "driver_vmm", "ipc", "latches"}
NO_DEVICE = {"never_cuda"}
# Those that make a device fault, load damaged code, or ask for what the software GPU does not have, of which
# cuspan says on standard error what it was.
FAULTS = {"after_fault", "clusters", "driver_api", "driver_bad_input", "driver_link", "errors", "launch_blocking", "libraries", "misaligned",
          "resets"}
# Those whose host and kernels, or kernels of two devices, use registered or pinned memory at the same time in ways
# whose order cuspan does not keep: it says so.
UNORDERED = {"latches", "mapped"}
PATHS = ("same-node", "agents")


def numbers_of_devices(name):
    if name in TWO_DEVICES:
        return (1, 2)
    return (1, 2, 4) if name in ALL_DEVICES else (1,)


ONE = 'exec "$@" < input'
# Each kind of the program with the arguments and the input, and this line between their outputs.
BETWEEN = "--- the next program"
BOTH = f"""shared=$1 static=$2
           shift 2
           "$shared" "$@" < input && echo '{BETWEEN}' && exec "$static" "$@" < input"""


class Programs(SystemTest):
    """The methods are made below, one for each combination but the kinds of binary and the number of devices."""

    def commands(self, name, kinds):
        """What is run: (kinds, command) each."""
        arguments = ARGUMENTS.get(name, [])
        # A run whose device has faulted is none to start another program in.
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
        """run(command, devices) → (command of the run, environment) of what runs the command."""
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
        # On the agent path each agent brings one device.
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
