// Page-locked memory for the calls of one group in one stream. Flags in it synchronize the stream
// with the communicator's thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/softnccl/cuda.h"

namespace cuspan::softnccl {

// Device memory read and written by one call.
struct Movement {
  CUdeviceptr from = 0;
  std::size_t send_bytes = 0;
  CUdeviceptr to = 0;
  std::size_t receive_bytes = 0;
  CUdeviceptr factor_at = 0;  // An element, or 0.
  std::size_t factor_bytes = 0;
};

// Threads: one submits, then another polls and answers.
class Staging {
 public:
  // Creates it for movements without overlap. The context must be current, as in Submit and the
  // destructor.
  static CUresult Make(const Cuda& cuda, std::vector<Movement> movements,
                       std::unique_ptr<Staging>* made);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Buffers of a movement.
  std::byte* send(std::size_t index) const { return memory_ + offsets_[index].send; }
  std::byte* receive(std::size_t index) const { return memory_ + offsets_[index].receive; }
  std::byte* factor(std::size_t index) const { return memory_ + offsets_[index].factor; }

  // Submits the work to the stream: copy all inputs to this memory, wait for Answer, copy all
  // results to the device. If the driver refuses any of it, reached() and passed() become true,
  // too.
  CUresult Submit(CUstream stream);

  // True if the stream has copied the inputs; true if it has finished all of Submit's work.
  bool reached() const { return Word(kReachedAt).load() != 0; }
  bool passed() const { return Word(kPassedAt).load() != 0; }
  void Answer() { Word(kAnsweredAt).store(1); }
  // Sets all results to zero.
  void Clear();

 private:
  // Flags, a cache line each, then the buffers.
  static constexpr std::size_t kReachedAt = 0, kAnsweredAt = 64, kPassedAt = 128, kHeadBytes = 192;
  struct Offsets {
    std::size_t send, receive, factor;
  };

  Staging(const Cuda& cuda, std::vector<Movement> movements);

  std::atomic_ref<std::uint32_t> Word(std::size_t at) const {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_ + at));
  }
  CUresult CopyIn(CUstream stream) const;
  CUresult Give(CUstream stream) const;
  // Writes 1 to a flag in stream order. If `awaits`, the stream then waits for the answer.
  CUresult SetFlag(CUstream stream, std::size_t at, bool awaits) const;

  const Cuda& cuda_;
  const std::vector<Movement> movements_;
  std::vector<Offsets> offsets_;
  std::size_t bytes_ = kHeadBytes;
  std::byte* memory_ = nullptr;
  CUdeviceptr address_ = 0;  // Device address of memory_.
};

}  // namespace cuspan::softnccl
