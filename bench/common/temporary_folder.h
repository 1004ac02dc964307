// Temporary folder of a benchmark.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "common/status.h"

namespace cuspan::bench {

// Removed with all its contents.
class TemporaryFolder {
 public:
  // Creates a folder inside `in`, accessible to this user only.
  static Result<TemporaryFolder> Create(const std::filesystem::path& in) {
    std::string path = (in / "cuspan-bench-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr)
      return Status::Unavailable("{}: no folder can be created: {}", path, std::strerror(errno));
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~TemporaryFolder() {
    if (path_.empty()) return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace cuspan::bench
