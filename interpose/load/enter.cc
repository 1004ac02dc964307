// Entering a process. The library is loaded before all others (LD_PRELOAD and
// -z initfirst), so this constructor runs before any other code of the process:
// before the static constructors that register CUDA kernels, but also before
// the C library is set up. So what it calls (all of this folder but
// not_supported.cc) makes raw system calls only, and neither allocates nor uses
// the C or C++ runtime or thread-local storage. (getauxval only looks at what the
// loader has stored.)
//
// It looks at every object that is loaded, and makes the dynamic loader call
// OnLoaderState whenever objects come or go, so that libraries that are loaded
// later are looked at after they are mapped and before their constructors run.
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
constinit bool loaded_late = false;  // While the objects are entered that were there before.

LoadedObject Describe(const link_map* map, const char* path, const char* name) {
  return {path, name, map->l_addr, reinterpret_cast<std::uint64_t>(map->l_ld), false, loaded_late};
}

// The main executable has no path in the loader's list. Of the places where its
// file may be found, the first that holds what was loaded counts.
constinit const char* first_argument = nullptr;

void EnterProgram(const link_map* map) {
  const auto executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  // The last is right for a program that was started by naming the loader itself.
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
  // Names without a slash are no files: the kernel's own object.
  bool has_slash = false;
  for (const char* c = map->l_name; *c != 0; ++c) has_slash = has_slash || *c == '/';
  if (!has_slash) return;
  EnterObject(Describe(map, map->l_name, map->l_name), RuntimeExports(), &main_warning,
              &lesser_warning);
}

// The debugger's view of one of the loader's name spaces (dlmopen makes others),
// and the next one. Loaders before glibc 2.35 show the first only.
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

// Enters all objects not seen before. Called with the loader's lock held, or before
// there are threads.
void EnterNewObjects() {
  objects.Begin();
  BeginWalk();
  for (const r_debug* space = &_r_debug; space != nullptr; space = NextSpace(space)) {
    // While a space is being changed, its new objects are not complete.
    const bool complete = space->r_state == r_debug::RT_CONSISTENT;
    for (const link_map* map = space->r_map; map != nullptr; map = map->l_next) {
      const bool seen = objects.Seen(map);
      Meet(reinterpret_cast<std::uint64_t>(map->l_ld));
      if (!seen && !complete) continue;
      // Without memory to remember an object it is left alone: the next walk would
      // take it for new and find its code changed.
      if (!objects.Keep(map) || seen) continue;
      EnterMap(map, space == &_r_debug && map == space->r_map);
    }
  }
  objects.End();
  EndWalk();
}

void OnLoaderState() { EnterNewObjects(); }

// The same where a debugger has its breakpoint in the loader's function.
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

// Code is changed only while no other thread can be running in it. That is so
// at the start of a process, and not always when something loads us later.
bool SingleThreaded() {
  struct stat tasks;
  constexpr unsigned kLinksOfOneTask = 3;  // ".", ".." and the task's own folder.
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

// The loader gives constructors what it gives main; the C library's environ is
// not set yet.
__attribute__((constructor(101))) void Enter(int count, char** arguments, char** environment) {
  loaded_by_cuspan = HasSocket(environment);
  if (!loaded_by_cuspan || !SingleThreaded()) return;
  if (count > 0) first_argument = arguments[0];
  // The C library sets it before other code of the program runs.
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
