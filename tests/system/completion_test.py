"""`cuspan completion`: its scripts in real shells."""
import shutil
import subprocess
import textwrap
import unittest

from harness import SystemTest


class Completion(SystemTest):
    def script(self, name):
        script = self.folder / f"cuspan.{name}"
        script.write_text(self.run_command(self.cuspan("completion", name)).stdout)
        return script

    def output(self, command):
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=self.folder,
                                env=self.environment() | {"HOME": str(self.folder), "TERM": "dumb"})
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout.split()

    def in_bash(self, *words):
        listed = " ".join(f"'{word}'" for word in words)
        return self.output(["bash", "--norc", "-c", textwrap.dedent(f"""\
            source {self.script('bash')}
            COMP_WORDS=({listed})
            COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _cuspan
            printf '%s\\n' "${{COMPREPLY[@]}}" """)])

    def test_bash(self):
        (self.folder / "program-here").touch()
        commands = self.in_bash("cuspan", "")
        for name in ("run", "devices", "queue", "top", "doctor", "support", "bench", "store", "completion", "version", "--help"):
            self.assertIn(name, commands)
        self.assertEqual(self.in_bash("cuspan", "dev"), ["devices"])
        self.assertEqual(self.in_bash("cuspan", "run", "--same-"), ["--same-node"])
        self.assertEqual(self.in_bash("cuspan", "run", "--same-node", ""), ["auto", "never"])
        self.assertEqual(self.in_bash("cuspan", "run", "--same-node", "=", "n"), ["never"])
        self.assertEqual(self.in_bash("cuspan", "run", "--same-node", "="), ["auto", "never"])
        self.assertEqual(self.in_bash("cuspan", "run", "--hostfile", "program-"), ["program-here"])
        self.assertEqual(self.in_bash("cuspan", "run", "--gpus", "2", "--sta"), ["--stats"])
        self.assertEqual(self.in_bash("cuspan", "devices", "--j"), ["--json"])
        # The program's own words, with or without a separator, are not completed as cuspan's.
        self.assertNotIn("--stats", self.in_bash("cuspan", "run", "--", "cat", "--sta"))
        self.assertNotIn("--stats", self.in_bash("cuspan", "run", "--same-node", "never", "cat", "--sta"))
        self.assertIn("cat", self.in_bash("cuspan", "run", "--gpus", "2", "ca"))
        self.assertEqual(self.in_bash("cuspan", "run", "cat", "program-"), ["program-here"])

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        def words(line):
            script = self.script("fish")
            text = self.output(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}' | cut -f 1"])
            return text
        commands = words("cuspan ")
        for name in ("run", "devices", "completion"):
            self.assertIn(name, commands)
        self.assertEqual(words("cuspan run --same-"), ["--same-node"])
        self.assertEqual(words("cuspan run --same-node "), ["auto", "never"])
        self.assertEqual(words("cuspan devices --j"), ["--json"])
        self.assertIn("cat", words("cuspan run --gpus 2 ca"))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        folder = self.folder / "functions"
        folder.mkdir()
        (folder / "_cuspan").write_text(self.script("zsh").read_text())
        (self.folder / "program-here").touch()
        typed = {"cuspan devi\\t": "devices", "cuspan run --same-n\\t never": "run --same-node never",
                 "cuspan run --same-node ne\\t": "run --same-node never", "cuspan devices --js\\t": "devices --json",
                 "cuspan run --hostfile program-\\t": "run --hostfile program-here"}
        lines = "\n".join(f"zpty -n -w terminal $'{line}\\n'\nzpty -r -m terminal said '*got: {said}*' || exit 3"
                          for line, said in typed.items())
        driver = self.folder / "driver.zsh"
        driver.write_text(textwrap.dedent(f"""\
            zmodload zsh/zpty
            zpty terminal zsh -f -i
            zpty -w terminal 'PS1=; fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -d {self.folder}/dump'
            zpty -w terminal 'cuspan() {{ print -r -- "got: $*" }}; print -r -- go${{:-od}}'
            zpty -r -m terminal said '*good*' || exit 2
            """) + lines + "\nzpty -d terminal\n")
        self.output(["zsh", "-f", str(driver)])

    def test_another_shell_is_named(self):
        result = self.run_command(self.cuspan("completion", "csh"), status=None)
        self.assertEqual(result.stderr, "cuspan: completion csh: use bash, zsh or fish\n")
        self.assertIn("SHELL", self.run_command(self.cuspan("completion", "--help")).stdout)
