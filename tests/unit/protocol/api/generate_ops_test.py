#!/usr/bin/env python3
"""The op table's generator: what it makes of a good table, and that it names the row that is wrong.

Usage: generate_ops_test.py FOLDER_OF_THE_GENERATOR
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(sys.argv.pop(1))

GOOD = """\
# A comment, and an empty line behind it.

1   Hello   control  secret:key host:str                # greets
20  Launch  posted   grid:dim3 arguments:bytes on:bool
300 Find    call     name:str -> result:i32 sizes:list<u32> devices:list<DeviceDescription>
301 Ping    call     -> result:i32
"""


class GenerateOps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = pathlib.Path(self.folder.name, "ops.gen.h")

    def run_generator(self, *arguments):
        return subprocess.run([sys.executable, FOLDER / "generate_ops.py", *arguments],
                              capture_output=True, text=True, check=False)

    def generate(self, table):
        path = pathlib.Path(self.folder.name, "ops.table")
        path.write_text(table, encoding="utf-8")
        return self.run_generator(path, self.output)

    def header(self, table):
        result = self.generate(table)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.output.read_text(encoding="utf-8")

    def hash_of(self, table):
        return re.search(r"kOpTableHash = (0x[0-9a-f]{16});", self.header(table)).group(1)

    def assert_refused(self, table, line, *words):
        """The run fails, names the line and says `words`; it neither crashes nor leaves a header."""
        result = self.generate(table)
        self.assertNotEqual(result.returncode, 0, f"accepted: {table!r}")
        self.assertNotIn("Traceback", result.stderr)
        self.assertIn(f"ops.table:{line}:", result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertFalse(self.output.exists(), "a header was written")

    # --- Good tables

    def test_the_table_of_the_repository(self):
        self.header((FOLDER / "ops.table").read_text(encoding="utf-8"))

    def test_numbers_names_and_types(self):
        header = self.header(GOOD)
        for wanted in ("kHello = 1,", "kLaunch = 20,", "kFind = 300,", "struct Launch {", "Dim3 grid{};",
                       "Bytes arguments{};", "bool on{};", "std::vector<std::uint32_t> sizes{};",
                       "std::vector<DeviceDescription> devices{};", "Key128 secret{};",
                       'case Op::kFind: return "Find";'):
            self.assertIn(wanted, header)
        self.assertEqual(header.count("struct Reply {"), 2)

    def test_the_same_table_gives_the_same_header(self):
        self.assertEqual(self.header(GOOD), self.header(GOOD))

    def test_the_hash_knows_the_rows_and_nothing_else(self):
        base = self.hash_of(GOOD)
        self.assertEqual(base, self.hash_of("# another comment\n" + GOOD.replace("  control", " control")))
        for before, after in (("301 Ping", "302 Ping"), ("Ping", "Pong"), ("posted", "push"),
                              ("name:str", "name:bytes"), ("name:str", "label:str"), ("on:bool", "on:u8"),
                              ("301 Ping    call     -> result:i32\n", "")):
            self.assertIn(before, GOOD)
            self.assertNotEqual(base, self.hash_of(GOOD.replace(before, after)), (before, after))

    # --- Bad tables

    def test_two_rows_of_one_number(self):
        self.assert_refused(GOOD + "20 Other posted\n", 7, "20", "Launch")

    def test_two_rows_of_one_name(self):
        self.assert_refused(GOOD + "21 Launch posted\n", 7, "Launch")

    def test_names_that_are_no_types(self):
        for name in ("launch", "9Lives", "Two-Words", "_Hidden", "Launch_It"):
            self.assert_refused(f"1 {name} posted\n", 1, name)

    def test_numbers_that_do_not_fit(self):
        for number in ("0", "65536", "-1", "0x10", "1.5", "one", "\u00b2"):
            self.assert_refused(f"{number} Name posted\n", 1)

    def test_the_largest_number(self):
        self.assertIn("kName = 65535,", self.header("65535 Name posted\n"))

    def test_rows_that_are_too_short(self):
        self.assert_refused("1 Name\n", 1)
        self.assert_refused("1\n", 1)

    def test_unknown_class(self):
        self.assert_refused("1 Name sometimes\n", 1, "sometimes", "posted")

    def test_unknown_types(self):
        for kind in ("u128", "int", "list<int>", "list<u8", "list<>", "list<list<u8>>", "vector<u8>", "u8*", ""):
            self.assert_refused(f"1 Name posted field:{kind}\n", 1)

    def test_a_list_of_booleans(self):
        # A vector of bool has no elements to decode into.
        self.assert_refused("1 Name posted field:list<bool>\n", 1)

    def test_fields_that_are_not_name_and_type(self):
        for field in ("field", ":u8", "Field:u8", "9:u8", "a-b:u8", "field:u8:u8"):
            self.assert_refused(f"1 Name posted {field}\n", 1)

    def test_two_fields_of_one_name(self):
        self.assert_refused("1 Name posted a:u8 b:u8 a:u16\n", 1, "'a'")
        self.assert_refused("1 Name call -> a:u8 a:u16\n", 1, "'a'")

    def test_one_name_in_a_call_and_its_reply(self):
        self.header("1 Name call a:u8 -> a:u8\n")

    def test_a_call_without_a_reply(self):
        self.assert_refused("1 Name call a:u8\n", 1, "call")

    def test_a_reply_of_what_is_no_call(self):
        for kind in ("control", "posted", "push", "chunk"):
            self.assert_refused(f"1 Name {kind} -> result:i32\n", 1, "call")

    def test_two_arrows(self):
        self.assert_refused("1 Name call -> a:u8 -> b:u8\n", 1)

    def test_the_line_is_the_one_that_is_wrong(self):
        self.assert_refused(GOOD.replace("on:bool", "on:boole"), 4, "boole")

    # --- Bad calls

    def test_wrong_number_of_arguments(self):
        for arguments in ((), ("only-one",), ("one", "two", "three")):
            result = self.run_generator(*arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("Usage", result.stderr)


if __name__ == "__main__":
    unittest.main()
