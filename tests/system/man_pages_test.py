"""Manual pages of every command, with every option, and without warnings."""
import re
import shutil
import subprocess
import unittest

from harness import SystemTest, build

HIDDEN = "--manual-page"


class ManPages(SystemTest):
    def commands(self):
        """All commands, by the name of their page."""
        listed = self.run_command(self.cuspan("--help")).stdout.split("\nCommands:\n")[1].split("\n\n")[0]
        names = re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)
        self.assertIn("run", names)
        return {"cuspan": self.cuspan(), "cuspan-agent": [str(build() / "bin/cuspan-agent")],
                **{f"cuspan-{name}": self.cuspan(name) for name in names}}

    def check(self, *command):
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def test_each_command_has_one(self):
        pages = {path.name for path in (build() / "man").iterdir()}
        others = {f"{path.name}.1" for path in (build() / "bin").glob("cuspan-agent-*")}
        for other in others:
            self.assertEqual((build() / "man" / other).read_text(encoding="utf-8"), ".so man1/cuspan-agent.1\n")
        self.assertEqual(pages, others | {f"{name}.1" for name in self.commands()})

    def test_the_same_sources_make_the_same_page(self):
        environment = self.environment() | {"SOURCE_DATE_EPOCH": "86400"}
        for name, command in self.commands().items():
            page = self.run_command([*command, HIDDEN], environment).stdout
            heading, rest = page.split("\n", 1)
            self.assertIn(" 1 1970-01-02 ", heading)
            self.assertEqual((build() / "man" / f"{name}.1").read_text(encoding="utf-8").split("\n", 1)[1], rest)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_has_what_help_has(self):
        for name, command in self.commands().items():
            with self.subTest(name):
                text = self.check("groff", "-ww", "-man", "-Tutf8", "-P-cbou", "-rLL=200n", str(build() / "man" / f"{name}.1"))
                self.assertIn(f"{name} - ", text)
                own = self.run_command([*command, "--help"]).stdout
                options = re.findall(r"(?:^ {2}|(?<=^ {2}-.), )(--?[a-z-]+)", own, re.MULTILINE)
                self.assertIn("--help", options)
                shown = re.findall(r"(?:^ {7}|, )(--?[a-z-]+)", text.partition("\nOPTIONS\n")[2], re.MULTILINE)
                self.assertEqual(shown, options)
                self.assertNotIn(HIDDEN, own + text)
                if name == "cuspan":
                    named = re.findall(r"^ {2}([A-Z_]+)=", self.run_command(self.cuspan("help", "variables")).stdout,
                                       re.MULTILINE)
                    self.assertIn("CUSPAN_LOG", named)
                    self.assertEqual(re.findall(r"^ {7}([A-Z_]+)=", text, re.MULTILINE), named)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_finds_nothing(self):
        for name in self.commands():
            self.assertEqual(self.check("mandoc", "-Tlint", str(build() / "man" / f"{name}.1")), "", name)

    def test_shells_do_not_complete_its_option(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertNotIn("manual-page", self.run_command(self.cuspan("completion", shell)).stdout)
