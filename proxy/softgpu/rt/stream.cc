#include "proxy/softgpu/rt/stream.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

namespace cuspan::softgpu {
namespace {

std::uint64_t NextSetNumber() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

// Default streams of the calling thread, by set number. After the thread has ended, only the sets
// own them.
std::map<std::uint64_t, StreamPtr>& OwnStreams() {
  static thread_local std::map<std::uint64_t, StreamPtr> streams;
  return streams;
}

bool Idle(const OperationPtr& last) { return last == nullptr || last->done(); }

}  // namespace

OperationPtr Event::record() const {
  std::lock_guard lock(mutex_);
  return record_;
}

void Event::SetRecord(OperationPtr record) {
  std::lock_guard lock(mutex_);
  record_ = std::move(record);
}

StreamSet::StreamSet(OperationQueue& queue)
    : queue_(queue),
      number_(NextSetNumber()),
      legacy_(std::make_shared<Stream>(/*blocking=*/true, 0)) {}

StreamPtr StreamSet::PerThread() {
  StreamPtr& own = OwnStreams()[number_];
  if (own == nullptr) {
    own = std::make_shared<Stream>(/*blocking=*/true, 0);
    std::lock_guard lock(mutex_);
    // Removes streams of ended threads.
    std::erase_if(per_thread_, [](const StreamPtr& stream) {
      return stream.use_count() == 1 && Idle(stream->last_);
    });
    per_thread_.push_back(own);
  }
  return own;
}

StreamPtr StreamSet::Create(bool blocking, int priority) {
  auto stream = std::make_shared<Stream>(blocking, priority);
  std::lock_guard lock(mutex_);
  streams_.push_back(stream);
  return stream;
}

void StreamSet::Destroy(const StreamPtr& stream) {
  std::lock_guard lock(mutex_);
  std::erase_if(leaving_, [](const StreamPtr& other) { return Idle(other->last_); });
  if (std::erase(streams_, stream) != 0 && !Idle(stream->last_)) leaving_.push_back(stream);
}

OperationPtr StreamSet::Enqueue(Stream& stream, std::unique_ptr<Task> task, OperationPtr after) {
  auto operation = std::make_shared<Operation>(std::move(task));
  std::shared_lock adding(adding_);
  std::lock_guard lock(mutex_);
  EnqueueLocked(stream, operation, std::move(after));
  return operation;
}

OperationPtr StreamSet::EnqueueSequence(Stream& stream, std::unique_ptr<TaskSequence> tasks,
                                        OperationPtr after) {
  auto operation = std::make_shared<Operation>(std::move(tasks));
  std::shared_lock adding(adding_);
  std::lock_guard lock(mutex_);
  EnqueueLocked(stream, operation, std::move(after));
  return operation;
}

void StreamSet::Record(Stream& stream, Event& event) {
  auto operation = std::make_shared<Operation>();
  std::shared_lock adding(adding_);
  std::lock_guard lock(mutex_);
  EnqueueLocked(stream, operation, nullptr);
  event.SetRecord(std::move(operation));
}

void StreamSet::Drain() {
  std::unique_lock adding(adding_);
  for (const OperationPtr& operation : Pending()) operation->Wait();
}

void StreamSet::EnqueueLocked(Stream& stream, const OperationPtr& operation, OperationPtr after) {
  std::vector<OperationPtr> before = {stream.last_, std::move(after)};
  if (&stream == legacy_.get()) {
    ForEachOther([&](const Stream& other) {
      if (other.blocking_) before.push_back(other.last_);
    });
  } else if (stream.blocking_) {
    before.push_back(legacy_->last_);
  }
  queue_.Submit(operation, before);
  stream.last_ = operation;
}

void StreamSet::AppendPending(const Stream& stream, std::vector<OperationPtr>* operations) const {
  if (!Idle(stream.last_)) operations->push_back(stream.last_);
}

// The legacy stream is idle only if its next operation would wait for no stream.
std::vector<OperationPtr> StreamSet::Pending(const Stream& stream) const {
  std::vector<OperationPtr> operations;
  std::lock_guard lock(mutex_);
  AppendPending(stream, &operations);
  if (&stream != legacy_.get()) return operations;
  ForEachOther([&](const Stream& other) {
    if (other.blocking_) AppendPending(other, &operations);
  });
  return operations;
}

std::vector<OperationPtr> StreamSet::Pending() const {
  std::vector<OperationPtr> operations;
  std::lock_guard lock(mutex_);
  AppendPending(*legacy_, &operations);
  ForEachOther([&](const Stream& other) { AppendPending(other, &operations); });
  return operations;
}

}  // namespace cuspan::softgpu
