// Device memory of other processes of the run (cudaIpc…, pointers of shared pools): the piece that
// holds it is mapped a second time, into a free part of this process's own window.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "interpose/client/session.h"

namespace cuspan {

// What is given away: where the memory's proxy answers, its piece, and the block in it.
struct IpcMemoryHandle {
  std::uint64_t magic;
  std::array<std::uint8_t, 16> proxy;
  std::uint64_t piece;
  std::uint64_t piece_bytes;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t unused;
};
static_assert(sizeof(IpcMemoryHandle) == 64);

// Any thread.
class IpcMemory {
 public:
  static IpcMemory& Get();  // The one of this process.

  // Of the block that holds `pointer`, which cudaMalloc or a pool gave out.
  // CUDA_ERROR_INVALID_VALUE for other memory, CUDA_ERROR_NOT_SUPPORTED where proxies do not reach
  // each other.
  CUresult Describe(Session& session, const void* pointer, IpcMemoryHandle* handle);
  // The block in the addresses of `device`. Opening it again gives the same address.
  // CUDA_ERROR_INVALID_CONTEXT for memory of this process, CUDA_ERROR_MAP_FAILED when it can not be
  // had.
  CUresult Open(Session& session, int device, const IpcMemoryHandle& handle,
                std::uint64_t* address);
  // Undoes one Open; waits for the device. CUDA_ERROR_INVALID_VALUE for what was not opened.
  CUresult Close(Session& session, std::uint64_t address);
  // The device of `link` was reset: what was opened on it is gone.
  void ForgetLink(const Link& link);

 private:
  struct Import {
    std::uint64_t base;                   // Of the piece, here.
    std::map<std::uint64_t, int> opened;  // By address: how many times.
    int device;
  };
  // The proxy, the piece there, and the number of the link that uses it.
  using Key = std::tuple<std::string, std::uint64_t, std::uint64_t>;

  std::mutex mutex_;
  std::map<Key, Import> imports_;
};

}  // namespace cuspan
