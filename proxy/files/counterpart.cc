#include "proxy/files/counterpart.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/format.h"
#include "common/unique_fd.h"

namespace cuspan::proxy {
namespace {

// Opens a regular file for reading. Opening a FIFO or a device could block, or have effects.
Result<UniqueFd> OpenRegular(const std::string& path) {
  const UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.valid()) return Status::NotFound("it has none: {}", std::strerror(errno));
  struct stat facts {};
  if (::fstat(found.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return Status::Invalid("that is no regular file");
  UniqueFd opened(
      ::open(Format("/proc/self/fd/{}", found.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!opened.valid()) return Status::Unavailable("it is not readable: {}", std::strerror(errno));
  return opened;
}

}  // namespace

Result<std::shared_ptr<Counterpart>> Counterpart::Find(const ClientFile& file) {
  if (!file.path.starts_with('/') || file.path.find('\0') != std::string::npos)
    return Status::Invalid("the program's has no path");
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(file.path));
  const std::optional<FileState> state = FileState::Of(fd.get());
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
  return std::shared_ptr<Counterpart>(
      new Counterpart(file.path, FileBytes(std::move(fd), access), *state, seed));
}

bool Counterpart::Prove(std::uint64_t sum) {
  if (tried_.exchange(true)) return false;
  if (SumOfPages(bytes_, state_.bytes, seed_) != sum || !Unchanged()) return false;
  proven_.store(true, std::memory_order_release);
  return true;
}

std::uint64_t Counterpart::BytesAt(std::uint64_t offset, std::uint64_t bytes) const {
  return std::min(bytes, state_.bytes - std::min(offset, state_.bytes));
}

bool Counterpart::Unchanged() const { return FileState::Of(bytes_.fd()) == state_; }

}  // namespace cuspan::proxy
