#include "proxy/files/resident_files.h"

#include <new>
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

ResidentFiles::ResidentFiles(const Driver& driver, const Device& device)
    : context_{{driver.cuCtxSetCurrent, driver.cuDeviceGetAttribute, driver.cuMemHostRegister,
                driver.cuMemHostUnregister, driver.cuMemHostGetDevicePointer},
               device.context(),
               device.device()} {}

ResidentFiles::~ResidentFiles() {
  if (!unlocking_->in_driver) {
    unlocking_->thread.End();
    return;
  }
  // It may wait for a kernel that does not end.
  unlocking_->thread.Abandon();
  static_cast<void>(new (std::nothrow) std::shared_ptr<Unlocking>(unlocking_));
}

void ResidentFiles::Hold(std::shared_ptr<OpenFile> file, std::shared_ptr<const FileHere> here,
                         std::function<void(const Result<Held>&)> held) {
  if (const Status started = unlocking_->thread.Start(); !started.ok()) return held(started);
  unlocking_->thread.Run([this, file = std::move(file), here = std::move(here),
                          held = std::move(held)] { held(Lock(*file, *here)); });
}

Result<ResidentFiles::Held> ResidentFiles::Lock(OpenFile& file, const FileHere& here) const {
  const std::optional<FileState> state = here.State();
  if (!state) return Status::NotFound("the file has changed since it was opened");
  if (file.resident == nullptr) {
    CUSPAN_ASSIGN_OR_RETURN(
        std::unique_ptr<store::ResidentFile> made,
        store::ResidentFile::Make(context_, here.bytes(), state->bytes, store::ResidentWayOfRun(),
                                  FileThreadCount(), store::MemoryBudget::OfProcess(),
                                  unlocking_->ended));
    if (here.State() != state) return Status::NotFound("the file has changed since it was opened");
    const auto unlock = [unlocking = unlocking_](store::ResidentFile* ended) {
      if (unlocking->ended) return;
      unlocking->thread.Run([&unlocking = *unlocking, ended] {
        unlocking.in_driver = true;
        delete ended;
        unlocking.in_driver = false;
      });
    };
    file.resident = std::shared_ptr<store::ResidentFile>(made.release(), unlock);
  }
  return Held{*state, file.resident->address(), file.resident->copied()};
}

}  // namespace cuspan::proxy
