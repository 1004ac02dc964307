#include "proxy/softnccl/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "proxy/softnccl/elements.h"

namespace cuspan::softnccl {
namespace {

// Above the memory of any device, and far below an overflow of sizes.
constexpr std::size_t kMaxElements = std::size_t{1} << 40U;

nccl::Result ResultOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return nccl::kSuccess;
    case StatusCode::kInvalid:
      return nccl::kInvalidUsage;
    case StatusCode::kUnavailable:
      return nccl::kRemoteError;
    case StatusCode::kInternal:
      return nccl::kInternalError;
    default:
      return nccl::kSystemError;
  }
}

bool IsPointToPoint(CallKind kind) { return kind == CallKind::kSend || kind == CallKind::kReceive; }

// Interval between polls of the streams' progress.
constexpr std::chrono::microseconds kBackoff{50};

}  // namespace

bool Communicator::Group::Reached() const {
  return submitted && std::all_of(batches.begin(), batches.end(),
                                  [](const Batch& batch) { return batch.staging->reached(); });
}

bool Communicator::Group::Passed() const {
  return std::all_of(batches.begin(), batches.end(),
                     [](const Batch& batch) { return batch.staging->passed(); });
}

HostCall Communicator::Group::HostCallOf(const Staged& staged) const {
  const Staging& staging = *batches[staged.batch].staging;
  return {staged.call.call, staging.send(staged.movement), staging.receive(staged.movement)};
}

Result<std::shared_ptr<Communicator>> Communicator::Start(const Cuda& cuda, CUcontext context,
                                                          Join join) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> interrupt,
                          net::Interrupt::Make("the communicator was aborted"));
  std::shared_ptr<Communicator> made(new Communicator(cuda, context, std::move(interrupt)));
  try {
    std::thread([made, join = std::move(join)]() mutable { made->Loop(std::move(join)); }).detach();
  } catch (const std::system_error& error) {
    return Status::Exhausted("no thread can be started: {}", error.what());
  }
  return made;
}

int Communicator::rank() const {
  MutexLock lock(mutex_);
  return joined_ ? rank_ : -1;
}

int Communicator::size() const {
  MutexLock lock(mutex_);
  return joined_ ? size_ : 0;
}

Outcome Communicator::AwaitJoined() {
  MutexLock lock(mutex_);
  while (!joined_) changed_.wait(lock);
  return {failure_, problem_};
}

nccl::Result Communicator::AsyncError() const {
  MutexLock lock(mutex_);
  return joined_ ? failure_ : nccl::kInProgress;
}

std::string Communicator::Problem() const {
  MutexLock lock(mutex_);
  return problem_;
}

void Communicator::Fail(nccl::Result result, const std::string& problem) {
  MutexLock lock(mutex_);
  if (failure_ != nccl::kSuccess) return;
  failure_ = result;
  problem_ = problem;
  changed_.notify_all();
}

// --- Calls

Outcome Communicator::Check(const DeviceCall& call) const {
  if (!joined_) return {nccl::kInvalidUsage, "not all ranks of the communicator have joined yet"};
  if (failure_ != nccl::kSuccess) return {failure_, problem_};
  if (retired_) return {nccl::kInvalidUsage, "the communicator was destroyed"};
  if (nccl::ElementBytes(call.call.type) == 0)
    return {nccl::kInvalidArgument,
            Format("{} is not a data type", static_cast<int>(call.call.type))};
  if (call.call.count > kMaxElements)
    return {nccl::kInvalidArgument, Format("{} elements are too many", call.call.count)};
  if (call.call.root < 0 || call.call.root >= size_)
    return {nccl::kInvalidArgument,
            Format("no rank {} in a communicator of {}", call.call.root, size_)};
  if (call.op < 0 || call.op >= nccl::kReduceOps) {
    const auto factor = factors_.find(call.op);
    if (factor == factors_.end())
      return {nccl::kInvalidArgument, Format("{} is not a reduction operation", call.op)};
    if (factor->second.type != call.call.type)
      return {nccl::kInvalidArgument,
              Format("operation {} was made for another data type", call.op)};
  }
  const bool lacks_send = SendBytes(call.call, rank_, size_) > 0 && call.send == 0;
  const bool lacks_receive = ReceiveBytes(call.call, rank_, size_) > 0 && call.receive == 0;
  if (lacks_send || lacks_receive) return {nccl::kInvalidArgument, "a buffer is null"};
  return {};
}

Outcome Communicator::Enqueue(const std::vector<DeviceCall>& calls) {
  {
    MutexLock lock(mutex_);
    for (const DeviceCall& call : calls)
      if (Outcome outcome = Check(call); !outcome.ok()) return outcome;
  }
  const WithContext with_context(cuda_, context_);
  std::unique_ptr<Group> group = Stage(calls);
  if (group == nullptr)
    return {nccl::kUnhandledCudaError, "the CUDA driver has no page-locked memory for a call"};
  // Queued before submission: streams may reach the groups of two threads in either order.
  Group* const submitted = group.get();
  Push(std::move(group));
  CUresult result = CUDA_SUCCESS;
  for (Batch& batch : submitted->batches) {
    const CUresult one = batch.staging->Submit(batch.stream);
    if (result == CUDA_SUCCESS) result = one;
  }
  Outcome outcome;
  if (result != CUDA_SUCCESS) {
    outcome = {
        nccl::kUnhandledCudaError,
        Format("the CUDA driver refused the work of a call: error {}", static_cast<int>(result))};
    Fail(outcome.result, outcome.problem);
  }
  MutexLock lock(mutex_);
  submitted->submitted = true;
  changed_.notify_all();
  return outcome;
}

std::unique_ptr<Communicator::Group> Communicator::Stage(const std::vector<DeviceCall>& calls) {
  auto group = std::make_unique<Group>();
  std::vector<Factor> factors(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const DeviceCall& call = calls[i];
    Movement movement{call.send,
                      SendBytes(call.call, rank_, size_),
                      call.receive,
                      ReceiveBytes(call.call, rank_, size_),
                      0,
                      nccl::ElementBytes(call.call.type)};
    if (call.op >= nccl::kReduceOps) {
      MutexLock lock(mutex_);
      // Another thread may have removed it since Check.
      const auto made = factors_.find(call.op);
      if (made != factors_.end()) factors[i] = made->second;
      movement.factor_at = factors[i].place;
    }
    auto& batches = group->batches;
    auto batch = std::find_if(batches.begin(), batches.end(),
                              [&](const Batch& one) { return one.stream == call.stream; });
    if (batch == batches.end()) batch = batches.insert(batch, Batch{call.stream, {}, nullptr});
    group->calls.push_back(
        {call, static_cast<std::size_t>(batch - batches.begin()), batch->movements.size()});
    batch->movements.push_back(movement);
  }
  for (Batch& batch : group->batches)
    if (Staging::Make(cuda_, batch.movements, &batch.staging) != CUDA_SUCCESS) return nullptr;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Staged& staged = group->calls[i];
    std::memcpy(group->batches[staged.batch].staging->factor(staged.movement), factors[i].value,
                sizeof(factors[i].value));
  }
  return group;
}

Outcome Communicator::MakeFactor(nccl::DataType type, const void* factor, bool on_device, int* op) {
  if (nccl::ElementBytes(type) == 0)
    return {nccl::kInvalidArgument, Format("{} is not a data type", static_cast<int>(type))};
  if (factor == nullptr || op == nullptr)
    return {nccl::kInvalidArgument, "a pointer to the factor or to the operation is null"};
  Factor made{type, {}, 0};
  if (on_device)
    made.place = reinterpret_cast<CUdeviceptr>(factor);
  else
    std::memcpy(made.value, factor, nccl::ElementBytes(type));
  MutexLock lock(mutex_);
  *op = next_factor_++;
  factors_.emplace(*op, made);
  return {};
}

Outcome Communicator::ForgetFactor(int op) {
  MutexLock lock(mutex_);
  if (factors_.erase(op) > 0) return {};
  return {nccl::kInvalidArgument, Format("{} is not an operation of this communicator", op)};
}

std::future<Communicator::Answers> Communicator::Ask(std::vector<int> ranks,
                                                     std::vector<std::byte> own) {
  constexpr std::uint64_t kAskKey = 0xfe;
  const auto promised = std::make_shared<std::promise<Answers>>();
  auto group = std::make_unique<Group>();
  group->question = [promised, ranks = std::move(ranks), own = std::move(own)](Mesh& mesh) {
    Answers all = mesh.Gather(kAskKey, ranks, own);
    Status status = all.status();
    promised->set_value(std::move(all));
    return status;
  };
  group->refuse = [promised](const Status& why) { promised->set_value(why); };
  Push(std::move(group));
  return promised->get_future();
}

void Communicator::Push(std::unique_ptr<Group> group) {
  MutexLock lock(mutex_);
  queue_.push_back(std::move(group));
  changed_.notify_all();
}

void Communicator::Drain() {
  MutexLock lock(mutex_);
  while (!joined_ || !queue_.empty() || !passing_.empty()) changed_.wait(lock);
}

void Communicator::Abort() {
  Fail(nccl::kRemoteError, "the communicator was aborted");
  interrupt_->Raise();
}

void Communicator::Retire() {
  MutexLock lock(mutex_);
  retired_ = true;
  changed_.notify_all();
}

// --- The communicator's thread

void Communicator::Loop(Join join) {
  cuda_.context_set(context_);
  Result<Mesh> mesh = join(interrupt_);
  join = nullptr;  // Frees its captures.
  if (!mesh.ok()) Fail(ResultOf(mesh.status()), mesh.status().message());
  MutexLock lock(mutex_);
  if (mesh.ok()) {
    rank_ = mesh->rank();
    size_ = mesh->size();
  }
  joined_ = true;
  changed_.notify_all();
  while (!retired_ || !queue_.empty() || !passing_.empty()) {
    // Closing notifies the other ranks of a failure.
    if (mesh.ok() && failure_ != nccl::kSuccess) mesh->Close();
    if (std::unique_ptr<Group> passed = ExtractPassed()) {
      lock.unlock();
      passed.reset();  // Frees its memory.
      lock.lock();
      continue;
    }
    Group* const next = Next();
    if (next == nullptr) {
      // Progress of streams can only be polled.
      const bool polls = !passing_.empty() || (!queue_.empty() && queue_.front()->submitted);
      if (polls)
        changed_.wait_for(lock, kBackoff);
      else
        changed_.wait(lock);
      continue;
    }
    lock.unlock();
    Do(mesh, *next);
    lock.lock();
    // The group has been in queue_ until now, so Drain always sees it in one of the two.
    if (!next->calls.empty()) passing_.push_back(std::move(queue_.front()));
    queue_.pop_front();
    changed_.notify_all();
  }
}

std::unique_ptr<Communicator::Group> Communicator::ExtractPassed() {
  const auto passed = std::find_if(passing_.begin(), passing_.end(),
                                   [](const auto& group) { return group->Passed(); });
  if (passed == passing_.end()) return nullptr;
  std::unique_ptr<Group> taken = std::move(*passed);
  passing_.erase(passed);
  changed_.notify_all();
  return taken;
}

Communicator::Group* Communicator::Next() {
  if (queue_.empty()) return nullptr;
  Group& group = *queue_.front();
  return group.question || group.Reached() ? &group : nullptr;
}

void Communicator::Do(Result<Mesh>& mesh, Group& group) {
  Status status;
  {
    MutexLock lock(mutex_);
    if (failure_ != nccl::kSuccess) status = Status::Unavailable("{}", problem_);
  }
  if (status.ok()) {
    status = RunGroup(*mesh, group);
    if (!status.ok()) Fail(ResultOf(status), status.message());
  } else if (group.refuse) {
    group.refuse(status);
  }
  for (const Batch& batch : group.batches) {
    if (!status.ok()) batch.staging->Clear();
    batch.staging->Answer();
  }
}

Status Communicator::RunGroup(Mesh& mesh, Group& group) {
  if (group.question) return group.question(mesh);
  std::vector<HostCall> between_two;
  for (const Staged& staged : group.calls) {
    HostCall host = group.HostCallOf(staged);
    if (IsPointToPoint(host.call.kind)) {
      between_two.push_back(host);
      continue;
    }
    if (staged.call.op >= nccl::kReduceOps) {
      host.call.op = nccl::kSum;
      const std::size_t elements =
          SendBytes(host.call, rank_, size_) / nccl::ElementBytes(host.call.type);
      Multiply(host.call.type, group.batches[staged.batch].staging->factor(staged.movement),
               host.send, elements);
    } else {
      host.call.op = static_cast<nccl::ReduceOp>(staged.call.op);
    }
    CUSPAN_RETURN_IF_ERROR(RunCollective(mesh, host));
  }
  if (between_two.empty()) return Status::Ok();
  return RunPointToPoint(mesh, between_two);
}

}  // namespace cuspan::softnccl
