#include "proxy/files/resident_files.h"

#include <utility>

#include "common/file_thread_count.h"

namespace cuspan::proxy {
FileStatus FileHere::Of(std::shared_ptr<OpenFile> file, std::shared_ptr<const FileHere>* here) {
  std::shared_ptr<Counterpart> counterpart;
  if (!file->own) {
    counterpart = file->counterpart.load();
    if (counterpart == nullptr || !counterpart->proven()) return {0, FileResult::kNotSupported, 0};
  } else if (!file->own->access().reads) {
    return {0, FileResult::kNotPermitted, 0};
  }
  here->reset(new FileHere(std::move(file), std::move(counterpart)));
  return {};
}

std::optional<FileState> FileHere::State() const {
  if (counterpart_ != nullptr && !counterpart_->Unchanged()) return std::nullopt;
  return FileState::Of(bytes().fd());
}

void ResidentFiles::Hold(std::shared_ptr<OpenFile> file, std::shared_ptr<const FileHere> here,
                         std::function<void(const Result<Held>&)> held) {
  const Status started = threads_->Run(
      [this, file = std::move(file), here = std::move(here), held] { held(Lock(*file, *here)); });
  if (!started.ok()) held(started);
}

Result<ResidentFiles::Held> ResidentFiles::Lock(OpenFile& file, const FileHere& here) const {
  const std::optional<FileState> state = here.State();
  if (!state) return Status::NotFound("the file has changed since it was opened");
  if (file.resident == nullptr) {
    CUSPAN_ASSIGN_OR_RETURN(
        std::unique_ptr<store::ResidentFile> made,
        store::ResidentFile::Make(context_, here.bytes(), state->bytes, store::ResidentWayOfRun(),
                                  FileThreadCount(), store::MemoryBudget::OfProcess(),
                                  threads_->ended()));
    if (here.State() != state) return Status::NotFound("the file has changed since it was opened");
    file.resident = LockingThreads::Share(threads_, std::move(made));
  }
  return Held{*state, file.resident->address(), file.resident->copied()};
}

}  // namespace cuspan::proxy
