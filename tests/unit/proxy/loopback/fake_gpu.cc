#include "tests/unit/proxy/loopback/fake_gpu.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/unit/proxy/loopback/fake_gpu_parts.h"

namespace cuspan::proxy {

FakeGpu* fake = nullptr;
thread_local std::uintptr_t current_context = 0;

FakeGpu::FakeGpu()
    : graphs_(
          [this](const char* function) {
            std::scoped_lock lock(mutex_);
            return Refusal(function);
          },
          [this](CUstream stream) {
            std::scoped_lock lock(mutex_);
            return Enqueue(stream, "graph", [] {});
          },
          FakeMemoryBatch::CheckNode) {
  fake = this;
  contexts_.push_back(std::make_unique<Context>());
  contexts_.back()->legacy = AddStream(contexts_.back().get(), true);
  const auto add = [this](std::string name, std::vector<std::size_t> parameters) {
    functions_.push_back(
        std::make_unique<Function>(Function{std::move(name), std::move(parameters)}));
  };
  add("add", {8, 4, 4});
  add("cuspan_patch", {8, 256, 2048});
  for (const char* name : {"nothing", "refused", "faults"}) add(name, {});
  InstallCalls();
}

FakeGpu::~FakeGpu() {
  for (const auto& context : contexts_)
    for (const auto& [address, range] : context->reserved) ::munmap(range.memory, range.bytes);
  for (Event* event : events_) delete event;
  fake = nullptr;
}

void FakeGpu::Hold(int stream) {
  std::scoped_lock lock(mutex_);
  streams_.at(static_cast<std::size_t>(stream))->held = true;
}

void FakeGpu::Let(int stream) {
  std::scoped_lock lock(mutex_);
  streams_.at(static_cast<std::size_t>(stream))->held = false;
  RunAll();
}

void FakeGpu::Refuse(const std::string& function, CUresult result) {
  std::scoped_lock lock(mutex_);
  refusals_[function] = result;
}

void FakeGpu::LetNext(int stream, std::size_t count) {
  std::scoped_lock lock(mutex_);
  Stream& held = *streams_.at(static_cast<std::size_t>(stream));
  held.let = std::min(count, held.tasks.size());
  RunAll();
}

void FakeGpu::LetAll() {
  std::scoped_lock lock(mutex_);
  for (const auto& stream : streams_) stream->held = false;
  RunAll();
}

void FakeGpu::HaveOwnAddresses() {
  std::scoped_lock lock(mutex_);
  has_own_addresses_ = true;
}

void FakeGpu::HaveFree(std::uint64_t bytes) {
  std::scoped_lock lock(mutex_);
  free_bytes_ = bytes;
}

void FakeGpu::HoldAccess(bool hold) {
  std::scoped_lock lock(mutex_);
  access_held_ = hold;
  changed_.notify_all();
}

void FakeGpu::HoldModules() {
  std::scoped_lock lock(mutex_);
  modules_held_ = true;
}

void FakeGpu::LetModulesLoad() {
  std::scoped_lock lock(mutex_);
  modules_held_ = false;
  changed_.notify_all();
}

std::vector<std::string> FakeGpu::Log() const {
  std::scoped_lock lock(mutex_);
  return log_;
}

std::size_t FakeGpu::LaunchingThreads() const {
  std::scoped_lock lock(mutex_);
  return launching_threads_.size();
}

bool FakeGpu::WaitForLog(const std::string& entry, std::size_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] {
    return static_cast<std::size_t>(std::count(log_.begin(), log_.end(), entry)) >= count;
  });
}

FakeGpu::Stream& FakeGpu::StreamOf(CUstream stream) const {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  return value <= 1 ? *Current().legacy : *reinterpret_cast<Stream*>(stream);
}

FakeGpu::Stream* FakeGpu::AddStream(Context* context, bool blocking) {
  auto made = std::make_unique<Stream>();
  made->number = static_cast<int>(streams_.size());
  made->context = context;
  made->blocking = blocking;
  return streams_.emplace_back(std::move(made)).get();
}

CUresult FakeGpu::Enqueue(CUstream stream, std::string entry, std::function<void()> run,
                          std::function<bool()> ready) {
  Stream& target = StreamOf(stream);
  if (target.context->lost != CUDA_SUCCESS) return target.context->lost;
  if (const auto refusal = refusals_.find(entry);
      refusal != refusals_.end() && refusal->second != CUDA_SUCCESS)
    return refusal->second;
  log_.push_back(entry + " " + std::to_string(target.number));
  target.tasks.push_back({std::move(ready), std::move(run), tasks_++});
  target.asked = false;
  RunAll();
  changed_.notify_all();
  return CUDA_SUCCESS;
}

void FakeGpu::LogAsked(Stream& stream) {
  if (std::exchange(stream.asked, true)) return;
  log_.push_back("asked " + std::to_string(stream.number));
  changed_.notify_all();
}

void FakeGpu::RunAll() {
  for (bool progress = true; progress;) {
    progress = false;
    for (const auto& stream : streams_) {
      while (MayRun(*stream)) {
        const Task task = std::move(stream->tasks.front());
        stream->tasks.pop_front();
        if (stream->let > 0) --stream->let;
        task.run();
        progress = true;
      }
    }
  }
}

bool FakeGpu::MayRun(const Stream& stream) const {
  if (stream.tasks.empty() || (stream.held && stream.let == 0)) return false;
  const Task& next = stream.tasks.front();
  if (next.ready && !next.ready()) return false;
  const auto has_earlier = [&](const Stream& other) {
    return !other.tasks.empty() && other.tasks.front().number < next.number;
  };
  if (!stream.blocking) return true;
  if (&stream != stream.context->legacy) return !has_earlier(*stream.context->legacy);
  return std::none_of(streams_.begin(), streams_.end(), [&](const auto& other) {
    return other->blocking && other->context == stream.context && has_earlier(*other);
  });
}

FakeGpu::Context& FakeGpu::Current() const {
  const bool known = current_context != 0 && current_context <= contexts_.size();
  return *contexts_[known ? current_context - 1 : 0];
}

bool FakeGpu::Mapped(CUdeviceptr address, std::size_t bytes) const {
  const auto inside = [&](CUdeviceptr start, std::size_t size) {
    return address >= start && bytes <= size && address - start <= size - bytes;
  };
  // The range may span adjacent mappings.
  CUdeviceptr at = address;
  std::size_t left = bytes;
  for (const auto& [start, size] : Current().mapped) {
    if (at < start || at - start >= size) continue;
    const std::size_t here = size - (at - start);
    if (left <= here) return true;
    left -= here;
    at += here;
  }
  const auto after = host_memory_.upper_bound(address);
  if (after != host_memory_.begin() && inside(std::prev(after)->first, std::prev(after)->second))
    return true;
  return inside(reinterpret_cast<CUdeviceptr>(variable_.data()), variable_.size());
}

std::byte* FakeGpu::Memory(CUdeviceptr address) const {
  const auto& reserved = Current().reserved;
  const auto after = reserved.upper_bound(address);
  if (after != reserved.begin()) {
    const auto& [base, range] = *std::prev(after);
    if (address - base < range.bytes) return range.memory + (address - base);
  }
  return reinterpret_cast<std::byte*>(address);
}

CUresult FakeGpu::Refusal(const char* function) const {
  const auto found = refusals_.find(function);
  return found == refusals_.end() ? CUDA_SUCCESS : found->second;
}

}  // namespace cuspan::proxy
