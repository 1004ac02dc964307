"""Base of the tests of arrays in files: runs the program `store` with any driver."""
from harness import SystemTest, build, own_lines, program, ways


def image():
    """The kernels of the program `store`."""
    return program("kernels.ptx", "store")


# A place of the software GPU: the program's own libcuda.so.1. The others are ways of runs.
NATIVE = "native"


class StoreCase(SystemTest):
    @staticmethod
    def places():
        return (NATIVE, *ways())

    def run_store(self, place, test, *arguments, file_root=True, status=0, preexec_fn=None, **variables):
        """Runs the program `store` at a place. With `file_root`, a run's agents read the folder's files on their node;
        otherwise files changed just now are those of the program's node."""
        environment = self.environment(1, **variables)
        command = [program("store", "store"), image(), test, *map(str, arguments)]
        if place == NATIVE:
            environment["LD_LIBRARY_PATH"] = f"{build()}/lib:{build()}/lib/cuspan/soft"
            return self.run_command(command, environment, status=status, preexec_fn=preexec_fn)
        path, self.relay = place
        root = ["--file-root", str(self.folder)] if file_root and path == "never" else []
        return self.run_command(self.cuspan("run", "--same-node", path, *root, "--", *command), environment,
                                status=status, preexec_fn=preexec_fn)

    def assert_passes(self, result, expected):
        self.assertEqual((result.stdout, own_lines(result.stderr)), (expected, []))
