// One device of the loaded driver with its primary context and its window of
// the session's address plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/unique_fd.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/memory_account.h"
#include "structs.gen.h"

namespace cuspan::proxy {

// Threads: the members are constant once opened; any thread may read them.
// Every thread that calls the driver calls MakeCurrent first, once.
class Device {
 public:
  Device(Device&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        device_(other.device_),
        context_(other.context_),
        window_(other.window_),
        shared_(other.shared_),
        shared_file_(std::move(other.shared_file_)),
        file_bytes_(other.file_bytes_),
        rest_(other.rest_),
        memory_(std::move(other.memory_)) {}
  // Gives the window, in which nothing is mapped any more, and the context back.
  ~Device();

  // Retains the primary context of device `ordinal`, makes it current to the
  // calling thread and reserves the window: at wanted.base or, where that is
  // taken, at base + stride, base + 2 × stride, …. kUnavailable names what the driver said.
  static Result<Device> Open(const Driver& driver, std::uint32_t ordinal,
                             const AddressWindow& wanted);

  // Makes the context current to the calling thread.
  Status MakeCurrent() const;

  // Pins host memory for the device. Copies work without, only slower, so a failure is a warning.
  void Pin(std::span<std::byte> area) const;

  // Reserves the client's shared region, whose addresses mean the same in the client and in all of
  // its proxies. With `file` (valid on the client's node) its first `file_bytes` are memory of the
  // client itself; the rest is device memory that the client keeps equal to its own. To be called
  // once, before the device is used; kUnavailable when the addresses are taken (those of the rest
  // may be, if there is a file), kInvalid for a file of more than the region.
  Status ReserveShared(const AddressWindow& region, UniqueFd file, std::uint64_t file_bytes);

  // Whether [address, address + bytes) lies in the shared region.
  bool InShared(std::uint64_t address, std::uint64_t bytes) const {
    return address >= shared_.base && bytes <= shared_.bytes &&
           address - shared_.base <= shared_.bytes - bytes;
  }
  const AddressWindow& shared() const { return shared_; }
  // Whether it lies in the part of that which is the client's own memory.
  bool InFile(std::uint64_t address, std::uint64_t bytes) const {
    return address >= shared_.base && bytes <= file_bytes_ &&
           address - shared_.base <= file_bytes_ - bytes;
  }
  // Whether memory of the device may be mapped there.
  bool MayMap(std::uint64_t address, std::uint64_t bytes) const {
    return InWindow(address, bytes) || (InShared(address, bytes) && address >= rest_.base &&
                                        address - rest_.base + bytes <= rest_.bytes);
  }
  // The region's memory, or -1.
  int shared_file() const { return shared_file_.get(); }

  // Whether [address, address + bytes) lies in the window.
  bool InWindow(std::uint64_t address, std::uint64_t bytes) const {
    return address >= window_.base && bytes <= window_.bytes &&
           address - window_.base <= window_.bytes - bytes;
  }

  const AddressWindow& window() const { return window_; }
  const Driver& driver() const { return *driver_; }
  CUdevice handle() const { return device_; }
  // What is the session's of the device's memory.
  MemoryAccount& memory() const { return *memory_; }

 private:
  Device(const Driver* driver, CUdevice device, CUcontext context, AddressWindow window)
      : driver_(driver), device_(device), context_(context), window_(window) {}

  const Driver* driver_;
  CUdevice device_;
  CUcontext context_;
  AddressWindow window_;
  AddressWindow shared_;
  UniqueFd shared_file_;
  std::uint64_t file_bytes_ = 0;  // 0 without a file.
  AddressWindow rest_;            // What is the driver's of the region.
  std::unique_ptr<MemoryAccount> memory_ = std::make_unique<MemoryAccount>();
};

// Memory of the device, mapped nowhere, which other processes can have if the driver lets them.
CUresult CreateMemory(const Driver& driver, const Device& device, std::uint64_t bytes,
                      CUmemGenericAllocationHandle* memory);
// An attribute of it; 0 where the driver knows none.
std::uint32_t AttributeOf(const Device& device, CUdevice_attribute attribute);
// The device's compute capability: 10 × major + minor.
std::uint32_t CapabilityOf(const Device& device);
// What of the device's memory is free, and how much there is, as the run may see it.
CUresult MemoryInfoOf(const Device& device, std::size_t* free, std::size_t* total);

}  // namespace cuspan::proxy
