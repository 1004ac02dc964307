"""Installation into any prefix: movable, independent of the build tree, and removable."""
import os
import pathlib
import re
import shutil
import subprocess

from harness import OWN_FAILURE, Statistics, SystemTest, app, build

# Programs load either name of each library.
NAMES_OF_THE_DRIVER = [f"lib/cuspan/runtime/{library}.so{version}"
                       for library in ("libcuda", "libnvidia-ml") for version in ("", ".1")]
VENDOR_NAMES = re.compile(r"^lib(cuda|cudart|nv[a-z]*)(\.|-|$)")


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


class Install(SystemTest):
    def setUp(self):
        super().setUp()
        self.prefix = self.folder / "prefix"
        self.manifest = build() / "install_manifest.txt"
        # The manifest of an earlier installation of this build tree is restored.
        before = self.manifest.read_bytes() if self.manifest.exists() else None
        self.addCleanup(lambda: self.manifest.write_bytes(before) if before is not None
                        else self.manifest.unlink(missing_ok=True))
        self.run_command(["cmake", "--install", str(build()), "--prefix", str(self.prefix)])

    def hidden(self, command):
        """The command with the build tree's commands and libraries hidden."""
        script = (f'mount -t tmpfs none "{build()}/bin" && mount -t tmpfs none "{build()}/lib" && exec "$@"')
        return self.mounted(script, command)

    def check_runs(self, prefix, wrap=lambda command: command):
        for kind in ("shared", "static"):
            for path in ("auto", "never"):
                result = self.run_command(wrap([str(prefix / "bin/cuspan"), "run", "--gpus", "2", "--same-node", path,
                                                "--stats", "--", app("vector_add", kind)]), self.environment(2))
                self.assertIn("PASS", result.stdout)
                self.assertEqual(Statistics(result.stderr).devices(), {0, 1})

    def test_runs_without_the_build_tree(self):
        probe = subprocess.run(self.hidden(["true"]), capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest("this user can not hide folders from a program")
        self.check_runs(self.prefix, self.hidden)

    def test_runs_from_where_it_was_moved(self):
        moved = self.folder / "elsewhere"
        self.prefix.rename(moved)
        self.check_runs(moved)

    def test_shells_find_what_completes_the_command_line(self):
        for shell, place in (("bash", "bash-completion/completions/cuspan"), ("zsh", "zsh/site-functions/_cuspan"),
                             ("fish", "fish/vendor_completions.d/cuspan.fish")):
            script = self.run_command([str(self.prefix / "bin/cuspan"), "completion", shell]).stdout
            self.assertEqual((self.prefix / "share" / place).read_text(), script)

    def test_man_finds_the_pages(self):
        pages = sorted(path.name for path in (build() / "man").iterdir())
        self.assertEqual(sorted(path.name for path in (self.prefix / "share/man/man1").iterdir()), pages)
        self.assertIn("cuspan-run.1", pages)

    def test_names_no_folder_of_the_build(self):
        """No file has a library path inside the build tree or in a folder writable by others."""
        for path in self.prefix.rglob("*"):
            if path.is_symlink() or not path.is_file() or not is_elf(path):
                continue
            dynamic = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
            for match in re.finditer(r"(?:RUNPATH|RPATH).*\[(.*)\]", dynamic):
                for folder in match.group(1).split(":"):
                    if folder.startswith("$ORIGIN"):
                        continue
                    # The system's MPI may be outside of the loader's default folders.
                    owner = os.stat(folder)
                    self.assertEqual((owner.st_uid, owner.st_mode & 0o022), (0, 0), f"{path} looks in {folder}")
            self.assertNotIn(str(build()), dynamic)

    def test_links_stay_inside(self):
        for path in self.prefix.rglob("*"):
            if path.is_symlink():
                target = os.readlink(path)
                self.assertFalse(os.path.isabs(target), f"{path} -> {target}")
                self.assertTrue(path.resolve().is_relative_to(self.prefix.resolve()))
                self.assertTrue(path.exists(), f"{path} -> {target} leads nowhere")

    def test_what_is_there_and_where(self):
        for name in ("bin/cuspan", "bin/cuspan-agent", "lib/cuspan/cuspan-proxy", "lib/cuspan/libcuspan.so",
                     "lib/cuspan/runtime/libcudart.so.11.0", "lib/cuspan/runtime/libcudart.so.12",
                     "lib/cuspan/runtime/libcudart.so.13", *NAMES_OF_THE_DRIVER, "lib/cuspan/soft/libcuda.so.1"):
            self.assertTrue((self.prefix / name).is_file(), name)
        # Folders searched by ldconfig must not have files with names of the vendor's libraries.
        for folder in (self.prefix / "bin", self.prefix / "lib"):
            self.assertEqual([path.name for path in folder.iterdir() if VENDOR_NAMES.match(path.name)], [])

    def test_each_file_is_in_one_part(self):
        """Packages are made of the parts: a file outside of all parts would be missing in all packages."""
        parts = {}
        for part in ("cuspan", "software-gpu", "slurm", "benchmarks", "licences"):
            manifest = build() / f"install_manifest_{part}.txt"
            if not manifest.exists():
                self.addCleanup(manifest.unlink)
            folder = self.folder / part
            self.run_command(["cmake", "--install", str(build()), "--component", part, "--prefix", str(folder)])
            parts[part] = files_below(folder)
        self.assertEqual(sorted(name for part in parts.values() for name in part), files_below(self.prefix))
        self.assertTrue(parts["software-gpu"])
        self.assertEqual({name for part, names in parts.items() for name in names if name.startswith("lib/cuspan/soft/")},
                         set(parts["software-gpu"]))
        self.assertEqual([name for name in parts["cuspan"] if "bench" in pathlib.Path(name).name],
                         ["share/man/man1/cuspan-bench.1"])

    def test_a_name_that_is_missing_is_not_found_elsewhere(self):
        """Without this library, a program would load the node's own driver of the same name."""
        for name in NAMES_OF_THE_DRIVER:
            away = self.prefix / name
            kept = away.rename(self.folder / "kept")
            result = self.run_command([str(self.prefix / "bin/cuspan"), "run", "--", "true"], status=OWN_FAILURE)
            self.assertIn(f"{away.name} is missing: build or install cuspan again", result.stderr)
            kept.rename(away)

    def test_uninstall_removes_all(self):
        (self.prefix / "bin/somebody-elses").write_text("", encoding="utf-8")
        self.run_command(["cmake", "--build", str(build()), "--target", "uninstall"])
        left = [path.relative_to(self.prefix) for path in self.prefix.rglob("*") if not path.is_dir()]
        self.assertEqual(left, [pathlib.Path("bin/somebody-elses")])
        self.assertEqual([path for path in self.prefix.rglob("*") if "cuspan" in path.name], [],
                         "folders of ours are left")
        shutil.rmtree(self.prefix)
