#include "proxy/session/device_session.h"

#include <algorithm>
#include <chrono>
#include <future>

#include "common/log.h"
#include "proxy/objects/launch_batches.h"
#include "proxy/sharing/pair_server.h"

namespace cuspan::proxy {
namespace {

// How long the end of a session waits for what was learnt to be written.
constexpr std::chrono::seconds kTimesLimit{2};

}  // namespace

void VariableRanges::Add(std::uint64_t module, std::uint64_t address, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  ranges_[address] = {bytes, module};
}

void VariableRanges::RemoveModule(std::uint64_t module) {
  const MutexLock lock(mutex_);
  std::erase_if(ranges_, [module](const auto& range) { return range.second.module == module; });
}

bool VariableRanges::Contains(std::uint64_t address, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  const auto& [start, range] = *std::prev(after);
  return bytes <= range.bytes && address - start <= range.bytes - bytes;
}

DeviceSession::DeviceSession(const Driver& driver, const Device& device, Channel& channel,
                             std::optional<ExchangeSocket> exchange_socket, JoinInbox* joins)
    : driver(driver),
      device(device),
      channel(channel),
      joins(joins),
      faults(driver, channel),
      plain_events(driver, CU_EVENT_DISABLE_TIMING),
      timing_events(driver, CU_EVENT_DEFAULT),
      mappings(driver, device),
      reservations(driver, device),
      peers(driver, device,
            exchange_socket ? std::optional(exchange_socket->secret) : std::nullopt),
      legacy(std::make_shared<Stream>()),
      patch_kernel(driver),
      transfers(driver, channel, faults, queues, plain_events, completer, timeline),
      peer_copies(driver, channel, faults, queues, plain_events, completer, timeline),
      collectives(device, channel, faults, queues, driver.software),
      worker(device),
      completer(device, driver, channel, faults),
      timeline(driver, timing_events, completer) {
  legacy->queue = &queues.legacy();
  if (exchange_socket)
    exchange.emplace(std::move(*exchange_socket), device, mappings, reservations);
}

Result<std::shared_ptr<Stream>> DeviceSession::FindStream(std::uint64_t handle) {
  if (handle == 0 || handle == reinterpret_cast<std::uint64_t>(CU_STREAM_LEGACY)) return legacy;
  return streams.Get(handle);
}

void DeviceSession::Mark(const std::shared_ptr<Stream>& stream) {
  PooledEvent event;
  if (faults.Check(plain_events.Record(stream->driver, event)) != CUDA_SUCCESS) return;
  stream->marked = stream->submitted;
  completer.Add(stream->lane, std::move(event), stream->submitted, ProgressMark{});
  if (stream->submitted - stream->lane->completed() < kMostPending) return;
  queues.Pause(*stream->queue);
  // A batch may have more than one mark.
  if (std::find(paused_.begin(), paused_.end(), stream) == paused_.end()) paused_.push_back(stream);
}

bool DeviceSession::MayGoOn() {
  return transfers.SlotCameFree() || SomeMayResume() || AllMayResume() || peer_copies.HasWork() ||
         collectives.HasWork() || (gate != nullptr && gate->MayGoOn());
}

void DeviceSession::GoOn() {
  if (transfers.SlotCameFree()) transfers.UseFreeSlots();
  if (SomeMayResume()) ResumeStreams();
  if (AllMayResume()) ResumeAll();
  if (peer_copies.HasWork()) peer_copies.Progress();
  if (collectives.HasWork()) collectives.Progress();
  if (gate != nullptr) gate->GoOn();
}

void DeviceSession::KeepKernelTimes() {
  const auto now = std::chrono::steady_clock::now();
  if (kernel_table == nullptr || !kernel_table->WantsWrite(now) || keeping_times_->exchange(true))
    return;
  // First: it is none of what waits for memory that is not there.
  worker.RunFirst([table = kernel_table.get(), keeping = keeping_times_, now] {
    table->Write(now);
    keeping->store(false);
  });
}

void DeviceSession::EndSharing() {
  if (gate == nullptr) return;
  gate->End();
  if (kernel_table != nullptr) WriteKernelTimes();
  // Last: what the worker still does is the session's.
  gate->Leave();
}

void DeviceSession::WriteKernelTimes() {
  const auto written = std::make_shared<std::promise<void>>();
  // The worker may be held, and what it does last for long.
  worker.RunFirst([table = kernel_table.get(), written] {
    table->WriteLast();
    written->set_value();
  });
  written->get_future().wait_for(kTimesLimit);
  const PredictionErrors errors = kernel_table->Errors();
  if (const std::optional<double> median = errors.Median())
    LogInfo("the times of {} kernels were predicted with a median error of {:.1f} %",
            errors.count(), *median * 100);
}

void DeviceSession::Share(std::unique_ptr<ShareSeat> seat) {
  char name[256] = {};
  if (driver.cuDeviceGetName(name, sizeof name - 1, device.handle()) == CUDA_SUCCESS)
    kernel_table = KernelTable::BySettings(name);
  // Software GPUs need no MPS, which is what a fault of another run comes by.
  const bool pairs = seat->terms().pair && !driver.software;
  // In pairs nobody makes room.
  const bool swaps = !seat->terms().pair && (seat->terms().swap || seat->terms().memory != 0);
  shared = std::make_unique<SharedSession>(*this);
  gate = std::make_unique<ShareGate>(*shared, std::move(seat));
  if (ShareMemory* const memory = device.memory().counted(); swaps && memory != nullptr)
    gate->MaySwap(*memory);
  if (pairs)
    faults.SetExplanation(
        [this](CUresult result) { return ExplainPairFault(result, gate->MayHaveWork()); });
}

bool DeviceSession::SomeMayResume() const {
  return std::any_of(paused_.begin(), paused_.end(), [](const auto& stream) {
    return stream->submitted - stream->lane->completed() <= kMostPending / 2;
  });
}

void DeviceSession::ResumeStreams() {
  std::vector<std::shared_ptr<Stream>> resumed;
  std::erase_if(paused_, [&](const auto& stream) {
    if (stream->submitted - stream->lane->completed() > kMostPending / 2) return false;
    resumed.push_back(stream);
    return true;
  });
  for (const auto& stream : resumed) queues.Resume(*stream->queue);
}

void DeviceSession::HoldStreamsDuring(std::function<void()> work) {
  queues.HoldAll();
  worker.Run([this, work = std::move(work)] {
    work();
    holds_done.fetch_add(1, std::memory_order_release);
    channel.own_bell().Ring();
  });
}

void DeviceSession::ResumeAll() {
  for (const std::uint64_t done = holds_done.load(std::memory_order_acquire);
       holds_resumed_ != done; ++holds_resumed_)
    queues.LetAll();
}

void DeviceSession::WhenStreamDone(Stream& stream, Answer answer) {
  CUresult result = faults.lost();
  if (result == CUDA_SUCCESS) result = stream.broken;
  const bool legacy_is_later =
      stream.blocking && &stream != legacy.get() && legacy->turn > stream.turn && !legacy->Idle();
  if (result == CUDA_SUCCESS && legacy_is_later) {
    if (stream.asked == nullptr) stream.asked = std::make_shared<AskedStream>(stream.driver);
    return completer.AddAsked(stream.lane, stream.asked, stream.submitted, std::move(answer));
  }
  // The end of a copy that nothing followed is the stream's: the answer goes with its last chunk.
  // The legacy stream also waits for what others got meanwhile.
  const bool known =
      stream.chunk_behind == stream.submitted && (&stream != legacy.get() || OthersIdle(stream));
  // Ops that wait here may follow at once. The legacy stream's end is also that of others, of which
  // only an event in it tells.
  const bool last = queues.waiting_ops() == 0 && (&stream != legacy.get() || OthersIdle(stream));
  if (result == CUDA_SUCCESS && !known && last) {
    auto asked = std::make_shared<AskedStream>(stream.driver);
    asked_.push_back(asked);
    return completer.AddAsked(stream.lane, std::move(asked), stream.submitted, std::move(answer));
  }
  PooledEvent event;
  if (result == CUDA_SUCCESS && !known)
    result = faults.Check(plain_events.Record(stream.driver, event));
  if (result != CUDA_SUCCESS) return answer(result, completer.pushed());
  completer.Add(stream.lane, std::move(event), stream.submitted, std::move(answer));
}

void DeviceSession::RecordAsked() {
  for (const std::weak_ptr<AskedStream>& one : asked_) {
    const std::shared_ptr<AskedStream> asked = one.lock();
    if (asked == nullptr) continue;
    PooledEvent event;
    const CUresult result = faults.Check(plain_events.Record(asked->stream(), event));
    if (result == CUDA_SUCCESS)
      asked->Replace(std::move(event));
    else
      asked->Fail(result);
  }
  asked_.clear();
}

void DeviceSession::Forsake(Stream& stream) {
  StopAsking();
  if (gate != nullptr) gate->Leaves(stream);
  if (stream.asked == nullptr) return;
  PooledEvent event;
  if (faults.Check(plain_events.Record(stream.driver, event)) == CUDA_SUCCESS)
    stream.asked->Replace(std::move(event));
}

bool DeviceSession::OthersIdle(const Stream& stream) {
  if (queues.waiting_ops() != 0) return false;
  ForgetOldLanes();
  bool idle = old_lanes.empty() && (&stream == legacy.get() || legacy->Idle());
  streams.ForEach([&](const Stream& other) { idle = idle && (&other == &stream || other.Idle()); });
  return idle;
}

bool DeviceSession::OthersDone(const Stream& stream) {
  ForgetOldLanes();
  bool done = old_lanes.empty();
  const auto ask = [&](Stream& other) {
    if (!done || &other == &stream || other.broken != CUDA_SUCCESS || other.Idle() ||
        other.found_done == other.submitted)
      return;
    done = driver.cuStreamQuery(other.driver) == CUDA_SUCCESS;
    if (done) other.found_done = other.submitted;
  };
  ask(*legacy);
  streams.ForEach(ask);
  return done;
}

void DeviceSession::WhenDeviceDone(Answer answer) {
  queues.WhenSubmitted(
      [this, answer = std::move(answer)]() mutable { WhenHandedOverDone(std::move(answer)); });
}

void DeviceSession::WhenHandedOverDone(Answer answer) {
  // Answers once, when the last of several streams is done, with the first failure and the most
  // chunks: two threads tell of streams, and who is the last may have counted before the other.
  struct Join {
    explicit Join(Answer answer) : answer(std::move(answer)) {}
    void Done(CUresult result, std::uint64_t chunks) {
      int none = CUDA_SUCCESS;
      if (result != CUDA_SUCCESS) worst.compare_exchange_strong(none, result);
      std::uint64_t known = most_chunks.load();
      while (known < chunks && !most_chunks.compare_exchange_weak(known, chunks)) {
      }
      if (missing.fetch_sub(1) == 1)
        answer(static_cast<CUresult>(worst.load()), most_chunks.load());
    }
    std::atomic<int> missing = 1;
    std::atomic<int> worst = CUDA_SUCCESS;
    std::atomic<std::uint64_t> most_chunks = 0;
    const Answer answer;
  };
  auto join = std::make_shared<Join>(std::move(answer));
  const Answer part = [join](CUresult result, std::uint64_t chunks) { join->Done(result, chunks); };
  const auto wait_for = [&](Stream& stream) {
    if (stream.Idle() || stream.broken != CUDA_SUCCESS) return;
    ++join->missing;
    WhenStreamDone(stream, part);
  };
  // The legacy stream last: its event waits for the blocking streams as well.
  streams.ForEach(wait_for);
  wait_for(*legacy);
  ForgetOldLanes();
  for (const auto& [lane, mark] : old_lanes) {
    ++join->missing;
    completer.Add(lane, PooledEvent(), mark, part);
  }
  join->Done(faults.lost(), completer.pushed());
}

bool DeviceSession::Done(const Stream& stream) {
  if (&stream != legacy.get()) return stream.Idle();
  ForgetOldLanes();
  bool done = legacy->Idle() && old_lanes.empty();
  streams.ForEach([&](const Stream& other) { done = done && (!other.blocking || other.Idle()); });
  return done;
}

std::vector<std::shared_ptr<LaunchBatches>> DeviceSession::TakeBatches(
    std::optional<std::uint64_t> module) {
  std::vector<std::shared_ptr<LaunchBatches>> taken;
  const auto take = [&](Stream& stream) {
    if (stream.batches != nullptr && (!module || stream.batches->MadeOf(*module)))
      taken.push_back(std::move(stream.batches));
  };
  take(*legacy);
  streams.ForEach(take);
  return taken;
}

void DeviceSession::ForgetOldLanes() {
  std::erase_if(old_lanes, [](const auto& old) { return old.first->completed() >= old.second; });
}

void DeviceSession::DropAll() {
  queues.DropAll();
  transfers.Forget();
  paused_.clear();
  if (gate != nullptr) gate->Lost();
}

}  // namespace cuspan::proxy
