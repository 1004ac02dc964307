"""Files and includes of the repository, for the structure tests."""
import json
import pathlib
import re

LAYERS = ("common", "protocol", "store", "interpose", "proxy", "launcher")
SUFFIXES = (".h", ".cc", ".c", ".cu", ".cuh", ".S", ".def", ".inc")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def sources(root, folders):
    """The C, C++, CUDA and assembler files below `folders` of `root`, in a fixed order."""
    for folder in folders:
        for path in sorted(pathlib.Path(root, folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def includes(path):
    """(line number, included name, True if in quotes) of each include of a file."""
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(2)) + 1, match.group(2), match.group(1) == '"'


def compile_commands(path):
    """Entries of a compile_commands.json. Sources compiled together (CMAKE_UNITY_BUILD) all have the common command."""
    for entry in json.loads(pathlib.Path(path).read_text(encoding="utf-8")):
        source = pathlib.Path(entry["directory"], entry["file"])
        if source.parent.name != "Unity":
            yield entry
            continue
        for _, included, _ in includes(source):
            yield {**entry, "file": included, "command": entry["command"].replace(entry["file"], included)}
