#include "interpose/client/memory/mirrors.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/log.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/faults.h"
#include "protocol/api/patch.h"

namespace cuspan {
namespace {

// Spans with no more than this between them cross as one.
constexpr std::uint64_t kGapBytes = 1024;

int ProtectionOf(PageStates::Access access) {
  switch (access) {
    case PageStates::Access::kNothing:
      return PROT_NONE;
    case PageStates::Access::kRead:
      return PROT_READ;
    case PageStates::Access::kWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

// Where the first difference at or after `from` is; `end` when there is none.
std::size_t NextDifference(const std::byte* a, const std::byte* b, std::size_t from,
                           std::size_t end) {
  constexpr std::size_t kStride = 4096;
  while (from < end) {
    const std::size_t piece = std::min(kStride, end - from);
    if (std::memcmp(a + from, b + from, piece) != 0) {
      while (a[from] == b[from]) ++from;
      return from;
    }
    from += piece;
  }
  return end;
}

// Where the piece of a patch starts whose first span starts here.
constexpr std::uint64_t PatchStart(std::uint64_t from) {
  return from / kPatchWordBytes * kPatchWordBytes;
}

// How many of the spans, from the first on, one patch has room for: a patch is worth its while from
// two on, since it is one op, and one call of the driver.
std::size_t FitPatch(std::span<const BlockAllocator::Range> spans) {
  const std::uint64_t most = PatchStart(spans.front().base) + kMostPatchBytes;
  std::size_t count = 0;
  while (count < spans.size() && spans[count].base + spans[count].bytes <= most) ++count;
  return count;
}

}  // namespace

Mirrors::Range* Mirrors::Find(std::uint64_t address) {
  for (Range& range : ranges_)
    if (address - range.place.base < range.place.bytes) return &range;
  return nullptr;
}

Mirrors::Replica* Mirrors::FindReplica(Range& range, const Connection& link) {
  for (Replica& replica : range.replicas)
    if (replica.link == link.number()) return &replica;
  return nullptr;
}

CUresult Mirrors::MapAlias() {
  if (alias_ != nullptr) return CUDA_SUCCESS;
  void* const alias =
      ::mmap(nullptr, window_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (alias == MAP_FAILED) {
    LogError(
        "managed and mapped memory for a device on another node needs {} GiB of address space: {}",
        window_.bytes >> 30, std::strerror(errno));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // A child process has no use for it.
  ::madvise(alias, window_.bytes, MADV_DONTFORK);
  alias_ = static_cast<std::byte*>(alias);
  return CUDA_SUCCESS;
}

CUresult Mirrors::Begin(Connection& link, const BlockAllocator::Range& place) {
  const MutexLock lock(mutex_);
  if (const CUresult result = MapAlias(); result != CUDA_SUCCESS) return result;
  Range* range = Find(place.base);
  if (range == nullptr) {
    void* const twin = ::mmap(nullptr, place.bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (twin == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    range = &ranges_.emplace_back(place, static_cast<std::byte*>(twin));
    // Page-locked memory may have been in use for long: all that is not zero is news to the twin.
    const bool managed = place.base - window_.base >= window_.bytes / 2;
    for (std::size_t block = 0; !managed && block < range->states.size(); ++block)
      range->states.Written(block);
    StartFaults(*this, window_);
    mirrored_.store(true, std::memory_order_release);
    Protect(*range, 0, range->states.size());
  }
  Memset zero;
  zero.destination = place.base;
  zero.element_bytes = 1;
  zero.elements = place.bytes;
  CUresult result = link.OwnStream(&zero.stream);
  if (result == CUDA_SUCCESS) result = link.Send(zero);
  if (result == CUDA_SUCCESS) result = link.SynchronizeStream(zero.stream);
  if (result == CUDA_SUCCESS) range->replicas.push_back({link.number(), range->pristine});
  return result;
}

void Mirrors::End(const BlockAllocator::Range& place) {
  const MutexLock lock(mutex_);
  ranges_.remove_if([&](const Range& range) {
    if (range.place.base != place.base) return false;
    ::munmap(range.twin, range.place.bytes);
    return true;
  });
}

void Mirrors::Forget(const Connection& link) {
  const MutexLock lock(mutex_);
  if (owner_.get() == &link) {
    // What it wrote and nobody fetched is gone; what the program has is what there is.
    owner_ = nullptr;
    at_work_ = false;
    for (Range& range : ranges_) {
      for (std::size_t block = 0; block < range.states.size(); ++block)
        range.states.Fetched(block, false);
      Protect(range, 0, range.states.size());
    }
  }
  std::erase_if(wrote_here_, [&](const auto& other) { return other.get() == &link; });
  for (Range& range : ranges_)
    range.replicas.remove_if([&](const Replica& replica) { return replica.link == link.number(); });
}

void Mirrors::Protect(Range& range, std::size_t first, std::size_t count) {
  const std::size_t end = first + count;
  for (std::size_t at = first; at < end;) {
    const PageStates::Run run = range.states.SameAccess(at, end);
    void* const start = PointerTo(range.place.base + run.first * kBlockBytes);
    if (::mprotect(start, run.count * kBlockBytes, ProtectionOf(range.states.access(run.first))) !=
        0) {
      // The kernel has no room for more pieces of different protection. All may be written then,
      // once all is here.
      for (std::size_t block = 0; block < range.states.size(); ++block) range.states.Written(block);
      for (std::size_t block = 0; block < range.states.size(); ++block)
        if (!range.states.valid(block)) static_cast<void>(Fetch(range, {block, 1}));
      ::mprotect(PointerTo(range.place.base), range.place.bytes, PROT_READ | PROT_WRITE);
      return;
    }
    at += run.count;
  }
}

void Mirrors::Changed(Range& range, std::size_t block, const Connection* by) {
  range.pristine[block] = false;
  for (Replica& replica : range.replicas)
    if (by == nullptr || replica.link != by->number()) replica.current[block] = false;
}

// --- To a device

// Not analysed, as it gives the mutex back in between.
void Mirrors::WaitForOthers(const Connection& link,
                            MutexLock* lock) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  constexpr int kMostRounds = 4;
  for (int round = 1; round <= kMostRounds; ++round) {
    std::vector<std::shared_ptr<Connection>> others;
    if (owner_ != nullptr && owner_.get() != &link) others.push_back(owner_);
    if (link.mirrors_managed()) others.insert(others.end(), wrote_here_.begin(), wrote_here_.end());
    if (others.empty()) return;
    const std::uint64_t work = work_;
    // What these do may wait for a function of the program, whose thread comes here as well. Only
    // where other threads give them more and more work it must end some time.
    const bool last = round == kMostRounds;
    if (!last) lock->unlock();
    for (const auto& other : others)
      static_cast<void>(
          other->CallAndStore(DeviceSynchronize{}));  // A lost one writes nothing more.
    if (!last) lock->lock();
    if (work == work_) return;
  }
}

CUresult Mirrors::BeforeWork(Connection& link) {
  if (!active()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  WaitForOthers(link, &lock);
  if (owner_ != nullptr && owner_.get() != &link)
    if (const CUresult result = Disown(); result != CUDA_SUCCESS) return result;
  if (!link.mirrors_managed()) return CUDA_SUCCESS;
  if (!wrote_here_.empty()) {
    wrote_here_.clear();
    for (Range& range : ranges_) {
      for (std::size_t block = 0; block < range.states.size(); ++block) range.states.Written(block);
    }
  }
  return Push(link);
}

CUresult Mirrors::SendNews(Connection& link) {
  if (!active()) return CUDA_SUCCESS;
  const MutexLock lock(mutex_);
  if (owner_ != nullptr && owner_.get() != &link) return CUDA_SUCCESS;
  return link.mirrors_managed() && wrote_here_.empty() ? Push(link) : CUDA_SUCCESS;
}

CUresult Mirrors::Push(Connection& link) {
  for (Range& range : ranges_)
    if (const CUresult result = PushRange(link, range); result != CUDA_SUCCESS) return result;
  return CUDA_SUCCESS;
}

void Mirrors::PushBlock(Range& range, Replica& replica, std::size_t block, const Connection& link,
                        std::vector<BlockAllocator::Range>* spans) {
  const std::uint64_t offset = block * kBlockBytes;
  const std::byte* const here = Here(range.place.base + offset);
  std::byte* const twin = range.twin + offset;
  const bool was_current = replica.current[block];
  // Bytes between those that the program wrote may only go along when it is known what the device
  // has there.
  const bool exact = !range.states.valid(block) || range.states.unstable(block);
  const auto add = [&](std::uint64_t from, std::uint64_t to) {
    if (!spans->empty()) {
      auto& last = spans->back();
      const std::uint64_t end = last.base + last.bytes;
      if (from == end || (!exact && end >= offset && from - end <= kGapBytes)) {
        last.bytes = to - last.base;
        return;
      }
    }
    spans->push_back({from, to - from});
  };
  if (range.states.dirty(block)) {
    bool changed = false;
    for (std::size_t at = NextDifference(here, twin, 0, kBlockBytes); at < kBlockBytes;) {
      std::size_t end = at;
      while (end < kBlockBytes && here[end] != twin[end]) {
        twin[end] = here[end];
        ++end;
      }
      changed = true;
      if (was_current) add(offset + at, offset + end);
      at = NextDifference(here, twin, end, kBlockBytes);
    }
    if (changed) Changed(range, block, &link);
    range.states.Pushed(block);
  }
  if (!was_current) add(offset, offset + kBlockBytes);
  replica.current[block] = true;
}

CUresult Mirrors::PushRange(Connection& link, Range& range) {
  Replica* const replica = FindReplica(range, link);
  if (replica == nullptr) return CUDA_SUCCESS;
  const bool all_current =
      std::find(replica->current.begin(), replica->current.end(), false) == replica->current.end();
  if (!range.states.any_dirty() && all_current) return CUDA_SUCCESS;
  // From here on the program's writes count for the next time.
  const std::size_t count = range.states.size();
  for (std::size_t block = 0; block < count;) {
    const PageStates::Run run = range.states.SameAccess(block, count);
    if (range.states.access(block) == PageStates::Access::kWrite)
      ::mprotect(PointerTo(range.place.base + run.first * kBlockBytes), run.count * kBlockBytes,
                 PROT_READ);
    block += run.count;
  }
  std::vector<BlockAllocator::Range> spans;
  for (std::size_t block = 0; block < count; ++block) {
    if (range.states.dirty(block) || !replica->current[block])
      PushBlock(range, *replica, block, link, &spans);
  }
  for (std::span<const BlockAllocator::Range> rest = spans; !rest.empty();) {
    const std::size_t count = std::max<std::size_t>(FitPatch(rest), 1);
    const CUresult result =
        count == 1 ? Send(link, range, rest.front()) : SendPatch(link, range, rest.first(count));
    if (result != CUDA_SUCCESS) return result;
    rest = rest.subspan(count);
  }
  if (spans.empty()) return CUDA_SUCCESS;
  // Work on whatever stream finds it there.
  std::uint64_t stream = 0;
  if (const CUresult result = link.OwnStream(&stream); result != CUDA_SUCCESS) return result;
  return link.SynchronizeStream(stream);
}

CUresult Mirrors::Send(Connection& link, const Range& range, const BlockAllocator::Range& span) {
  std::uint64_t stream = 0;
  if (const CUresult result = link.OwnStream(&stream); result != CUDA_SUCCESS) return result;
  const std::byte* const source = range.twin + span.base;
  if (span.bytes <= kMaxInlineBytes) {
    CopyToDeviceInline op;
    op.stream = stream;
    op.destination = range.place.base + span.base;
    op.data = {source, span.bytes};
    link.channel().statistics().bytes_to_device.fetch_add(span.bytes, std::memory_order_relaxed);
    return link.Send(op);
  }
  CopyToDevice op;
  op.stream = stream;
  op.destination = range.place.base + span.base;
  op.bytes = span.bytes;
  op.transfer = link.transfers().BeginOutgoing();
  if (const CUresult result = link.Send(op); result != CUDA_SUCCESS) {
    link.transfers().Forget(op.transfer);
    return result;
  }
  return link.transfers().Send(op.transfer, source, span.bytes);
}

CUresult Mirrors::SendPatch(Connection& link, const Range& range,
                            std::span<const BlockAllocator::Range> spans) {
  const std::uint64_t start = PatchStart(spans.front().base);
  std::array<std::byte, kMostPatchBytes / kPatchWordBytes> mask{};
  for (const auto& span : spans) {
    for (std::uint64_t at = span.base - start; at < span.base + span.bytes - start; ++at)
      mask[at / kPatchWordBytes] |= std::byte{1} << (at % kPatchWordBytes);
  }
  // Ranges are of whole blocks, so that the last word is there.
  const std::uint64_t end = spans.back().base + spans.back().bytes;
  const std::uint64_t words = (end - start + kPatchWordBytes - 1) / kPatchWordBytes;
  PatchMemory op;
  if (const CUresult result = link.OwnStream(&op.stream); result != CUDA_SUCCESS) return result;
  op.destination = range.place.base + start;
  op.mask = Bytes(mask).first(words);
  op.data = {range.twin + start, words * kPatchWordBytes};
  link.channel().statistics().bytes_to_device.fetch_add(op.data.size(), std::memory_order_relaxed);
  return link.Send(op);
}

void Mirrors::AfterWork(Connection& link) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  ++work_;
  if (link.sharing() == Sharing::kMemory && !link.mirrors_managed()) {
    const auto self = link.shared_from_this();
    if (std::find(wrote_here_.begin(), wrote_here_.end(), self) == wrote_here_.end())
      wrote_here_.push_back(self);
    return;
  }
  if (!link.mirrors_managed()) return;
  owner_ = link.shared_from_this();
  at_work_ = true;
  for (Range& range : ranges_) {
    if (!range.states.any_valid()) continue;
    range.states.DeviceRuns();
    Protect(range, 0, range.states.size());
  }
}

// --- From a device

void Mirrors::Synchronized(Connection& link, bool all) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  if (owner_.get() != &link) return;
  for (Range& range : ranges_)
    if (range.states.Synchronized()) Protect(range, 0, range.states.size());
  if (all) at_work_ = false;
}

void Mirrors::Merge(Range& range, std::size_t block, const std::byte* news) {
  std::byte* const here = Here(range.place.base + block * kBlockBytes);
  std::byte* const twin = range.twin + block * kBlockBytes;
  bool changed = false;
  const bool dirty = range.states.dirty(block);
  for (std::size_t at = NextDifference(news, twin, 0, kBlockBytes); at < kBlockBytes;) {
    changed = true;
    if (!dirty) {
      std::memcpy(twin + at, news + at, kBlockBytes - at);
      std::memcpy(here + at, news + at, kBlockBytes - at);
      break;
    }
    twin[at] = here[at] = news[at];
    at = NextDifference(news, twin, at + 1, kBlockBytes);
  }
  if (changed) Changed(range, block, owner_.get());
}

CUresult Mirrors::Fetch(Range& range, PageStates::Run run) {
  CUresult result = CUDA_SUCCESS;
  if (owner_ != nullptr && FindReplica(range, *owner_) != nullptr) {
    auto incoming = std::make_shared<Incoming>();
    incoming->owned.resize(run.count * kBlockBytes);
    incoming->destination = incoming->owned.data();
    incoming->bytes = incoming->owned.size();
    CopyFromDevice op;
    result = owner_->OwnStream(&op.stream);
    op.source = range.place.base + run.first * kBlockBytes;
    op.bytes = incoming->bytes;
    if (result == CUDA_SUCCESS) {
      op.transfer = owner_->transfers().BeginIncoming(incoming);
      result = owner_->Send(op);
      if (result != CUDA_SUCCESS) owner_->transfers().Forget(op.transfer);
    }
    if (result == CUDA_SUCCESS) result = owner_->transfers().WaitComplete(*incoming);
    for (std::size_t i = 0; result == CUDA_SUCCESS && i < run.count; ++i)
      Merge(range, run.first + i, incoming->owned.data() + i * kBlockBytes);
  }
  // Of a lost device there is nothing to be had: the program goes on with what is here, and is
  // told by its next call.
  for (std::size_t i = 0; i < run.count; ++i) range.states.Fetched(run.first + i, at_work_);
  return result;
}

CUresult Mirrors::Disown() {
  CUresult result = CUDA_SUCCESS;
  at_work_ = false;
  for (Range& range : ranges_) {
    range.states.Synchronized();
    for (std::size_t block = 0; block < range.states.size(); ++block) {
      if (range.states.valid(block)) continue;
      PageStates::Run run{block, 1};
      while (run.count < PageStates::kMostAhead && block + run.count < range.states.size() &&
             !range.states.valid(block + run.count))
        ++run.count;
      if (const CUresult fetched = Fetch(range, run); result == CUDA_SUCCESS) result = fetched;
    }
    Protect(range, 0, range.states.size());
  }
  // The loss of the owner is no failure of whoever works on another device.
  if (owner_->fault() != CUDA_SUCCESS) result = CUDA_SUCCESS;
  owner_ = nullptr;
  return result;
}

void Mirrors::Touch(Range& range, std::size_t block, bool write) {
  if (!range.states.valid(block)) {
    const PageStates::Run run = range.states.Ahead(block);
    static_cast<void>(Fetch(range, run));
    if (write) range.states.Written(block);
    Protect(range, run.first, run.count);
    return;
  }
  if (!write || range.states.dirty(block)) return;
  range.states.Written(block);
  Protect(range, block, 1);
}

bool Mirrors::Admit(std::uint64_t address, std::uint64_t bytes, bool write) {
  const MutexLock lock(mutex_);
  Range* const range = Find(address);
  if (range == nullptr) return false;
  const std::uint64_t offset = address - range->place.base;
  const std::size_t last =
      (std::min(offset + std::max<std::uint64_t>(bytes, 1), range->place.bytes) - 1) / kBlockBytes;
  for (std::size_t block = offset / kBlockBytes; block <= last; ++block)
    Touch(*range, block, write);
  return true;
}

}  // namespace cuspan
