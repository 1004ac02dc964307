#include "store/engine/resident_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/available_memory.h"
#include "common/log.h"
#include "common/round_up.h"
#include "common/settings.h"
#include "common/start_thread.h"

namespace cuspan::store {
namespace {

// Page-locking 128 MiB takes 6.8 ms, 64 times 2 MiB take 26 ms (measured on a node with an H200).
constexpr std::uint64_t kPiece = std::uint64_t{128} << 20;

// Not in the C library's headers of Debian 12. (linux/magic.h has no XFS, ZFS.)
constexpr long kXfs = 0x58465342;
constexpr long kZfs = 0x2fc12fc1;

// True for file systems with one cache of pages for all who write files: those of this node only.
bool IsLocal(int fd) {
  constexpr std::array<long, 9> kLocal = {EXT4_SUPER_MAGIC,
                                          BTRFS_SUPER_MAGIC,
                                          TMPFS_MAGIC,
                                          OVERLAYFS_SUPER_MAGIC,
                                          F2FS_SUPER_MAGIC,
                                          SQUASHFS_MAGIC,
                                          RAMFS_MAGIC,
                                          kXfs,
                                          kZfs};
  struct statfs found = {};
  return ::fstatfs(fd, &found) == 0 &&
         std::find(kLocal.begin(), kLocal.end(), static_cast<long>(found.f_type)) != kLocal.end();
}

bool CanLockFiles(const EngineContext& context) {
  int can = 0;
  return context.driver.attribute(&can, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
                                  context.device) == CUDA_SUCCESS &&
         can != 0;
}

Status OfDriver(CUresult result, std::uint64_t bytes) {
  return Status::Unavailable("{} bytes of a file can not be page-locked: the driver returns {}",
                             bytes, static_cast<int>(result));
}

}  // namespace

ResidentWay ResidentWayOfRun() {
  const std::string_view text = SettingText(settings::kFileResident);
  if (text == "mapped") return ResidentWay::kMapped;
  if (text == "copied") return ResidentWay::kCopied;
  if (text == "off") return ResidentWay::kOff;
  if (text != "auto")
    LogWarn("{}={} is not auto, mapped, copied or off: auto is taken", settings::kFileResident.name,
            text);
  return ResidentWay::kAuto;
}

Result<bool> LocksOwnPages(const EngineContext& context, const FileBytes& file, ResidentWay way) {
  if (way == ResidentWay::kOff)
    return Status::Unsupported("{}=off: no bytes of files are page-locked",
                               settings::kFileResident.name);
  return way == ResidentWay::kMapped ||
         (way == ResidentWay::kAuto && CanLockFiles(context) && IsLocal(file.fd()));
}

Result<std::unique_ptr<ResidentFile>> ResidentFile::Make(const EngineContext& context,
                                                         const FileBytes& file, std::uint64_t bytes,
                                                         ResidentWay way, unsigned threads,
                                                         MemoryBudget& budget,
                                                         const std::atomic<bool>& stop) {
  CUSPAN_ASSIGN_OR_RETURN(const bool mapped, LocksOwnPages(context, file, way));
  MemoryBudget::Share share = budget.Take(bytes);
  if (!share.valid())
    return Status::Exhausted(
        "a file of {} bytes does not fit into the {} bytes for files on the GPU's node: use "
        "--file-memory",
        bytes, budget.limit());
  if (!mapped && bytes > AvailableMemory() / 2)
    return Status::Exhausted(
        "a file of {} bytes would take more than half of the memory available on the GPU's node",
        bytes);
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ResidentFile> resident,
                          Map(context, file, bytes, !mapped));
  const Status locked = resident->LockAll(file, threads, stop);
  if (locked.ok()) {
    const MutexLock lock(resident->mutex_);
    resident->shares_.push_back(std::move(share));
    return resident;
  }
  if (!mapped || way == ResidentWay::kMapped) return locked;
  LogInfo("a file's pages can not be page-locked, so its bytes are copied: {}", locked.message());
  resident.reset();
  share = MemoryBudget::Share();
  return Make(context, file, bytes, ResidentWay::kCopied, threads, budget, stop);
}

Result<std::unique_ptr<ResidentFile>> ResidentFile::Map(const EngineContext& context,
                                                        const FileBytes& file, std::uint64_t bytes,
                                                        bool copied) {
  std::unique_ptr<ResidentFile> resident(new ResidentFile(context, bytes, copied));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t mapped = RoundUp(bytes, page);
  void* const memory = copied ? ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                              : ::mmap(nullptr, mapped, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (memory == MAP_FAILED)
    return Status::Exhausted("{} bytes of a file can not be mapped: {}", bytes,
                             std::strerror(errno));
  resident->memory_ = static_cast<std::byte*>(memory);
  resident->mapped_bytes_ = mapped;
  resident->address_ = reinterpret_cast<std::uint64_t>(memory);
  // Fewer pages to be locked. A hint only.
  if (copied) ::madvise(memory, mapped, MADV_HUGEPAGE);
  return resident;
}

Status ResidentFile::LockAll(const FileBytes& file, unsigned threads,
                             const std::atomic<bool>& stop) {
  const std::uint64_t pieces = (mapped_bytes_ + kPiece - 1) / kPiece;
  std::vector<Status> results(pieces);
  std::atomic<std::uint64_t> next = 0;
  std::atomic<bool> failed = false;
  const auto lock_pieces = [&] {
    if (const CUresult result = context_.driver.set_current(context_.context);
        result != CUDA_SUCCESS) {
      // Another thread, perhaps this one's starter, takes the pieces.
      return result;
    }
    for (std::uint64_t i = next++; i < pieces && !failed && !stop; i = next++) {
      const std::uint64_t offset = i * kPiece;
      results[i] = LockPiece(file, offset, std::min(kPiece, mapped_bytes_ - offset));
      if (!results[i].ok()) failed = true;
    }
    return CUDA_SUCCESS;
  };
  std::vector<std::thread> helpers;
  for (std::uint64_t i = 1; i < std::min<std::uint64_t>(threads, pieces); ++i) {
    Result<std::thread> helper = StartThread("cuspan-resident", [&] { lock_pieces(); });
    if (!helper.ok()) break;
    helpers.push_back(std::move(*helper));
  }
  const CUresult own = lock_pieces();
  for (std::thread& helper : helpers) helper.join();
  if (own != CUDA_SUCCESS) return OfDriver(own, bytes_);
  for (const Status& result : results) CUSPAN_RETURN_IF_ERROR(result);
  return stop ? Status::Internal("the device's session ends") : Status::Ok();
}

Status ResidentFile::Lock(const FileBytes& file, std::uint64_t offset, std::uint64_t bytes,
                          MemoryBudget& budget, const std::function<bool()>& may_lock) {
  MemoryBudget::Share share = budget.Take(bytes);
  if (!share.valid())
    return Status::Exhausted("the {} bytes for files on the GPU's node are in use", budget.limit());
  if (copied_ && bytes > AvailableMemory() / 2)
    return Status::Exhausted("the GPU's node has too little memory for {} more bytes of a file",
                             bytes);
  const std::uint64_t to_the_end = mapped_bytes_ - offset;
  CUSPAN_RETURN_IF_ERROR(
      LockPiece(file, offset, offset + bytes >= bytes_ ? to_the_end : bytes, may_lock));
  const MutexLock lock(mutex_);
  shares_.push_back(std::move(share));
  return Status::Ok();
}

Status ResidentFile::LockPiece(const FileBytes& file, std::uint64_t offset, std::uint64_t bytes,
                               const std::function<bool()>& may_lock) {
  std::byte* const memory = memory_ + offset;
  if (copied_) {
    const std::uint64_t wanted = std::min(bytes, bytes_ - offset);
    const FileOutcome read = file.Read({memory, wanted}, offset);
    if (read.error != 0)
      return Status::Internal("the file can not be read at byte {}: {}", offset + read.bytes,
                              std::strerror(read.error));
    if (read.bytes != wanted)
      return Status::Internal(
          "the file ends at byte {}, before its size of {}: it is being changed",
          offset + read.bytes, bytes_);
  } else {
    // Reads many pages at a time, in spite of advice for single reads.
    ::posix_fadvise(file.fd(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                    POSIX_FADV_WILLNEED);
    // Before Linux 5.14 it is unknown: page-locking reads the pages, one after the other.
    if (::madvise(memory, bytes, MADV_POPULATE_READ) != 0 && errno != EINVAL)
      return Status::Internal("the file can not be read from byte {}: {}", offset,
                              std::strerror(errno));
  }
  if (may_lock && !may_lock()) return Status::Internal("the file has changed since it was opened");
  const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                         (copied_ ? 0u : CU_MEMHOSTREGISTER_READ_ONLY);
  const CUresult result = context_.driver.register_memory(memory, bytes, flags);
  if (result != CUDA_SUCCESS) return OfDriver(result, bytes);
  {
    const MutexLock lock(mutex_);
    locked_.push_back(memory);
  }
  CUdeviceptr address = 0;
  if (const CUresult found = context_.driver.device_pointer(&address, memory, 0);
      found != CUDA_SUCCESS)
    return OfDriver(found, bytes);
  if (address != reinterpret_cast<std::uint64_t>(memory))
    return Status::Unavailable("the driver gives page-locked memory other addresses for kernels");
  return Status::Ok();
}

ResidentFile::~ResidentFile() {
  // Without the context there is nothing to be unlocked.
  if (context_.driver.set_current(context_.context) == CUDA_SUCCESS) {
    const MutexLock lock(mutex_);
    for (std::byte* const piece : locked_) context_.driver.unregister_memory(piece);
  }
  if (memory_ != nullptr) ::munmap(memory_, mapped_bytes_);
}

}  // namespace cuspan::store
