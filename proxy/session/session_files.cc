#include "proxy/session/session_files.h"

#include <fcntl.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "common/log.h"
#include "common/settings.h"
#include "proxy/files/named_file.h"

namespace cuspan::proxy {
namespace {

// Maximum of wrong proofs. Later files have no counterparts.
constexpr int kMaxWrongProofs = 64;

bool MayOpenPaths() { return std::string_view(SettingText(settings::kFiles)) == "auto"; }

std::vector<FileRoot> RootsOfRun() {
  if (!MayOpenPaths()) return {};
  // The launcher has checked it.
  Result<std::vector<FileRoot>> roots = ParseFileRoots(SettingText(settings::kFileRoot));
  if (roots.ok()) return std::move(*roots);
  LogWarn("files are not opened by name: {}", roots.status().message());
  return {};
}

}  // namespace

SessionFiles::SessionFiles(const Driver& driver, Channel& channel, Faults& faults,
                           SessionStreams& streams, SessionBulk& bulk, Completer& completer,
                           Timeline& timeline)
    : copies_(driver, channel, faults, streams.queues(), streams.points().events(), completer,
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
  const FileRoot* const root = FindFileRoot(roots_, path);
  if (root == nullptr) return opened(std::nullopt);
  if (!root->writable && (flags & O_ACCMODE) != O_RDONLY)
    return opened(FileStatus{0, FileResult::kNotPermitted, 0});
  if (!Prepare()) return opened(FileStatus::System(0, ENOMEM));
  threads_->Run([this, number, root, path, flags, opened = std::move(opened)] {
    OpenedFile file = OpenBeneath(*root, path, flags);
    if (file.fd.valid()) return opened(table_.Share(number, std::move(file.fd)));
    if (file.error == OpenedFile::kNotRegular)
      return opened(FileStatus{0, FileResult::kNotSupported, 0});
    if (file.error == EXDEV) return opened(FileStatus{0, FileResult::kNotPermitted, EXDEV});
    opened(FileStatus::System(0, file.error));
  });
}

void SessionFiles::FindCounterpart(std::shared_ptr<OpenFile> file, ClientFile wanted,
                                   std::function<void(std::uint64_t seed)> found) {
  if (!MayOpenPaths() || file->own || wrong_proofs_.load() >= kMaxWrongProofs || !Prepare())
    return found(0);
  const FileRoot* const root = FindFileRoot(roots_, wanted.path);
  if (root != nullptr && root->there != root->named) {
    // The user says that these are the same: copies may be newer.
    wanted.path = root->PathThere(wanted.path);
    wanted.modified.reset();
  }
  threads_->Run([file = std::move(file), wanted = std::move(wanted), found = std::move(found)] {
    Result<std::shared_ptr<Counterpart>> counterpart = Counterpart::Find(wanted);
    if (!counterpart.ok()) {
      LogInfo("{} of the program is not read on this node: {}", wanted.path,
              counterpart.status().message());
      return found(0);
    }
    file->counterpart.store(*counterpart);
    found((*counterpart)->seed());
  });
}

void SessionFiles::ProveCounterpart(std::shared_ptr<OpenFile> file, std::uint64_t sum,
                                    std::function<void(bool same)> proved) {
  threads_->Run([this, file = std::move(file), sum, proved = std::move(proved)] {
    const std::shared_ptr<Counterpart> counterpart = file->counterpart.load();
    const bool same = counterpart != nullptr && counterpart->Prove(sum);
    if (same) {
      LogInfo("{} of the program is read on this node", counterpart->path());
    } else if (counterpart != nullptr && file->counterpart.exchange(nullptr) != nullptr) {
      ++wrong_proofs_;
      LogInfo("{} of the program is not read on this node: its bytes are others",
              counterpart->path());
    }
    proved(same);
  });
}

}  // namespace cuspan::proxy
