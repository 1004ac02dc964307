// A device of the loaded driver, with its primary context and its window of the session's address
// plan.
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

// Threads: any; the members are constant once opened. Each thread calls MakeCurrent once before its
// first driver call.
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
  // Releases the window and the context. The window must be empty.
  ~Device();

  // Retains the primary context of device `ordinal`, makes it current to the calling thread and
  // reserves the window at wanted.base. If this is in use, tries base + stride, base + 2 × stride,
  // …. kUnavailable includes the driver's error.
  static Result<Device> Open(const Driver& driver, std::uint32_t ordinal,
                             const AddressWindow& wanted);

  // Makes the context current to the calling thread.
  Status MakeCurrent() const;
  CUcontext context() const { return context_; }
  CUdevice device() const { return device_; }

  // Pins host memory for the device. Copies from unpinned memory are only slower, so a failure is a
  // warning.
  void Pin(std::span<std::byte> area) const;

  // Reserves the client's shared region, at the same addresses in the client and all its proxies.
  // If `file` is given (on the client's node), the first `file_bytes` are the client's own memory.
  // The client keeps the rest, device memory, equal to its own. To be called once, before the
  // device is used. kUnavailable if the addresses are in use. With a file, addresses of the rest in
  // use only cause a warning. kInvalid if the file is larger than the region.
  Status ReserveShared(const AddressWindow& region, UniqueFd file, std::uint64_t file_bytes);

  // True if [address, address + bytes) is in the shared region.
  bool InShared(std::uint64_t address, std::uint64_t bytes) const {
    return address >= shared_.base && bytes <= shared_.bytes &&
           address - shared_.base <= shared_.bytes - bytes;
  }
  const AddressWindow& shared() const { return shared_; }
  // True if the range is in its first part, the client's own memory.
  bool InFile(std::uint64_t address, std::uint64_t bytes) const {
    return address >= shared_.base && bytes <= file_bytes_ &&
           address - shared_.base <= file_bytes_ - bytes;
  }
  // True if device memory may be mapped there.
  bool MayMap(std::uint64_t address, std::uint64_t bytes) const {
    return InWindow(address, bytes) || (InShared(address, bytes) && address >= rest_.base &&
                                        address - rest_.base + bytes <= rest_.bytes);
  }
  // File of the region, or -1.
  int shared_file() const { return shared_file_.get(); }

  // True if [address, address + bytes) is in the window.
  bool InWindow(std::uint64_t address, std::uint64_t bytes) const {
    return address >= window_.base && bytes <= window_.bytes &&
           address - window_.base <= window_.bytes - bytes;
  }

  const AddressWindow& window() const { return window_; }
  const Driver& driver() const { return *driver_; }
  CUdevice handle() const { return device_; }
  // Device memory used by the session.
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
  AddressWindow rest_;            // Region's part reserved from the driver.
  std::unique_ptr<MemoryAccount> memory_ = std::make_unique<MemoryAccount>();
};

// Creates device memory without mapping it. Other processes can import it if the driver supports
// this.
CUresult CreateMemory(const Driver& driver, const Device& device, std::uint64_t bytes,
                      CUmemGenericAllocationHandle* memory);
// An attribute of the device; 0 if the driver does not support it.
std::uint32_t AttributeOf(const Device& device, CUdevice_attribute attribute);
// Compute capability of the device: 10 × major + minor.
std::uint32_t CapabilityOf(const Device& device);
// Free and total device memory, within the run's limits.
CUresult MemoryInfoOf(const Device& device, std::size_t* free, std::size_t* total);

}  // namespace cuspan::proxy
