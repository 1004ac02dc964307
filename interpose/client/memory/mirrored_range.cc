#include "interpose/client/memory/mirrored_range.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "interpose/client/memory/differences.h"

namespace cuspan {

MirroredRange::MirroredRange(BlockAllocator::Range place, std::byte* here, bool managed, bool near)
    : range_(place),
      here_(here),
      managed_(managed),
      near_(near),
      block_bytes_(!managed && place.bytes <= kMaxSharedBytes ? kSmallBlockBytes : kBlockBytes),
      states_(place.bytes / block_bytes_),
      pristine_(states_.size(), true),
      twinned_(states_.size(), true) {
  void* const twin = ::mmap(nullptr, place.bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (twin == MAP_FAILED) return;
  twin_ = static_cast<std::byte*>(twin);
  // All nonzero bytes differ from the twin.
  for (std::size_t block = 0; !managed && block < blocks(); ++block) states_.Written(block);
}

PageStates::Run MirroredRange::BlocksOf(std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t offset = address - range_.base;
  const std::uint64_t end = std::min(offset + std::max<std::uint64_t>(bytes, 1), range_.bytes);
  const std::size_t first = offset / block_bytes_;
  return {first, (end - 1) / block_bytes_ - first + 1};
}

MirroredRange::~MirroredRange() {
  if (twin_ != nullptr) ::munmap(twin_, range_.bytes);
}

MirroredRange::Replica* MirroredRange::FindReplica(std::uint64_t connection) {
  for (Replica& replica : replicas_)
    if (replica.connection == connection) return &replica;
  return nullptr;
}

const MirroredRange::Replica* MirroredRange::FindReplica(std::uint64_t connection) const {
  return const_cast<MirroredRange*>(this)->FindReplica(connection);
}

void MirroredRange::AddReplica(std::uint64_t connection) {
  // Several devices may have different updates.
  if (!replicas_.empty()) MakeTwins({0, blocks()});
  replicas_.push_back({connection, pristine_});
}

void MirroredRange::MakeTwins(PageStates::Run run) {
  for (std::size_t block = run.first; block < run.first + run.count; ++block) {
    if (twinned_[block] || states_.dirty(block)) continue;
    std::memcpy(twin_ + block * block_bytes_, here_ + block * block_bytes_, block_bytes_);
    twinned_[block] = true;
  }
}

void MirroredRange::Written(PageStates::Run run, bool whole) {
  if (!whole) MakeTwins(run);
  for (std::size_t block = run.first; block < run.first + run.count; ++block) {
    // The twin of a dirty block is still needed.
    if (whole && !states_.dirty(block)) twinned_[block] = false;
    states_.Written(block);
  }
}

void MirroredRange::Stored(PageStates::Run run) {
  for (std::size_t block = run.first; block < run.first + run.count; ++block)
    pristine_[block] = twinned_[block] = false;
}

bool MirroredRange::CollectWritten(std::size_t block, bool exact, Spans* spans) {
  if (!twinned_[block]) {
    AddRun(block * block_bytes_, (block + 1) * block_bytes_, block * block_bytes_, 0, spans);
    states_.Pushed(block);
    if (replicas_.size() > 1) MakeTwins({block, 1});
    return true;
  }
  // Bytes between the program's writes may be sent along only if the devices' contents there are
  // known.
  exact = exact || !states_.valid(block) || states_.unstable(block);
  const std::uint64_t begin = block * block_bytes_;
  const std::uint64_t block_end = begin + block_bytes_;
  bool changed = false;
  ForEachDifference(here_, twin_, begin, block_end, exact,
                    [&](std::uint64_t at, std::uint64_t end) {
                      // Later writes of the program count for the next time.
                      std::memcpy(twin_ + at, here_ + at, end - at);
                      AddRun(at, end, begin, exact ? 0 : kGapBytes, spans);
                      changed = true;
                    });
  states_.Pushed(block);
  return changed;
}

void MirroredRange::Stored(std::uint64_t offset, std::span<const std::byte> data) {
  std::memcpy(twin_ + offset, data.data(), data.size());
  std::memcpy(here_ + offset, data.data(), data.size());
}

bool MirroredRange::HasUpdates(std::uint64_t offset, std::span<const std::byte> bytes) const {
  for (std::uint64_t at = offset; at < offset + bytes.size();) {
    const std::uint64_t end =
        std::min<std::uint64_t>((at / block_bytes_ + 1) * block_bytes_, offset + bytes.size());
    const std::byte* const agreed = twinned_[at / block_bytes_] ? twin_ : here_;
    if (std::memcmp(agreed + at, bytes.data() + (at - offset), end - at) != 0) return true;
    at = end;
  }
  return false;
}

PageStates::Run MirroredRange::Merge(std::uint64_t offset, std::span<const std::byte> received,
                                     Spans* spans, bool all_exact) {
  PageStates::Run changed{0, 0};
  const std::size_t first = offset / block_bytes_;
  MakeTwins({first, (offset + received.size() - 1) / block_bytes_ - first + 1});
  const std::byte* const bytes = received.data() - offset;
  const std::uint64_t received_end = offset + received.size();
  for (std::uint64_t begin = offset; begin < received_end;) {
    const std::size_t block = begin / block_bytes_;
    const std::uint64_t end = std::min<std::uint64_t>((block + 1) * block_bytes_, received_end);
    // If the program did not write a block, its copy equals the twin: more than the difference may
    // be copied.
    const bool exact = all_exact || spans != nullptr || states_.dirty(block);
    if (!twinned_[block]) {  // The program's writes to all of it go to the device.
      begin = end;
      continue;
    }
    for (std::uint64_t at = NextDifference(bytes, twin_, begin, end); at < end;) {
      const std::uint64_t run_end = exact ? EndOfDifference(bytes, twin_, at, end) : end;
      std::memcpy(twin_ + at, bytes + at, run_end - at);
      std::memcpy(here_ + at, bytes + at, run_end - at);
      if (spans != nullptr) AddRun(at, run_end, begin, 0, spans);
      if (changed.count == 0) changed.first = block;
      changed.count = block - changed.first + 1;
      at = NextDifference(bytes, twin_, run_end, end);
    }
    begin = end;
  }
  return changed;
}

void MirroredRange::Changed(PageStates::Run run, std::span<const std::uint64_t> told) {
  for (std::size_t block = run.first; block < run.first + run.count; ++block)
    pristine_[block] = false;
  for (Replica& replica : replicas_) {
    if (std::find(told.begin(), told.end(), replica.connection) != told.end()) continue;
    for (std::size_t block = run.first; block < run.first + run.count; ++block)
      replica.current[block] = false;
  }
}

}  // namespace cuspan
