#include "proxy/session/session_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "common/log.h"
#include "common/settings.h"
#include "proxy/files/limited_answer.h"
#include "proxy/files/named_file.h"

namespace cuspan::proxy {
namespace {

using namespace std::chrono_literals;

// Maximum of counterparts found and not proven. Then there are no others.
constexpr int kMaxWrongProofs = 64;

// The program waits for the answer, and can read its own file.
constexpr std::chrono::seconds kFindLimit{2};

bool MayOpenPaths() { return std::string_view(SettingText(settings::kFiles)) == "auto"; }

std::vector<FileRoot> RootsOfRun() {
  if (!MayOpenPaths()) return {};
  // The launcher has checked it.
  Result<std::vector<FileRoot>> roots = ParseFileRoots(SettingText(settings::kFileRoot));
  if (roots.ok()) return std::move(*roots);
  LogWarn("files are not opened by name: {}", roots.status().message());
  return {};
}

store::EngineContext EngineContextOf(const Driver& driver, const Device& device) {
  return {{driver.cuCtxSetCurrent, driver.cuDeviceGetAttribute, driver.cuMemHostRegister,
           driver.cuMemHostUnregister, driver.cuMemHostGetDevicePointer},
          device.context(),
          device.device()};
}

}  // namespace

SessionFiles::SessionFiles(const Driver& driver, const Device& device, Channel& channel,
                           Faults& faults, SessionStreams& streams, SessionBulk& bulk,
                           Completer& completer, Timeline& timeline)
    : residents_(EngineContextOf(driver, device), locking_),
      served_(EngineContextOf(driver, device), locking_),
      copies_(driver, channel, faults, streams.queues(), streams.points().events(), completer,
              timeline, bulk.transfers(), threads_),
      roots_(RootsOfRun()) {}

bool SessionFiles::Prepare() {
  const MutexLock lock(preparing_);
  return copies_.pieces().Prepare();
}

FileStatus SessionFiles::Share(std::uint64_t number, UniqueFd fd) {
  if (!Prepare()) return {0, FileResult::kNotSupported, 0};
  return table_.Share(number, std::move(fd));
}

void SessionFiles::OpenNamed(std::uint64_t number, const std::string& path, int flags,
                             std::function<void(const std::optional<FileStatus>& outcome)> opened) {
  const std::string plain = PlainPath(path);
  if (FindFileRoot(roots_, plain) == nullptr) return opened(std::nullopt);
  if (!Prepare()) return opened(FileStatus::System(0, ENOMEM));
  threads_->Run([this, number, plain, flags, opened = std::move(opened)] {
    // A refused file keeps its bytes.
    OpenedFile file = OpenBeneath(roots_, plain, flags & ~O_TRUNC);
    if (file.error == OpenedFile::kNotRegular)
      return opened(FileStatus{0, FileResult::kNotSupported, 0});
    if (file.error == kRootNotWritable) return opened(FileStatus{0, FileResult::kNotPermitted, 0});
    if (file.error == EXDEV) return opened(FileStatus{0, FileResult::kNotPermitted, EXDEV});
    const UniqueFd again(file.fd.valid() ? ::fcntl(file.fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
    if (!again.valid()) return opened(FileStatus::System(0, file.error != 0 ? file.error : errno));
    const FileStatus added = table_.Share(number, std::move(file.fd));
    const bool empty = added.result == FileResult::kSuccess && (flags & O_TRUNC) != 0;
    if (empty && ::ftruncate(again.get(), 0) != 0) {
      const int error = errno;
      static_cast<void>(table_.Close(number, [] {}));
      return opened(FileStatus::System(0, error));
    }
    opened(added);
  });
}

template <typename T>
void SessionFiles::FindInTime(std::function<void(T)> answer, std::function<T()> work) {
  const auto limited = std::make_shared<LimitedAnswer<T>>(std::move(answer));
  // Both threads have the tasks in one order.
  const MutexLock lock(finding_);
  watchers_.Run([this, limited] {
    const std::chrono::milliseconds limit = given_up_.load() ? 0s : kFindLimit;
    if (limited->GiveAfter(limit, T{}) && !given_up_.exchange(true))
      LogWarn(
          "a file system of this node does not answer within {} s: from now on all files are "
          "read by the program's node",
          kFindLimit.count());
  });
  finders_.Run(
      [this, limited, work = std::move(work)] { limited->Give(given_up_.load() ? T{} : work()); });
}

void SessionFiles::FindCounterpart(std::shared_ptr<OpenFile> file, ClientFile wanted,
                                   std::function<void(std::uint64_t seed)> found) {
  if (!MayOpenPaths() || file->own || given_up_.load() || !finders_.Start().ok() ||
      !watchers_.Start().ok())
    return found(0);
  FindInTime<std::uint64_t>(
      std::move(found), [this, file = std::move(file), wanted = std::move(wanted)] {
        Result<std::shared_ptr<Counterpart>> counterpart = Counterpart::Find(wanted, roots_);
        // Each one counts as a wrong proof until it is proven.
        if (counterpart.ok() && wrong_proofs_.fetch_add(1) >= kMaxWrongProofs) {
          --wrong_proofs_;
          counterpart = Status::Refused("{} files were not proven to be the same", kMaxWrongProofs);
        }
        if (!counterpart.ok()) {
          LogInfo("{} of the program is not read on this node: {}", wanted.path,
                  counterpart.status().message());
          return std::uint64_t{0};
        }
        file->counterpart.store(*counterpart);
        return (*counterpart)->seed();
      });
}

void SessionFiles::Peek(
    std::shared_ptr<const FileHere> file, std::uint64_t offset, std::uint32_t bytes,
    std::function<void(const FileStatus&, const FileState&, std::span<const std::byte>)> peeked) {
  if (!Prepare()) return peeked(FileStatus::System(0, ENOMEM), {}, {});
  threads_->Run([file = std::move(file), offset, bytes, peeked = std::move(peeked)] {
    std::vector<std::byte> part(bytes);
    FileOutcome read;
    if (bytes != 0) read = file->bytes().Read(part, offset);
    // Behind the read: a counterpart's bytes are those that were proven.
    const std::optional<FileState> state = file->State();
    if (!state) return peeked({0, FileResult::kInvalidFile, 0}, {}, {});
    if (read.error != 0) return peeked(FileStatus::System(0, read.error), *state, {});
    peeked({}, *state, std::span(part).first(read.bytes));
  });
}

void SessionFiles::ProveCounterpart(std::shared_ptr<OpenFile> file, std::uint64_t sum,
                                    std::function<void(bool same)> proved) {
  std::shared_ptr<Counterpart> counterpart = file->counterpart.load();
  if (counterpart == nullptr || given_up_.load() || !Prepare()) return proved(false);
  FindInTime<bool>(
      std::move(proved), [this, file = std::move(file), counterpart = std::move(counterpart), sum] {
        const Result<bool> same = counterpart->Prove(sum);
        // After the limit, the client has the answer that it is not.
        if (same.ok() && *same && !given_up_.load()) {
          --wrong_proofs_;
          LogInfo("{} of the program is read on this node", counterpart->path());
          return true;
        }
        std::shared_ptr<Counterpart> current = counterpart;
        if (file->counterpart.compare_exchange_strong(current, nullptr))
          LogInfo("{} of the program is not read on this node: {}", counterpart->path(),
                  !same.ok() ? same.status().message()
                  : *same    ? "the answer came too late"
                             : "its bytes are others");
        return false;
      });
}

}  // namespace cuspan::proxy
