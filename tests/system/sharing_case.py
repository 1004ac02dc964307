"""Common parts of the tests of runs sharing a GPU."""
import os
import threading

from harness import SystemTest, wait_until


class Counter:
    """A run of the program counts.cu or a similar one, printing a rising number."""

    def __init__(self, test, process):
        self.test = test
        self.process = process
        self.count = 0
        self.last = ""
        self.reader = None
        test.assertEqual(process.stdout.readline().strip(), "ready", "it has its GPU")

    def go(self):
        self.test.tell(self.process, "go")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        return self

    def read(self):
        for line in self.process.stdout:
            self.last = line.strip()
            if self.last.isdigit():
                self.count = int(self.last)

    def runs(self, more):
        """Waits until it has run `more` further kernels."""
        goal = self.count + more
        wait_until(lambda: self.count >= goal or self.process.poll() is not None,
                   lambda: f"{goal} kernels: {self.count}")
        self.test.assertGreaterEqual(self.count, goal, f"it goes on: {self.last}")

    def end(self):
        """Ends the run and checks that all its launches were executed. Returns its standard error."""
        self.process.stdin.close()
        self.reader.join(60)
        status, errors = self.process.wait(60), self.process.stderr.read()
        self.test.assertEqual(status, 0, errors)
        self.test.assertRegex(self.last, r"^counted (\d+) of \1$")
        return errors


class SharingTest(SystemTest):
    """Sets folders of locks and tables of its own, and kernels taking half a millisecond per block."""

    def setUp(self):
        super().setUp()
        self.locks = self.folder / "locks"
        self.tables = self.folder / "tables"
        for folder in (self.locks, self.tables):
            folder.mkdir()
            folder.chmod(0o1777)

    def environment(self, devices=1, **more):
        return super().environment(devices, **{"CUSPAN_LEASE_FOLDER": str(self.locks), "CUSPAN_SHARE_FOLDER": str(self.tables),
                                               "CUSPAN_SOFT_RATE": "500", **more})

    def assert_nothing_left(self):
        super().assert_nothing_left()
        for folder in (self.locks, self.tables):
            wait_until(lambda folder=folder: not os.listdir(folder), lambda folder=folder: f"nothing is left: {os.listdir(folder)}")
