"""Generates a C file defining every function of a list as one returning an error.

The definitions are weak: a real one elsewhere in the same shared library replaces them. Another name of a function
jumps to the function, with the caller's arguments and return address. With --table, the file also holds a table of
all names in the order of strcmp, with the addresses of the linked definitions. With --versions, each entry has its
first version and whether it counts as absent.

With --forward-to, the functions instead jump to those of another library, through its table with versions. If this
library is not loaded yet, libcuspan.so in the parent folder is loaded. If it cannot be loaded, each function returns
the number of --alone, as an error; functions that return counts, its negative.
"""

import argparse

import exports_list


def definition(export, refuse, caller):
    name, kind = export.name, export.kind
    if export.alias and export.note not in ("not", "absent"):
        return (f'__attribute__((visibility("default"))) extern void {name}(void);\n'
                f'__asm__(".text\\n.globl {name}\\n.type {name}, @function\\n"\n'
                f'        "{name}: jmp {export.alias}@PLT\\n.size {name}, . - {name}");')
    head = "__attribute__((weak, visibility(\"default\")))"
    if kind == "error":
        return f'{head} int {name}(void) {{ return {refuse}("{name}"{caller}); }}'
    if kind == "pair":
        return (f"struct {name}_result {{ int error; int result; }};\n{head} struct {name}_result {name}(void) {{\n"
                f'  const struct {name}_result result = {{{refuse}("{name}"{caller}), 0}};\n  return result;\n}}')
    if kind == "count":
        return f'{head} long {name}(void) {{ return -(long){refuse}("{name}"{caller}); }}'
    if kind == "pointer":
        return f'{head} void* {name}(void) {{ {refuse}("{name}"{caller}); return 0; }}'
    size = kind.split(":")[1]
    return (f"struct {name}_result {{ char bytes[{size}]; }};\n"
            f"{head} struct {name}_result {name}(void) {{\n"
            f"  struct {name}_result result = {{{{0}}}};\n"
            f'  {refuse}("{name}"{caller});\n'
            f"  return result;\n}}")


FINDING = """
/* The table of the library that has the functions. A run preloads it. A process that lost LD_PRELOAD on
   the way gets it here; without a dynamic loader of its own there is none, and each function fails. */
extern const char TABLE[] __attribute__((weak));
extern void* dlopen(const char* name, int flags) __attribute__((weak));
extern void* dlsym(void* library, const char* name) __attribute__((weak));
__attribute__((visibility("hidden"))) const void* cuspan_rows = TABLE;
__attribute__((constructor)) static void Find(void) {
  enum { kNow = 2, kGlobal = 0x100 };
  if (cuspan_rows != 0 || dlopen == 0 || dlsym == 0) return;
  void* const library = dlopen("$ORIGIN/../libcuspan.so", kNow | kGlobal);
  if (library != 0) cuspan_rows = dlsym(library, "TABLE");
}
"""


def forwarding(exports, table, alone):
    """Each function jumps to the address in its table row, with the caller's arguments and return address."""
    function, size = 8, 24  # Offset of the address in struct entry, and size of a row.
    lines = [FINDING.replace("TABLE", table), '__asm__(".text\\n");',
             f'__asm__("cuspan_alone: mov ${alone}, %eax\\nret\\n");',
             '__asm__("cuspan_alone_pointer: xor %eax, %eax\\nret\\n");',
             f'__asm__("cuspan_alone_count: mov $-{alone}, %rax\\nret\\n");']
    for row, export in enumerate(exports):
        otherwise = {"pointer": "cuspan_alone_pointer", "count": "cuspan_alone_count"}.get(export.kind, "cuspan_alone")
        lines.append(f'__asm__(".globl {export.name}\\n.type {export.name}, @function\\n"\n'
                     f'        "{export.name}: mov cuspan_rows(%rip), %r11\\ntest %r11, %r11\\nje {otherwise}\\n"\n'
                     f'        "jmp *{row * size + function}(%r11)\\n.size {export.name}, . - {export.name}");')
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", help="function names, one per line")
    parser.add_argument("output", help="the C file to write")
    parser.add_argument("--forward-to", metavar="TABLE", help="the table of the library that has the functions")
    parser.add_argument("--alone", type=int, help="what functions return without that library")
    parser.add_argument("--refuse",
                        help="the function called with the name; its int result is returned")
    parser.add_argument("--caller", action="store_true", help="it is called with the address of the calling code as well")
    parser.add_argument("--table", help="name of the table; its length is NAME_count")
    parser.add_argument("--versions", action="store_true", help="with versions in the table")
    options = parser.parse_args()

    exports = exports_list.read(options.list)
    if options.forward_to:
        with open(options.output, "w", encoding="ascii") as output:
            output.write("\n".join(forwarding(exports, options.forward_to, options.alone)) + "\n")
        return
    lines = ["#include <stddef.h>", "", f"extern int {options.refuse}(const char* name{', const void* caller' if options.caller else ''});", ""]
    caller = ", __builtin_return_address(0)" if options.caller else ""
    lines += [definition(export, options.refuse, caller) for export in exports]
    if options.table:
        more = " int since; _Bool absent;" if options.versions else ""
        visible = ' __attribute__((visibility("default")))' if options.versions else ""
        lines += ["", f"struct entry {{ const char* name; void (*function)(void);{more} }};",
                  f"extern const struct entry {options.table}[]{visible};",
                  f"extern const size_t {options.table}_count;",
                  f"const struct entry {options.table}[] = {{"]
        for export in exports:
            version = f", {export.since}, {int(export.note == 'absent')}" if options.versions else ""
            lines.append(f'  {{"{export.name}", (void (*)(void)){export.name}{version}}},')
        lines += ["};", f"const size_t {options.table}_count = {len(exports)};"]
    with open(options.output, "w", encoding="ascii") as output:
        output.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
