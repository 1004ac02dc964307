// This node's file with the path of one of the client, read in its place if the client proves its
// knowledge of the bytes.
//
// Otherwise the client learns nothing of the file, except its existence with the named size and
// time. The difference is in the log only.
//
// Threads: any. Opening and reading files may block for long.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/file_bytes.h"
#include "common/file_roots.h"
#include "common/same_file.h"
#include "common/status.h"

namespace cuspan::proxy {

// A client's file, as described by the client.
struct ClientFile {
  std::string path;  // An absolute one.
  std::uint64_t bytes = 0;
  std::chrono::nanoseconds modified{};  // See FileState.
  bool direct = false;                  // Read without the page cache.
};

class Counterpart {
 public:
  // Opens the file of this node with equal path, size and second of its last write, for reading.
  // Beneath a root with another name here, it is the file with that name. An error is part of a
  // sentence about the difference.
  static Result<std::shared_ptr<Counterpart>> Find(const ClientFile& file,
                                                   const std::vector<FileRoot>& roots);

  // Not 0.
  std::uint64_t seed() const { return seed_; }
  // Ends the client's only try: true if `sum` is that of SumOfPages with the seed. An error is part
  // of a sentence about the reason.
  Result<bool> Prove(std::uint64_t sum);
  bool proven() const { return proven_.load(std::memory_order_acquire); }

  const std::string& path() const { return path_; }
  const FileBytes& bytes() const { return bytes_; }
  // Bytes of a read of this extent, up to the end of the file.
  std::uint64_t BytesAt(std::uint64_t offset, std::uint64_t bytes) const;
  // True if all bytes read before this call are the proven ones.
  bool Unchanged() const;

 private:
  Counterpart(std::string path, FileBytes bytes, const FileState& state, std::uint64_t seed)
      : path_(std::move(path)), bytes_(std::move(bytes)), state_(state), seed_(seed) {}

  const std::string path_;
  const FileBytes bytes_;
  const FileState state_;
  const std::uint64_t seed_;
  std::atomic<bool> tried_ = false;
  std::atomic<bool> proven_ = false;
};

}  // namespace cuspan::proxy
