"""Names and users that open no file of the GPU's node. See also NamedFileTest and CounterpartTest."""
import os
import subprocess
import unittest

from files_nodes_test import CREATE, OnGpuNode, READ, TRUNCATE, WRITE
from harness import build, program

NOBODY = 65534
NONE = "5 the file can not be opened: No such file or directory"
LEADS_OUT = "4 the file is not beneath its --file-root on the GPU's node: a link leads out"
READ_ONLY = "4 the file may only be read on the GPU's node: use --file-root DIR:rw"
OTHER_KIND = "7 it is not a regular file"


class Names(OnGpuNode):
    def test_of_roots(self):
        self.only_there()
        data = str(self.there)
        (self.there / "folder").mkdir()
        os.mkfifo(self.there / "fifo")
        (self.there / "out").symlink_to("/etc/passwd")
        (self.there / "nowhere").symlink_to("none")
        self.refused(f"{data}/../here/file", NONE, *self.root())
        self.refused(f"{data}/../../../etc/passwd", LEADS_OUT, *self.root())
        self.refused(f"{data}/out", LEADS_OUT, *self.root())
        self.refused(f"{data}/none", NONE, *self.root())
        self.refused(f"{data}/nowhere", "5 the file can not be opened: File exists", *self.root(":rw"), flags=WRITE | CREATE)
        self.refused(f"{data}/folder", OTHER_KIND, *self.root())
        self.refused(f"{data}/fifo", OTHER_KIND, *self.root())
        self.refused(f"{data}/file", READ_ONLY, *self.root(), flags=READ | WRITE)
        self.refused(f"{data}/x/" + "y" * 300, NONE, *self.root())
        self.refused(f"{data}/" + "y" * 300, "5 the file can not be opened: File name too long", *self.root())
        wrong = "1 {} are no flags to open a file: it is read or written, and created or emptied only if it is written"
        for flags in (32, READ | CREATE, TRUNCATE):
            self.refused(f"{data}/file", wrong.format(flags), *self.root(), flags=flags)
        self.refused("", "1 there is no path of the file")

    def test_of_roots_in_roots(self):
        """The root of the file itself says if it is written."""
        self.only_there()
        (self.there / "ro").mkdir()
        self.make(self.there / "ro" / "file", b"some bytes")
        (self.there / "link").symlink_to("ro")
        roots = ("--file-root", f"{self.there}:rw,{self.there}/ro")
        for name in ("ro/file", "/ro/file", "./ro/file", "link/file", "x/../ro/file"):
            expected = NONE if name.startswith("x") else READ_ONLY
            self.refused(f"{self.there}/{name}", expected, *roots, flags=WRITE | TRUNCATE)
        self.assertEqual((self.there / "ro" / "file").read_bytes(), b"some bytes")

    @unittest.skipUnless(os.geteuid() == 0, "only root can make devices")
    def test_of_devices(self):
        device = self.there / "device"
        try:
            os.mknod(device, 0o666 | 0o020000, os.makedev(1, 5))
        except PermissionError as refused:
            self.skipTest(f"no device can be made: {refused}")
        for flags in (READ, READ | WRITE):
            self.refused(str(device), OTHER_KIND, *self.root(":rw"), flags=flags)


class Users(OnGpuNode):
    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_files_of_others(self):
        """The proxy has the rights of the run's user, no more."""
        if not os.access(build(), os.X_OK) or any(not path.stat().st_mode & 1 for path in build().resolve().parents):
            self.skipTest("another user can not run this build")
        self.folder.chmod(0o755)
        self.temporary.chmod(0o777)
        secret = self.make(self.there / "secret", self.random.randbytes(100_000))
        secret.chmod(0o600)
        self.settle(secret)
        command = self.cuspan("run", "--same-node", "never", *self.root(), "--", program("follows", "shared"), str(secret),
                              str(READ))
        environment = self.environment(1, HOME=str(self.temporary), CUSPAN_SOFT_CACHE="off")
        result = subprocess.run(command, env=environment, user=NOBODY, group=NOBODY, extra_groups=[], cwd=self.folder,
                                capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual((result.returncode, result.stdout), (0, "5 the file can not be opened: Permission denied\n"),
                         result.stderr)
        self.assert_nothing_left()
