#include "store/engine/resident_file.h"

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
#include <vector>

#include "common/available_memory.h"
#include "common/log.h"
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

Result<std::unique_ptr<ResidentFile>> ResidentFile::Make(const EngineContext& context,
                                                         const FileBytes& file, std::uint64_t bytes,
                                                         ResidentWay way, unsigned threads,
                                                         MemoryBudget& budget,
                                                         const std::atomic<bool>& stop) {
  if (way == ResidentWay::kOff)
    return Status::Unsupported("{}=off: no bytes of files are page-locked",
                               settings::kFileResident.name);
  const bool mapped = way == ResidentWay::kMapped ||
                      (way == ResidentWay::kAuto && CanLockFiles(context) && IsLocal(file.fd()));
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
  std::unique_ptr<ResidentFile> resident(
      new ResidentFile(context, bytes, !mapped, std::move(share)));
  CUSPAN_RETURN_IF_ERROR(resident->Map(file));
  const Status locked = resident->Lock(file, threads, stop);
  if (locked.ok()) return resident;
  if (!mapped || way == ResidentWay::kMapped) return locked;
  LogInfo("a file's pages can not be page-locked, so its bytes are copied: {}", locked.message());
  resident.reset();
  return Make(context, file, bytes, ResidentWay::kCopied, threads, budget, stop);
}

Status ResidentFile::Map(const FileBytes& file) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  mapped_bytes_ = (bytes_ + page - 1) / page * page;
  void* const memory = copied_
                           ? ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                           : ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (memory == MAP_FAILED)
    return Status::Exhausted("{} bytes of a file can not be mapped: {}", bytes_,
                             std::strerror(errno));
  memory_ = static_cast<std::byte*>(memory);
  // Fewer pages to be locked. A hint only.
  if (copied_) ::madvise(memory_, mapped_bytes_, MADV_HUGEPAGE);
  return Status::Ok();
}

Status ResidentFile::Lock(const FileBytes& file, unsigned threads, const std::atomic<bool>& stop) {
  const std::uint64_t pieces = (mapped_bytes_ + kPiece - 1) / kPiece;
  std::vector<Status> results(pieces);
  locked_.assign(pieces, false);
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
      locked_[i] = results[i].ok();
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
  if (stop) return Status::Internal("the device's session ends");
  CUdeviceptr address = 0;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    CUdeviceptr piece = 0;
    const CUresult result = context_.driver.device_pointer(&piece, memory_ + i * kPiece, 0);
    if (result != CUDA_SUCCESS) return OfDriver(result, bytes_);
    if (i == 0) address = piece;
    // Unified addressing: it is the host's address.
    if (piece != address + i * kPiece)
      return Status::Unavailable("the driver maps a file's parts to places that do not adjoin");
  }
  address_ = address;
  return Status::Ok();
}

Status ResidentFile::LockPiece(const FileBytes& file, std::uint64_t offset, std::uint64_t bytes) {
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
  } else if (::madvise(memory, bytes, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
    // Before Linux 5.14 it is unknown: page-locking reads the pages, one after the other.
    return Status::Internal("the file can not be read from byte {}: {}", offset,
                            std::strerror(errno));
  }
  const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                         (copied_ ? 0u : CU_MEMHOSTREGISTER_READ_ONLY);
  const CUresult result = context_.driver.register_memory(memory, bytes, flags);
  return result == CUDA_SUCCESS ? Status::Ok() : OfDriver(result, bytes);
}

ResidentFile::~ResidentFile() {
  if (memory_ == nullptr) return;
  // Without the context there is nothing to be unlocked.
  if (context_.driver.set_current(context_.context) == CUDA_SUCCESS)
    for (std::uint64_t i = 0; i < locked_.size(); ++i)
      if (locked_[i]) context_.driver.unregister_memory(memory_ + i * kPiece);
  ::munmap(memory_, mapped_bytes_);
}

}  // namespace cuspan::store
