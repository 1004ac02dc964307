#!/usr/bin/env python3
"""Tests the op table's generator: its output for a good table, and errors naming the wrong row.

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

struct Size x:u32=1 y:u32=1     # a size
struct Device                   # what a device is
  name:str id:u8[16]
  # of its memory
  free:u64=max                  # bytes
  size:Size factor:f32
1   Hello   control  secret:key host:str                # greets
20  Launch  posted:none   grid:Size arguments:bytes on:bool
300 Find    call     name:str -> result:i32 sizes:list<u32> devices:list<Device>
301 Ping    call     -> result:i32
"""
GOOD_LINES = len(GOOD.splitlines())


class GenerateOps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = pathlib.Path(self.folder.name, "generated")

    def run_generator(self, *arguments):
        return subprocess.run([sys.executable, "-S", FOLDER / "generate_ops.py", *arguments],
                              capture_output=True, text=True, check=False)

    def generate(self, table):
        path = pathlib.Path(self.folder.name, "ops.table")
        path.write_text(table, encoding="utf-8")
        return self.run_generator(path, self.output)

    def header(self, table, name="ops.gen.h"):
        result = self.generate(table)
        self.assertEqual(result.returncode, 0, result.stderr)
        return (self.output / name).read_text(encoding="utf-8")

    def hash_of(self, table):
        return re.search(r"kOpTableHash = (0x[0-9a-f]{16});", self.header(table)).group(1)

    def assert_refused(self, table, line, *words):
        """Checks for a failure naming the line and containing `words`, without a crash or a header."""
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
        for wanted in ("kHello = 1,", "kLaunch = 20,", "kFind = 300,", "struct Launch {", "Size grid{};",
                       "Bytes arguments{};", "bool on{};", "std::vector<std::uint32_t> sizes{};",
                       "std::vector<Device> devices{};", "Key128 secret{};",
                       'case Op::kFind: return "Find";', "kOpCount = 4;", "// Greets"):
            self.assertIn(wanted, header)
        self.assertEqual(header.count("struct Reply {"), 2)

    def test_structs(self):
        header = self.header(GOOD, "structs.gen.h")
        for wanted in ("// A size\nstruct Size {", "std::uint32_t x{1};", "struct Device {", "std::string name{};",
                       "std::array<std::uint8_t, 16> id{};",
                       "// Bytes\n  std::uint64_t free{std::numeric_limits<std::uint64_t>::max()};",
                       "Size size{};", "float factor{};",
                       "visit(self.name); visit(self.id); visit(self.free); visit(self.size); visit(self.factor);"):
            self.assertIn(wanted, header)
        self.assertLess(header.index("struct Size {"), header.index("struct Device {"))

    def test_ops_of_a_proxy_are_those_that_a_client_sends(self):
        header = self.header(GOOD)
        self.assertEqual(re.findall(r"^  X\((\w+)\)", header, re.MULTILINE), ["Launch", "Find", "Ping"])

    def test_the_same_table_gives_the_same_header(self):
        self.assertEqual(self.header(GOOD), self.header(GOOD))

    def test_the_hash_knows_what_the_bytes_mean_and_nothing_else(self):
        base = self.hash_of(GOOD)
        for before, after in (("# A comment", "# another comment"), ("  control", " control"), ("# greets", ""),
                              ("x:u32=1", "x:u32=2"), ("free:u64=max", "free:u64"),
                              ("name:str id:u8[16]", "name:str\n  id:u8[16]")):
            self.assertIn(before, GOOD)
            self.assertEqual(base, self.hash_of(GOOD.replace(before, after)), (before, after))
        for before, after in (("301 Ping", "302 Ping"), ("Ping", "Pong"), ("posted:none", "push"),
                              ("host:str", "host:bytes"), ("host:str", "label:str"), ("on:bool", "on:u8"),
                              ("301 Ping    call     -> result:i32\n", ""),
                              # Each change of a struct used by a row counts.
                              ("y:u32=1", "y:u64=1"), ("y:u32=1", "z:u32=1"), ("y:u32=1", "y:u32=1 z:u32=1"),
                              (" y:u32=1", ""), ("x:u32=1 y:u32=1", "y:u32=1 x:u32=1"), ("u8[16]", "u8[8]"),
                              ("Size", "Extent")):
            self.assertIn(before, GOOD)
            self.assertNotEqual(base, self.hash_of(GOOD.replace(before, after)), (before, after))

    # --- Bad tables

    def test_two_rows_of_one_number(self):
        self.assert_refused(GOOD + "20 Other posted:none\n", GOOD_LINES + 1, "20", "Launch")

    def test_two_rows_of_one_name(self):
        self.assert_refused(GOOD + "21 Launch posted:none\n", GOOD_LINES + 1, "Launch")
        self.assert_refused(GOOD + "21 Size posted:none\n", GOOD_LINES + 1, "Size")
        self.assert_refused(GOOD + "struct Size a:u8\n", GOOD_LINES + 1, "Size")
        self.assert_refused(GOOD + "struct Launch a:u8\n", GOOD_LINES + 1, "Launch")

    def test_bad_structs(self):
        self.assert_refused("struct\n", 1, "NAME")
        self.assert_refused("struct lower a:u8\n", 1, "lower")
        self.assert_refused("struct Empty\n1 Name posted:none\n", 1, "Empty")
        self.assert_refused("struct Twice a:u8\n  b:u8\n  a:u8\n", 3, "'a'")
        self.assert_refused("struct Own a:list<Own>\n", 1, "Own")

    def test_a_struct_that_is_not_there_or_comes_later(self):
        self.assert_refused("1 Name posted:none a:Later\nstruct Later b:u8\n", 1, "Later")

    def test_an_indented_line_without_a_struct(self):
        self.assert_refused("  a:u8\n", 1, "struct")
        self.assert_refused("struct Some a:u8\n1 Name posted:none\n  b:u8\n", 3, "struct")
        self.assert_refused("struct Some a:u8\n\n  b:u8\n", 3, "struct")

    def test_defaults_that_are_none(self):
        for field in ("a:u8=256", "a:u8=-1", "a:i32=1", "a:str=x", "a:u32=", "a:u32=maximum", "a:bool=1"):
            self.assert_refused(f"struct Some {field}\n", 1)
        self.assertIn("std::uint8_t a{255};", self.header("struct Some a:u8=255\n", "structs.gen.h"))

    def test_names_that_are_no_types(self):
        for name in ("launch", "9Lives", "Two-Words", "_Hidden", "Launch_It"):
            self.assert_refused(f"1 {name} posted:none\n", 1, name)

    def test_numbers_that_do_not_fit(self):
        for number in ("0", "65536", "-1", "0x10", "1.5", "one", "\u00b2"):
            self.assert_refused(f"{number} Name posted:none\n", 1)

    def test_the_largest_number(self):
        self.assertIn("kName = 65535,", self.header("65535 Name posted:none\n"))

    def test_rows_that_are_too_short(self):
        self.assert_refused("1 Name\n", 1)
        self.assert_refused("1\n", 1)

    def test_unknown_class(self):
        self.assert_refused("1 Name sometimes\n", 1, "sometimes", "posted")

    def test_a_posted_op_names_its_use_of_memory(self):
        self.assert_refused("1 Name posted\n", 1, "posted:MEMORY", "kernels")
        self.assert_refused("1 Name posted:some\n", 1, "'some'")
        self.assert_refused("1 Name call:none -> a:u8\n", 1, "only posted ops")
        self.assertIn("kMemory = MemoryUse::kKernels;", self.header("1 Name posted:kernels\n"))

    def test_addresses_and_the_use_of_memory_agree(self):
        self.assert_refused("1 Name posted:none destination:u64\n", 1, "'destination'", "posted:names")
        self.assert_refused("struct Box address:u64\n1 Name posted:none to:Box\n", 2, "'to.address'")
        self.assert_refused("struct Box address:u64\n1 Name posted:none all:list<Box>\n", 2, "'all.address'")
        for use in ("memory", "program", "words"):
            self.assert_refused(f"1 Name posted:{use} stream:u64\n", 1, "needs an address")
        for use in ("names", "memory", "program", "words"):
            self.header(f"1 Name posted:{use} source:u64\n")

    def test_unknown_types(self):
        for kind in ("u128", "int", "list<int>", "list<u8", "list<>", "list<list<u8>>", "vector<u8>", "u8*", "",
                     "u8[0]", "u8[]", "u8[-1]", "str[2]", "bool[2]", "u8[99999]", "dim3", "Unknown"):
            self.assert_refused(f"1 Name posted:none field:{kind}\n", 1)

    def test_a_list_of_booleans(self):
        # A vector of bool has no elements to decode into.
        self.assert_refused("1 Name posted:none field:list<bool>\n", 1)

    def test_fields_that_are_not_name_and_type(self):
        for field in ("field", ":u8", "Field:u8", "9:u8", "a-b:u8", "field:u8:u8"):
            self.assert_refused(f"1 Name posted:none {field}\n", 1)

    def test_two_fields_of_one_name(self):
        self.assert_refused("1 Name posted:none a:u8 b:u8 a:u16\n", 1, "'a'")
        self.assert_refused("1 Name call -> a:u8 a:u16\n", 1, "'a'")

    def test_one_name_in_a_call_and_its_reply(self):
        self.header("1 Name call a:u8 -> a:u8\n")

    def test_a_call_without_a_reply(self):
        self.assert_refused("1 Name call a:u8\n", 1, "call")

    def test_a_reply_of_what_is_no_call(self):
        for kind in ("control", "agents", "posted:none", "push", "chunk"):
            self.assert_refused(f"1 Name {kind} -> result:i32\n", 1, "call")

    def test_two_arrows(self):
        self.assert_refused("1 Name call -> a:u8 -> b:u8\n", 1)

    def test_the_line_is_the_one_that_is_wrong(self):
        self.assert_refused(GOOD.replace("on:bool", "on:boole"), GOOD_LINES - 2, "boole")

    # --- Bad calls

    def test_wrong_number_of_arguments(self):
        for arguments in ((), ("only-one",), ("one", "two", "three")):
            result = self.run_generator(*arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("Usage", result.stderr)


if __name__ == "__main__":
    unittest.main()
