// Functions of the C library used by programs to look for the files of driver_files.h. The node's
// own file system has precedence, so a node with a driver shows its own files.
//
// Part of the library loaded into programs, but not of unit tests.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstring>
#include <map>
#include <optional>

#include "common/cancellation.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "interpose/client/agent_connection.h"
#include "interpose/client/base/before_libc.h"
#include "interpose/client/base/run_environment.h"
#include "interpose/process/driver_files.h"

namespace cuspan {
namespace {

// Types without the attributes of the C library's declarations: templates cannot have these.
using StatFunction = int(const char*, struct stat*);
using StatAtFunction = int(int, const char*, struct stat*, int);
using OldStatFunction = int(int, const char*, struct stat*);
using OldStatAtFunction = int(int, int, const char*, struct stat*, int);
using ExtendedStatFunction = int(int, const char*, int, unsigned, struct statx*);
using AccessFunction = int(const char*, int);
using AccessAtFunction = int(int, const char*, int, int);
using OpenFunction = int(const char*, int, ...);
using OpenAtFunction = int(int, const char*, int, ...);
using CheckedOpenFunction = int(const char*, int);
using CheckedOpenAtFunction = int(int, const char*, int);
using StreamFunction = FILE*(const char*, const char*);
using OpenFolderFunction = DIR*(const char*);
using FolderOfFunction = DIR*(int);
using ReadFolderFunction = struct dirent*(DIR*);
using CloseFolderFunction = int(DIR*);
using RewindFolderFunction = void(DIR*);
using GlobFunction = int(const char*, int, int (*)(const char*, int), glob_t*);

class KeepErrno {
 public:
  KeepErrno() : before_(errno) {}
  ~KeepErrno() { errno = before_; }
  KeepErrno(const KeepErrno&) = delete;

 private:
  const int before_;
};

// Devices of the run, queried once from the agent of this node. Empty outside of a run.
const std::vector<DeviceDescription>& RunDevices() {
  static const auto* const devices = [] {
    auto* const found = new std::vector<DeviceDescription>;
    if (*RunSocket() == 0) return found;
    if (Result<AgentConnection::Introduced> introduced = AgentConnection::IntroduceObserver();
        introduced.ok())
      *found = std::move(introduced->devices);
    return found;
  }();
  return *devices;
}

// Base folder of a relative path. Empty if unknown.
std::string BaseOf(int folder) {
  std::string path(PATH_MAX, '\0');
  if (folder == AT_FDCWD) {
    if (::getcwd(path.data(), path.size()) == nullptr) return "";
    path.resize(path.find('\0'));
    return path;
  }
  const ssize_t size =
      ::readlink(Format("/proc/self/fd/{}", folder).c_str(), path.data(), path.size());
  path.resize(size > 0 && path[0] == '/' ? static_cast<std::size_t>(size) : 0);
  return path;
}

DriverFile Find(int folder, const char* path) {
  if (!MayBeDriverFile(path)) return {};
  const KeepErrno keep;
  const CancellationOff cancellation;
  std::string base;
  if (*path != '/' && (base = BaseOf(folder)).empty()) return {};
  return FindDriverFile(AbsolutePath(path, base), RunDevices());
}

// True if `result` reports a missing path.
bool IsMissing(int result) { return result == -1 && (errno == ENOENT || errno == ENOTDIR); }

bool Describe(int folder, const char* path, struct stat* out) {
  const DriverFile file = Find(folder, path);
  if (file.kind == DriverFile::Kind::kNone || out == nullptr) return false;
  const KeepErrno keep;
  struct stat near {};
  if (::fstatat(AT_FDCWD, file.kind == DriverFile::Kind::kDevice ? "/dev" : "/proc", &near, 0) != 0)
    return false;
  FillStat(file, near, out);
  return true;
}

// Returns call() → int, like stat(). If the path is missing, describes a driver file instead.
template <typename Call>
int Stat(int folder, const char* path, struct stat* out, Call&& call) {
  const int result = call();
  if (!IsMissing(result)) [[likely]]
    return result;
  return Describe(folder, path, out) ? 0 : result;
}

template <typename Call>
int AnswerAccess(int folder, const char* path, int mode, Call&& call) {
  const int result = call();
  if (!IsMissing(result)) [[likely]]
    return result;
  const DriverFile file = Find(folder, path);
  const bool denied = (file.kind != DriverFile::Kind::kFolder && (mode & X_OK) != 0) ||
                      (file.kind != DriverFile::Kind::kDevice && (mode & W_OK) != 0);
  if (file.kind == DriverFile::Kind::kNone) return result;
  if (!denied) return 0;
  errno = EACCES;
  return -1;
}

// Returns a descriptor to read `text`. -1 and errno on failure.
int OpenText(const std::string& text, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) {
    errno = EACCES;
    return -1;
  }
  UniqueFd fd(::memfd_create("nvidia", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0U));
  const auto size = static_cast<ssize_t>(text.size());
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) != size ||
      ::lseek(fd.get(), 0, SEEK_SET) != 0)
    return -1;
  return fd.Release();
}

template <typename Call>
int Open(int folder, const char* path, int flags, Call&& call) {
  const int result = call();
  if (!IsMissing(result)) [[likely]]
    return result;
  const DriverFile file = Find(folder, path);
  return file.kind == DriverFile::Kind::kText ? OpenText(file.text, flags) : result;
}

template <typename Call>
FILE* OpenStream(const char* path, const char* mode, Call&& call) {
  FILE* const stream = call();
  if (stream != nullptr || !IsMissing(-1)) [[likely]]
    return stream;
  const DriverFile file = Find(AT_FDCWD, path);
  if (file.kind != DriverFile::Kind::kText) return nullptr;
  const bool reads = *mode == 'r' && std::strchr(mode, '+') == nullptr;
  UniqueFd fd(OpenText(file.text, reads ? O_RDONLY : O_RDWR));
  FILE* const opened = fd.valid() ? ::fdopen(fd.get(), mode) : nullptr;
  if (opened != nullptr) fd.Release();
  return opened;
}

// --- Folders: /dev with device files appended, and folders missing on the node

class Listing {
 public:
  Listing(std::vector<std::string> names, unsigned char type, bool only_these)
      : names_(std::move(names)), type_(type), only_these_(only_these) {}

  bool only_these() const { return only_these_; }
  void Rewind() { next_ = 0; }
  // Null at the end. Valid until the next call.
  struct dirent* Next() {
    if (next_ == names_.size()) return nullptr;
    const std::string& name = names_[next_++];
    entry_ = {};
    entry_.d_ino = (ino_t{1} << 62) + next_;
    entry_.d_off = static_cast<off_t>(next_);
    entry_.d_type = type_;
    entry_.d_reclen = sizeof entry_;
    std::memcpy(entry_.d_name, name.data(), std::min(name.size(), sizeof entry_.d_name - 1));
    return &entry_;
  }

 private:
  std::vector<std::string> names_;
  unsigned char type_;
  bool only_these_;
  std::size_t next_ = 0;
  struct dirent entry_ {};
};

// Open folders with entries missing in the file system.
std::atomic<int> listing_count{0};
Mutex listings_mutex;
std::map<DIR*, Listing>& Listings() CUSPAN_REQUIRES(listings_mutex) {
  static auto* const listings = new std::map<DIR*, Listing>;
  return *listings;
}

void AddListing(DIR* folder, Listing listing) {
  const MutexLock lock(listings_mutex);
  Listings().insert_or_assign(folder, std::move(listing));
  listing_count.store(static_cast<int>(Listings().size()), std::memory_order_release);
}

void DropListing(DIR* folder) {
  if (listing_count.load(std::memory_order_acquire) == 0) return;
  const MutexLock lock(listings_mutex);
  Listings().erase(folder);
  listing_count.store(static_cast<int>(Listings().size()), std::memory_order_release);
}

// If the folder just opened is /dev, appends the device files.
void AddDeviceFiles(DIR* folder) {
  const KeepErrno keep;
  const CancellationOff cancellation;
  struct stat opened {
  }, dev{};
  if (*RunSocket() == 0 || ::fstat(::dirfd(folder), &opened) != 0 || !S_ISDIR(opened.st_mode) ||
      ::fstatat(AT_FDCWD, "/dev", &dev, 0) != 0 || opened.st_dev != dev.st_dev ||
      opened.st_ino != dev.st_ino)
    return;
  static constinit std::atomic<AccessFunction*> next{nullptr};
  std::vector<std::string> missing;
  for (std::string& name : DeviceFileNames(RunDevices().size())) {
    if (RunDevices().empty() || Next(next, "access")(("/dev/" + name).c_str(), F_OK) == 0) continue;
    missing.push_back(std::move(name));
  }
  if (!missing.empty()) AddListing(folder, Listing(std::move(missing), DT_CHR, false));
}

// A missing folder gets a descriptor of /proc. The entries of /proc are not read.
DIR* OpenListing(const DriverFile& file, OpenFolderFunction* next) {
  DIR* const folder = next("/proc");
  if (folder == nullptr) return nullptr;
  std::vector<std::string> names = {".", ".."};
  names.insert(names.end(), file.names.begin(), file.names.end());
  AddListing(folder, Listing(std::move(names), DT_UNKNOWN, true));
  return folder;
}

template <typename Call>
struct dirent* ReadFolder(DIR* folder, Call&& call) {
  if (listing_count.load(std::memory_order_acquire) == 0) [[likely]]
    return call();
  {
    const MutexLock lock(listings_mutex);
    const auto found = Listings().find(folder);
    if (found != Listings().end() && found->second.only_these()) return found->second.Next();
  }
  const int before = errno;
  errno = 0;
  struct dirent* const entry = call();
  if (entry != nullptr || errno != 0) {
    if (entry != nullptr) errno = before;
    return entry;
  }
  errno = before;
  const MutexLock lock(listings_mutex);
  const auto found = Listings().find(folder);
  return found != Listings().end() ? found->second.Next() : nullptr;
}

// The C library's glob reads folders by internal functions. These cannot be overridden.
template <typename Call>
int Glob(const char* pattern, int flags, glob_t* result, Call&& call) {
  const bool ours = (flags & GLOB_ALTDIRFUNC) == 0 && MayBeDriverFile(pattern) && result != nullptr;
  if (!ours) return call(flags);
  result->gl_opendir = [](const char* path) -> void* { return ::opendir(path); };
  result->gl_readdir = [](void* folder) { return ::readdir(static_cast<DIR*>(folder)); };
  result->gl_closedir = [](void* folder) {
    static_cast<void>(::closedir(static_cast<DIR*>(folder)));
  };
  result->gl_stat = [](const char* path, struct stat* out) { return ::stat(path, out); };
  result->gl_lstat = [](const char* path, struct stat* out) { return ::lstat(path, out); };
  const int status = call(flags | GLOB_ALTDIRFUNC);
  result->gl_flags &= ~GLOB_ALTDIRFUNC;
  return status;
}

// Defines `mode`, the optional argument of open().
#define CUSPAN_OPEN_MODE(flags, last)                               \
  mode_t mode = 0;                                                  \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list more;                                                   \
    va_start(more, last);                                           \
    mode = va_arg(more, mode_t);                                    \
    va_end(more);                                                   \
  }

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the functions below are the C library's.

// Each function exists twice: names for large files use the same structures here.
static_assert(sizeof(struct stat) == sizeof(struct stat64) &&
              sizeof(struct dirent) == sizeof(struct dirent64) &&
              sizeof(glob_t) == sizeof(glob64_t));

#define CUSPAN_STAT(name, type)                                                   \
  CUSPAN_BEFORE_LIBC int name(const char* path, type* out) noexcept {             \
    static constinit std::atomic<StatFunction*> next{nullptr};                    \
    auto* const to = reinterpret_cast<struct stat*>(out);                         \
    return Stat(AT_FDCWD, path, to, [&] { return Next(next, #name)(path, to); }); \
  }
CUSPAN_STAT(stat, struct stat)
CUSPAN_STAT(stat64, struct stat64)
CUSPAN_STAT(lstat, struct stat)
CUSPAN_STAT(lstat64, struct stat64)

#define CUSPAN_STAT_AT(name, type)                                                             \
  CUSPAN_BEFORE_LIBC int name(int folder, const char* path, type* out, int flags) noexcept {   \
    static constinit std::atomic<StatAtFunction*> next{nullptr};                               \
    auto* const to = reinterpret_cast<struct stat*>(out);                                      \
    return Stat(folder, path, to, [&] { return Next(next, #name)(folder, path, to, flags); }); \
  }
CUSPAN_STAT_AT(fstatat, struct stat)
CUSPAN_STAT_AT(fstatat64, struct stat64)

// Names used by programs linked with a C library before 2.33.
#define CUSPAN_OLD_STAT(name)                                                                \
  CUSPAN_BEFORE_LIBC int name(int version, const char* path, struct stat* out) {             \
    static constinit std::atomic<OldStatFunction*> next{nullptr};                            \
    return Stat(AT_FDCWD, path, out, [&] { return Next(next, #name)(version, path, out); }); \
  }
CUSPAN_OLD_STAT(__xstat)
CUSPAN_OLD_STAT(__xstat64)
CUSPAN_OLD_STAT(__lxstat)
CUSPAN_OLD_STAT(__lxstat64)

#define CUSPAN_OLD_STAT_AT(name)                                                           \
  CUSPAN_BEFORE_LIBC int name(int version, int folder, const char* path, struct stat* out, \
                              int flags) {                                                 \
    static constinit std::atomic<OldStatAtFunction*> next{nullptr};                        \
    return Stat(folder, path, out,                                                         \
                [&] { return Next(next, #name)(version, folder, path, out, flags); });     \
  }
CUSPAN_OLD_STAT_AT(__fxstatat)
CUSPAN_OLD_STAT_AT(__fxstatat64)

CUSPAN_BEFORE_LIBC int statx(int folder, const char* path, int flags, unsigned mask,
                             struct statx* out) noexcept {
  static constinit std::atomic<ExtendedStatFunction*> next{nullptr};
  const int result = Next(next, "statx")(folder, path, flags, mask, out);
  struct stat found {};
  if (!IsMissing(result) || !Describe(folder, path, &found)) [[likely]]
    return result;
  const auto time = [](const timespec& from) {
    struct statx_timestamp to {};
    to.tv_sec = from.tv_sec;
    to.tv_nsec = static_cast<std::uint32_t>(from.tv_nsec);
    return to;
  };
  *out = {};
  out->stx_mask = STATX_BASIC_STATS;
  out->stx_blksize = static_cast<std::uint32_t>(found.st_blksize);
  out->stx_nlink = static_cast<std::uint32_t>(found.st_nlink);
  out->stx_mode = static_cast<std::uint16_t>(found.st_mode);
  out->stx_ino = found.st_ino;
  out->stx_atime = time(found.st_atim);
  out->stx_ctime = time(found.st_ctim);
  out->stx_mtime = time(found.st_mtim);
  out->stx_rdev_major = major(found.st_rdev);
  out->stx_rdev_minor = minor(found.st_rdev);
  out->stx_dev_major = major(found.st_dev);
  out->stx_dev_minor = minor(found.st_dev);
  return 0;
}

#define CUSPAN_ACCESS(name)                                                                   \
  CUSPAN_BEFORE_LIBC int name(const char* path, int mode) noexcept {                          \
    static constinit std::atomic<AccessFunction*> next{nullptr};                              \
    return AnswerAccess(AT_FDCWD, path, mode, [&] { return Next(next, #name)(path, mode); }); \
  }
CUSPAN_ACCESS(access)
CUSPAN_ACCESS(euidaccess)
CUSPAN_ACCESS(eaccess)

CUSPAN_BEFORE_LIBC int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  static constinit std::atomic<AccessAtFunction*> next{nullptr};
  return AnswerAccess(folder, path, mode,
                      [&] { return Next(next, "faccessat")(folder, path, mode, flags); });
}

#define CUSPAN_OPEN(name)                                                                     \
  CUSPAN_BEFORE_LIBC int name(const char* path, int flags, ...) {                             \
    static constinit std::atomic<OpenFunction*> next{nullptr};                                \
    CUSPAN_OPEN_MODE(flags, flags)                                                            \
    return Open(AT_FDCWD, path, flags, [&] { return Next(next, #name)(path, flags, mode); }); \
  }
CUSPAN_OPEN(open)
CUSPAN_OPEN(open64)

#define CUSPAN_OPEN_AT(name)                                                   \
  CUSPAN_BEFORE_LIBC int name(int folder, const char* path, int flags, ...) {  \
    static constinit std::atomic<OpenAtFunction*> next{nullptr};               \
    CUSPAN_OPEN_MODE(flags, flags)                                             \
    return Open(folder, path, flags,                                           \
                [&] { return Next(next, #name)(folder, path, flags, mode); }); \
  }
CUSPAN_OPEN_AT(openat)
CUSPAN_OPEN_AT(openat64)

// Names used by programs compiled with _FORTIFY_SOURCE.
#define CUSPAN_CHECKED_OPEN(name)                                                       \
  CUSPAN_BEFORE_LIBC int name(const char* path, int flags) {                            \
    static constinit std::atomic<CheckedOpenFunction*> next{nullptr};                   \
    return Open(AT_FDCWD, path, flags, [&] { return Next(next, #name)(path, flags); }); \
  }
CUSPAN_CHECKED_OPEN(__open_2)
CUSPAN_CHECKED_OPEN(__open64_2)

#define CUSPAN_CHECKED_OPEN_AT(name)                                                          \
  CUSPAN_BEFORE_LIBC int name(int folder, const char* path, int flags) {                      \
    static constinit std::atomic<CheckedOpenAtFunction*> next{nullptr};                       \
    return Open(folder, path, flags, [&] { return Next(next, #name)(folder, path, flags); }); \
  }
CUSPAN_CHECKED_OPEN_AT(__openat_2)
CUSPAN_CHECKED_OPEN_AT(__openat64_2)

#define CUSPAN_FOPEN(name)                                                        \
  CUSPAN_BEFORE_LIBC FILE* name(const char* path, const char* mode) {             \
    static constinit std::atomic<StreamFunction*> next{nullptr};                  \
    return OpenStream(path, mode, [&] { return Next(next, #name)(path, mode); }); \
  }
CUSPAN_FOPEN(fopen)
CUSPAN_FOPEN(fopen64)

CUSPAN_BEFORE_LIBC DIR* opendir(const char* path) {
  static constinit std::atomic<OpenFolderFunction*> next{nullptr};
  DIR* const folder = Next(next, "opendir")(path);
  if (folder != nullptr) {
    AddDeviceFiles(folder);
    return folder;
  }
  if (!IsMissing(-1)) return nullptr;
  const DriverFile file = Find(AT_FDCWD, path);
  return file.kind == DriverFile::Kind::kFolder ? OpenListing(file, Next(next, "opendir"))
                                                : nullptr;
}
CUSPAN_BEFORE_LIBC DIR* fdopendir(int fd) {
  static constinit std::atomic<FolderOfFunction*> next{nullptr};
  DIR* const folder = Next(next, "fdopendir")(fd);
  if (folder != nullptr) AddDeviceFiles(folder);
  return folder;
}
CUSPAN_BEFORE_LIBC struct dirent* readdir(DIR* folder) {
  static constinit std::atomic<ReadFolderFunction*> next{nullptr};
  return ReadFolder(folder, [&] { return Next(next, "readdir")(folder); });
}
CUSPAN_BEFORE_LIBC struct dirent64* readdir64(DIR* folder) {
  static constinit std::atomic<ReadFolderFunction*> next{nullptr};
  return reinterpret_cast<struct dirent64*>(
      ReadFolder(folder, [&] { return Next(next, "readdir64")(folder); }));
}
CUSPAN_BEFORE_LIBC void rewinddir(DIR* folder) noexcept {
  static constinit std::atomic<RewindFolderFunction*> next{nullptr};
  if (listing_count.load(std::memory_order_acquire) != 0) {
    const MutexLock lock(listings_mutex);
    if (const auto found = Listings().find(folder); found != Listings().end())
      found->second.Rewind();
  }
  Next(next, "rewinddir")(folder);
}
CUSPAN_BEFORE_LIBC int closedir(DIR* folder) {
  static constinit std::atomic<CloseFolderFunction*> next{nullptr};
  DropListing(folder);
  return Next(next, "closedir")(folder);
}

CUSPAN_BEFORE_LIBC int glob(const char* pattern, int flags, int (*failed)(const char*, int),
                            glob_t* result) noexcept {
  static constinit std::atomic<GlobFunction*> next{nullptr};
  return Glob(pattern, flags, result,
              [&](int with) { return Next(next, "glob")(pattern, with, failed, result); });
}
CUSPAN_BEFORE_LIBC int glob64(const char* pattern, int flags, int (*failed)(const char*, int),
                              glob64_t* result) noexcept {
  static constinit std::atomic<GlobFunction*> next{nullptr};
  auto* const to = reinterpret_cast<glob_t*>(result);
  return Glob(pattern, flags, to,
              [&](int with) { return Next(next, "glob64")(pattern, with, failed, to); });
}
