#include "proxy/files/file_table.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace cuspan::proxy {

FileStatus FileTable::Share(std::uint64_t number, UniqueFd fd) {
  struct stat facts {};
  // Reading a FIFO or a device could block for ever, and have effects.
  if (!fd.valid() || ::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return {0, FileResult::kNotSupported, 0};
  const std::optional<FileBytes::Access> access = FileBytes::AccessOf(fd.get());
  if (!access) return {0, FileResult::kNotSupported, 0};
  return Add(number, FileBytes(std::move(fd), *access));
}

FileStatus FileTable::Add(std::uint64_t number, std::optional<FileBytes> own) {
  // The exchange's thread and the receiving thread may add one at the same time.
  const std::shared_ptr<void> place(nullptr, [count = count_](void*) { count->fetch_sub(1); });
  if (count_->fetch_add(1) >= kMaxFiles) return FileStatus::System(0, EMFILE);
  const std::shared_ptr<OpenFile> made(
      new OpenFile{place, std::move(own)}, [threads = threads_](OpenFile* ended) {
        threads->Run([owner = std::shared_ptr<OpenFile>(ended)] {});
      });
  if (files_.Add(number, made)) return {};
  return {0, FileResult::kInvalidValue, 0};
}

Status FileTable::Close(std::uint64_t number, std::function<void()> closed) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<OpenFile> file, files_.Take(number));
  threads_->Run([file = std::move(file), closed = std::move(closed)]() mutable {
    file.reset();
    closed();
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
