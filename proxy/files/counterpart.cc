#include "proxy/files/counterpart.h"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/regular_file.h"
#include "proxy/files/named_file.h"

namespace cuspan::proxy {
Result<std::shared_ptr<Counterpart>> Counterpart::Find(const ClientFile& file,
                                                       const std::vector<FileRoot>& roots) {
  if (!file.path.starts_with('/') || file.path.find('\0') != std::string::npos)
    return Status::Invalid("the program's has no path");
  if (file.bytes < kMinSameFile) return Status::Invalid("it has only {} bytes", file.bytes);
  const FileRoot* const root = FindFileRoot(roots, file.path);
  const bool mapped = root != nullptr && root->there != root->named;
  OpenedFile opened =
      mapped ? OpenBeneath(roots, file.path, O_RDONLY) : OpenRegular(file.path, O_RDONLY);
  if (opened.error == OpenedFile::kNotRegular) return Status::Invalid("that is no regular file");
  if (!opened.fd.valid())
    return Status::Unavailable("it can not be opened: {}", std::strerror(opened.error));
  const std::optional<FileState> state = FileState::Of(opened.fd.get());
  if (!state || state->bytes != file.bytes)
    return Status::Invalid("its size is another: {} bytes, the program's {}",
                           state ? state->bytes : 0, file.bytes);
  // Copies often have whole seconds only.
  using std::chrono::floor;
  using std::chrono::seconds;
  if (floor<seconds>(state->modified) != floor<seconds>(file.modified))
    return Status::Invalid(
        "the time of its last write is another: {} s since 1970, the program's {}",
        floor<seconds>(state->modified).count(), floor<seconds>(file.modified).count());
  if (!state->settled()) return Status::Invalid("it was changed within the last second");
  std::uint64_t seed = 0;
  while (seed == 0)
    if (::getrandom(&seed, sizeof seed, 0) != sizeof seed)
      return Status::Internal("getrandom: {}", std::strerror(errno));
  FileBytes::Access access;
  access.reads = true;
  access.direct = file.direct && ::fcntl(opened.fd.get(), F_SETFL, O_DIRECT) == 0;
  return std::shared_ptr<Counterpart>(
      new Counterpart(file.path, FileBytes(std::move(opened.fd), access), *state, seed));
}

Result<bool> Counterpart::Prove(std::uint64_t sum) {
  if (tried_.exchange(true)) return Status::Invalid("there was a proof before");
  const std::optional<std::uint64_t> own = SumOfPages(bytes_, state_.bytes, seed_);
  if (!own) return Status::Unavailable("it can not be read");
  if (!Unchanged()) return Status::Invalid("it was changed just now");
  if (*own != sum) return false;
  proven_.store(true, std::memory_order_release);
  return true;
}

std::uint64_t Counterpart::BytesAt(std::uint64_t offset, std::uint64_t bytes) const {
  return std::min(bytes, state_.bytes - std::min(offset, state_.bytes));
}

bool Counterpart::Unchanged() const { return FileState::Of(bytes_.fd()) == state_; }

}  // namespace cuspan::proxy
