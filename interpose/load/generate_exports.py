"""Makes a C file in which every function of a list exists and refuses.

Each name gets a weak definition, which a real one elsewhere in the same shared
library replaces. With --table the file also holds a table of all names, in
strcmp's order, with the addresses of the definitions that were linked in the end.
"""

import argparse
import re
import sys


def read_names(path):
    """The list's (name, kind) pairs by name; kind is "error", "pointer" or "struct:N"."""
    names = {}
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            # Behind a colon stands what is not supported, which is no matter here.
            words = line.split("#")[0].split(" :")[0].split()
            if not words:
                continue
            name, kind = words[0], words[1] if len(words) > 1 else "error"
            if len(words) > 2 or not re.fullmatch(r"[A-Za-z_]\w*", name) or name in names:
                sys.exit(f"{path}:{number}: not one new function name: {line.strip()}")
            if not re.fullmatch(r"error|pointer|struct:[1-9]\d*", kind):
                sys.exit(f"{path}:{number}: unknown kind of result: {kind}")
            names[name] = kind
    return sorted(names.items())


def definition(name, kind, refuse):
    head = "__attribute__((weak, visibility(\"default\")))"
    if kind == "error":
        return f'{head} int {name}(void) {{ return {refuse}("{name}"); }}'
    if kind == "pointer":
        return f'{head} void* {name}(void) {{ {refuse}("{name}"); return 0; }}'
    size = kind.split(":")[1]
    return (f"struct {name}_result {{ char bytes[{size}]; }};\n"
            f"{head} struct {name}_result {name}(void) {{\n"
            f"  struct {name}_result result = {{{{0}}}};\n"
            f'  {refuse}("{name}");\n'
            f"  return result;\n}}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", help="function names, one per line")
    parser.add_argument("output", help="the C file to write")
    parser.add_argument("--refuse", required=True,
                        help="the function called with the name; its int result is returned")
    parser.add_argument("--table", help="name of the table; its length is NAME_count")
    options = parser.parse_args()

    names = read_names(options.list)
    lines = ["#include <stddef.h>", "", f"extern int {options.refuse}(const char* name);", ""]
    lines += [definition(name, kind, options.refuse) for name, kind in names]
    if options.table:
        lines += ["", "struct entry { const char* name; void (*function)(void); };",
                  f"extern const struct entry {options.table}[];",
                  f"extern const size_t {options.table}_count;",
                  f"const struct entry {options.table}[] = {{"]
        lines += [f'  {{"{name}", (void (*)(void)){name}}},' for name, _ in names]
        lines += ["};", f"const size_t {options.table}_count = {len(names)};"]
    with open(options.output, "w", encoding="ascii") as output:
        output.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
