"""Files of the driver, used by programs to look for GPUs before they call CUDA, on a node without a driver."""
import json
import os
import pathlib
import sys
import unittest

from harness import SystemTest, app, own_lines

NODE_HAS_DRIVER = any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/nvidiactl", "/proc/driver/nvidia"))
DEVICES = ["/dev/nvidia0", "/dev/nvidia1"]
FILES = DEVICES + ["/dev/nvidiactl", "/dev/nvidia-uvm"]
# All ways to query a file in C, by name.
SOURCE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
int main(int argc, char** argv) {
  const char* way = argv[1];
  const char* path = argv[2];
  struct stat s;
  struct statx x;
  memset(&s, 0, sizeof s);
  int result = -1;
  if (!strcmp(way, "stat")) result = stat(path, &s);
  if (!strcmp(way, "lstat")) result = lstat(path, &s);
  if (!strcmp(way, "fstatat")) result = fstatat(AT_FDCWD, path, &s, 0);
  if (!strcmp(way, "in folder")) result = fstatat(open("/dev", O_RDONLY), path + 5, &s, 0);
  if (!strcmp(way, "relative")) result = chdir("/dev") || stat(path + 5, &s);
  if (!strcmp(way, "statx")) {
    result = statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &x);
    s.st_mode = x.stx_mode;
    s.st_rdev = makedev(x.stx_rdev_major, x.stx_rdev_minor);
  }
  if (!strcmp(way, "access")) return access(path, R_OK | W_OK);
  if (!strcmp(way, "execute")) return access(path, X_OK) == -1 && errno == EACCES ? 0 : 1;
  if (!strcmp(way, "faccessat")) return faccessat(AT_FDCWD, path, F_OK, 0);
  if (!strcmp(way, "euidaccess")) return euidaccess(path, R_OK);
  if (!strcmp(way, "open")) return open(path, O_RDWR) == -1 ? 0 : 1;
  if (!strcmp(way, "glob")) {
    glob_t found;
    if (glob(path, 0, NULL, &found) != 0) return 1;
    for (size_t i = 0; i < found.gl_pathc; ++i) printf("%s\n", found.gl_pathv[i]);
    globfree(&found);
    return 0;
  }
  if (!strcmp(way, "again")) {
    DIR* folder = opendir("/dev");
    int seen = 0;
    for (int round = 0; round < 2; ++round, rewinddir(folder))
      for (struct dirent* entry; (entry = readdir(folder)) != NULL;) seen += !strcmp(entry->d_name, "nvidia0");
    closedir(folder);
    return seen == 2 ? 0 : 1;
  }
  if (result != 0) return 1;
  printf("%o %u:%u\n", s.st_mode, major(s.st_rdev), minor(s.st_rdev));
  return 0;
}
"""


@unittest.skipIf(NODE_HAS_DRIVER, "this machine has NVIDIA's driver, whose files programs see")
class DriverFiles(SystemTest):
    def run_two(self, *command, status=0):
        return self.run_command(self.cuspan("run", "--gpus", "2", "--", *command), self.environment(2), status=status).stdout

    def python(self, code):
        return json.loads(self.run_two(sys.executable, "-c", f"import glob, json, os, pathlib, stat; print(json.dumps({code}))"))

    def test_every_way_in_c(self):
        source = self.folder / "asks.c"
        source.write_text(SOURCE, encoding="utf-8")
        asks = str(self.folder / "asks")
        self.run_command(["gcc", "-O2", str(source), "-o", asks])
        for way in ("stat", "lstat", "fstatat", "in folder", "relative", "statx"):
            for path, device in (("/dev/nvidia0", "195:0"), ("/dev/nvidia1", "195:1"), ("/dev/nvidiactl", "195:255")):
                with self.subTest(way=way, path=path):
                    self.assertEqual(self.run_two(asks, way, path), f"20666 {device}\n")
            with self.subTest(way=way):
                self.run_two(asks, way, "/dev/nvidia2", status=1)
        for way in ("access", "execute", "faccessat", "euidaccess", "open", "again"):
            with self.subTest(way=way):
                self.run_two(asks, way, "/dev/nvidia0")
        self.assertEqual(self.run_two(asks, "glob", "/dev/nvidia[0-9]*").split(), DEVICES)
        # Outside of a run the files do not exist.
        self.run_command([asks, "stat", "/dev/nvidia0"], status=1)

    def test_python(self):
        self.assertEqual(self.python("[os.path.exists(f) for f in ('/dev/nvidia0', '/dev/nvidiactl', '/dev/nvidia7', '/dev/nvidia00')]"),
                         [True, True, False, False])
        self.assertEqual(self.python("sorted(glob.glob('/dev/nvidia*'))"), sorted(FILES))
        self.assertEqual(self.python("pathlib.Path('/dev/nvidia0').is_char_device()"), True)
        self.assertEqual(self.python("[e.name for e in os.scandir('/dev') if e.name.startswith('nvidia')]"),
                         [pathlib.Path(file).name for file in FILES])

    def test_shell(self):
        self.assertEqual(self.run_two("bash", "-c", "test -c /dev/nvidia0 && [[ -e /dev/nvidia1 && ! -e /dev/nvidia2 ]] && echo /dev/nvidia?"),
                         "/dev/nvidia0 /dev/nvidia1\n")
        self.assertEqual(sorted(self.run_two("find", "/dev", "-maxdepth", "1", "-name", "nvidia*", "-type", "c").split()), sorted(FILES))
        self.run_two("cat", "/dev/nvidia0", status=1)

    def test_the_folder_of_gpus(self):
        addresses = self.run_two("ls", "/proc/driver/nvidia/gpus").split()
        self.assertEqual(len(addresses), 2)
        text = self.run_two("cat", *(f"/proc/driver/nvidia/gpus/{address}/information" for address in addresses))
        self.assertEqual(text.count("Model: \t\t cuspan software GPU\n"), 2)
        self.assertEqual([line.split()[-1] for line in text.splitlines() if line.startswith("Device Minor")], ["0", "1"])
        self.assertEqual(self.python("[pathlib.Path('/proc/driver/nvidia/gpus').is_dir(), len(os.listdir('/proc/driver/nvidia/gpus')), "
                                     "len(list(pathlib.Path('/proc/driver/nvidia/gpus').glob('*/information')))]"), [True, 2, 2])
        # The software GPU has no driver version.
        self.run_two("cat", "/proc/driver/nvidia/version", status=1)

    def test_no_process_uses_a_device_by_it(self):
        result = self.run_command(self.cuspan("run", "--stats", "--", "ls", "/dev/nvidia0"))
        self.assertNotIn("software GPU", result.stderr)
        self.assert_nothing_left()

    def test_a_program_that_cannot_be_told(self):
        """A static program: cuspan prints a message at its end, unless the run used its devices."""
        source = self.folder / "starts.c"
        source.write_text("#include <unistd.h>\nint main(int count, char** words) { return count > 1 ? execv(words[1], words + 1) : 0; }\n",
                          encoding="utf-8")
        starts = str(self.folder / "starts")
        self.run_command(["gcc", "-static", str(source), "-o", starts])
        alone = self.run_command(self.cuspan("run", "--", starts))
        self.assertRegex(alone.stderr, rf"^cuspan: no process of the run used a GPU\. {starts} calls .* cannot see .*\n$")
        used = self.run_command(self.cuspan("run", "--", starts, app("vector_add", "static")))
        self.assertEqual(own_lines(used.stderr), [])
