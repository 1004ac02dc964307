#include "interpose/client/same_file.h"

#include <limits.h>
#include <unistd.h>

#include <string>

#include "common/format.h"

namespace cuspan {
namespace {

// Path of an open file; empty if the system has none.
std::string PathOf(int fd) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length =
      ::readlink(Format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  if (length <= 0 || path.front() != '/' || static_cast<std::size_t>(length) == path.size())
    return {};
  path.resize(static_cast<std::size_t>(length));
  return path;
}

}  // namespace

std::optional<FileState> AgreeOnFile(ContextConnection& connection, std::uint64_t handle,
                                     const FileBytes& file) {
  // The other node may have old pages of a file written here.
  if (!file.access().reads || file.access().writes) return std::nullopt;
  const std::optional<FileState> state = FileState::Of(file.fd());
  if (!state || state->bytes < kMinSameFile || !state->settled() || state->modified.count() < 0)
    return std::nullopt;
  const std::string path = PathOf(file.fd());
  if (path.empty()) return std::nullopt;
  FileFind find;
  find.file = handle;
  find.path = path;
  find.bytes = state->bytes;
  find.modified = static_cast<std::uint64_t>(state->modified.count());
  find.direct = file.access().direct;
  FileFind::Reply found;
  if (connection.Call(find, &found) != CUDA_SUCCESS || found.seed == 0) return std::nullopt;
  const std::optional<std::uint64_t> sum = SumOfPages(file, state->bytes, found.seed);
  FileProve::Reply proved;
  if (!sum || connection.Call(FileProve{handle, *sum}, &proved) != CUDA_SUCCESS || !proved.same)
    return std::nullopt;
  return state;
}

}  // namespace cuspan
