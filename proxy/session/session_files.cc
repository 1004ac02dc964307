#include "proxy/session/session_files.h"

#include <string_view>
#include <utility>

#include "common/log.h"
#include "common/settings.h"

namespace cuspan::proxy {
namespace {

// Maximum of wrong proofs. Later files have no counterparts.
constexpr int kMaxWrongProofs = 64;

bool MayOpenPaths() { return std::string_view(SettingText(settings::kFiles)) == "auto"; }

}  // namespace

bool SessionFiles::Prepare() {
  const MutexLock lock(preparing_);
  return copies_.pieces().Prepare();
}

FileStatus SessionFiles::Share(std::uint64_t number, UniqueFd fd) {
  if (!Prepare()) return {0, FileResult::kNotSupported, 0};
  return table_.Share(number, std::move(fd));
}

void SessionFiles::FindCounterpart(std::shared_ptr<OpenFile> file, ClientFile wanted,
                                   std::function<void(std::uint64_t seed)> found) {
  if (!MayOpenPaths() || file->own || wrong_proofs_.load() >= kMaxWrongProofs || !Prepare())
    return found(0);
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
