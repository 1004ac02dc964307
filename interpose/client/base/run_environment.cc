// Compiled with the restrictions of interpose/load: the constructor runs before the C library is
// set up.
#include "interpose/client/base/run_environment.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdint>

namespace cuspan {
namespace {

constexpr char kSocket[] = "CUSPAN_SOCKET=";
constexpr char kSecret[] = "CUSPAN_SECRET=";
constexpr char kPreload[] = "LD_PRELOAD=";
constexpr char kPath[] = "LD_LIBRARY_PATH=";
constexpr char kOwn[] = "CUSPAN_";
constexpr char kClientFile[] = "/libcuspan.so";
constexpr char kRuntimeFolder[] = "/runtime";

// Copies of the variables: a program may overwrite the memory of its initial environment.
constexpr std::size_t kTextBytes = 32 * 1024;
constexpr std::size_t kMaxVariables = 128;
constinit char texts[kTextBytes] = {};
constinit std::size_t used = 0;
constinit const char* variables[kMaxVariables] = {};  // CUSPAN_…=…
constinit std::size_t variable_count = 0;
constinit const char* socket_value = "";
constinit const char* secret_value = "";
constinit const char* client_file = "";     // Path from LD_PRELOAD.
constinit const char* runtime_folder = "";  // Path from LD_LIBRARY_PATH.

std::size_t Length(const char* text) {
  std::size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

// Returns the rest of `entry` after `name`; null for another variable's entry.
const char* ValueOf(const char* entry, const char* name) {
  for (; *name != 0; ++name, ++entry)
    if (*entry != *name) return nullptr;
  return entry;
}

bool Same(const char* one, std::size_t length, const char* other) {
  for (std::size_t i = 0; i < length; ++i)
    if (one[i] != other[i]) return false;  // Covers the end of `other`, too.
  return other[length] == 0;
}

bool EndsWith(const char* text, std::size_t length, const char* end) {
  const std::size_t size = Length(end);
  return length >= size && Same(text + length - size, size, end);
}

// Calls visit(entry, length) for each entry of a list until it returns true. Returns true if it
// did.
template <typename Visit>
bool AnyEntry(const char* list, Visit visit) {
  for (;;) {
    std::size_t length = 0;
    while (list[length] != 0 && list[length] != ':' && list[length] != ' ' && list[length] != ';')
      ++length;
    if (visit(list, length)) return true;
    if (list[length] == 0) return false;
    list += length + 1;
  }
}

// Returns a copy valid for the life of the process; empty if the buffer is full.
const char* Keep(const char* text, std::size_t length, const char* end = "") {
  const std::size_t more = Length(end);
  if (length + more + 1 > kTextBytes - used) return "";
  char* const copy = texts + used;
  for (std::size_t i = 0; i < length; ++i) copy[i] = text[i];
  for (std::size_t i = 0; i < more; ++i) copy[length + i] = end[i];
  used += length + more + 1;
  return copy;
}

// Copies `entry`. CUSPAN_SOCKET and CUSPAN_SECRET come first: nothing works without them.
void KeepVariable(const char* entry) {
  if (variable_count == kMaxVariables) return;
  const char* const copy = Keep(entry, Length(entry));
  if (*copy == 0) return;
  variables[variable_count++] = copy;
  if (const char* const socket = ValueOf(copy, kSocket); socket != nullptr) socket_value = socket;
  if (const char* const secret = ValueOf(copy, kSecret); secret != nullptr) secret_value = secret;
}

__attribute__((constructor(101))) void KeepRun(int, char**, char** environment) {
  if (environment == nullptr) return;
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (ValueOf(*entry, kSocket) != nullptr || ValueOf(*entry, kSecret) != nullptr)
      KeepVariable(*entry);
    if (const char* const list = ValueOf(*entry, kPreload); list != nullptr) {
      AnyEntry(list, [](const char* file, std::size_t length) {
        if (!EndsWith(file, length, kClientFile)) return false;
        client_file = Keep(file, length);
        return true;
      });
    }
    if (const char* const list = ValueOf(*entry, kPath); list != nullptr) {
      AnyEntry(list, [](const char* folder, std::size_t length) {
        if (!EndsWith(folder, length, "/lib/cuspan/runtime")) return false;
        runtime_folder = Keep(folder, length);
        return true;
      });
    }
  }
  // The library was loaded through a replacement of one of NVIDIA's.
  if (*client_file == 0 && *runtime_folder != 0)
    client_file =
        Keep(runtime_folder, Length(runtime_folder) - Length(kRuntimeFolder), kClientFile);
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (ValueOf(*entry, kOwn) != nullptr && ValueOf(*entry, kSocket) == nullptr &&
        ValueOf(*entry, kSecret) == nullptr)
      KeepVariable(*entry);
  }
}

bool Holds(const char* list, const char* wanted) {
  return AnyEntry(list, [wanted](const char* entry, std::size_t length) {
    return Same(entry, length, wanted);
  });
}

char* Append(char* at, const char* text) {
  while (*text != 0) *at++ = *text++;
  return at;
}

// Writes NAME=FIRST:REST at `at`; returns the position after its end.
char* WriteList(char* at, const char* name, const char* first, const char* rest) {
  at = Append(Append(at, name), first);
  if (rest != nullptr && *rest != 0) at = Append(Append(at, ":"), rest);
  *at = 0;
  return at + 1;
}

std::size_t ListBytes(const char* name, const char* first, const char* rest) {
  return Length(name) + Length(first) + 1 + (rest != nullptr ? Length(rest) : 0) + 1;
}

}  // namespace

const char* RunSocket() { return socket_value; }
const char* RunSecret() { return secret_value; }

ChildEnvironment::ChildEnvironment(char* const* environment) : given_(environment) {
  if (*socket_value == 0 || *client_file == 0 || *runtime_folder == 0) return;
  // The secret of a run is for its user only.
  if (::getuid() != getauxval(AT_UID) || ::geteuid() != getauxval(AT_EUID)) return;
  add_preload_ = add_path_ = true;
  bool has_socket = false;
  bool has_secret = false;
  std::size_t count = 0;
  for (; environment != nullptr && environment[count] != nullptr; ++count) {
    const char* const entry = environment[count];
    if (const char* const value = ValueOf(entry, kSocket); value != nullptr) {
      has_socket = true;
      if (!Same(value, Length(value), socket_value)) return;
    } else if (ValueOf(entry, kSecret) != nullptr) {
      has_secret = true;
    } else if (const char* const files = ValueOf(entry, kPreload); files != nullptr) {
      preload_ = files;
      add_preload_ = !Holds(files, client_file);
    } else if (const char* const folders = ValueOf(entry, kPath); folders != nullptr) {
      path_ = folders;
      add_path_ = !Holds(folders, runtime_folder);
    }
  }
  add_run_ = !has_socket || !has_secret;
  incomplete_ = add_preload_ || add_path_ || add_run_;
  if (!incomplete_) return;
  bytes_ = (count + variable_count + 3) * sizeof(char*);
  if (add_preload_) bytes_ += ListBytes(kPreload, client_file, preload_);
  if (add_path_) bytes_ += ListBytes(kPath, runtime_folder, path_);
}

char** ChildEnvironment::Complete(void* memory) const {
  auto** const entries = static_cast<char**>(memory);
  std::size_t count = 0;
  const auto is_given = [this](const char* variable) {
    const char* end = variable;
    while (*end != '=') ++end;
    for (char* const* entry = given_; entry != nullptr && *entry != nullptr; ++entry) {
      std::size_t i = 0;
      const auto name = static_cast<std::size_t>(end - variable + 1);
      while (i < name && (*entry)[i] == variable[i]) ++i;
      if (i == name) return true;
    }
    return false;
  };
  for (char* const* entry = given_; entry != nullptr && *entry != nullptr; ++entry) {
    if (add_preload_ && ValueOf(*entry, kPreload) != nullptr) continue;
    if (add_path_ && ValueOf(*entry, kPath) != nullptr) continue;
    entries[count++] = *entry;
  }
  for (std::size_t i = 0; add_run_ && i < variable_count; ++i) {
    if (!is_given(variables[i])) entries[count++] = const_cast<char*>(variables[i]);
  }
  const std::size_t lists = (add_preload_ ? 1 : 0) + (add_path_ ? 1 : 0);
  char* at = reinterpret_cast<char*>(entries + count + lists + 1);
  if (add_preload_) {
    entries[count++] = at;
    at = WriteList(at, kPreload, client_file, preload_);
  }
  if (add_path_) {
    entries[count++] = at;
    WriteList(at, kPath, runtime_folder, path_);
  }
  entries[count] = nullptr;
  return entries;
}

}  // namespace cuspan
