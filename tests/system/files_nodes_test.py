"""Files of a program's node and of its GPU's node: two mount namespaces.

The program's node has the folder `here` where the GPU's node has `there`."""
import os
import random
import re
import shutil
import subprocess
import threading
import time
import unittest

from harness import OWN_FAILURE, SystemTest, program, wait_until

SIZE = 3_000_001
# Flips of a link under reads.
FLIPS = int(os.environ.get("SYSTEM_TEST_FILE_FLIPS", "10000"))
MOUNT = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


class Files(SystemTest):
    def setUp(self):
        super().setUp()
        self.there = self.folder / "data"
        self.here = self.folder / "here"
        for folder in (self.there, self.here):
            folder.mkdir()
        self.mounted(MOUNT, [])
        self.random = random.Random(1)

    def make(self, path, contents):
        path.write_bytes(contents)
        os.utime(path, (1_000_000_000, 1_000_000_000))
        return path

    def pair(self, name="file"):
        """Equal files of both nodes, not changed for a second."""
        contents = self.random.randbytes(SIZE)
        pair = self.make(self.here / name, contents), self.make(self.there / name, contents)
        self.settle(*pair)
        return pair

    @staticmethod
    def settle(*paths):
        wait_until(lambda: all(time.time() - path.stat().st_ctime > 1.1 for path in paths), "the files are older than a second")

    def follow(self, *options, name="file", arguments=(), **environment):
        """A program on the other node, with the file open."""
        inside = self.mounted(MOUNT, [program("follows", "shared"), str(self.there / name), *arguments],
                              str(self.here), str(self.there))
        command = self.cuspan("run", "--same-node", "never", "--stats", *options, "--", *inside)
        process = self.start(command, self.environment(1, CUSPAN_LOG="info", **environment))
        self.assertEqual(self.answer(process), "open")
        return process

    def reads(self, process, what="read"):
        self.tell(process, what)
        self.assertEqual(self.answer(process), "equal")

    def end(self, process):
        """Lines about the file, and the bytes sent to the device."""
        out, errors = process.communicate()
        self.assertEqual((process.returncode, out), (0, ""), errors)
        self.assert_nothing_left()
        about = [line.split(str(self.there), 1)[1] for line in errors.splitlines() if f"]: {self.there}" in line]
        read = re.search(r"files: (\S+ \S+) read, 0 B written", errors)
        self.assertIsNotNone(read, errors)
        row = next(line for line in errors.splitlines() if re.match(r"\s*1 +0 ", line))
        sizes = re.findall(r"[\d.]+ (?:[KMGT]i)?B", row)
        return about, read.group(1), sizes[0]


class Same(Files):
    def test_no_byte_crosses(self):
        for relay in ("mpi", "ucx"):
            with self.subTest(relay=relay):
                self.relay = relay
                self.pair()
                for arguments in ((), ("direct",)):
                    process = self.follow(arguments=arguments)
                    for _ in range(3):
                        self.reads(process)
                    self.assertEqual(self.end(process), (["/file of the program is read on this node"], "8.6 MiB", "0 B"))

    def test_by_cufile(self):
        self.pair()
        process = self.follow()
        for _ in range(3):
            self.reads(process, "cufile")
        about, read, sent = self.end(process)
        self.assertEqual((set(about), read, sent), ({"/file of the program is read on this node"}, "8.6 MiB", "0 B"))

    def test_by_a_link(self):
        self.pair()
        (self.here / "link").symlink_to("file")
        process = self.follow(name="link")
        self.reads(process)
        self.assertEqual(self.end(process), (["/file of the program is read on this node"], "2.9 MiB", "0 B"))

    def test_a_link_flips_under_reads(self):
        """Each opening finds the same file or another one of equal size and time."""
        here, there = self.pair("a")
        self.make(self.there / "b", self.random.randbytes(SIZE))
        (self.here / "file").symlink_to("a")
        links = self.there / "a", self.there / "b"
        self.settle(*links)
        # The system reports the path without links of the program's node.
        there.rename(self.there / "same")
        self.settle(self.there / "same")
        flips = 0
        ended = threading.Event()

        def flip():
            nonlocal flips
            while not ended.is_set() or flips < FLIPS:
                new = self.there / "new"
                new.symlink_to(("same", "b")[flips % 2])
                new.rename(self.there / "a")
                flips += 1

        (self.there / "a").symlink_to("same")
        process = self.follow()
        thread = threading.Thread(target=flip)
        thread.start()
        self.reads(process, "60")
        ended.set()
        thread.join()
        lines, _, _ = self.end(process)
        self.assertEqual(here, self.here / "a")
        self.assertEqual({line.split(" of the program is ")[1] for line in lines},
                         {"read on this node", "not read on this node: its bytes are others"})


class Others(Files):
    """The program gets the bytes of its own file, and one line names the difference."""
    LINE = "/file of the program is not read on this node: "

    def check(self, line, *options, arguments=(), **environment):
        process = self.follow(*options, arguments=arguments, **environment)
        self.reads(process)
        self.assertEqual(self.end(process), ([self.LINE + line] if line else [], "2.9 MiB", "2.9 MiB"))

    def test_none(self):
        self.pair()[1].unlink()
        self.check("it can not be opened: No such file or directory")

    def test_a_size(self):
        _, there = self.pair()
        self.make(there, self.random.randbytes(SIZE + 1))
        self.settle(there)
        self.check(f"its size is another: {SIZE + 1} bytes, the program's {SIZE}")

    def test_a_time(self):
        _, there = self.pair()
        os.utime(there, (1_000_000_001, 1_000_000_001))
        self.settle(there)
        self.check("the time of its last write is another: 1000000001 s since 1970, the program's 1000000000")

    def test_bytes(self):
        _, there = self.pair()
        self.make(there, self.random.randbytes(SIZE))
        self.settle(there)
        self.check("its bytes are others")

    def test_one_changed_just_now(self):
        self.pair()
        stop = threading.Event()

        def touch():
            while not stop.is_set():
                os.chmod(self.there / "file", 0o600)

        thread = threading.Thread(target=touch)
        thread.start()
        try:
            self.check("it was changed within the last second")
        finally:
            stop.set()
            thread.join()

    def test_other_kinds(self):
        _, there = self.pair()
        there.unlink()
        there.mkdir()
        self.check("that is no regular file")
        there.rmdir()
        os.mkfifo(there)
        self.check("that is no regular file")
        there.unlink()
        there.symlink_to("/dev/zero")
        self.check("that is no regular file")
        there.unlink()
        there.symlink_to("file")
        self.check("it can not be opened: Too many levels of symbolic links")

    def test_descriptors_for_writing(self):
        self.pair()
        self.check("", arguments=("write",))

    def test_when_switched_off(self):
        self.pair()
        self.check("", "--files", "off")
        self.check("", CUSPAN_FILES="off")
        result = self.run_command(self.cuspan("run", "--files", "on", "--", "true"), status=None)
        self.assertIn("--files must be auto or off, not 'on'", result.stderr)


class Changes(Files):
    """The file of the GPU's node changes after it was found to be the same."""
    CHANGED = "/file was changed, or can not be read: from now on the program's node reads its own"
    OWN = "/file of the program was changed: from now on the program's node reads its own"

    def check(self, change):
        _, there = self.pair()
        process = self.follow()
        self.reads(process)
        change(there)
        self.reads(process)
        self.reads(process)
        lines, read, crossed = self.end(process)
        self.assertEqual((lines[1:], read, crossed), ([self.CHANGED], "8.6 MiB", "5.7 MiB"))

    def overwrite(self, path):
        with path.open("r+b") as file:
            file.write(self.random.randbytes(SIZE))
        os.utime(path, (1_000_000_000, 1_000_000_000))

    def test_bytes(self):
        self.check(self.overwrite)

    def test_the_end(self):
        self.check(lambda path: os.truncate(path, SIZE // 2))

    def test_nothing_left(self):
        self.check(lambda path: os.truncate(path, 0))

    def test_gone(self):
        self.check(lambda path: path.unlink())  # pylint: disable=unnecessary-lambda

    def test_replaced(self):
        def replace(path):
            other = self.make(self.there / "other", self.random.randbytes(SIZE))
            shutil.move(other, path)

        self.check(replace)

    def test_the_programs_file(self):
        """Its bytes are read from its node from then on."""
        here, _ = self.pair()
        process = self.follow()
        self.reads(process)
        self.overwrite(here)
        self.reads(process)
        lines, read, crossed = self.end(process)
        self.assertEqual((lines[1:], read, crossed), ([self.OWN], "5.7 MiB", "2.9 MiB"))

    def test_the_programs_file_by_a_host_function(self):
        """The function is behind earlier work of the stream; the read after it gets its bytes."""
        self.pair()
        process = self.follow()
        self.reads(process)
        self.reads(process, "host")
        lines, _, crossed = self.end(process)
        self.assertEqual((lines[1:], crossed), ([self.OWN], "2.9 MiB"))

    def test_while_it_is_read(self):
        _, there = self.pair()
        process = self.follow()
        ended = threading.Event()

        def write():
            self.reads_done.wait()
            with there.open("r+b") as file:
                while not ended.is_set():
                    file.seek(self.random.randrange(SIZE))
                    file.write(self.random.randbytes(5000))
                    file.flush()

        self.reads_done = threading.Event()
        thread = threading.Thread(target=write)
        thread.start()
        self.reads(process)
        self.reads_done.set()
        for _ in range(20):
            self.reads(process)
        ended.set()
        thread.join()
        self.assertEqual(self.end(process)[0][1:], [self.CHANGED])


READ, WRITE, CREATE, TRUNCATE, DIRECT = 1, 2, 4, 8, 16


class OnGpuNode(Files):
    """Files of the GPU's node, opened by name."""

    def named(self, name, flags, *options, opened="open"):
        """A program with the file of this name open, or with its explanation of the failure."""
        inside = self.mounted(MOUNT, [program("follows", "shared"), name, str(flags), str(self.folder / "expected")],
                              str(self.here), str(self.there))
        command = self.cuspan("run", "--same-node", "never", "--stats", *options, "--", *inside)
        process = self.start(command, self.environment(1, CUSPAN_LOG="info"))
        self.assertEqual(self.answer(process), opened)
        return process

    def root(self, text=""):
        return "--file-root", f"{self.there}{text}"

    def refused(self, name, expected, *options, flags=READ):
        process = self.named(name, flags, *options, opened=expected)
        process.communicate()
        self.assertEqual(process.returncode, 0)
        self.assert_nothing_left()

    def only_there(self, name="file"):
        contents = self.random.randbytes(SIZE)
        self.make(self.folder / "expected", contents)
        return self.make(self.there / name, contents)


class Named(OnGpuNode):
    """Files of the GPU's node, opened by name."""

    def test_is_read_there(self):
        for relay in ("mpi", "ucx"):
            for flags in (READ, READ | DIRECT):
                with self.subTest(relay=relay, flags=flags):
                    self.relay = relay
                    self.only_there()
                    process = self.named(str(self.there / "file"), flags, *self.root())
                    self.reads(process)
                    self.reads(process, "5")
                    self.assertEqual(self.end(process), ([], "17.2 MiB", "0 B"))

    def test_the_longest_root_counts(self):
        (self.there / "a").mkdir()
        self.only_there("a/file")
        process = self.named("/data/deep/file", READ, "--file-root", "/data=/nowhere,/data/deep/=" + str(self.there / "a/"),
                             "--file-root", "/data/deep/file/more=/nowhere")
        self.reads(process)
        self.assertEqual(self.end(process)[2], "0 B")

    def test_is_written_there(self):
        expected = self.only_there().read_bytes()
        self.make(self.there / "file", b"x" * (SIZE + 10))
        options = self.root(":rw")
        process = self.named(str(self.there / "file"), READ | WRITE, *options)
        self.reads(process, "write")
        process.communicate()
        self.assertEqual((self.there / "file").read_bytes(), expected + b"x" * 10)
        process = self.named(str(self.there / "file"), READ | WRITE | TRUNCATE, *options)
        self.reads(process, "write")
        self.reads(process)
        process.communicate()
        process = self.named(str(self.there / "new"), WRITE | CREATE | DIRECT, *options)
        self.reads(process, "write")
        process.communicate()
        for name in ("file", "new"):
            self.assertEqual((self.there / name).read_bytes(), expected)
        self.assertEqual(list(self.here.iterdir()), [])

    def test_without_a_root_it_is_the_programs(self):
        here, there = self.pair()
        shutil.copy2(here, self.folder / "expected")
        for options in ((), ("--file-root", "/other")):
            process = self.named(str(there), READ, *options)
            self.reads(process)
            self.assertEqual(self.end(process)[2], "0 B")
        self.make(there, self.random.randbytes(SIZE))
        process = self.named(str(there), READ)
        self.reads(process)
        self.assertEqual(self.end(process)[2], "2.9 MiB")

    def test_under_another_name_it_is_the_same(self):
        _, there = self.pair()
        other = self.folder / "other"
        other.mkdir()
        there.rename(other / "file")
        (other / "out").symlink_to(other / "file")
        self.settle(other / "file")
        process = self.follow("--file-root", f"{self.there}={other}")
        self.reads(process)
        lines, _, crossed = self.end(process)
        self.assertEqual((lines, crossed), (["/file of the program is read on this node"], "0 B"))

    def test_wrong_options(self):
        for text in ("data", "/", "/data=", "=/data", "/data=data", ":rw", ",", "/data,,/more", "/data:rw,/data"):
            with self.subTest(text=text):
                result = self.run_command(self.cuspan("run", "--file-root", text, "--", "true"), status=OWN_FAILURE)
                self.assertRegex(result.stderr, r"^cuspan: --file-root \S*: (use DIR, DIR=THERE or DIR:rw, with absolute paths of "
                                 r"directories below /|/data is named twice)\n$")
        result = self.run_command(self.cuspan("run", "--file-root", "/data", "--files", "off", "--", "true"), status=OWN_FAILURE)
        self.assertIn("--file-root /data needs --files auto", result.stderr)


if __name__ == "__main__":
    unittest.main()
