"""Reads the declarations in headers of CUDA's libraries, after preprocessing as C by the compiler.

The preprocessor resolves versions (`#define cuMemAlloc cuMemAlloc_v2`), attributes and conditions. Code for C++ only is
left out.
"""
import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile

# Headers of other projects, included for their types only. Empty ones replace missing ones.
FOREIGN = ("EGL/egl.h", "EGL/eglext.h", "GL/gl.h", "GL/glext.h", "vdpau/vdpau.h")
# Folders of headers below a given folder: of a toolkit, and of NVIDIA's Python wheels.
SUBFOLDERS = (".", "include", "targets/*/include", "nvidia/*/include")

MARKER = re.compile(r'# \d+ "((?:[^"\\]|\\.)*)"')
MACRO = re.compile(r"#define ([A-Za-z]\w*) (\S.*)")
TOKEN = re.compile(r'[A-Za-z_]\w*|\.?\d(?:[\w.]|[eEpP][+-])*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|<<|>>|\.\.\.|\S')
NAME = re.compile(r"[A-Za-z_]\w*")
# A number of C, without its suffix and leading zeros.
NUMBER = re.compile(r"\b0*(0[xX][\da-fA-F]+|\d+)[uUlL]*\b")
INLINE = {"static", "inline", "__inline__", "__inline"}
# Words without meaning for a declaration's type. Those of the second set have an argument in parentheses.
IGNORED = INLINE | {"extern", "__extension__", "__restrict__", "restrict"}
IGNORED_WITH_ARGUMENT = {"__attribute__", "__declspec", "__asm__", "_Alignas"}
BASIC_TYPES = {"char", "short", "int", "long", "float", "double", "signed", "unsigned", "void"}


class HeaderError(Exception):
    """A header is missing or is not understood. `missing`: the missing one, or None."""

    def __init__(self, text, missing=None):
        super().__init__(text)
        self.missing = missing


@dataclasses.dataclass
class Declarations:
    functions: dict = dataclasses.field(default_factory=dict)  # Name: types of result and parameters, as text.
    enums: dict = dataclasses.field(default_factory=dict)  # Name: {enumerator: value}; the value is text if not understood.
    structs: dict = dataclasses.field(default_factory=dict)  # Name: declarations of the members, as texts.
    aliases: dict = dataclasses.field(default_factory=dict)  # Name of a typedef: its type, as text.
    macros: dict = dataclasses.field(default_factory=dict)  # Name: value, as text.


def folders_of(folder):
    """The existing folders of headers at and below `folder`."""
    return [path for pattern in SUBFOLDERS for path in ([folder] if pattern == "." else sorted(folder.glob(pattern)))
            if path.is_dir()]


def find(name, folders):
    """Path of the header `name` in the first of the folders containing it, or None."""
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def preprocessed(headers, folders, macros, compiler):
    """Texts of the headers, named by their paths in `folders`, after preprocessing. They are included in this order."""
    with tempfile.TemporaryDirectory() as stubs:
        for name in FOREIGN:
            path = pathlib.Path(stubs, name)
            path.parent.mkdir(exist_ok=True)
            path.touch()
        command = [compiler, "-x", "c", "-E", "-dD", *(f"-I{folder}" for folder in folders), "-idirafter", stubs,
                   *(f"-D{macro}" for macro in macros), "-"]
        text = "".join(f"#include <{name}>\n" for name in headers)
        try:
            run = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise HeaderError(f"the compiler {compiler} does not run: {error.strerror}; name another with --compiler") \
                from error
    if run.returncode != 0:
        missing = re.search(r"fatal error: '?([^\s':]+)'?(?: file not found|: No such file)", run.stderr)
        raise HeaderError(f"{compiler} does not preprocess it:\n{run.stderr.strip()}", missing and missing[1])
    texts = {os.path.normpath(find(name, folders)): [] for name in headers}
    current = None
    for line in run.stdout.splitlines():
        if marker := MARKER.match(line):
            current = texts.get(os.path.normpath(marker[1]))
        elif current is not None:
            current.append(line)
    return ["\n".join(lines) for lines in texts.values()]


def closing(tokens, start):
    """Index of the token closing the bracket at `start`."""
    pairs, depth = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}, 0
    for index in range(start, len(tokens)):
        depth += pairs.get(tokens[index], 0)
        if depth == 0:
            return index
    raise HeaderError(f"a bracket is not closed after: {' '.join(tokens[start:start + 8])}")


def without_ignored(tokens):
    kept, index = [], 0
    while index < len(tokens):
        if tokens[index] in IGNORED_WITH_ARGUMENT and tokens[index + 1:index + 2] == ["("]:
            index = closing(tokens, index + 1)
        elif tokens[index] not in IGNORED:
            kept.append(tokens[index])
        index += 1
    return kept


def statements(tokens):
    """Lists of tokens, one per declaration, without the semicolon. Functions with a body are left out."""
    begin = index = 0
    while index < len(tokens):
        token = tokens[index]
        if token == ";":
            if index > begin:
                yield tokens[begin:index]
            begin = index + 1
        elif token == "{":
            end = closing(tokens, index)
            if tokens[begin:index] == ["extern", '"C"'] or tokens[begin] == "namespace":
                yield from statements(tokens[index + 1:end])
                begin = end + 1
            elif index > begin and tokens[index - 1] == ")" and tokens[begin] not in ("typedef", "struct", "union", "enum"):
                begin = end + 1
            index = end
        elif token in "([":
            index = closing(tokens, index)
        index += 1


def split(tokens, separator):
    """The tokens between separators outside of brackets."""
    parts, index = [[]], 0
    while index < len(tokens):
        if tokens[index] in ("(", "[", "{"):
            end = closing(tokens, index)
            parts[-1] += tokens[index:end + 1]
            index = end
        elif tokens[index] == separator:
            parts.append([])
        else:
            parts[-1].append(tokens[index])
        index += 1
    return [part for part in parts if part]


def text_of(tokens):
    text = " ".join(tokens)
    return re.sub(r"(?<=\w) (?=[\[(])|(?<=[(\[*]) | (?=[)\],])", "", text)


def value_of(tokens, known):
    """Value of an enumerator's expression; its text if it is not understood."""
    words = [NUMBER.sub(r"\1", str(known.get(token, token))) for token in tokens]
    expression = re.sub(r"\( (?:unsigned )?(?:int|long|long long) \)", "", " ".join(words))
    if re.fullmatch(r"(?:0[xX][\da-fA-F]+|\d+|<<|>>|[-+*|&~() ])+", expression):
        try:
            return eval(expression, {"__builtins__": {}})
        except (SyntaxError, TypeError):
            pass
    return text_of(tokens)


def enumerators(tokens, known):
    values, following = {}, 0
    for part in split(tokens, ","):
        part = without_ignored(part)
        value = value_of(part[2:], {**known, **values}) if part[1:2] == ["="] else following
        values[part[0]] = value
        following = value + 1 if isinstance(value, int) else f"{value} + 1"
    return values


def parameter_type(tokens):
    """Tokens of a parameter's type, without its name."""
    tokens = without_ignored(tokens)
    names = [index for index, token in enumerate(tokens) if NAME.fullmatch(token) and token not in ("const", "struct", "enum")]
    if "(" in tokens or len(names) < 2 or tokens[names[-1]] in BASIC_TYPES:
        return tokens
    return tokens[:names[-1]] + tokens[names[-1] + 1:]


def members(body, indent=""):
    """Declarations of a structure's members, as lines. The lines of nested structures are indented."""
    lines = []
    for member in statements([*body, ";"]):
        member = without_ignored(member)
        if "{" not in member:
            lines.append(indent + text_of(member))
            continue
        begin = member.index("{")
        end = closing(member, begin)
        lines += [indent + text_of(member[:begin + 1]), *members(member[begin + 1:end], indent + "  "),
                  indent + text_of(member[end:])]
    return lines


class Reader:
    """Collects declarations from the texts of headers."""

    def __init__(self):
        self.found = Declarations()
        self.known = {}  # All enumerators.

    def read(self, text):
        code = []
        for line in text.splitlines():
            if not line.startswith("#"):
                code.append(line)
            elif macro := MACRO.match(line):
                self.found.macros[macro[1]] = macro[2].strip()
        for statement in statements(TOKEN.findall("\n".join(code))):
            inline = not INLINE.isdisjoint(statement)
            statement = without_ignored(statement)
            typedef = statement[:1] == ["typedef"]
            if typedef:
                statement = statement[1:]
            if not statement:
                continue
            if statement[0] in ("enum", "struct", "union") and "{" in statement:
                self.read_type(statement, typedef)
            elif typedef:
                self.read_alias(statement)
            elif "(" in statement and not inline:
                self.read_function(statement)

    def read_type(self, statement, typedef):
        begin = statement.index("{")
        end = closing(statement, begin)
        # "typedef enum tag {…} name": the name. Others: the tag.
        rest = [token for token in statement[end + 1:] if NAME.fullmatch(token)]
        tag = [token for token in statement[1:begin] if NAME.fullmatch(token)][-1:]
        name = (rest[:1] if typedef and rest else tag or rest[:1] or [""])[0]
        body = statement[begin + 1:end]
        if statement[0] == "enum":
            values = enumerators(body, self.known)
            self.known.update(values)
            self.found.enums.setdefault(name, {}).update(values)
        else:
            self.found.structs[name] = members(body)

    def read_alias(self, statement):
        names = [token for token in statement if NAME.fullmatch(token)]
        if "(" not in statement and len(names) > 1:
            at = len(statement) - 1 - statement[::-1].index(names[-1])
            self.found.aliases[names[-1]] = text_of(statement[:at] + statement[at + 1:])

    def read_function(self, statement):
        at = statement.index("(")
        if at > 0 and NAME.fullmatch(statement[at - 1]) and "=" not in statement[:at]:
            parameters = split(statement[at + 1:closing(statement, at)], ",")
            types = ", ".join(text_of(parameter_type(parameter)) for parameter in parameters)
            self.found.functions[statement[at - 1]] = f"{text_of(statement[:at - 1])} ({types})"


def read(headers, folders, meanings, compiler):
    """Declarations of the headers, named by their paths in `folders`.

    `meanings` are lists of macros: the functions are those of all meanings, all else is of the first.
    """
    readers = []
    for macros in meanings:
        readers.append(Reader())
        for text in preprocessed(headers, folders, macros, compiler):
            readers[-1].read(text)
    found = readers[0].found
    for reader in readers[1:]:
        found.functions = {**reader.found.functions, **found.functions}
    return found
