"""What the structure tests know about the repository's files."""
import json
import pathlib
import re

LAYERS = ("common", "protocol", "interpose", "proxy", "launcher")
SUFFIXES = (".h", ".cc", ".c", ".cu", ".S", ".def", ".inc")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def sources(root, folders):
    """The C, C++, CUDA and assembler files below `folders` of `root`, in a fixed order."""
    for folder in folders:
        for path in sorted(pathlib.Path(root, folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def includes(path):
    """(line number, what is included, whether in quotes) of each include of a file."""
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(2)) + 1, match.group(2), match.group(1) == '"'


def compile_commands(path):
    """The entries of a compile_commands.json. Where sources are compiled together (CMAKE_UNITY_BUILD), each has the
    command that all have."""
    for entry in json.loads(pathlib.Path(path).read_text(encoding="utf-8")):
        source = pathlib.Path(entry["directory"], entry["file"])
        if source.parent.name != "Unity":
            yield entry
            continue
        for _, included, _ in includes(source):
            yield {**entry, "file": included, "command": entry["command"].replace(entry["file"], included)}
