// Consistency of memory shared by the program and its kernels, around the work of one device.
// Before work, the device must have the program's writes. After it, the program must find the
// device's writes, as far as CUDA promises it. ContextConnection calls it for everything posted and
// waited for.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/managed_variables.h"
#include "interpose/client/memory/shared_region.h"

namespace cuspan {

// Threads: any except the receiving thread; functions wait for devices.
class Coherence {
 public:
  // All must outlive it. `region` and `variables` are null if the device has no shared memory.
  Coherence(Connection* connection, SharedRegion* region, ManagedVariables* variables)
      : connection_(*connection), region_(region), variables_(variables) {}

  // True if `op` may access shared memory: Before and After must then enclose its posting.
  template <typename T>
  bool Concerns(const T& op) const {
    if constexpr (!kUsesMemory<T>) return false;
    if (region_ == nullptr) return false;
    if constexpr (kRuns<T>)
      return true;
    else if constexpr (T::kMemory == MemoryUse::kWords)
      return std::any_of(op.operations.begin(), op.operations.end(),
                         [this](const auto& one) { return region_->Contains(one.address); });
    else
      return region_->mirrors().active() && Touches(op);
  }
  template <typename T>
  CUresult Before([[maybe_unused]] const T& op) {
    if constexpr (kRuns<T>) {
      if (const CUresult result = BeforeKernels(); result != CUDA_SUCCESS) return result;
    }
    // A wait must see the same values as a kernel.
    if constexpr (T::kMemory == MemoryUse::kWords) region_->registered().BeforeWork();
    if constexpr (kReadsOnly<T>)
      return region_->mirrors().Prepare(connection_, op.stream);
    else if constexpr (kUsesMemory<T>)
      return region_->mirrors().BeforeWork(connection_, op.stream);
    else
      return CUDA_SUCCESS;
  }
  // `sequence`: position among all posted ops.
  template <typename T>
  void After([[maybe_unused]] const T& op, [[maybe_unused]] std::uint64_t sequence) {
    // Repeated: kernels may write managed variables from now on, whatever another thread has
    // fetched meanwhile.
    if constexpr (kRuns<T>) variables_->AfterLaunch(connection_);
    if constexpr (kUsesMemory<T> && !kReadsOnly<T>) {
      if (!region_->used_by_kernels()) return;
      connection_.Worked(sequence);
      region_->mirrors().AfterWork(connection_, op.stream);
      region_->registered().AfterWork();
    }
  }
  // Gives the device the pinned memory referenced by a kernel's parameters. Called before its
  // launch is posted or recorded. `arguments`: the parameters in sequence; `sizes`: their bytes.
  CUresult Expose(std::span<const std::byte> arguments, std::span<const std::uint32_t> sizes) {
    return region_ == nullptr ? CUDA_SUCCESS : region_->ExposePointers(arguments, sizes);
  }

  // Called after a copy to [address, address + bytes) was posted to the stream.
  void Copied(std::uint64_t address, std::uint64_t bytes, std::uint64_t stream) {
    if (region_ != nullptr && region_->Contains(address))
      region_->mirrors().Copied(connection_, address, bytes, stream);
  }
  // Called before the program waits, or only queries (`asks`): running kernels then see its writes
  // to page-locked memory.
  void BeforeWait(bool asks) {
    if (region_ == nullptr) return;
    region_->registered().BeforeWait(asks);
    region_->mirrors().BeforeWait(connection_);
  }
  // Called before a stream ends.
  void StreamEnds(std::uint64_t stream) {
    if (region_ != nullptr) region_->mirrors().StreamEnds(stream);
  }
  // Called before a stream continues after completed work of `other`.
  void Follow(const Connection& other) {
    // A lost device has no stream to continue.
    if (region_ != nullptr) static_cast<void>(region_->mirrors().Follow(connection_, other));
  }
  // Same by another thread, calling `then` afterwards. False if nothing has to be done. Threads:
  // any, also the receiver's.
  bool FollowLater(const std::shared_ptr<Connection>& other, std::function<void()> then) {
    if (region_ == nullptr || !region_->mirrors().active()) return false;
    region_->refresher().Run(
        [self = connection_.shared_from_this(), region = region_, other, then = std::move(then)] {
          static_cast<void>(region->mirrors().Follow(*self, *other));
          then();
        });
    return true;
  }

  // Called before the program is notified of completed work of the device: all of it, or some.
  CUresult Synchronized(bool all) {
    if (region_ == nullptr) return CUDA_SUCCESS;
    region_->mirrors().Synchronized(connection_);
    region_->registered().Synchronized();
    return variables_->Synchronized(connection_, all);
  }
  // Sends the program's writes to the device now, without waiting for other devices.
  CUresult SendUpdates() {
    if (region_ == nullptr) return CUDA_SUCCESS;
    region_->registered().BeforeWork();
    const CUresult result = region_->mirrors().SendUpdates(connection_);
    return result != CUDA_SUCCESS ? result : variables_->SendUpdates(connection_);
  }

  // Called after an op was posted at position `sequence`.
  template <typename T>
  void Posted(const T& op, std::uint64_t sequence) {
    if (WritesHost(op)) last_host_write_.store(sequence, std::memory_order_relaxed);
  }
  // True if kernels may use memory of the program as their own.
  bool KernelsUseHost() const { return region_ != nullptr && region_->used_by_kernels(); }
  // True if uncompleted work of the device, all of it after `completed`, may write memory read by
  // the program.
  bool MayWriteHost(std::uint64_t completed) const {
    return last_host_write_.load(std::memory_order_relaxed) > completed || KernelsUseHost();
  }

 private:
  template <typename T>
  static constexpr bool kUsesMemory =
      T::kMemory != MemoryUse::kNone && T::kMemory != MemoryUse::kNames;
  template <typename T>
  static constexpr bool kRuns = RunsKernels(T::kMemory);
  template <typename T>
  static constexpr bool kReadsOnly = T::kMemory == MemoryUse::kProgram;

  CUresult BeforeKernels() {
    region_->registered().BeforeWork();
    if (const CUresult result = variables_->BeforeLaunch(connection_); result != CUDA_SUCCESS)
      return result;
    variables_->AfterLaunch(connection_);
    return CUDA_SUCCESS;
  }
  // True if `op` itself writes memory read by the program.
  template <typename T>
  bool WritesHost(const T& op) const {
    if constexpr (T::kMemory == MemoryUse::kProgram) return true;
    if constexpr (T::kMemory == MemoryUse::kGraph)
      return region_ != nullptr;  // May contain copies.
    if constexpr (T::kMemory == MemoryUse::kWords) return Concerns(op);
    if constexpr (T::kMemory != MemoryUse::kMemory) return false;
    if constexpr (requires { op.to.address; })
      return region_ != nullptr && region_->Contains(op.to.address);
    else if constexpr (requires { op.destination; })
      return region_ != nullptr && region_->Contains(op.destination);
    else
      static_assert(T::kMemory != MemoryUse::kMemory || T::kOp == Op::kPeerSend,
                    "`destination` or `to` is the memory written");
    return false;
  }
  // True if one of its numbers is an address in the region.
  template <typename T>
  bool Touches(const T& value) const {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return region_->Contains(value);
    } else if constexpr (std::is_class_v<T> &&
                         requires { T::VisitFields(value, [](const auto&) {}); }) {
      bool touches = false;
      T::VisitFields(value, [&](const auto& field) { touches = touches || Touches(field); });
      return touches;
    } else {
      return false;
    }
  }

  Connection& connection_;
  SharedRegion* const region_;
  ManagedVariables* const variables_;
  // Approximate: several threads may store it out of order.
  std::atomic<std::uint64_t> last_host_write_{0};
};

}  // namespace cuspan
