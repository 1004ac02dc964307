#include "launcher/doctor/folders.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "common/start_thread.h"
#include "common/unique_fd.h"
#include "launcher/allocator/lock_folder.h"
#include "launcher/host/wait_status.h"
#include "launcher/run/run_key.h"

namespace cuspan::doctor {
namespace {

std::uint64_t FreeBytes(const std::string& path) {
  struct statvfs found {};
  return ::statvfs(path.c_str(), &found) == 0 ? found.f_bavail * found.f_frsize : ~std::uint64_t{0};
}

std::uint64_t LimitOf(decltype(RLIMIT_NOFILE) resource, bool hard) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return ~std::uint64_t{0};
  const rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
  return value == RLIM_INFINITY ? ~std::uint64_t{0} : value;
}

// A private file; without a name if the file system supports this.
UniqueFd OpenNameless(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid() || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = path + "/cuspan-doctor-XXXXXX";
  file = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (file.valid()) ::unlink(name.c_str());
  return file;
}

// Function of TryCode's child. Returns the errno of the call refused.
int WriteCode() {
  const UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const code = ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, self.get(), 0);
  if (code == MAP_FAILED || ::mprotect(code, page, PROT_READ | PROT_WRITE) != 0) return errno;
  static_cast<volatile char*>(code)[0] = 0;
  return ::mprotect(code, page, PROT_READ | PROT_EXEC) == 0 ? 0 : errno;
}

}  // namespace

FolderFacts TryFolder(const std::string& path) {
  FolderFacts facts{path, "", FreeBytes(path)};
  const UniqueFd file = OpenNameless(path);
  // Writes data: even a full file system may allow an empty file.
  const std::array<char, 4096> block{};
  if (!file.valid() || ::write(file.get(), block.data(), block.size()) < 0)
    facts.problem = std::strerror(errno);
  return facts;
}

FolderFacts TryLockFolder(const std::string& path) {
  FolderFacts facts{path, "", FreeBytes(path)};
  Result<LockFolder> folder = LockFolder::Open(path);
  const Result<RunKey> key = RunKey::Random();
  if (!folder.ok() || !key.ok()) {
    facts.problem = folder.ok() ? key.status().message() : folder.status().message();
    return facts;
  }
  const std::string name = "cuspan-doctor-" + key->Id();
  const Result<UniqueFd> lock = folder->CreateLocked(name, "doctor\n");
  if (lock.ok())
    folder->Remove(name, *lock);
  else
    facts.problem = lock.status().message();
  return facts;
}

FolderFacts TryCacheFolder(const std::string& path) {
  FolderFacts facts{path, "", 0};
  if (path.empty()) return facts;
  std::filesystem::path there(path);
  std::error_code error;
  while (!std::filesystem::exists(there, error) && there.has_relative_path())
    there = there.parent_path();
  facts.free_bytes = FreeBytes(there.string());
  if (::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    facts.problem = Format("{}: {}", there.string(), std::strerror(errno));
  else if (!std::filesystem::is_directory(there, error))
    facts.problem = Format("{} is not a directory", there.string());
  return facts;
}

std::string TryCode() {
  const pid_t pid = ::fork();
  if (pid < 0) return Format("fork: {}", std::strerror(errno));
  if (pid == 0) ::_exit(WriteCode());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return Format("waitpid: {}", std::strerror(errno));
  if (!WIFEXITED(status)) return Format("the process trying it {}", DescribeExit(status));
  return WEXITSTATUS(status) == 0 ? "" : std::strerror(WEXITSTATUS(status));
}

std::string TryThreads() {
  // A program's client and a proxy have fewer threads, besides one per core.
  constexpr std::size_t kThreads = 32;
  std::promise<void> over;
  const std::shared_future<void> end = over.get_future().share();
  std::vector<std::thread> threads;
  std::string problem;
  while (threads.size() < kThreads && problem.empty()) {
    Result<std::thread> thread = StartThread("cuspan-try", [end] { end.wait(); });
    if (thread.ok())
      threads.push_back(std::move(*thread));
    else
      problem = Format("{} of {}: {}", threads.size(), kThreads, thread.status().message());
  }
  over.set_value();
  for (std::thread& thread : threads) thread.join();
  return problem;
}

LimitFacts FindLimits() {
  LimitFacts limits;
  limits.locked_bytes = LimitOf(RLIMIT_MEMLOCK, false);
  limits.open_files = LimitOf(RLIMIT_NOFILE, true);
  limits.processes = ::geteuid() == 0 ? ~std::uint64_t{0} : LimitOf(RLIMIT_NPROC, false);
  limits.file_bytes = LimitOf(RLIMIT_FSIZE, false);
  limits.address_bytes = LimitOf(RLIMIT_AS, false);
  return limits;
}

std::vector<std::string> DeniedDevices() {
  std::vector<std::string> denied;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator("/dev", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // Device files opened by unprivileged programs; nvidia-modeset is for displays.
    const std::string number = name.starts_with("nvidia") ? name.substr(6) : "-";
    const bool is_gpu = !number.empty() && std::all_of(number.begin(), number.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
    if (!is_gpu && name != "nvidiactl" && name != "nvidia-uvm") continue;
    if (::faccessat(AT_FDCWD, entry->path().c_str(), R_OK | W_OK, AT_EACCESS) != 0)
      denied.push_back(entry->path().string());
  }
  std::sort(denied.begin(), denied.end());
  return denied;
}

bool HasRdma() {
  std::error_code error;
  return std::filesystem::directory_iterator("/sys/class/infiniband", error) !=
         std::filesystem::directory_iterator();
}

}  // namespace cuspan::doctor
