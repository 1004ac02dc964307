#include "interpose/client/memory/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common/available_memory.h"
#include "common/high_fd.h"
#include "common/log.h"
#include "common/shared_memory.h"
#include "interpose/client/base/background_thread.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/addresses.h"

namespace cuspan {
namespace {

// Base of the region: above the windows of the devices, and above programs and their heaps (up to
// 0x6555'5555'4000 with the largest randomisation). It is below addresses of mmap (from
// 0x6fff'0000'0000 with it). Pairs of small integers, or of a float and an integer, are no
// addresses there: the low half of each is a negative number of ten digits. A driver reserves a
// terabyte at multiples of 32 MiB (580, measured).
constexpr std::uint64_t kBase = 0x6b8b'a000'0000;
constexpr std::uint64_t kBytes = std::uint64_t{1} << 40;
// Parts of the region are quarters of it, and consist of whole pieces of the driver's.
constexpr std::uint64_t kUnitBytes = 4 * (std::uint64_t{4} << 20);
// A driver may not reserve less at a given address (580 does not reserve 16 MiB).
constexpr std::uint64_t kMinBytes = std::uint64_t{64} << 20;
// Size of segments for small blocks.
constexpr std::uint64_t kSegmentBytes = 4 << 20;
// Blocks of at least this size have their own segment.
constexpr std::uint64_t kOwnSegmentBytes = 1 << 20;
// From this size on, the host's available memory is checked; this costs little compared with
// pinning. Taking more would make the kernel end processes.
constexpr std::uint64_t kCheckedBytes = 16 << 20;

// Reserves no more than the possible size of the file.
AddressWindow ReserveAddresses() {
  const std::uint64_t bytes = std::min(kBytes, LargestSharedMemory() / kUnitBytes * kUnitBytes);
  if (bytes < kMinBytes) return {};
  void* const got =
      ::mmap(PointerTo(kBase), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == PointerTo(kBase)) return {kBase, bytes, 0};
  if (got != MAP_FAILED) ::munmap(got, bytes);
  return {};
}

// Allocates the pages of the range now, with several threads. Pinning would do it with one, taking
// ten times as long (0.76 s per GiB, measured).
void Populate(const BlockAllocator::Range& range) {
  constexpr std::uint64_t kMinShared = 16 << 20;
  constexpr unsigned kMaxThreads = 8;
  const std::uint64_t pieces = std::clamp<std::uint64_t>(
      range.bytes / kMinShared, 1,
      std::min(std::max(std::thread::hardware_concurrency(), 1U), kMaxThreads));
  const std::uint64_t piece = RoundUpToGranularity(range.bytes / pieces);
  const auto populate = [&](std::uint64_t begin) {
    // If the kernel cannot (before Linux 5.14), pinning does it.
    static_cast<void>(::madvise(PointerTo(range.base + begin), std::min(piece, range.bytes - begin),
                                MADV_POPULATE_WRITE));
  };
  std::vector<std::thread> threads;
  for (std::uint64_t begin = piece; begin < range.bytes; begin += piece) {
    std::thread thread = StartBackgroundThread("cuspan-populate", [&, begin] { populate(begin); });
    if (!thread.joinable()) break;  // Pinning does the rest.
    threads.push_back(std::move(thread));
  }
  populate(0);
  for (std::thread& thread : threads) thread.join();
}

// Returns the reason for a region too small or missing.
std::string WhyLess() {
  if (const std::uint64_t largest = LargestSharedMemory(); largest < kBytes)
    return Format("the file size limit is {} bytes; raise it (ulimit -f)", largest);
  return "its address range is in use, or its memory cannot be created";
}

}  // namespace

SharedRegion::SharedRegion(ContextConnections connections)
    : connections_(std::move(connections)),
      window_(ReserveAddresses()),
      host_(window_.base, window_.bytes / 2),
      managed_(window_.base + window_.bytes / 2, window_.bytes / 4),
      managed_on_device_(window_.base + FileBytes(true), window_.bytes / 4),
      mirrors_([this](const BlockAllocator::Range& part) { return UsedIn(part); },
               [this](Mirrors::Time when) { refresher_.CallBy(when); }),
      refresher_([this](Refresher::Time now) { return Refresh(now); }) {
  if (window_.bytes == 0) return;
  Result<UniqueFd> file = CreateSharedMemory("cuspan-shared", window_.bytes);
  if (file.ok()) {
    file_ = MoveHigh(std::move(*file));
    mirrors_.SetMemory(window_, file_.get());
    return;
  }
  LogInfo("managed memory is not available: {}", file.status().message());
  ::munmap(PointerTo(window_.base), window_.bytes);
  window_ = {};
}

CUresult SharedRegion::BackHere(const BlockAllocator::Range& range) {
  void* const mapped =
      ::mmap(PointerTo(range.base), range.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             file_.get(), static_cast<off_t>(range.base - window_.base));
  return mapped == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void SharedRegion::DropHere(const BlockAllocator::Range& range) {
  if (::mmap(PointerTo(range.base), range.bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    LogError("cannot unmap a part of the shared region: {}", std::strerror(errno));
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(range.base - window_.base), static_cast<off_t>(range.bytes));
}

bool SharedRegion::IsMirroredOn(const Connection& connection, const Segment& segment) const {
  return connection.sharing() == Sharing::kMirrored ||
         (connection.mirrors_managed() && PartOf(segment.range.base) == Part::kManagedOnDevice);
}

CUresult SharedRegion::MapOn(Connection& connection, const Segment& segment) {
  if (connection.sharing() == Sharing::kNone || !attached_.contains(connection.number()) ||
      connection.fault() != CUDA_SUCCESS)
    return CUDA_SUCCESS;
  if (connection.sharing() == Sharing::kMirrored && !segment.mirrored) return CUDA_SUCCESS;
  MemoryMap op;
  op.address = segment.range.base;
  op.bytes = segment.range.bytes;
  MemoryMap::Reply reply;
  CUresult result = connection.Call(op, &reply);
  if (result == CUDA_SUCCESS && IsMirroredOn(connection, segment)) {
    result = refresher_.Start() ? mirrors_.Begin(connection, segment.range)
                                : CUDA_ERROR_OPERATING_SYSTEM;
    if (result != CUDA_SUCCESS) UnmapOn(connection, segment);
  }
  return result;
}

void SharedRegion::UnmapOn(Connection& connection, const Segment& segment) {
  if (connection.sharing() == Sharing::kNone || !attached_.contains(connection.number())) return;
  if (connection.sharing() == Sharing::kMirrored && !segment.mirrored) return;
  MemoryUnmap op;
  op.address = segment.range.base;
  op.bytes = segment.range.bytes;
  MemoryUnmap::Reply reply;
  // A failure means a lost device; the next call reports it.
  static_cast<void>(connection.Call(op, &reply));
}

CUresult SharedRegion::Grow(Part part, std::uint64_t bytes) {
  const MutexLock growing(growing_);
  Segment segment{{0, bytes < kOwnSegmentBytes ? kSegmentBytes : RoundUpToGranularity(bytes)},
                  part != Part::kHost};
  {
    const WriterLock lock(mutex_);
    // Another thread may have grown it while this one waited.
    if (const auto base = Blocks(part).Allocate(bytes)) {
      Blocks(part).Free(*base);
      return CUDA_SUCCESS;
    }
    const auto base = Blocks(part).PlaceSegment(segment.range.bytes);
    if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
    segment.range.base = *base;
  }
  const auto connections = connections_();
  const bool pinned =
      std::any_of(connections.begin(), connections.end(), [&](const auto& connection) {
        return connection->sharing() == Sharing::kMemory && !IsMirroredOn(*connection, segment);
      });
  if (pinned && segment.range.bytes >= kCheckedBytes && segment.range.bytes > AvailableMemory())
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = BackHere(segment.range);
  std::vector<std::shared_ptr<Connection>> mapped;
  if (result == CUDA_SUCCESS) {
    if (pinned) Populate(segment.range);
    for (const auto& connection : connections) {
      if ((result = MapOn(*connection, segment)) != CUDA_SUCCESS) break;
      mapped.push_back(connection);
    }
  }
  if (result != CUDA_SUCCESS) {
    for (const auto& connection : mapped) UnmapOn(*connection, segment);
    mirrors_.End(segment.range);
    DropHere(segment.range);
    return result;
  }
  const WriterLock lock(mutex_);
  segments_.push_back(segment);
  if (!segment.mirrored) has_unmirrored_ = true;
  if (part != Part::kHost) used_by_kernels_.store(true, std::memory_order_relaxed);
  Blocks(part).AddSegment(segment.range);
  return CUDA_SUCCESS;
}

CUresult SharedRegion::Allocate(Kind kind, std::uint64_t bytes, std::uint64_t* address) {
  if (!available()) {
    LogWarn("managed memory is not available: {}", WhyLess());
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const CUresult result = AllocateAvailable(kind, bytes, address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && window_.bytes < kBytes)
    LogWarn("cannot allocate {} bytes of pinned or managed memory: {}", bytes, WhyLess());
  return result;
}

CUresult SharedRegion::AllocateAvailable(Kind kind, std::uint64_t bytes, std::uint64_t* address) {
  if (bytes == 0 || bytes > window_.bytes / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  if (kind == Kind::kHost) return AllocateIn(Part::kHost, bytes, address);
  const auto connections = connections_();
  const bool on_device =
      std::any_of(connections.begin(), connections.end(), [](const auto& connection) {
        return connection->sharing() == Sharing::kMemory && connection->mirrors_managed();
      });
  if (on_device) {
    const CUresult result = AllocateIn(Part::kManagedOnDevice, bytes, address);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
    LogInfo("{} bytes of managed memory do not fit the device: they stay in this node's memory",
            bytes);
  }
  return AllocateIn(Part::kManaged, bytes, address);
}

CUresult SharedRegion::AllocateIn(Part part, std::uint64_t bytes, std::uint64_t* address) {
  for (;;) {
    {
      const WriterLock lock(mutex_);
      if (const auto base = Blocks(part).Allocate(bytes)) {
        *address = *base;
        CountBlock(part, +1);
        break;
      }
    }
    // Another thread may take the memory mapped here; then this repeats.
    if (const CUresult result = Grow(part, bytes); result != CUDA_SUCCESS) return result;
  }
  mirrors_.Allocated({*address, bytes});
  return CUDA_SUCCESS;
}

void SharedRegion::CountBlock(Part part, int change) {
  std::size_t& blocks = part == Part::kHost ? pinned_in_use_ : managed_in_use_;
  blocks = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(blocks) + change);
  mirrors_.SetInUse(pinned_in_use_ + managed_in_use_ != 0, managed_in_use_ != 0);
}

// Returns the range from the first used block there to the last.
BlockAllocator::Range SharedRegion::UsedIn(const BlockAllocator::Range& part) const {
  const ReaderLock lock(mutex_);
  return Blocks(PartOf(part.base)).UsedIn(part);
}

bool SharedRegion::AnyAtWork() const {
  bool any = false;
  for (const auto& connection : connections_()) {
    if (!connection->AtWork()) continue;
    any = true;
    connection->AskWhenDone();
  }
  return any;
}

std::optional<Refresher::Time> SharedRegion::Refresh(Refresher::Time now) {
  const bool worked = registered_.ConsumeWorked();  // Before checking for work.
  const bool at_work = AnyAtWork();
  // First: the other one uses memory kept by this one.
  const auto mirrored = mirrors_.Refresh(now, at_work);
  const auto registered = registered_.Refresh(worked, at_work);
  if (!registered || !mirrored) return registered ? registered : mirrored;
  return std::min(*registered, *mirrored);
}

CUresult SharedRegion::Free(std::uint64_t address) {
  if (!Contains(address)) return CUDA_ERROR_INVALID_VALUE;
  const MutexLock growing(growing_);
  std::optional<Segment> empty;
  {
    const WriterLock lock(mutex_);
    BlockAllocator& blocks = Blocks(PartOf(address));
    if (!blocks.Free(address)) return CUDA_ERROR_INVALID_VALUE;
    CountBlock(PartOf(address), -1);
    const BlockAllocator::Range range = *blocks.Segment(address);
    const auto idle = blocks.EmptySegments();
    const bool is_empty =
        std::any_of(idle.begin(), idle.end(), [&](const auto& e) { return e.base == range.base; });
    // Keeps one shared segment for the next small blocks.
    if (!is_empty || (range.bytes == kSegmentBytes && idle.size() == 1)) return CUDA_SUCCESS;
    blocks.RemoveSegment(range.base);
    const auto segment =
        std::find_if(segments_.begin(), segments_.end(),
                     [&](const Segment& known) { return known.range.base == range.base; });
    empty = *segment;
    segments_.erase(segment);
  }
  for (const auto& connection : connections_()) UnmapOn(*connection, *empty);
  mirrors_.End(empty->range);
  DropHere(empty->range);
  return CUDA_SUCCESS;
}

std::optional<BlockAllocator::Range> SharedRegion::Find(std::uint64_t address) const {
  if (!Contains(address)) return std::nullopt;
  const ReaderLock lock(mutex_);
  return Blocks(PartOf(address)).Find(address);
}

SharedRegion::Segment* SharedRegion::FindSegment(std::uint64_t address) {
  for (Segment& segment : segments_)
    if (address - segment.range.base < segment.range.bytes) return &segment;
  return nullptr;
}

bool SharedRegion::Reaches(const Connection& connection, std::uint64_t address) const {
  if (!Contains(address)) return false;
  if (connection.sharing() != Sharing::kMirrored || IsManaged(address))
    return connection.sharing() != Sharing::kNone;
  const ReaderLock lock(mutex_);
  const Segment* const segment = const_cast<SharedRegion*>(this)->FindSegment(address);
  return segment != nullptr && segment->mirrored;
}

CUresult SharedRegion::Expose(std::uint64_t address) {
  if (!Contains(address)) return CUDA_SUCCESS;
  used_by_kernels_.store(true, std::memory_order_relaxed);
  if (!has_unmirrored_) return CUDA_SUCCESS;
  const MutexLock growing(growing_);
  Segment segment{};
  {
    const ReaderLock lock(mutex_);
    const Segment* const found = FindSegment(address);
    if (found == nullptr || found->mirrored) return CUDA_SUCCESS;
    segment = *found;
    segment.mirrored = true;
  }
  const auto connections = connections_();
  for (const auto& connection : connections) {
    if (connection->sharing() != Sharing::kMirrored || connection->fault() != CUDA_SUCCESS)
      continue;
    // Copies in flight from and to it are made by our threads; they must not access protected
    // pages. Without any, the device need not be done: it may be waiting for the program.
    const HostSpan span{segment.range.base, segment.range.base + segment.range.bytes};
    CUresult result = CUDA_SUCCESS;
    if (connection->transfers().Uses(span)) result = connection->CallAndStore(DeviceSynchronize{});
    if (result == CUDA_SUCCESS) result = MapOn(*connection, segment);
    if (result != CUDA_SUCCESS) return result;
  }
  const WriterLock lock(mutex_);
  FindSegment(address)->mirrored = true;
  has_unmirrored_ =
      std::any_of(segments_.begin(), segments_.end(), [](const Segment& s) { return !s.mirrored; });
  return CUDA_SUCCESS;
}

CUresult SharedRegion::ExposePointers(std::span<const std::byte> arguments,
                                      std::span<const std::uint32_t> sizes) {
  if (!has_unmirrored_) return CUDA_SUCCESS;
  for (const std::uint32_t bytes : sizes) {
    const std::span<const std::byte> parameter = arguments.first(bytes);
    arguments = arguments.subspan(bytes);
    std::uint64_t value = 0;
    for (std::size_t at = 0; at + sizeof value <= bytes; at += sizeof value) {
      std::memcpy(&value, parameter.data() + at, sizeof value);
      // The end of a segment may be the end of an allocation read backwards by kernels.
      const std::uint64_t before = value % kDriverGranularity == 0 ? value - 1 : value;
      for (const std::uint64_t address : {value, before}) {
        if (!Contains(address) || IsManaged(address)) continue;
        if (const CUresult result = Expose(address); result != CUDA_SUCCESS) return result;
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult SharedRegion::Attach(Connection& connection) {
  if (!available() || connection.sharing() == Sharing::kNone) return CUDA_SUCCESS;
  const MutexLock growing(growing_);
  attached_.insert(connection.number());
  std::vector<Segment> segments;
  {
    const ReaderLock lock(mutex_);
    segments = segments_;
  }
  for (const Segment& segment : segments)
    if (const CUresult result = MapOn(connection, segment); result != CUDA_SUCCESS) return result;
  return CUDA_SUCCESS;
}

void SharedRegion::Forget(const Connection& connection) {
  {
    const MutexLock growing(growing_);
    attached_.erase(connection.number());
  }
  mirrors_.Forget(connection);
}

}  // namespace cuspan
