"""The comments of a source file, as blocks of prose."""
import dataclasses
import re

# Tried in this order at each position: strings and characters, then comments.
C_TOKENS = re.compile(
    r'R"(?P<raw>[^()\\ ]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\''
    r"|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)", re.DOTALL)
HASH_TOKENS = re.compile(
    r'(?P<doc>"""(?:\\.|[^\\])*?""")|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<line>(?:(?<=\s)|^)#[^\n]*)',
    re.DOTALL | re.MULTILINE)

C_SUFFIXES = {".h", ".cc", ".c", ".cu", ".cuh", ".S", ".def", ".inc"}
HASH_SUFFIXES = {".py", ".sh", ".cmake", ".table", ".txt"}


@dataclasses.dataclass
class Comment:
    """One comment: all its lines, without their markers."""
    line: int  # First line, counted from 1.
    lines: int
    start: int  # Range in the file's text.
    end: int
    column: int
    alone: bool  # True without code on its lines.
    marker: str  # "//", "#", "/*" or '"""'
    text: str


def _body(raw, marker):
    return "\n".join(line.strip().removeprefix(marker).removeprefix("/").removeprefix("!").removeprefix(" ").rstrip()
                     for line in raw.split("\n"))


def comments_of(text, suffix):
    """The comments of a source's text, in order. Consecutive lines of comment are one comment."""
    tokens = C_TOKENS if suffix in C_SUFFIXES else HASH_TOKENS
    marker = "//" if suffix in C_SUFFIXES else "#"
    found = []
    for match in tokens.finditer(text):
        start, end = match.span()
        line_start = text.rfind("\n", 0, start) + 1
        alone = text[line_start:start].strip() == ""
        line = text.count("\n", 0, start) + 1
        if match.group("line"):
            raw = match.group("line")
            if line == 1 and raw.startswith("#!"):
                continue
            last = found[-1] if found else None
            if (last and alone and last.alone and last.marker == marker and last.line + last.lines == line
                    and last.column == start - line_start):
                last.lines, last.end = last.lines + 1, end
                last.text += "\n" + _body(raw, marker)
                continue
            if (last and alone and not last.alone and last.marker == marker and last.line + last.lines == line
                    and last.column == start - line_start):
                # The rest of a comment behind code.
                last.lines, last.end = last.lines + 1, end
                last.text += "\n" + _body(raw, marker)
                continue
            found.append(Comment(line, 1, start, end, start - line_start, alone, marker, _body(raw, marker)))
        elif match.groupdict().get("block"):
            raw = match.group("block")
            body = "\n".join(each.strip().removeprefix("*").strip() for each in raw[2:-2].split("\n")).strip()
            found.append(Comment(line, raw.count("\n") + 1, start, end, start - line_start, alone, "/*", body))
        elif match.groupdict().get("doc"):
            raw = match.group("doc")
            before = text[line_start:start].strip()
            if before not in ("", "r", "f"):
                continue  # Text that the program uses.
            body = "\n".join(each.strip() for each in raw[3:-3].split("\n")).strip()
            found.append(Comment(line, raw.count("\n") + 1, start, end, start - line_start, alone, '"""', body))
    return found
