// Entry into a process. The library is loaded before all others (LD_PRELOAD and -z initfirst). Its
// constructor runs before all other code of the process, including the static constructors
// registering CUDA kernels. The C library is not yet set up then. So this folder's code, except
// not_supported.cc, makes raw system calls only. It does not allocate, and uses neither the C or
// C++ runtime nor thread-local storage. (getauxval only reads values stored by the loader.)
//
// The constructor enters every loaded object: it redirects the CUDA functions inside to ours. It
// also makes the dynamic loader call OnLoaderState whenever objects are added or removed. Libraries
// loaded later are thus entered after their mapping and before their constructors.
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "interpose/load/elf_image.h"
#include "interpose/load/entered.h"
#include "interpose/load/exports.h"
#include "interpose/load/load.h"
#include "interpose/load/loaded_object.h"
#include "interpose/load/object_list.h"
#include "interpose/load/syscalls.h"
#include "interpose/load/warning.h"

namespace cuspan::load {
namespace {

constinit Warning main_warning;
constinit Warning lesser_warning;
constinit ObjectList objects;
constinit bool loaded_by_cuspan = false;
constinit bool loaded_late = false;  // True while entering objects loaded before this library.

LoadedObject Describe(const link_map* map, const char* path, const char* name) {
  return {path, name, map->l_addr, reinterpret_cast<std::uint64_t>(map->l_ld), false, loaded_late};
}

// The loader's list has no path for the main executable. Several paths are tried; the first with
// the same file as the loaded one is used.
constinit const char* first_argument = nullptr;

void EnterProgram(const link_map* map) {
  const auto executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  // The last path is right if the program was started as an argument of the loader.
  const char* const paths[] = {"/proc/self/exe", executed, first_argument};
  for (const char* path : paths) {
    if (path == nullptr) continue;
    const bool named_oddly = path == paths[0] && executed != nullptr;
    LoadedObject object = Describe(map, path, named_oddly ? executed : path);
    object.is_program = true;
    const Entered entered = EnterObject(object, RuntimeExports(), &main_warning, &lesser_warning);
    if (entered != Entered::kNotReadable && entered != Entered::kOtherFile) return;
  }
}

void EnterMap(const link_map* map, bool is_program) {
  if (map->l_ld == _DYNAMIC) return;  // This library.
  if (is_program) return EnterProgram(map);
  // A name without a slash is not a file, but the kernel's vDSO.
  bool has_slash = false;
  for (const char* c = map->l_name; *c != 0; ++c) has_slash = has_slash || *c == '/';
  if (!has_slash) return;
  EnterObject(Describe(map, map->l_name, map->l_name), RuntimeExports(), &main_warning,
              &lesser_warning);
}

// Returns the debugger's view of the loader's next name space (created by dlmopen). Loaders before
// glibc 2.35 report only the first one.
const r_debug* NextSpace(const r_debug* space) {
#if __GLIBC_PREREQ(2, 35)
  if (space->r_version >= 2) {
    const r_debug_extended* next = reinterpret_cast<const r_debug_extended*>(space)->r_next;
    return next == nullptr ? nullptr : &next->base;
  }
#endif
  (void)space;
  return nullptr;
}

// Enters all new objects. Called with the loader's lock held, or before other threads exist.
void EnterNewObjects() {
  objects.Begin();
  BeginWalk();
  for (const r_debug* space = &_r_debug; space != nullptr; space = NextSpace(space)) {
    // While a name space is being changed, its new objects are incomplete.
    const bool complete = space->r_state == r_debug::RT_CONSISTENT;
    for (const link_map* map = space->r_map; map != nullptr; map = map->l_next) {
      const bool seen = objects.Seen(map);
      Meet(reinterpret_cast<std::uint64_t>(map->l_ld));
      if (!seen && !complete) continue;
      // If there is no memory to record an object, it is not entered. Otherwise the next walk would
      // treat it as new, with changed code.
      if (!objects.Keep(map) || seen) continue;
      EnterMap(map, space == &_r_debug && map == space->r_map);
    }
  }
  objects.End();
  EndWalk();
}

void OnLoaderState() { EnterNewObjects(); }

// Same, if a debugger has set its breakpoint in the loader's function.
void OnLoaderStateDebugged() {
  EnterNewObjects();
  reinterpret_cast<void (*)()>(_r_debug.r_brk)();
}

void WatchLoader() {
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    if (map->l_addr != _r_debug.r_ldbase) continue;
    HookLoader(Describe(map, map->l_name, map->l_name), _r_debug.r_brk, &OnLoaderState,
               &OnLoaderStateDebugged, &lesser_warning);
    return;
  }
}

// Code is changed only while no other thread can execute it. This holds at process start, but not
// always if the library is loaded later.
bool SingleThreaded() {
  struct stat tasks;
  constexpr unsigned kLinksOfOneTask = 3;  // ".", ".." and the task's own directory.
  return SysStatusOf("/proc/self/task", &tasks) != 0 || tasks.st_nlink <= kLinksOfOneTask;
}

bool HasSocket(char** environment) {
  constexpr const char* kName = "CUSPAN_SOCKET=";
  constexpr std::size_t kNameSize = 14;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (StartsWith(*environment, kName)) return (*environment)[kNameSize] != 0;
  }
  return false;
}

// The loader passes the arguments of main to constructors. The C library's environ is not set yet.
__attribute__((constructor(101))) void Enter(int count, char** arguments, char** environment) {
  loaded_by_cuspan = HasSocket(environment);
  if (!loaded_by_cuspan || !SingleThreaded()) return;
  if (count > 0) first_argument = arguments[0];
  // The C library sets environ before any other code of the program runs.
  loaded_late = environ != nullptr;
  EnterNewObjects();
  loaded_late = false;
  WatchLoader();
}

}  // namespace
}  // namespace cuspan::load

namespace cuspan {

const char* LoadWarning() { return load::main_warning.text(); }

const char* AnyLoadWarning() {
  const char* const text = load::main_warning.text();
  return text != nullptr ? text : load::lesser_warning.text();
}

}  // namespace cuspan
