#include "launcher/allocator/lock_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include "common/settings.h"
#include "launcher/allocator/folder_trust.h"

namespace cuspan {
namespace {

// Maximum number of attempts to lock a file. Others may remove it between two calls; more often in
// a row is deliberate.
constexpr int kMaxRounds = 16;

// Checks that the file is one cuspan could have created: a regular file with one name. A file with
// no name was just removed by the holder of its lock.
Status CheckPlain(const struct stat& file, const std::string& path) {
  if (S_ISREG(file.st_mode) && file.st_nlink <= 1) return Status::Ok();
  return Status::Refused(
      "{} is not a lock file of cuspan ({}); {} created it: have it removed, or set {} to another "
      "directory",
      path, S_ISREG(file.st_mode) ? "it has other hard links" : "it is not a regular file",
      UserName(file.st_uid), settings::kLeaseFolder.name);
}

}  // namespace

std::string UserName(uid_t user) {
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return Format("user {}", user);
}

Status LockFolder::Explain(const char* what, const std::string& name, int error) const {
  const std::string file = name.empty() ? path_ : path_ + "/" + name;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return Status::Exhausted(
        "no space for GPU locks in {} ({} {}: {}): free some space there, or set {} to another "
        "directory",
        path_, what, file, std::strerror(error), settings::kLeaseFolder.name);
  return Status::Unavailable("GPU locks: {} {}: {}; see {}", what, file, std::strerror(error),
                             settings::kLeaseFolder.name);
}

Result<LockFolder> LockFolder::Open(const std::string& path) {
  LockFolder folder(path, UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  struct stat found {};
  if (!folder.folder_.valid() || ::fstat(folder.folder_.get(), &found) != 0)
    return folder.Explain("opening the directory", "", errno);
  // The path, without links, of the folder just opened.
  std::error_code unknown;
  const std::string real =
      std::filesystem::read_symlink(Format("/proc/self/fd/{}", folder.folder_.get()), unknown);
  const UserNamespace users = UserNamespace::OfThisProcess();
  const bool others_write = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (!HasTrustedOwner(real, found.st_uid, ::geteuid(), users) ||
      (others_write && (found.st_mode & S_ISVTX) == 0))
    return Status::Refused(
        "{} is not safe for GPU locks: it must be owned by root, and sticky (chmod 1777, as /tmp) "
        "if others may write to it{}; set {} to such a directory",
        path,
        users.HidesRoot()
            ? Format(". This user namespace (a rootless container) hides the owners of "
                     "directories, except of {}, {}, {} and {}",
                     kFoldersOfRoot[0], kFoldersOfRoot[1], kFoldersOfRoot[2], kFoldersOfRoot[3])
            : "",
        settings::kLeaseFolder.name);
  return folder;
}

Result<UniqueFd> LockFolder::OpenFile(const std::string& name, int flags) const {
  // Without O_CREAT, another user's file opens even if fs.protected_regular is set. O_NONBLOCK: the
  // file may be a pipe.
  UniqueFd fd(::openat(folder_.get(), name.c_str(),
                       flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno == ENOENT) return Status::NotFound("{}/{} does not exist", path_, name);
  if (!fd.valid() && errno == ELOOP)
    return Status::Refused(
        "{}/{} is a symbolic link, not created by cuspan: have it removed, or set {} to another "
        "directory",
        path_, name, settings::kLeaseFolder.name);
  if (!fd.valid()) return Explain("opening", name, errno);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return Explain("checking", name, errno);
  CUSPAN_RETURN_IF_ERROR(CheckPlain(found, path_ + "/" + name));
  return fd;
}

bool LockFolder::IsNow(const std::string& name, int fd) const {
  struct stat locked {};
  struct stat named {};
  return ::fstat(fd, &locked) == 0 &&
         ::fstatat(folder_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino && locked.st_nlink == 1;
}

Result<std::optional<UniqueFd>> LockFolder::TryLock(const std::string& name, bool create,
                                                    Mode mode) {
  const int operation = (mode == Mode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  for (int round = 0; round < kMaxRounds; ++round) {
    Result<UniqueFd> fd = OpenFile(name, O_RDONLY);
    if (!fd.ok() && fd.status().code() == StatusCode::kNotFound && create) {
      fd = CreateLocked(name, "");
      // Another process created it first.
      if (!fd.ok() && fd.status().code() == StatusCode::kInvalid) continue;
    }
    if (!fd.ok()) return fd.status();
    // If the file was just created, its lock is exclusive already, or becomes shared here.
    if (::flock(fd->get(), operation) != 0) {
      if (errno == EWOULDBLOCK || errno == EINTR) return std::optional<UniqueFd>();
      return Explain("locking", name, errno);
    }
    if (IsNow(name, fd->get())) return std::optional<UniqueFd>(std::move(*fd));
  }
  return std::optional<UniqueFd>();
}

Result<UniqueFd> LockFolder::CreateLocked(const std::string& name, const std::string& content) {
  // Mode 0600: other users cannot open the file before it is locked. A lock by another process
  // would mean that its creator has died.
  UniqueFd fd(::openat(folder_.get(), name.c_str(),
                       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid() && errno == EEXIST) return Status::Invalid("{}/{} exists", path_, name);
  if (!fd.valid()) return Explain("creating", name, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || !IsNow(name, fd.get()))
    return Status::Invalid("{}/{} was removed as a stale lock", path_, name);
  Status ready = content.empty() ? Status::Ok() : Write(name, fd, content);
  // Independent of the umask, every user must be able to test the lock.
  if (ready.ok() && ::fchmod(fd.get(), 0644) != 0)
    ready = Explain("changing the mode of", name, errno);
  if (ready.ok()) return fd;
  Remove(name, fd);
  return ready;
}

bool LockFolder::Remove(const std::string& name, const UniqueFd& locked) {
  return IsNow(name, locked.get()) && ::unlinkat(folder_.get(), name.c_str(), 0) == 0;
}

Status LockFolder::Share(const UniqueFd& locked) {
  if (::flock(locked.get(), LOCK_SH | LOCK_NB) == 0) return Status::Ok();
  return Explain("sharing a lock in", "", errno);
}

void LockFolder::GiveBack(const std::string& name, UniqueFd locked) {
  // If the lock can become exclusive, no other run shares it. The file is removed before the lock
  // is released: a process locking it later finds its name gone.
  if (::flock(locked.get(), LOCK_EX | LOCK_NB) == 0) Remove(name, locked);
}

Result<std::vector<std::string>> LockFolder::List(const std::string& prefix,
                                                  std::size_t most) const {
  // A separate file description: the read position of a folder belongs to it.
  UniqueFd fd(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return Explain("listing", "", errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(fd.get()), ::closedir);
  if (!folder) return Explain("listing", "", errno);
  fd.Release();
  std::vector<std::string> names;
  while (names.size() < most) {
    const dirent* const entry = ::readdir(folder.get());  // NOLINT: a stream of our own.
    if (entry == nullptr) break;
    if (std::string_view(entry->d_name).starts_with(prefix)) names.emplace_back(entry->d_name);
  }
  return names;
}

Result<LockFolder::Found> LockFolder::Read(const std::string& name, std::size_t most) const {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(name, O_RDONLY));
  Found found;
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return Explain("checking", name, errno);
  found.owner = file.st_uid;
  found.content.resize(most);
  const ssize_t got = ::pread(fd.get(), found.content.data(), most, 0);
  found.content.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  found.fd = std::move(fd);
  return found;
}

Status LockFolder::Write(const std::string& name, const UniqueFd& file,
                         const std::string& content) {
  const ssize_t written = ::pwrite(file.get(), content.data(), content.size(), 0);
  if (written < 0) return Explain("writing", name, errno);
  if (static_cast<std::size_t>(written) != content.size()) return Explain("writing", name, ENOSPC);
  if (::ftruncate(file.get(), written) != 0) return Explain("writing", name, errno);
  return Status::Ok();
}

Status LockFolder::Rename(const std::string& from, const std::string& to) {
  if (::renameat(folder_.get(), from.c_str(), folder_.get(), to.c_str()) != 0)
    return Explain("renaming", from, errno);
  return Status::Ok();
}

pid_t LockFolder::LockHolder(const std::string& name) const {
  struct stat file {};
  if (::fstatat(folder_.get(), name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  // Line: "1: FLOCK  ADVISORY  WRITE 4711 fe:00:393 0 EOF"; device numbers are hexadecimal.
  const std::string place =
      Format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, at;
    pid_t pid = 0;
    if (words >> number >> kind >> advisory >> access >> pid >> at && kind == "FLOCK" &&
        at == place && pid > 0)
      return pid;
  }
  return 0;
}

std::string LockFolder::DescribeLock(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  const pid_t pid = LockHolder(name);
  struct stat process {};
  if (pid != 0 && ::stat(Format("/proc/{}", pid).c_str(), &process) == 0)
    return Format("{} is locked by process {} of user {}", path, pid, UserName(process.st_uid));
  struct stat file {};
  if (::fstatat(folder_.get(), name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0)
    return Format("{} is locked", path);
  return Format("{}, a file of user {}, is locked by a process not visible here", path,
                UserName(file.st_uid));
}

}  // namespace cuspan
