#include "proxy/nccl/collectives.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace cuspan::proxy {
namespace {

// NCCL has been run with tens of thousands of ranks, with possibly one call each in a group.
constexpr std::size_t kMaxCalls = 1 << 20;
// Wake-up interval of an idle thread.
constexpr std::chrono::milliseconds kNothingToDo{10'000};

bool IsCall(const CollectiveCall& call) {
  return call.kind < nccl::kCallKinds && call.type < nccl::kDataTypes;
}

}  // namespace

Collectives::Collectives(const Device& device, Channel& channel, Faults& faults,
                         StreamQueues& queues, bool software)
    : device_(device), channel_(channel), faults_(faults), queues_(queues), software_(software) {}

const Result<std::unique_ptr<NcclLibrary>>& Collectives::Library(const std::string& programs) {
  const MutexLock lock(library_mutex_);
  if (library_ == nullptr) {
    library_ = std::make_unique<Result<std::unique_ptr<NcclLibrary>>>(
        NcclLibrary::Load(programs, software_));
    if (library_->ok())
      LogInfo("collectives use {}, version {}", (**library_)->path(), (**library_)->version());
    else
      LogError("{}", library_->status().message());
  }
  return *library_;
}

Collectives::~Collectives() {
  ending_ = true;
  for (const auto& [number, entry] : communicators_)
    entry.communicator->Abort([](const NcclOutcome&) {});
  // Waiting calls begin now, and fail at once.
  while (tasks_.under_way.load() != 0 || HasWork()) {
    Progress();
    std::this_thread::yield();
  }
}

Collectives::Entry* Collectives::Find(std::uint64_t number) {
  const auto known = communicators_.find(number);
  return known == communicators_.end() ? nullptr : &known->second;
}

Result<std::shared_ptr<Communicator>> Collectives::Add(std::uint64_t number) {
  if (number == 0 || communicators_.contains(number))
    return Status::Invalid("communicator 0x{:x} is not a new handle", number);
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Communicator> made,
                          Communicator::Create(number, device_, [this, number](NcclOutcome failed) {
                            NotifyFailure(number, failed);
                          }));
  communicators_[number].communicator = made;
  return made;
}

void Collectives::Notify(const Communicator& communicator, nccl::Step step,
                         const NcclOutcome& outcome) {
  CommunicatorNotice notice;
  notice.communicator = communicator.number();
  notice.step = static_cast<std::uint32_t>(step);
  notice.outcome = outcome.result;
  notice.problem = outcome.problem;
  if (step == nccl::Step::kJoined && outcome.result == nccl::kSuccess) {
    notice.size = static_cast<std::uint32_t>(communicator.size());
    notice.rank = static_cast<std::uint32_t>(communicator.rank());
  }
  channel_.Post(notice);
}

void Collectives::NotifyFailure(std::uint64_t number, const NcclOutcome& outcome) {
  // If NCCL is the first to see a fault of the device, the client is notified of the fault first.
  if (outcome.result == nccl::kUnhandledCudaError) faults_.Check(CUDA_ERROR_UNKNOWN);
  CommunicatorNotice notice;
  notice.communicator = number;
  notice.step = static_cast<std::uint32_t>(nccl::Step::kFailed);
  notice.outcome = outcome.result;
  notice.problem = outcome.problem;
  channel_.Post(notice);
}

void Collectives::NotifyGone(std::uint64_t number, nccl::Step step) {
  CommunicatorNotice notice;
  notice.communicator = number;
  notice.step = static_cast<std::uint32_t>(step);
  notice.outcome = nccl::kInvalidUsage;
  notice.problem = "the communicator was ended by another thread";
  channel_.Post(notice);
}

void Collectives::Finish(std::function<void()> task) {
  {
    const MutexLock lock(tasks_.mutex);
    tasks_.finished.push_back(std::move(task));
    tasks_.finished_count.store(tasks_.finished.size(), std::memory_order_release);
    --tasks_.under_way;
  }
  channel_.own_bell().Ring();
}

void Collectives::Progress() {
  std::vector<std::function<void()>> tasks;
  {
    const MutexLock lock(tasks_.mutex);
    tasks.swap(tasks_.finished);
    tasks_.finished_count.store(0, std::memory_order_release);
  }
  for (const std::function<void()>& task : tasks) task();
}

std::shared_ptr<CallPosition> Collectives::NextPosition(const std::vector<Entry*>& entries,
                                                        const StreamQueue* stream) {
  auto position = std::make_shared<CallPosition>();
  position->stream = stream;
  for (Entry* const entry : entries) {
    const std::shared_ptr<CallPosition> last = entry->last.lock();
    entry->last = position;
    if (last == nullptr || last->over) continue;
    if (stream != nullptr && last->stream == stream) {
      position->before_in_stream.push_back(last);
      continue;
    }
    last->followers.push_back(position);
    ++position->before;
  }
  return position;
}

void Collectives::Over(CallPosition& position) {
  if (std::exchange(position.over, true)) return;
  for (const std::shared_ptr<CallPosition>& next : std::exchange(position.followers, {}))
    if (--next->before == 0) reached_.push_back(std::exchange(next->start, nullptr));
  // A turn() completing its own position calls Over again. The list reached_ replaces a recursion
  // as deep as the chain.
  if (std::exchange(calling_reached_, true)) return;
  while (!reached_.empty()) {
    const std::function<void()> start = std::move(reached_.front());
    reached_.pop_front();
    start();
  }
  calling_reached_ = false;
}

void Collectives::InOrder(Entry& entry, std::function<void()> work) {
  const std::shared_ptr<CallPosition> position = NextPosition({&entry});
  // The closure keeps the position until it is over.
  const auto begin = [this, position, communicator = entry.communicator, work = std::move(work)] {
    ++tasks_.under_way;
    // Finish destroys the communicator on the receiving thread: its destructor waits for this
    // thread.
    communicator->Run([this, position, work, keep = communicator]() mutable {
      work();
      Finish([this, position, keep = std::move(keep)] { Over(*position); });
    });
  };
  if (position->before == 0)
    begin();
  else
    position->start = begin;
}

Status Collectives::Join(const CommunicatorJoin& op) {
  if (op.ids.empty()) return Status::Invalid("communicator 0x{:x} has no id", op.communicator);
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Communicator> made, Add(op.communicator));
  InOrder(communicators_[op.communicator], [this, communicator = made.get(), op] {
    Notify(*communicator, nccl::Step::kJoined, communicator->Join(Library(op.path), op));
  });
  return Status::Ok();
}

Status Collectives::Split(const CommunicatorSplit& op) {
  Entry* const entry = Find(op.communicator);
  if (entry == nullptr) {
    NotifyGone(op.part, nccl::Step::kJoined);
    return Status::Ok();
  }
  std::shared_ptr<Communicator> part;
  if (op.part != 0) {
    CUSPAN_ASSIGN_OR_RETURN(part, Add(op.part));
  }
  InOrder(*entry, [this, op, communicator = entry->communicator.get(), part] {
    const NcclOutcome outcome = communicator->Split(op, part.get());
    if (part != nullptr)
      Notify(*part, nccl::Step::kJoined, outcome);
    else if (outcome.result != nccl::kSuccess)
      NotifyFailure(op.communicator, outcome);
  });
  return Status::Ok();
}

Status Collectives::Shrink(const CommunicatorShrink& op) {
  Entry* const entry = Find(op.communicator);
  if (entry == nullptr) {
    NotifyGone(op.part, nccl::Step::kJoined);
    return Status::Ok();
  }
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Communicator> part, Add(op.part));
  InOrder(*entry, [this, op, communicator = entry->communicator.get(), part] {
    Notify(*part, nccl::Step::kJoined, communicator->Shrink(op, part.get()));
  });
  return Status::Ok();
}

Status Collectives::End(const CommunicatorEnd& op) {
  if (op.how >= nccl::kEndings)
    return Status::Invalid("communicator 0x{:x} is to end in the unknown way {}", op.communicator,
                           op.how);
  Entry* const entry = Find(op.communicator);
  if (entry == nullptr) {
    const auto how = static_cast<nccl::Ending>(op.how);
    const bool ends = how == nccl::Ending::kDestroy || how == nccl::Ending::kAbort;
    NotifyGone(op.communicator, ends ? nccl::Step::kEnded : nccl::Step::kFinalized);
    return Status::Ok();
  }
  const std::shared_ptr<Communicator> communicator = entry->communicator;
  switch (static_cast<nccl::Ending>(op.how)) {
    case nccl::Ending::kFinalize:
      InOrder(*entry, [this, at = communicator.get()] {
        Notify(*at, nccl::Step::kFinalized, at->Finalize());
      });
      return Status::Ok();
    case nccl::Ending::kDestroy:
      InOrder(*entry,
              [this, at = communicator.get()] { Notify(*at, nccl::Step::kEnded, at->Destroy()); });
      communicators_.erase(op.communicator);
      return Status::Ok();
    case nccl::Ending::kAbort:
      ++tasks_.under_way;
      communicator->Abort([this, at = communicator.get(),
                           keep = communicator](const NcclOutcome& outcome) mutable {
        Notify(*at, nccl::Step::kEnded, outcome);
        // Destroyed after its own thread has returned from NCCL.
        at->Run([this, keep = std::move(keep)]() mutable { Finish([keep = std::move(keep)] {}); });
      });
      communicators_.erase(op.communicator);
      return Status::Ok();
    case nccl::Ending::kRevoke:
      ++tasks_.under_way;
      communicator->Revoke(
          [this, at = communicator.get(), keep = communicator](const NcclOutcome& outcome) mutable {
            Notify(*at, nccl::Step::kFinalized, outcome);
            Finish([keep = std::move(keep)] {});
          });
      return Status::Ok();
  }
  return Status::Ok();
}

Status Collectives::AddFactor(const CommunicatorFactor& op) {
  if (op.operation < nccl::kReduceOps)
    return Status::Invalid("operation {} is built into NCCL", op.operation);
  Entry* const entry = Find(op.communicator);
  if (entry == nullptr) return Status::Ok();
  InOrder(*entry, [this, op, communicator = entry->communicator.get()] {
    if (const NcclOutcome made = communicator->AddFactor(op); made.result != nccl::kSuccess)
      NotifyFailure(op.communicator, made);
  });
  return Status::Ok();
}

Status Collectives::EndFactor(const CommunicatorFactorEnd& op) {
  Entry* const entry = Find(op.communicator);
  if (entry == nullptr) return Status::Ok();
  InOrder(*entry, [communicator = entry->communicator.get(), operation = op.operation] {
    communicator->EndFactor(operation);
  });
  return Status::Ok();
}

Status Collectives::Keep(const CollectiveCalls& op) {
  std::size_t kept = op.calls.size();
  for (const auto& [group, calls] : kept_) kept += calls.size();
  if (op.group == 0 || op.calls.empty() || kept > kMaxCalls)
    return Status::Invalid(
        "invalid part of a group: {} collective calls are stored, with those of group {}", kept,
        op.group);
  std::vector<CollectiveCall>& calls = kept_[op.group];
  calls.insert(calls.end(), op.calls.begin(), op.calls.end());
  return Status::Ok();
}

Result<std::shared_ptr<CallGroup>> Collectives::MakeGroup(const CollectiveGroup& op,
                                                          const StreamQueue& stream) {
  auto group = std::make_shared<CallGroup>();
  if (op.group != 0) {
    const auto kept = kept_.find(op.group);
    if (kept == kept_.end())
      return Status::Invalid("group {} of calls has no first part", op.group);
    group->calls = std::move(kept->second);
    kept_.erase(kept);
  }
  group->calls.insert(group->calls.end(), op.calls.begin(), op.calls.end());
  if (group->calls.empty() || !std::all_of(group->calls.begin(), group->calls.end(), &IsCall))
    return Status::Invalid("a group of {} collective calls is empty or contains unknown calls",
                           group->calls.size());
  std::vector<Entry*> entries;
  for (const CollectiveCall& call : group->calls) {
    const auto known = communicators_.find(call.communicator);
    if (known == communicators_.end()) return std::shared_ptr<CallGroup>();
    if (std::find(entries.begin(), entries.end(), &known->second) == entries.end())
      entries.push_back(&known->second);
  }
  for (Entry* const entry : entries) group->members.push_back(entry->communicator);
  group->position = NextPosition(entries, &stream);
  if (group->position->before != 0) {
    group->position->dependency = std::make_shared<Dependency>();
    group->position->start = [this, dependency = group->position->dependency]()
                                 CUSPAN_REQUIRES(receiving_thread) {
                                   if (!ending_) queues_.Open(*dependency);
                                 };
  }
  return group;
}

Result<Collectives::Caller*> Collectives::CallerFor(std::uint32_t programs) {
  Caller* idle = nullptr;
  for (const std::unique_ptr<Caller>& caller : callers_) {
    const bool same = caller->programs == programs;
    if (same && caller->under_way != 0) return caller.get();
    if (caller->under_way == 0 && (idle == nullptr || same)) idle = caller.get();
  }
  if (idle == nullptr) {
    CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<CallThread> thread,
                            CallThread::Start(device_, kNothingToDo, {}));
    idle = callers_.emplace_back(std::make_unique<Caller>()).get();
    idle->thread = std::move(thread);
  }
  idle->programs = programs;
  return idle;
}

void Collectives::Begin(std::shared_ptr<CallGroup> group, std::uint32_t thread, CUstream stream,
                        std::function<void(int)> then) {
  group->begun = true;
  ++tasks_.under_way;
  Result<Caller*> found = CallerFor(thread);
  if (!found.ok()) {
    const NcclOutcome failure{nccl::kSystemError, found.status().message()};
    for (const std::shared_ptr<Communicator>& member : group->members)
      NotifyFailure(member->number(), failure);
    return Finish([this, group = std::move(group), then = std::move(then)] {
      if (!ending_) then(nccl::kSystemError);
      Over(*group->position);
    });
  }
  Caller* const caller = *found;
  ++caller->under_way;
  caller->thread->Run([this, caller, group = std::move(group), stream,
                       then = std::move(then)]() mutable {
    const NcclOutcome outcome = group->members.front()->Do(group->calls, group->members, stream);
    if (outcome.result != nccl::kSuccess) {
      for (const std::shared_ptr<Communicator>& member : group->members)
        if (!member->aborted()) NotifyFailure(member->number(), outcome);
    }
    Finish(
        [this, caller, group = std::move(group), then = std::move(then), result = outcome.result] {
          --caller->under_way;
          if (!ending_) then(result);
          Over(*group->position);
        });
  });
}

void Collectives::Drop(const std::shared_ptr<CallGroup>& group) {
  // Begin calls Over after NCCL's call.
  if (group->begun) return;
  // Outside the stream's queue, it has to wait for these explicitly.
  for (const std::weak_ptr<CallPosition>& earlier : group->position->before_in_stream) {
    const std::shared_ptr<CallPosition> last = earlier.lock();
    if (last == nullptr || last->over) continue;
    last->followers.push_back(group->position);
    ++group->position->before;
  }
  if (group->position->before == 0) return Over(*group->position);
  group->position->start = [this, group] { Over(*group->position); };
}

}  // namespace cuspan::proxy
