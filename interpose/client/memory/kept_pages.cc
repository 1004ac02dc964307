#include "interpose/client/memory/kept_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "interpose/client/base/handles.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/differences.h"
#include "interpose/client/memory/spans.h"
#include "structs.gen.h"

namespace cuspan {
namespace {

bool Overlap(const BlockAllocator::Range& a, const BlockAllocator::Range& b) {
  return a.base < b.base + b.bytes && b.base < a.base + a.bytes;
}

}  // namespace

bool KeptPages::Contain(const BlockAllocator::Range& place) const {
  return std::any_of(pages_.begin(), pages_.end(), [&](const Page& page) {
    const std::uint64_t offset = place.base - page.address;
    return offset < kPageBytes && place.bytes <= kPageBytes - offset;
  });
}

std::vector<BlockAllocator::Range> KeptPages::Without(const BlockAllocator::Range& place) const {
  std::vector<std::uint64_t> kept;
  for (const Page& page : pages_)
    if (Overlap({page.address, kPageBytes}, place)) kept.push_back(page.address);
  std::sort(kept.begin(), kept.end());
  std::vector<BlockAllocator::Range> parts;
  std::uint64_t at = place.base;
  for (const std::uint64_t page : kept) {
    if (page > at) parts.push_back({at, page - at});
    at = page + kPageBytes;
  }
  if (at < place.base + place.bytes) parts.push_back({at, place.base + place.bytes - at});
  return parts;
}

template <typename Chosen>
KeptPages::Pages KeptPages::Take(Chosen&& chosen) {
  Pages taken;
  for (auto page = pages_.begin(); page != pages_.end();) {
    const auto next = std::next(page);
    if (chosen(*page)) taken.splice(taken.end(), pages_, page);
    page = next;
  }
  if (pages_.empty()) quiet_ = false;
  return taken;
}

void KeptPages::Synchronized(const Connection& connection) {
  notified_ = true;
  if (this->connection() != &connection) return;
  bool fetched = false;
  for (Page& page : pages_) {
    const std::shared_ptr<Incoming> incoming = std::exchange(page.incoming, nullptr);
    if (incoming == nullptr || !incoming->complete.load(std::memory_order_acquire) ||
        incoming->result != CUDA_SUCCESS || !began_quiet_ || !in_one_stream_)
      continue;
    const std::byte* const there = incoming->owned.data();
    ForEachDifference(there, page.agreed.data(), 0, kPageBytes, true,
                      [&](std::uint64_t from, std::uint64_t to) {
                        std::memcpy(page.agreed.data() + from, there + from, to - from);
                        std::memcpy(page.here + from, there + from, to - from);
                      });
    page.valid = fetched = true;
  }
  EndPages(Take([](const Page& page) { return !page.valid; }), TurnHabits::Reason::kInVain);
  if (fetched) quiet_ = !pages_.empty();
}

CUresult KeptPages::BeforeWork(Connection& connection, std::optional<std::uint64_t> stream,
                               bool* settle) {
  if (connection_.get() != &connection) return CUDA_SUCCESS;
  if (notified_) began_quiet_ = quiet_ || !connection.AtWork();
  bool posted = false;
  CUresult result = PostWrites(pages_, &posted);
  if (!stream.has_value()) {
    *settle = *settle || posted;
    return result;
  }
  if (result == CUDA_SUCCESS && posted) result = MarkWrites();
  return result == CUDA_SUCCESS ? Follow(*stream) : result;
}

CUresult KeptPages::PostWrites(Pages& pages, bool* posted) {
  std::uint64_t stream = 0;
  CUresult result = CUDA_SUCCESS;
  for (Page& page : pages) {
    ByteRuns runs;
    // Bytes between the writes may be sent along only if the device's contents there are known.
    ForEachDifference(page.here, page.agreed.data(), 0, kPageBytes, !page.valid,
                      [&](std::uint64_t from, std::uint64_t to) {
                        // Later writes of the program count for the next time.
                        std::memcpy(page.agreed.data() + from, page.here + from, to - from);
                        AddRun(from, to, 0, page.valid ? kGapBytes : 0, &runs);
                      });
    if (runs.empty()) continue;
    *posted = true;
    if (result == CUDA_SUCCESS && stream == 0) result = connection_->MemoryStream(&stream);
    if (result == CUDA_SUCCESS)
      result = PostSpans(*connection_, stream, page.address, page.agreed.data(), runs);
  }
  return result;
}

CUresult KeptPages::MarkWrites() {
  EventRecord record;
  CUresult result = connection_->MemoryStream(&record.stream);
  if (result == CUDA_SUCCESS && writes_.event == 0) {
    EventCreate create;
    create.event = NextHandle();
    create.flags = CU_EVENT_DISABLE_TIMING;
    result = connection_->Send(create);
    if (result == CUDA_SUCCESS) writes_.event = create.event;
  }
  if (result != CUDA_SUCCESS) return result;
  record.event = writes_.event;
  record.record = writes_.record + 1;
  result = connection_->Send(record, &writes_.sequence);
  if (result != CUDA_SUCCESS) return result;
  writes_.record = record.record;
  writes_.ordered = {record.stream};
  return CUDA_SUCCESS;
}

CUresult KeptPages::Follow(std::uint64_t stream) {
  std::vector<std::uint64_t>& ordered = writes_.ordered;
  if (connection_->last_posts().Stored(writes_.sequence)) ordered.clear();
  if (ordered.empty() || std::find(ordered.begin(), ordered.end(), stream) != ordered.end())
    return CUDA_SUCCESS;
  StreamWaitEvent wait;
  wait.stream = stream;
  wait.event = writes_.event;
  wait.record = writes_.record;
  const CUresult result = connection_->Send(wait);
  if (result == CUDA_SUCCESS) ordered.push_back(stream);
  return result;
}

std::vector<std::uint64_t> KeptPages::AfterWork(const Connection& connection,
                                                std::uint64_t stream) {
  for (Page& page : pages_) {
    page.valid = false;
    page.incoming = nullptr;
  }
  quiet_ = false;
  if (!notified_) {
    in_one_stream_ = in_one_stream_ && stream == stream_;
    return {};
  }
  notified_ = false;
  stream_ = stream;
  in_one_stream_ = true;
  std::vector<std::uint64_t> due = habits_.NextTurn();
  EndPages(Take([](Page& page) { return ++page.turns > kTurnsToProbe; }),
           TurnHabits::Reason::kProbe);
  const bool other = !empty() && this->connection() != &connection;
  due.resize(std::min(due.size(), other ? 0 : kMaxPages - pages_.size()));
  return due;
}

bool KeptPages::Keep(Connection& connection, std::uint64_t page, std::byte* here) {
  if (::mprotect(PointerTo(page), kPageBytes, PROT_READ | PROT_WRITE) != 0) return false;
  if (connection_.get() != &connection) {
    if (connection_ != nullptr && writes_.event != 0) {
      EventDestroy destroy;
      destroy.event = writes_.event;
      static_cast<void>(connection_->Send(destroy));  // A lost device has no events.
    }
    connection_ = connection.shared_from_this();
    writes_ = {};
    // Learned at the next turn.
    began_quiet_ = false;
  }
  pages_.push_back({page, here, {here, here + kPageBytes}, false, nullptr, 0});
  habits_.Keep(page);
  return true;
}

void KeptPages::BeforeWait(Connection& connection) {
  if (this->connection() != &connection || notified_ || !began_quiet_ || !in_one_stream_) return;
  for (Page& page : pages_) {
    if (page.valid || page.incoming != nullptr) continue;
    auto incoming = std::make_shared<Incoming>();
    incoming->owned.resize(kPageBytes);
    incoming->destination = incoming->owned.data();
    if (BeginReceive(connection, stream_, {page.address, kPageBytes}, incoming) == CUDA_SUCCESS)
      page.incoming = std::move(incoming);
  }
}

void KeptPages::End(const BlockAllocator::Range& place) {
  if (empty()) return;
  EndPages(Take([&](const Page& page) {
             return Overlap({page.address, kPageBytes}, place);
           }),
           TurnHabits::Reason::kInVain);
}

void KeptPages::EndPages(Pages&& pages, TurnHabits::Reason reason) {
  for (const Page& page : pages) {
    ::mprotect(PointerTo(page.address), kPageBytes, PROT_NONE);
    habits_.End(page.address, reason);
  }
  // Writes of the program since the last work. A lost device needs none; other failures are
  // reported by the program's next call.
  bool posted = false;
  if (!pages.empty()) static_cast<void>(PostWrites(pages, &posted));
  if (posted) static_cast<void>(SettleSpans(*connection_));
}

void KeptPages::Forget(const BlockAllocator::Range& place) {
  for (const Page& page : Take([&](const Page& kept) {
         return Overlap({kept.address, kPageBytes}, place);
       }))
    habits_.End(page.address, TurnHabits::Reason::kGone);
}

void KeptPages::Lose(const Connection& connection) {
  if (connection_.get() != &connection) return;
  Forget({0, UINT64_MAX});
  connection_ = nullptr;
  writes_ = {};
}

void KeptPages::StreamEnds(std::uint64_t stream) {
  if (stream == stream_) in_one_stream_ = false;
}

}  // namespace cuspan
