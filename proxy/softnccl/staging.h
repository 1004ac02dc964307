// The page-locked memory of what one group of calls does in one stream, through which the stream
// and the communicator's thread tell each other how far they are.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/softnccl/cuda.h"

namespace cuspan::softnccl {

// What one call takes from the device and gives back.
struct Movement {
  CUdeviceptr from = 0;
  std::size_t send_bytes = 0;
  CUdeviceptr to = 0;
  std::size_t receive_bytes = 0;
  CUdeviceptr factor_at = 0;  // An element, or none.
  std::size_t factor_bytes = 0;
};

// Threads: one that submits, then one that asks and answers.
class Staging {
 public:
  // For movements that do not overlap. The context is current to the caller, as to those of Submit
  // and of the destructor.
  static CUresult Make(const Cuda& cuda, std::vector<Movement> movements,
                       std::unique_ptr<Staging>* made);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Of a movement.
  std::byte* send(std::size_t index) const { return memory_ + places_[index].send; }
  std::byte* receive(std::size_t index) const { return memory_ + places_[index].receive; }
  std::byte* factor(std::size_t index) const { return memory_ + places_[index].factor; }

  // Puts the work into the stream: all that is taken comes here; the stream waits for Answer; then
  // all that is given goes there. Whatever the driver refuses, reached() and passed() become true.
  CUresult Submit(CUstream stream);

  // Whether the stream has come here, with its bytes; and whether it is past it.
  bool reached() const { return Word(kReachedAt).load() != 0; }
  bool passed() const { return Word(kPassedAt).load() != 0; }
  void Answer() { Word(kAnsweredAt).store(1); }
  // What is given is nothing but zeros.
  void Clear();

 private:
  // The words, a cache line each; then the bytes.
  static constexpr std::size_t kReachedAt = 0, kAnsweredAt = 64, kPassedAt = 128, kHeadBytes = 192;
  struct Offsets {
    std::size_t send, receive, factor;
  };

  Staging(const Cuda& cuda, std::vector<Movement> movements);

  std::atomic_ref<std::uint32_t> Word(std::size_t at) const {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_ + at));
  }
  CUresult Take(CUstream stream) const;
  CUresult Give(CUstream stream) const;
  // Writes 1 to a word in the order of the stream; with `awaits`, it then waits for the answer.
  CUresult Tell(CUstream stream, std::size_t at, bool awaits) const;

  const Cuda& cuda_;
  const std::vector<Movement> movements_;
  std::vector<Offsets> places_;
  std::size_t bytes_ = kHeadBytes;
  std::byte* memory_ = nullptr;
  CUdeviceptr address_ = 0;  // Of the memory, for the device.
};

}  // namespace cuspan::softnccl
