#include "proxy/nccl/communicator.h"

#include <cstring>
#include <utility>

#include "common/log.h"

namespace cuspan::proxy {
namespace {

using std::chrono::milliseconds;

// How often NCCL is asked whether an idle communicator has failed, and one that does not block
// whether it is ready.
constexpr milliseconds kLooksForFailure{100};
constexpr std::chrono::microseconds kLooksForEnd{20};

// A configuration with the settings, in the form that the library knows.
nccl::Config ConfigOf(const CommunicatorSettings& settings, int version) {
  nccl::Config config;
  const bool is_new = version >= nccl::VersionCode(2, 28, 0);
  config.size = is_new ? sizeof(config) : nccl::kConfigBytesOf218;
  config.version = static_cast<std::uint32_t>(is_new ? nccl::VersionCode(2, 28, 0)
                                                     : nccl::VersionCode(2, 18, 0));
  config.blocking = settings.blocking ? 1 : 0;
  config.cga_cluster_size = settings.cluster_blocks;
  config.min_ctas = settings.least_blocks;
  config.max_ctas = settings.most_blocks;
  config.net_name = settings.network.empty() ? nullptr : settings.network.c_str();
  config.split_share = settings.split_share;
  config.traffic_class = settings.traffic_class;
  config.comm_name = settings.name.empty() ? nullptr : settings.name.c_str();
  config.collnet_enable = settings.collnet;
  config.cta_policy = settings.block_policy;
  config.shrink_share = settings.shrink_share;
  config.nvls_ctas = settings.nvls_blocks;
  config.channels_per_net_peer = settings.peer_channels;
  config.nvlink_centric_sched = settings.nvlink_centric;
  return config;
}

nccl::UniqueId IdOf(const RankId& id) {
  nccl::UniqueId out;
  static_assert(sizeof(out.bytes) == sizeof(id.bytes));
  std::memcpy(out.bytes, id.bytes.data(), sizeof(out.bytes));
  return out;
}

const void* Pointer(std::uint64_t address) {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address));
}
void* MutablePointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

NcclOutcome Lacks(const NcclLibrary& library, const char* function) {
  return {nccl::kInvalidUsage, Format("{} has no {}", library.path(), function)};
}

}  // namespace

Result<std::shared_ptr<Communicator>> Communicator::Create(std::uint64_t number,
                                                           const Device& device, Failed failed) {
  CUSPAN_ASSIGN_OR_RETURN(Bell bell, Bell::Create());
  bell.CloseFd();
  return std::shared_ptr<Communicator>(
      new Communicator(number, device, std::move(bell), std::move(failed)));
}

Communicator::Communicator(std::uint64_t number, const Device& device, Bell bell, Failed failed)
    : number_(number),
      device_(device),
      failed_(std::move(failed)),
      bell_(std::move(bell)),
      thread_([this, &device] { Loop(device); }) {}

Communicator::~Communicator() {
  ending_.store(true, std::memory_order_release);
  bell_.Ring();
  thread_.join();
  if (overtaking_.joinable()) overtaking_.join();
  std::shared_ptr<Watch> watch;
  {
    const MutexLock lock(watch_mutex_);
    watch = std::move(watch_);
  }
  if (watch != nullptr) watch->Forget(listens_);
  if (done_ != nullptr) device_.driver().cuEventDestroy(done_);
}

void Communicator::Run(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  waiting_.fetch_add(1, std::memory_order_release);
  bell_.Ring();
}

std::function<void()> Communicator::Next() {
  const MutexLock lock(mutex_);
  if (tasks_.empty()) return {};
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return task;
}

void Communicator::Loop(const Device& device) {
  if (const Status status = device.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  const WaitStages stages = WaitStages::ForThisMachine();
  while (!ending_.load(std::memory_order_acquire)) {
    const bool woken = bell_.Wait(
        [this] {
          return waiting_.load(std::memory_order_acquire) != 0 ||
                 ending_.load(std::memory_order_acquire);
        },
        kLooksForFailure, stages);
    if (!woken) {
      LookForFailure();
      continue;
    }
    if (const std::function<void()> task = Next()) task();
  }
}

void Communicator::LookForFailure() {
  if (told_failure_) return;
  NcclOutcome outcome;
  {
    const MutexLock lock(asking_);
    NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
    if (handle == nullptr || aborted()) return;
    int error = nccl::kSuccess;
    int result = library_->functions().ncclCommGetAsyncError(handle, &error);
    if (result == nccl::kSuccess) result = error;
    if (result == nccl::kSuccess || result == nccl::kInProgress) return;
    outcome = Outcome(result);
  }
  SayFailed(std::move(outcome));
}

void Communicator::SayFailed(NcclOutcome outcome) {
  if (!told_failure_.exchange(true)) failed_(std::move(outcome));
}

void Communicator::WatchRanks(std::shared_ptr<Watch> watch, std::set<int> without) {
  if (watch == nullptr) return;
  {
    const MutexLock lock(work_);
    without_ = std::move(without);
    watched_ = true;
  }
  const std::uint64_t number =
      watch->OnLost([this](int rank, const std::string& problem) { OnLost(rank, problem); });
  const MutexLock lock(watch_mutex_);
  watch_ = std::move(watch);
  listens_ = number;
}

void Communicator::OnLost(int rank, const std::string& problem) {
  if (const Status status = device_.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  {
    const MutexLock lock(work_);
    if (without_.contains(rank) || !lost_.empty()) return;
    lost_ = problem;
    // What was done with the rank is done. What comes next can not be.
    if (!Busy()) return;
  }
  if (!aborted()) SayFailed({nccl::kRemoteError, problem});
}

bool Communicator::Busy() {
  return calling_ ||
         (done_ != nullptr && device_.driver().cuEventQuery(done_) == CUDA_ERROR_NOT_READY);
}

NcclOutcome Communicator::Outcome(int result) const {
  if (result == nccl::kSuccess) return {};
  const char* text =
      library_->functions().ncclGetLastError(handle_.load(std::memory_order_acquire));
  std::string problem = text != nullptr ? text : "";
  if (problem.empty()) {
    text = library_->functions().ncclGetErrorString(result);
    problem = text != nullptr ? text : "";
  }
  return {result, std::move(problem)};
}

NcclOutcome Communicator::Settle(int result) {
  while (result == nccl::kInProgress) {
    std::this_thread::sleep_for(kLooksForEnd);
    const MutexLock lock(asking_);
    NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
    if (aborted() || handle == nullptr)
      return {nccl::kInvalidUsage, "the communicator was aborted"};
    int error = nccl::kSuccess;
    result = library_->functions().ncclCommGetAsyncError(handle, &error);
    if (result == nccl::kSuccess) result = error;
  }
  return Outcome(result);
}

// Of a function that has made this communicator.
NcclOutcome Communicator::Adopt(int result) {
  NcclOutcome outcome = Settle(result);
  if (outcome.result != nccl::kSuccess) return outcome;
  NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
  if (handle == nullptr) return {nccl::kInvalidUsage, "the communicator was aborted"};
  result = library_->functions().ncclCommCount(handle, &size_);
  if (result == nccl::kSuccess) result = library_->functions().ncclCommUserRank(handle, &rank_);
  return Outcome(result);
}

NcclOutcome Communicator::Join(const NcclLibrary& library, const CommunicatorJoin& wanted) {
  library_ = &library;
  blocking_ = wanted.settings.blocking;
  nccl::Config config = ConfigOf(wanted.settings, library.version());
  const int size = static_cast<int>(wanted.size);
  const int rank = static_cast<int>(wanted.rank);
  std::vector<nccl::UniqueId> ids;
  std::shared_ptr<Watch> watch;
  for (RankId id : wanted.ids) {
    // All ids have a house; one is enough.
    if (ids.empty()) {
      Result<std::shared_ptr<Watch>> joined = Watch::Join(id, rank, size, library.version());
      if (!joined.ok()) return {nccl::kSystemError, joined.status().message()};
      watch = std::move(*joined);
    }
    ids.push_back(IdOf(id));
  }
  {
    // Abort ends the waiting.
    const MutexLock lock(watch_mutex_);
    watch_ = watch;
    founded_.store(true, std::memory_order_release);
  }
  if (aborted()) return {nccl::kInvalidUsage, "the communicator was aborted"};
  if (watch != nullptr) {
    if (const Status here = watch->AwaitAll(); !here.ok())
      return {
          here.code() == StatusCode::kInvalid ? int{nccl::kInvalidUsage} : int{nccl::kRemoteError},
          here.message()};
    WatchRanks(watch, {});
  }
  NcclCommunicator* handle = nullptr;
  int result = nccl::kSuccess;
  if (ids.size() == 1) {
    result = library.functions().ncclCommInitRankConfig(&handle, size, ids.front(), rank, &config);
  } else if (library.functions().ncclCommInitRankScalable != nullptr) {
    result = library.functions().ncclCommInitRankScalable(
        &handle, size, rank, static_cast<int>(ids.size()), ids.data(), &config);
  } else {
    return Lacks(library, "ncclCommInitRankScalable");
  }
  if (result != nccl::kSuccess && result != nccl::kInProgress) return Outcome(result);
  handle_.store(handle, std::memory_order_release);
  // Of one that blocks nothing was known before.
  if (aborted() && handle_.exchange(nullptr) != nullptr) library.functions().ncclCommAbort(handle);
  return Adopt(result);
}

NcclOutcome Communicator::Split(const CommunicatorSplit& wanted, Communicator* part) {
  NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
  if (handle == nullptr || aborted()) return {nccl::kInvalidUsage, "there is no communicator"};
  nccl::Config config = ConfigOf(wanted.settings, library_->version());
  NcclCommunicator* made = nullptr;
  const int result = library_->functions().ncclCommSplit(handle, wanted.color, wanted.key, &made,
                                                         wanted.inherit ? nullptr : &config);
  if (part == nullptr || made == nullptr) return Settle(result);
  part->library_ = library_;
  part->blocking_ = wanted.inherit ? blocking_ : wanted.settings.blocking;
  part->handle_.store(made, std::memory_order_release);
  part->WatchRanks(OwnWatch(), Without({}));
  return part->Adopt(result);
}

NcclOutcome Communicator::Shrink(const CommunicatorShrink& wanted, Communicator* part) {
  NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
  if (handle == nullptr || aborted()) return {nccl::kInvalidUsage, "there is no communicator"};
  if (library_->functions().ncclCommShrink == nullptr) return Lacks(*library_, "ncclCommShrink");
  nccl::Config config = ConfigOf(wanted.settings, library_->version());
  std::vector<int> excluded(wanted.excluded.begin(), wanted.excluded.end());
  NcclCommunicator* made = nullptr;
  const int result = library_->functions().ncclCommShrink(
      handle, excluded.data(), static_cast<int>(excluded.size()), &made,
      wanted.inherit ? nullptr : &config, wanted.flags);
  if (made == nullptr) return Settle(result);
  part->library_ = library_;
  part->blocking_ = wanted.inherit ? blocking_ : wanted.settings.blocking;
  part->handle_.store(made, std::memory_order_release);
  part->WatchRanks(OwnWatch(), Without(wanted.excluded));
  return part->Adopt(result);
}

std::shared_ptr<Watch> Communicator::OwnWatch() {
  const MutexLock lock(watch_mutex_);
  return watch_;
}

// The ranks that a part does without: the watch counts those of the first communicator.
std::set<int> Communicator::Without(const std::vector<std::int32_t>& excluded) {
  const MutexLock lock(work_);
  std::set<int> without = without_;
  without.insert(excluded.begin(), excluded.end());
  return without;
}

NcclOutcome Communicator::Finalize() {
  NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
  if (handle == nullptr || aborted()) return {nccl::kInvalidUsage, "there is no communicator"};
  return Settle(library_->functions().ncclCommFinalize(handle));
}

NcclOutcome Communicator::Destroy() {
  NcclCommunicator* handle = nullptr;
  {
    const MutexLock lock(asking_);
    if (aborted()) return {};
    handle = handle_.exchange(nullptr);
  }
  if (handle == nullptr) return {};
  return Outcome(library_->functions().ncclCommDestroy(handle));
}

NcclOutcome Communicator::AddFactor(const CommunicatorFactor& wanted) {
  NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
  if (handle == nullptr || aborted()) return {nccl::kInvalidUsage, "there is no communicator"};
  std::uint64_t value = wanted.value;
  void* const factor = wanted.on_device ? MutablePointer(wanted.value) : &value;
  int made = 0;
  const int result = library_->functions().ncclRedOpCreatePreMulSum(
      &made, factor, static_cast<int>(wanted.type),
      wanted.on_device ? nccl::kScalarDevice : nccl::kScalarHostImmediate, handle);
  if (result == nccl::kSuccess) operations_[wanted.operation] = made;
  return Outcome(result);
}

NcclOutcome Communicator::EndFactor(std::uint32_t operation) {
  const auto known = operations_.find(operation);
  NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
  if (known == operations_.end() || handle == nullptr || aborted()) return {};
  const int result = library_->functions().ncclRedOpDestroy(known->second, handle);
  operations_.erase(known);
  return Outcome(result);
}

int Communicator::OperationOf(const CollectiveCall& call) const {
  const auto known = operations_.find(call.operation);
  return known != operations_.end() ? known->second : static_cast<int>(call.operation);
}

int Communicator::Call(const CollectiveCall& call, const Communicator& member,
                       CUstream stream) const {
  const NcclFunctions& functions = library_->functions();
  NcclCommunicator* const handle = member.handle_.load(std::memory_order_acquire);
  if (handle == nullptr || member.aborted()) return nccl::kInvalidUsage;
  const void* const send = Pointer(call.send);
  void* const receive = MutablePointer(call.receive);
  const auto type = static_cast<int>(call.type);
  const auto peer = static_cast<int>(call.peer);
  switch (static_cast<nccl::CallKind>(call.kind)) {
    case nccl::CallKind::kAllReduce:
      return functions.ncclAllReduce(send, receive, call.count, type, member.OperationOf(call),
                                     handle, stream);
    case nccl::CallKind::kReduce:
      return functions.ncclReduce(send, receive, call.count, type, member.OperationOf(call), peer,
                                  handle, stream);
    case nccl::CallKind::kBroadcast:
      return functions.ncclBroadcast(send, receive, call.count, type, peer, handle, stream);
    case nccl::CallKind::kAllGather:
      return functions.ncclAllGather(send, receive, call.count, type, handle, stream);
    case nccl::CallKind::kReduceScatter:
      return functions.ncclReduceScatter(send, receive, call.count, type, member.OperationOf(call),
                                         handle, stream);
    case nccl::CallKind::kAllToAll:
      return functions.ncclAlltoAll == nullptr
                 ? nccl::kInvalidUsage
                 : functions.ncclAlltoAll(send, receive, call.count, type, handle, stream);
    case nccl::CallKind::kGather:
      return functions.ncclGather == nullptr
                 ? nccl::kInvalidUsage
                 : functions.ncclGather(send, receive, call.count, type, peer, handle, stream);
    case nccl::CallKind::kScatter:
      return functions.ncclScatter == nullptr
                 ? nccl::kInvalidUsage
                 : functions.ncclScatter(send, receive, call.count, type, peer, handle, stream);
    case nccl::CallKind::kSend:
      return functions.ncclSend(send, call.count, type, peer, handle, stream);
    case nccl::CallKind::kReceive:
      return functions.ncclRecv(receive, call.count, type, peer, handle, stream);
  }
  return nccl::kInvalidArgument;
}

NcclOutcome Communicator::Do(std::span<const CollectiveCall> calls,
                             std::span<const std::shared_ptr<Communicator>> members,
                             CUstream stream) {
  if (library_ == nullptr) return {nccl::kInvalidUsage, "there is no communicator"};
  for (const std::shared_ptr<Communicator>& member : members) member->BeginCalls();
  NcclOutcome outcome = DoAll(calls, members, stream);
  for (const std::shared_ptr<Communicator>& member : members) member->EndCalls(stream);
  return outcome;
}

void Communicator::BeginCalls() {
  std::string lost;
  {
    const MutexLock lock(work_);
    calling_ = true;
    lost = lost_;
  }
  if (!lost.empty()) SayFailed({nccl::kRemoteError, lost});
}

void Communicator::EndCalls(CUstream stream) {
  const Driver& driver = device_.driver();
  const MutexLock lock(work_);
  calling_ = false;
  if (watched_ && done_ == nullptr) driver.cuEventCreate(&done_, CU_EVENT_DISABLE_TIMING);
  if (done_ != nullptr) driver.cuEventRecord(done_, stream);
}

NcclOutcome Communicator::DoAll(std::span<const CollectiveCall> calls,
                                std::span<const std::shared_ptr<Communicator>> members,
                                CUstream stream) {
  const NcclFunctions& functions = library_->functions();
  const bool grouped = calls.size() != 1;
  int result = grouped ? functions.ncclGroupStart() : int{nccl::kSuccess};
  for (const CollectiveCall& call : calls) {
    if (result != nccl::kSuccess && result != nccl::kInProgress) break;
    for (const std::shared_ptr<Communicator>& member : members)
      if (member->number() == call.communicator) result = Call(call, *member, stream);
  }
  if (grouped) {
    const int ended = functions.ncclGroupEnd();
    if (result == nccl::kSuccess || result == nccl::kInProgress) result = ended;
  }
  if (result != nccl::kInProgress) return Outcome(result);
  NcclOutcome outcome;
  for (const std::shared_ptr<Communicator>& member : members) {
    NcclOutcome settled = member->Settle(nccl::kInProgress);
    if (outcome.result == nccl::kSuccess) outcome = std::move(settled);
  }
  return outcome;
}

void Communicator::Overtake(std::function<void()> task) {
  if (overtaking_.joinable()) overtaking_.join();
  overtaking_ = std::thread([this, task = std::move(task)] {
    if (const Status status = device_.MakeCurrent(); !status.ok()) LogError("{}", status.message());
    task();
  });
}

void Communicator::Abort(std::function<void(NcclOutcome)> then) {
  aborted_.store(true, std::memory_order_release);
  const std::shared_ptr<Watch> watch = OwnWatch();
  if (watch != nullptr && founded_.load(std::memory_order_acquire)) watch->GiveUp();
  Overtake([this, then = std::move(then)] {
    NcclCommunicator* handle = nullptr;
    {
      // Who asks NCCL has its answer, and asks no more.
      const MutexLock lock(asking_);
      handle = handle_.exchange(nullptr);
    }
    then(handle == nullptr ? NcclOutcome() : Outcome(library_->functions().ncclCommAbort(handle)));
  });
}

void Communicator::Revoke(std::function<void(NcclOutcome)> then) {
  Overtake([this, then = std::move(then)] {
    NcclCommunicator* const handle = handle_.load(std::memory_order_acquire);
    if (handle == nullptr) return then({nccl::kInvalidUsage, "there is no communicator"});
    if (library_->functions().ncclCommRevoke == nullptr)
      return then(Lacks(*library_, "ncclCommRevoke"));
    then(Settle(library_->functions().ncclCommRevoke(handle, 0)));
  });
}

}  // namespace cuspan::proxy
