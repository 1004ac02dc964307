// Functions of the C library starting programs. A program started by a process of the run belongs
// to the run, even if its environment was built from scratch (run_environment.h). These functions
// may be called between vfork and exec: no allocation, no locks.
//
// Part of the library loaded into programs, but not of unit tests.
#include <alloca.h>
#include <spawn.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>

#include "interpose/client/base/before_libc.h"
#include "interpose/client/base/run_environment.h"

namespace cuspan {
namespace {

// Types without the attributes of the C library's declarations: templates cannot have these.
using ExecFunction = int(const char*, char* const*, char* const*);
using ExecFileFunction = int(int, char* const*, char* const*);
using ExecAtFunction = int(int, const char*, char* const*, char* const*, int);
using SpawnFunction = int(pid_t*, const char*, const posix_spawn_file_actions_t*,
                          const posix_spawnattr_t*, char* const*, char* const*);

// Limit of stack use. Larger environments are passed unchanged.
constexpr std::size_t kMaxBytes = 512 * 1024;

// Defines `complete`, the environment for the new program, from `environment`. A macro, because its
// memory is on the calling function's stack.
#define CUSPAN_COMPLETE(environment, complete)                                 \
  const ChildEnvironment child_environment(environment);                       \
  char* const* complete = environment;                                         \
  if (child_environment.incomplete() && child_environment.bytes() < kMaxBytes) \
    complete = child_environment.Complete(alloca(child_environment.bytes()));

// Defines `arguments` as the array of variable arguments, up to the terminating null.
#define CUSPAN_ARGUMENTS(first, arguments, list)                                              \
  std::size_t argument_count = 1;                                                             \
  va_list list;                                                                               \
  va_start(list, first);                                                                      \
  while (va_arg(list, char*) != nullptr) ++argument_count;                                    \
  va_end(list);                                                                               \
  auto** const arguments = static_cast<char**>(alloca((argument_count + 1) * sizeof(char*))); \
  arguments[0] = const_cast<char*>(first);                                                    \
  va_start(list, first);                                                                      \
  for (std::size_t i = 1; i <= argument_count; ++i) arguments[i] = va_arg(list, char*);

int Exec(const char* path, char* const* arguments, char* const* environment) {
  static constinit std::atomic<ExecFunction*> next{nullptr};
  CUSPAN_COMPLETE(environment, complete)
  return Next(next, "execve")(path, arguments, complete);
}

int ExecNamed(const char* file, char* const* arguments, char* const* environment) {
  static constinit std::atomic<ExecFunction*> next{nullptr};
  CUSPAN_COMPLETE(environment, complete)
  return Next(next, "execvpe")(file, arguments, complete);
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the functions below are the C library's.

CUSPAN_BEFORE_LIBC int execve(const char* path, char* const* arguments,
                              char* const* environment) noexcept {
  return Exec(path, arguments, environment);
}
CUSPAN_BEFORE_LIBC int execv(const char* path, char* const* arguments) noexcept {
  return Exec(path, arguments, environ);
}
CUSPAN_BEFORE_LIBC int execvpe(const char* file, char* const* arguments,
                               char* const* environment) noexcept {
  return ExecNamed(file, arguments, environment);
}
CUSPAN_BEFORE_LIBC int execvp(const char* file, char* const* arguments) noexcept {
  return ExecNamed(file, arguments, environ);
}
CUSPAN_BEFORE_LIBC int execl(const char* path, const char* first, ...) noexcept {
  CUSPAN_ARGUMENTS(first, arguments, list)
  va_end(list);
  return Exec(path, arguments, environ);
}
CUSPAN_BEFORE_LIBC int execlp(const char* file, const char* first, ...) noexcept {
  CUSPAN_ARGUMENTS(first, arguments, list)
  va_end(list);
  return ExecNamed(file, arguments, environ);
}
CUSPAN_BEFORE_LIBC int execle(const char* path, const char* first, ...) noexcept {
  CUSPAN_ARGUMENTS(first, arguments, list)
  char* const* const environment = va_arg(list, char**);
  va_end(list);
  return Exec(path, arguments, environment);
}
CUSPAN_BEFORE_LIBC int fexecve(int fd, char* const* arguments, char* const* environment) noexcept {
  static constinit std::atomic<ExecFileFunction*> next{nullptr};
  CUSPAN_COMPLETE(environment, complete)
  return Next(next, "fexecve")(fd, arguments, complete);
}
CUSPAN_BEFORE_LIBC int execveat(int folder, const char* path, char* const* arguments,
                                char* const* environment, int flags) noexcept {
  static constinit std::atomic<ExecAtFunction*> next{nullptr};
  CUSPAN_COMPLETE(environment, complete)
  return Next(next, "execveat")(folder, path, arguments, complete, flags);
}

CUSPAN_BEFORE_LIBC int posix_spawn(pid_t* pid, const char* path,
                                   const posix_spawn_file_actions_t* actions,
                                   const posix_spawnattr_t* attributes, char* const* arguments,
                                   char* const* environment) {
  static constinit std::atomic<SpawnFunction*> next{nullptr};
  CUSPAN_COMPLETE(environment, complete)
  return Next(next, "posix_spawn")(pid, path, actions, attributes, arguments, complete);
}
CUSPAN_BEFORE_LIBC int posix_spawnp(pid_t* pid, const char* file,
                                    const posix_spawn_file_actions_t* actions,
                                    const posix_spawnattr_t* attributes, char* const* arguments,
                                    char* const* environment) {
  static constinit std::atomic<SpawnFunction*> next{nullptr};
  CUSPAN_COMPLETE(environment, complete)
  return Next(next, "posix_spawnp")(pid, file, actions, attributes, arguments, complete);
}
