// A file without a name; its bytes differ from offset to offset.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "common/file_bytes.h"

namespace cuspan::store {

class NumberedFile {
 public:
  explicit NumberedFile(std::uint64_t bytes) : contents_(bytes) {
    for (std::uint64_t i = 0; i < bytes; i += sizeof i) {
      const std::uint64_t word = (i + 1) * 0x9e3779b97f4a7c15;
      std::memcpy(contents_.data() + i, &word, std::min<std::uint64_t>(sizeof word, bytes - i));
    }
    char path[] = "/var/tmp/numbered_file_XXXXXX";
    UniqueFd fd(::mkstemp(path));
    ::unlink(path);
    EXPECT_TRUE(fd.valid());
    file_ = FileBytes(std::move(fd), {true, true, false, false});
    EXPECT_EQ(file_.Write(contents_, 0), (FileOutcome{bytes, 0}));
  }

  const FileBytes& file() const { return file_; }
  std::uint64_t bytes() const { return contents_.size(); }
  // True if these are the file's first bytes from `offset`.
  bool Has(std::span<const std::byte> bytes, std::uint64_t offset) const {
    return offset + bytes.size() <= contents_.size() &&
           std::memcmp(bytes.data(), contents_.data() + offset, bytes.size()) == 0;
  }
  // Changes the size for others. The later bytes of a longer file are 0.
  void Resize(std::uint64_t bytes) const {
    EXPECT_EQ(::ftruncate(file_.fd(), static_cast<off_t>(bytes)), 0);
  }
  // The next reads wait for the drive, where there is one.
  void DropCached() const {
    EXPECT_EQ(::fdatasync(file_.fd()), 0);
    EXPECT_EQ(::posix_fadvise(file_.fd(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }

 private:
  std::vector<std::byte> contents_;
  FileBytes file_;
};

}  // namespace cuspan::store
