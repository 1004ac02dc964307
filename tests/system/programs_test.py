"""Each program of tests/apps: both kinds of binary, both ways to run it, both paths; those that use
all devices with 1, 2 and 4 of them."""
import pathlib

from harness import KINDS, Statistics, SystemTest, app, own_lines

APPS = sorted(path.stem for path in (pathlib.Path(__file__).resolve().parents[1] / "apps").glob("*.cu"))
# Smaller than a program's own choice where that takes long on a software GPU; and what a program does not
# do natively: to go on after a fault, or to load damaged code.
ARGUMENTS = {"completions": ["2"], "errors": ["reset"], "ipc": ["1000"], "libraries": ["damaged"], "managed": ["30000"], "mapped": ["30000"],
             "memory": ["16"], "peer_copies": ["16"], "peers": ["100"], "reduction": ["50007"], "resets": ["2", "fault"]}
INPUT = {"filter": "one line\nand another\n"}
# Those that use every device there is.
ALL_DEVICES = {"completions", "fft", "libraries", "managed", "mapped", "matmul", "multi_device", "peer_copies", "peers", "prefetch",
               "transfers", "vector_add"}
# And those that use two.
TWO_DEVICES = {"conditions", "driver_vmm", "ipc"}
NO_DEVICE = {"never_cuda"}
# Those that make a device fault, load damaged code, or ask for what the software GPU does not have, of which
# cuspan says on standard error what it was.
FAULTS = {"clusters", "driver_api", "driver_bad_input", "driver_link", "errors", "libraries", "misaligned", "resets"}
PATHS = ("same-node", "agents")


def numbers_of_devices(name):
    if name in TWO_DEVICES:
        return (1, 2)
    return (1, 2, 4) if name in ALL_DEVICES else (1,)


class Programs(SystemTest):
    """The methods are made below, one for each combination but the number of devices."""

    def check_output(self, name, result):
        if name not in FAULTS:
            self.assertEqual(own_lines(result.stderr), [], "cuspan has something to say")
        if name == "filter":
            self.assertEqual(result.stdout, INPUT[name].upper())
        else:
            self.assertIn("PASS", result.stdout)

    def check_statistics(self, name, path, devices, result):
        statistics = Statistics(result.stderr)
        if name in NO_DEVICE:
            self.assertEqual(statistics.rows, [])
            return
        self.assertEqual(statistics.paths(), {path})
        self.assertLessEqual(statistics.devices(), set(range(devices)))
        if name in ALL_DEVICES:
            self.assertEqual(statistics.devices(), set(range(devices)))

    def through_cuspan_run(self, name, kind, path):
        for devices in numbers_of_devices(name):
            with self.subTest(devices=devices):
                command = self.cuspan("run", "--gpus", str(devices), "--same-node",
                                      "auto" if path == "same-node" else "never", "--stats", "--",
                                      app(name, kind), *ARGUMENTS.get(name, []))
                result = self.run_command(command, self.environment(devices), input=INPUT.get(name, ""))
                self.check_statistics(name, path, devices, result)
                self.check_output(name, result)

    def through_mpirun(self, name, kind, path):
        for devices in numbers_of_devices(name):
            with self.subTest(devices=devices):
                command = self.mpirun(devices, path, [app(name, kind), *ARGUMENTS.get(name, [])])
                # On the agent path each agent brings one device.
                environment = self.environment(devices if path == "same-node" else 1)
                result = self.run_command(command, environment, input=INPUT.get(name, ""))
                self.check_statistics(name, path, devices, result)
                self.check_output(name, result)


def _add_cases():
    for name in APPS:
        for kind in KINDS:
            for path in PATHS:
                for how in ("cuspan_run", "mpirun"):
                    def case(self, name=name, kind=kind, path=path, how=how):
                        getattr(self, f"through_{how}")(name, kind, path)
                    setattr(Programs, f"test_{name}_{kind}_{how}_{path.replace('-', '_')}", case)


_add_cases()
