#include "protocol/sharing/pair_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/process_fd.h"

namespace cuspan {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The longest socket name in the pipe folder (driver 580).
constexpr std::string_view kLongestSocket = "/pipe/control_privileged";
constexpr std::string_view kTablePrefix = "cuspan-share-";
constexpr std::string_view kPairPrefix = "cuspan-pair-";
constexpr std::size_t kMaxEntries = 4096;

// FNV-1a.
std::uint64_t NumberFor(std::string_view text) {
  std::uint64_t number = 0xcbf2'9ce4'8422'2325;
  for (const char letter : text)
    number = (number ^ static_cast<std::uint8_t>(letter)) * 0x100'0000'01b3;
  return number;
}

std::string PairSuffix() { return Format("-{}", static_cast<unsigned>(::geteuid())); }

Status ExplainFolder(const char* what, const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT)
    return Status::Exhausted("no space for the folder of the MPS server ({} {}: {})", what, path,
                             std::strerror(error));
  return Status::Unavailable("the folder of the MPS server: {} {}: {}; see CUSPAN_SHARE_FOLDER",
                             what, path, std::strerror(error));
}

Status NotOurs(const std::string& path) {
  return Status::Refused(
      "{} is not a private directory of yours: have it removed, or set CUSPAN_SHARE_FOLDER to "
      "another directory",
      path);
}

struct flock LockOf(PairFolder::Part part, short kind) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(part);
  lock.l_len = 1;
  return lock;
}

// True if a process was started with this variable; later changes of its environment do not count.
bool StartedWith(const std::string& process, const std::string& variable) {
  std::ifstream file("/proc/" + process + "/environ", std::ios::binary);
  std::string text;
  while (std::getline(file, text, '\0'))
    if (text == variable) return true;
  return false;
}

}  // namespace

Result<std::string> PairFolder::PathFor(const std::string& table) {
  const std::size_t end = table.rfind('/');
  const std::string name = table.substr(end + 1);
  if (end == std::string::npos || !name.starts_with(kTablePrefix))
    return Status::Invalid("'{}' is not a table of a shared GPU", table);
  std::string path = Format("{}/{}{:016x}{}", table.substr(0, end), kPairPrefix,
                            NumberFor(name.substr(kTablePrefix.size())), PairSuffix());
  constexpr std::size_t kMost = sizeof(sockaddr_un::sun_path) - 1 - kLongestSocket.size();
  if (path.size() > kMost)
    return Status::Invalid(
        "{} is too long for the sockets of NVIDIA's MPS, by {} characters: set "
        "CUSPAN_SHARE_FOLDER to a directory with a shorter name",
        path, path.size() - kMost);
  return path;
}

Result<PairFolder> PairFolder::Open(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return ExplainFolder("creating", path, errno);
  const UniqueFd folder(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!folder.valid()) {
    if (errno == ENOENT) return Status::NotFound("{} does not exist", path);
    if (errno == ENOTDIR || errno == ELOOP || errno == EACCES) return NotOurs(path);
    return ExplainFolder("opening", path, errno);
  }
  struct stat found {};
  if (::fstat(folder.get(), &found) != 0) return ExplainFolder("checking", path, errno);
  if (found.st_uid != ::geteuid() || (found.st_mode & 077) != 0) return NotOurs(path);
  UniqueFd lock(
      ::openat(folder.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!lock.valid()) {
    if (errno == ENOENT) return Status::NotFound("{} was removed", path);
    return ExplainFolder("opening the lock in", path, errno);
  }
  if (::fstat(lock.get(), &found) != 0 || !S_ISREG(found.st_mode)) return NotOurs(path);
  return PairFolder(path, std::move(lock));
}

PairFolder PairFolder::Adopt(const std::string& path, UniqueFd lock) {
  return {path, std::move(lock)};
}

Result<PairFolder> PairFolder::OpenAgain() const {
  UniqueFd lock(
      ::open(Format("/proc/self/fd/{}", lock_.get()).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!lock.valid()) return ExplainFolder("opening the lock in", path_, errno);
  return PairFolder(path_, std::move(lock));
}

bool PairFolder::Named() const {
  struct stat own {};
  struct stat named {};
  return ::fstat(lock_.get(), &own) == 0 && ::lstat((path_ + "/lock").c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

bool PairFolder::SetLock(Part part, bool alone) {
  struct flock lock = LockOf(part, alone ? F_WRLCK : F_RDLCK);
  return ::fcntl(lock_.get(), F_OFD_SETLK, &lock) == 0;
}

bool PairFolder::AwaitAlone(Part part) const {
  struct flock lock = LockOf(part, F_WRLCK);
  int result = 0;
  do {
    result = ::fcntl(lock_.get(), F_OFD_SETLKW, &lock);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

void PairFolder::Unlock(Part part) {
  struct flock lock = LockOf(part, F_UNLCK);
  ::fcntl(lock_.get(), F_OFD_SETLK, &lock);
}

bool PairFolder::OthersHave(Part part) const {
  struct flock lock = LockOf(part, F_WRLCK);
  return ::fcntl(lock_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void PairFolder::KillServers(milliseconds patience) const {
  const std::string variable = "CUDA_MPS_PIPE_DIRECTORY=" + pipe();
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"), ::closedir);
  if (!all) return;
  std::vector<UniqueFd> killed;
  while (const dirent* const entry = ::readdir(all.get())) {  // NOLINT: a stream of our own.
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    // Opened first: guarantees that the checks below concern this process.
    UniqueFd process = OpenProcess(pid);
    if (pid == ::getpid() || !process.valid() || !StartedWith(name, variable)) continue;
    ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    killed.push_back(std::move(process));
  }
  const auto deadline = steady_clock::now() + patience;
  for (const UniqueFd& process : killed) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    pollfd waited{process.get(), POLLIN, 0};
    if (left.count() > 0) ::poll(&waited, 1, static_cast<int>(left.count()));
  }
}

void PairFolder::Clear() const {
  std::error_code ignored;
  for (const std::string& folder : {pipe(), log()}) std::filesystem::remove_all(folder, ignored);
}

void PairFolder::Remove() const {
  Clear();
  // A process opening the folder now notices its removal. If another process creates files in it
  // meanwhile, rmdir fails.
  ::unlink((path_ + "/lock").c_str());
  ::rmdir(path_.c_str());
}

void PairFolder::RemoveUnused(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(folder.c_str()), ::closedir);
  if (!opened) return;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kMaxEntries; ++i) {
    const dirent* const entry = ::readdir(opened.get());  // NOLINT: a stream of our own.
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name.starts_with(kPairPrefix) && name.ends_with(PairSuffix())) names.emplace_back(name);
  }
  for (const std::string& name : names) {
    Result<PairFolder> found = Open(Format("{}/{}", folder, name));
    if (!found.ok() || !found->LockAlone(Part::kKeeper) || !found->LockAlone(Part::kClients) ||
        !found->Named())
      continue;
    found->KillServers(milliseconds(0));
    found->Remove();
  }
}

}  // namespace cuspan
