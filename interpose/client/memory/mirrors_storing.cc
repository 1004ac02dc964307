// Stores of the program to pinned memory while devices work: logged, and sent in order.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "common/log.h"
#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/addresses.h"
#include "interpose/client/memory/arrival_order.h"
#include "interpose/client/memory/mirrors.h"
#include "interpose/client/memory/spans.h"
#include "protocol/wire/frame.h"

namespace cuspan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kStoredWordBytes = 8;

// Sends stores to a device, executed there one after the other. Successive stores to adjacent bytes
// of one word are executed at once.
class StoreSender {
 public:
  explicit StoreSender(Connection& connection) : connection_(connection) {}

  CUresult Add(std::uint64_t address, std::span<const std::byte> data) {
    // Words of a vector are stores, too. Longer data is of string instructions and system calls.
    if (data.size() > kMaxVectorBytes) {
      const CUresult result = Flush();
      return result == CUDA_SUCCESS ? SendBytes(address, data) : result;
    }
    CUresult result = CUDA_SUCCESS;
    while (!data.empty() && result == CUDA_SUCCESS) {
      const std::uint64_t bytes =
          std::min<std::uint64_t>(data.size(), kStoredWordBytes - address % kStoredWordBytes);
      if (!Merge(address, data.first(bytes))) {
        result = SendWord();
        static_cast<void>(Merge(address, data.first(bytes)));
      }
      address += bytes;
      data = data.subspan(bytes);
    }
    return result;
  }
  CUresult Flush() {
    const CUresult result = SendWord();
    return result == CUDA_SUCCESS ? SendBatch() : result;
  }

 private:
  static constexpr std::size_t kMaxVectorBytes = 64;
  // CUDA's limit of a batch.
  static constexpr std::size_t kMaxOperations = 255;

  // Returns false if they neither touch nor overlap the bytes of the word so far.
  bool Merge(std::uint64_t address, std::span<const std::byte> data) {
    const std::uint64_t end = address + data.size();
    if (first_ != last_ && (address / kStoredWordBytes != first_ / kStoredWordBytes ||
                            address > last_ || end < first_))
      return false;
    if (first_ == last_) first_ = last_ = address;
    std::copy(data.begin(), data.end(),
              word_.begin() + static_cast<int>(address % kStoredWordBytes));
    first_ = std::min(first_, address);
    last_ = std::max(last_, end);
    return true;
  }
  CUresult SendWord() {
    const std::uint64_t bytes = last_ - first_;
    const std::byte* const data = word_.data() + first_ % kStoredWordBytes;
    const std::uint64_t address = std::exchange(first_, last_);
    if (bytes == 0) return CUDA_SUCCESS;
    if (bytes != kStoredWordBytes && (bytes != 4 || address % 4 != 0)) {
      const CUresult result = SendBatch();
      return result == CUDA_SUCCESS ? SendBytes(address, {data, bytes}) : result;
    }
    MemoryOperation& operation = batch_.operations.emplace_back();
    operation.kind = bytes == kStoredWordBytes ? CU_STREAM_MEM_OP_WRITE_VALUE_64
                                               : CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.address = address;
    std::memcpy(&operation.value, data, bytes);
    return batch_.operations.size() == kMaxOperations ? SendBatch() : CUDA_SUCCESS;
  }
  CUresult SendBatch() {
    if (batch_.operations.empty()) return CUDA_SUCCESS;
    CUresult result = connection_.MemoryStream(&batch_.stream);
    if (result == CUDA_SUCCESS) result = connection_.Send(batch_);
    batch_.operations.clear();
    return result;
  }
  CUresult SendBytes(std::uint64_t address, std::span<const std::byte> data) {
    return PostSpans(connection_, address, data.data(),
                     std::array{BlockAllocator::Range{0, data.size()}});
  }

  Connection& connection_;
  MemoryBatch batch_;
  // Bytes of a word in [first_, last_).
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::array<std::byte, kStoredWordBytes> word_{};
};

// Divides the bytes into pieces sent with their commands, so the memory may change.
MirroredRange::Spans Pieces(const MirroredRange::Spans& spans) {
  MirroredRange::Spans pieces;
  for (const auto& span : spans)
    for (std::uint64_t at = 0; at < span.bytes; at += kMaxInlineBytes)
      pieces.push_back({span.base + at, std::min<std::uint64_t>(span.bytes - at, kMaxInlineBytes)});
  return pieces;
}

// Warns once about a lost order. Pages were writable because the program filled them from one end
// to the other, or used an instruction not decoded. If more than the filled part and one more place
// changed, their order is unknown.
void NameFilled(const MirroredRange& range, const MirroredRange::Spans& written) {
  static std::atomic<bool> named{false};
  const std::size_t pieces = CountPieces(written);
  if (pieces <= 2 || named.exchange(true)) return;
  LogWarn(
      "kernels on other nodes may see {} stores of the program to pinned memory at 0x{:x} in "
      "another order: the program had just filled the memory before them (docs/memory.md, \"Pinned "
      "memory while kernels run\")",
      pieces - 1, range.place().base + written.front().base);
}

}  // namespace

void Mirrors::Enter() {
  static_cast<void>(Settle());
  if (stores_.on() && !NeedsOrder()) EndOrder();
}

bool Mirrors::NeedsOrder() const {
  const auto at_work = [](const WorkingDevice& worker) {
    return !worker.in_place && (worker.posting != 0 || worker.connection->AtWork());
  };
  return std::any_of(working_devices_.begin(), working_devices_.end(),
                     [&](const WorkingDevice& worker) CUSPAN_REQUIRES(mutex_) {
                       return at_work(worker) &&
                              std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& entry) {
                                return !entry.second.managed() &&
                                       entry.second.FindReplica(worker.connection->number()) !=
                                           nullptr;
                              });
                     });
}

void Mirrors::EndOrder() {
  static_cast<void>(PostStores());
  // Stores logged meanwhile are sent with the next.
  if (!stores_.TurnOff()) return;
  // A device has ended its work. Stores do not fault from now on, so no fence of the program
  // triggers a fetch of the device's last stores: memory seen by the host may be older.
  InvalidatePinned();
  for (const BlockAllocator::Range& blocks : std::exchange(logged_, {})) stores_.Unlog(blocks);
}

void Mirrors::SendStores() {
  const MutexLock lock(mutex_);
  Enter();
  static_cast<void>(PostStores());
}

CUresult Mirrors::PostStores() {
  if (!stores_.on()) return CUDA_SUCCESS;
  return open_ ? CloseRun() : PostLogged();
}

CUresult Mirrors::PostLogged() {
  if (!stores_.any()) return CUDA_SUCCESS;
  const std::vector<std::uint64_t> told = NumbersOfListeners();
  // Range of the last record, and its receivers. The functions below are called only here, with the
  // mutex held.
  MirroredRange* range = nullptr;
  std::vector<Connection*> listeners;
  std::size_t last_block = 0;
  const auto find = [&](const OrderedStores::Record& record) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
    if (range == nullptr || record.address - range->place().base >= range->place().bytes) {
      range = Find(record.address);
      listeners =
          range == nullptr ? std::vector<Connection*>{} : Listeners(*range, nullptr, nullptr);
      last_block = SIZE_MAX;
    }
    return range != nullptr;
  };
  const auto store = [&](const OrderedStores::Record& record) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
    if (!find(record)) return;
    const std::uint64_t offset = record.address - range->place().base;
    const std::uint64_t bytes =
        std::min<std::uint64_t>(record.data.size(), range->place().bytes - offset);
    range->Stored(offset, record.data.first(bytes));
    const PageStates::Run run = range->BlocksOf(record.address, bytes);
    if (run == PageStates::Run{last_block, 1}) return;
    range->Changed(run, told);
    last_block = run.first;
  };
  CUresult result = CUDA_SUCCESS;
  std::map<Connection*, StoreSender> senders;
  // The loss of one device is no failure for the user of another.
  const auto note = [&](const Connection& to, CUresult sent) {
    if (result == CUDA_SUCCESS && to.fault() == CUDA_SUCCESS) result = sent;
  };
  stores_.Consume(store, [&](const OrderedStores::Record& record) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
    if (!find(record)) return;
    for (Connection* const to : listeners)
      note(*to, senders.try_emplace(to, *to).first->second.Add(record.address, record.data));
  });
  for (auto& [to, sender] : senders) note(*to, sender.Flush());
  relay_.pause = kSoon;
  expected_.clear();  // Fetches in flight may be older.
  unsettled_ = true;
  return result;
}

void Mirrors::OpenRun(MirroredRange& range, PageStates::Run run) {
  stores_.SetOpen(true);
  static_cast<void>(PostLogged());
  stores_.Unlog(range.RangeOf(run));
  range.Written(run, false);
  Protect(range, run.first, run.count);
  open_ = {&range, run};
  call_by_(Clock::now() + kSoon);
}

CUresult Mirrors::CloseRun() {
  const auto [range, run] = *std::exchange(open_, std::nullopt);
  // Later writes of the program count for the next time.
  const std::size_t end = run.first + run.count;
  for (std::size_t block = run.first; block < end;) {
    const PageStates::Run same = range->states().SameAccess(block, end);
    const BlockAllocator::Range part = range->RangeOf(same);
    if (range->states().access(block) == PageStates::Access::kWrite)
      ::mprotect(PointerTo(part.base), part.bytes, PROT_READ);
    block += same.count;
  }
  const std::vector<std::uint64_t> told = NumbersOfListeners();
  MirroredRange::Spans written;
  for (std::size_t block = run.first; block < end; ++block)
    if (range->CollectWritten(block, true, &written)) range->Changed({block, 1}, told);
  stores_.SetOpen(false);
  if (written.empty()) return CUDA_SUCCESS;
  stores_.ContinueFill(range->RangeOf(run),
                       range->place().base + written.front().base + written.front().bytes);
  NameFilled(*range, written);
  CUresult result = CUDA_SUCCESS;
  for (const MirroredRange::Spans& part : InOrderOfArrival(written)) {
    const CUresult posted = Post(*range, nullptr, Pieces(part));
    if (result == CUDA_SUCCESS) result = posted;
  }
  relay_.pause = kSoon;
  expected_.clear();  // Fetches in flight may be older.
  unsettled_ = true;
  return result;
}

void Mirrors::AdmitStore(MirroredRange& range, PageStates::Run run, Access access) {
  PageStates& states = range.states();
  const auto is_open = [&]() CUSPAN_REQUIRES(mutex_) {
    return open_ && open_->range == &range && run.first >= open_->run.first &&
           run.first + run.count <= open_->run.first + open_->run.count;
  };
  if (open_ && !is_open()) static_cast<void>(CloseRun());
  if (states.any_dirty() && !open_) {
    static_cast<void>(PostWritten(range, nullptr));
    static_cast<void>(SettlePosted(nullptr));
  }
  if (access != Access::kStore || is_open()) {
    for (std::size_t block = run.first; block < run.first + run.count; ++block)
      if (!states.valid(block)) Touch(range, block, false);
  }
  if (is_open()) {
    Protect(range, run.first, run.count);
    return;
  }
  if (access == Access::kWrite) {
    OpenRun(range, run);
    return;
  }
  range.MakeTwins(run);
  stores_.Log(range.RangeOf(run));
  logged_.push_back(range.RangeOf(run));
}

std::uint64_t Mirrors::BeginCall(std::uint64_t address, std::uint64_t bytes, bool write) {
  const MutexLock lock(mutex_);
  MirroredRange* const range = Find(address);
  if (range == nullptr) return 0;
  Enter();
  if (kept_.Contain({address, bytes})) return address;
  const PageStates::Run run = range->BlocksOf(address, bytes);
  const bool ordered = stores_.on() && !range->managed() &&
                       bytes <= range->place().bytes - (address - range->place().base);
  if (ordered && write) AdmitStore(*range, run, Access::kStore);
  for (std::size_t block = run.first; block < run.first + run.count; ++block)
    if (!ordered || (!write && !range->states().valid(block))) Touch(*range, block, write);
  if (!ordered) return address;
  ++calls_;
  return AddressOf(range->here()) + (address - range->place().base);
}

void Mirrors::EndCall(std::uint64_t address, std::uint64_t written) {
  const MutexLock lock(mutex_);
  Enter();
  MirroredRange* const range = Find(address);
  if (range != nullptr && written != 0) {
    if (stores_.on()) {
      static_cast<void>(PostStores());
      while (!stores_.LogWritten(address, written)) static_cast<void>(PostStores());
      static_cast<void>(PostStores());
    } else {
      const PageStates::Run run = range->BlocksOf(address, written);
      range->Written(run, false);
      Protect(*range, run.first, run.count);
    }
  }
  --calls_;
}

}  // namespace cuspan
