#include "proxy/nccl/communicator.h"

#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "common/log.h"
#include "proxy/nccl/watch_messages.h"

namespace cuspan::proxy {
namespace {

using std::chrono::milliseconds;

// Intervals of asking NCCL for the failure of an idle communicator, and for the completion of a
// nonblocking call.
constexpr milliseconds kPollsForFailure{100};
constexpr std::chrono::microseconds kPollsForEnd{20};
// Time for NCCL's calls to return when the communicator is aborted; longer than a call takes
// without waiting for others.
constexpr milliseconds kTimeToLeave{200};

// Returns a configuration with the settings, in the format of the library's version.
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

NcclOutcome Aborted() { return {nccl::kInvalidUsage, "the communicator was aborted"}; }

NcclOutcome Lacks(const NcclLibrary& library, const char* function) {
  return {nccl::kInvalidUsage, Format("{} has no {}", library.path(), function)};
}

}  // namespace

Result<std::shared_ptr<Communicator>> Communicator::Create(std::uint64_t number,
                                                           const Device& device, Failed failed) {
  std::shared_ptr<Communicator> made(new Communicator(number, device, std::move(failed)));
  CUSPAN_ASSIGN_OR_RETURN(
      made->thread_,
      CallThread::Start(device, kPollsForFailure, [at = made.get()] { at->LookForFailure(); }));
  return made;
}

Communicator::~Communicator() {
  // These first: they give the thread its last tasks.
  for (std::thread& thread : overtaking_) thread.join();
  thread_.reset();
  LeaveWatch();
  if (done_ != nullptr) device_.driver().cuEventDestroy(done_);
}

void Communicator::LookForFailure() {
  if (failure_reported_) return;
  NcclOutcome outcome;
  {
    const MutexLock lock(asking_);
    NcclCommunicator* const handle = handle_.load();
    if (handle == nullptr || aborted()) return;
    int error = nccl::kSuccess;
    int result = library_->functions().ncclCommGetAsyncError(handle, &error);
    if (result == nccl::kSuccess) result = error;
    if (result == nccl::kSuccess || result == nccl::kInProgress) return;
    outcome = Outcome(result);
  }
  ReportFailure(std::move(outcome));
}

void Communicator::ReportFailure(NcclOutcome outcome) {
  if (!failure_reported_.exchange(true)) failed_(std::move(outcome));
}

// --- Liveness of ranks.

void Communicator::WatchRanks(std::shared_ptr<Watch> watch, const WatchGroup& group) {
  if (watch == nullptr) return;
  {
    const MutexLock lock(work_);
    watched_ = true;
  }
  const std::uint64_t number =
      watch->OnLost([this, group, at = watch.get()](int rank, const std::string& problem) {
        if (at->IsMember(group, rank)) OnLost(problem);
      });
  const MutexLock lock(watch_mutex_);
  watch_ = std::move(watch);
  group_ = group;
  listens_ = number;
}

std::shared_ptr<Watch> Communicator::OwnWatch() {
  const MutexLock lock(watch_mutex_);
  return watch_;
}

void Communicator::LeaveWatch() {
  std::shared_ptr<Watch> watch;
  std::uint64_t listener = 0;
  {
    const MutexLock lock(watch_mutex_);
    watch = std::move(watch_);
    listener = std::exchange(listens_, 0);
  }
  if (watch != nullptr && listener != 0) watch->Forget(listener);
}

void Communicator::OnLost(const std::string& problem) {
  if (const Status status = device_.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  {
    const MutexLock lock(work_);
    // A split or shrink in NCCL may be waiting for the lost rank.
    if (making_ != nullptr) making_->ReportFailure({nccl::kRemoteError, problem});
    if (!lost_.empty()) return;
    lost_ = problem;
    // All work with the rank is complete; only later calls will fail.
    if (!Busy()) return;
  }
  if (!aborted()) ReportFailure({nccl::kRemoteError, problem});
}

bool Communicator::Busy() {
  return calling_ != 0 ||
         (done_ != nullptr && device_.driver().cuEventQuery(done_) == CUDA_ERROR_NOT_READY);
}

NcclOutcome Communicator::Enter() {
  const MutexLock lock(work_);
  if (aborted()) return Aborted();
  if (!lost_.empty()) return {nccl::kRemoteError, lost_};
  ++calling_;
  return {};
}

void Communicator::Leave() {
  {
    const MutexLock lock(work_);
    --calling_;
  }
  left_.notify_all();
}

NcclOutcome Communicator::Outcome(int result) const {
  if (result == nccl::kSuccess) return {};
  const char* text = library_->functions().ncclGetLastError(handle_.load());
  std::string problem = text != nullptr ? text : "";
  if (problem.empty()) {
    text = library_->functions().ncclGetErrorString(result);
    problem = text != nullptr ? text : "";
  }
  return {result, std::move(problem)};
}

NcclOutcome Communicator::Settle(int result) {
  // Ends when NCCL does, or by an abort. The end of the process does not wait for it.
  while (result == nccl::kInProgress) {
    std::this_thread::sleep_for(kPollsForEnd);
    const MutexLock lock(asking_);
    NcclCommunicator* const handle = handle_.load();
    if (aborted() || handle == nullptr) return Aborted();
    int error = nccl::kSuccess;
    result = library_->functions().ncclCommGetAsyncError(handle, &error);
    if (result == nccl::kSuccess) result = error;
  }
  return aborted() ? Aborted() : Outcome(result);
}

// Called after a function has created this communicator.
NcclOutcome Communicator::Adopt(NcclCommunicator* handle, int result) {
  handle_.store(handle);
  // Abort did not know the handle if the creation was blocking.
  if (aborted() && handle_.exchange(nullptr) != nullptr)
    library_->functions().ncclCommAbort(handle);
  NcclOutcome outcome = Settle(result);
  if (outcome.result != nccl::kSuccess) return outcome;
  result = library_->functions().ncclCommCount(handle, &size_);
  if (result == nccl::kSuccess) result = library_->functions().ncclCommUserRank(handle, &rank_);
  return Outcome(result);
}

// --- Creation.

NcclOutcome Communicator::Join(const Result<std::unique_ptr<NcclLibrary>>& library,
                               const CommunicatorJoin& wanted) {
  NcclOutcome outcome = Meet(library, wanted);
  if (outcome.result == nccl::kSuccess) return outcome;
  // The other ranks wait for this one: notify them.
  if (const std::shared_ptr<Watch> watch = OwnWatch()) watch->GiveUp();
  LeaveWatch();
  return outcome;
}

NcclOutcome Communicator::Meet(const Result<std::unique_ptr<NcclLibrary>>& library,
                               const CommunicatorJoin& wanted) {
  const int size = static_cast<int>(wanted.size);
  const int rank = static_cast<int>(wanted.rank);
  std::vector<nccl::UniqueId> ids;
  std::shared_ptr<Watch> watch;
  for (RankId id : wanted.ids) {
    const std::optional<LivenessAddress> place = ExtractLivenessAddress(id);
    ids.push_back(IdOf(id));
    // All ids have a liveness server; one is enough.
    if (ids.size() != 1 || !place) continue;
    Result<std::shared_ptr<Watch>> joined =
        Watch::Join(*place, rank, size, library.ok() ? (*library)->version() : 0);
    if (!joined.ok()) return {nccl::kSystemError, joined.status().message()};
    watch = std::move(*joined);
  }
  {
    // Set before waiting: Abort interrupts it.
    const MutexLock lock(watch_mutex_);
    watch_ = watch;
    founded_.store(true);
  }
  if (!library.ok()) return {nccl::kSystemError, library.status().message()};
  library_ = library->get();
  blocking_ = wanted.settings.blocking;
  if (aborted()) return Aborted();
  if (watch != nullptr) {
    if (const Status here = watch->AwaitAll(); !here.ok())
      return {
          here.code() == StatusCode::kInvalid ? int{nccl::kInvalidUsage} : int{nccl::kRemoteError},
          here.message()};
    WatchRanks(watch, {});
  }
  return Inside([&]() -> NcclOutcome {
    nccl::Config config = ConfigOf(wanted.settings, library_->version());
    const NcclFunctions& functions = library_->functions();
    NcclCommunicator* handle = nullptr;
    int result = nccl::kSuccess;
    if (ids.size() == 1) {
      result = functions.ncclCommInitRankConfig(&handle, size, ids.front(), rank, &config);
    } else if (functions.ncclCommInitRankScalable != nullptr) {
      result = functions.ncclCommInitRankScalable(&handle, size, rank, static_cast<int>(ids.size()),
                                                  ids.data(), &config);
    } else {
      return Lacks(*library_, "ncclCommInitRankScalable");
    }
    if (result != nccl::kSuccess && result != nccl::kInProgress) return Outcome(result);
    return Adopt(handle, result);
  });
}

NcclOutcome Communicator::Split(const CommunicatorSplit& wanted, Communicator* part) {
  const auto split = [&](NcclCommunicator** made, nccl::Config* config) {
    return library_->functions().ncclCommSplit(handle_.load(), wanted.color, wanted.key, made,
                                               wanted.inherit ? nullptr : config);
  };
  return MakePart(part, wanted.color, true, wanted.inherit, wanted.settings, split);
}

NcclOutcome Communicator::Shrink(const CommunicatorShrink& wanted, Communicator* part) {
  if (library_ != nullptr && library_->functions().ncclCommShrink == nullptr)
    return Lacks(*library_, "ncclCommShrink");
  std::vector<int> excluded(wanted.excluded.begin(), wanted.excluded.end());
  const auto shrink = [&](NcclCommunicator** made, nccl::Config* config) {
    return library_->functions().ncclCommShrink(handle_.load(), excluded.data(),
                                                static_cast<int>(excluded.size()), made,
                                                wanted.inherit ? nullptr : config, wanted.flags);
  };
  {
    // Shrinking is the way to continue without lost ranks.
    const MutexLock lock(work_);
    lost_.clear();
  }
  return MakePart(part, 0, false, wanted.inherit, wanted.settings, shrink);
}

// make(NcclCommunicator**, nccl::Config*) returns an ncclResult_t. Ranks of the same colour form a
// communicator. `by_all`: fails if a rank is lost before taking part.
template <typename Function>
NcclOutcome Communicator::MakePart(Communicator* part, int color, bool by_all, bool inherit,
                                   const CommunicatorSettings& settings, Function&& make) {
  if (handle_.load() == nullptr) return Aborted();
  const std::shared_ptr<Watch> watch = OwnWatch();
  // Equal at all ranks, since they create parts in the same order.
  WatchGroup group{(group_.key ^ ++parts_) * 0x9e3779b97f4a7c15ULL, color};
  return Inside([&]() -> NcclOutcome {
    nccl::Config config = ConfigOf(settings, library_->version());
    if (part == nullptr) return Make(make, &config, nullptr);
    if (watch != nullptr) watch->Announce(group);
    part->library_ = library_;
    part->blocking_ = inherit ? blocking_ : settings.blocking;
    part->WatchRanks(watch, group);
    return part->Inside([&]() -> NcclOutcome {
      NcclOutcome outcome = Make(make, &config, by_all ? part : nullptr);
      if (outcome.result != nccl::kSuccess) return outcome;
      if (made_ == nullptr) return {nccl::kInternalError, "NCCL created no communicator"};
      return part->Adopt(made_, part->blocking_ ? nccl::kSuccess : nccl::kInProgress);
    });
  });
}

// Waits for completion, also for a nonblocking communicator. In this case NCCL returns kSuccess at
// once, and a thread of NCCL sets made_ later.
template <typename Function>
NcclOutcome Communicator::Make(Function&& make, nccl::Config* config, Communicator* part) {
  made_ = nullptr;
  {
    const MutexLock lock(work_);
    making_ = part;
  }
  int result = make(&made_, config);
  if (result == nccl::kSuccess && !blocking_) result = nccl::kInProgress;
  NcclOutcome outcome = Settle(result);
  const MutexLock lock(work_);
  making_ = nullptr;
  return outcome;
}

// --- End.

NcclOutcome Communicator::Finalize() {
  if (handle_.load() == nullptr) return Aborted();
  {
    // A rank lost after its last operation does not matter any more.
    const MutexLock lock(work_);
    if (!lost_.empty() && !Busy()) return {};
  }
  return Inside([&] { return Settle(library_->functions().ncclCommFinalize(handle_.load())); });
}

NcclOutcome Communicator::Destroy() {
  // Notify the others first: this may be the last action of the process.
  LeaveWatch();
  NcclCommunicator* handle = nullptr;
  {
    const MutexLock lock(asking_);
    if (aborted()) return {};
    handle = handle_.exchange(nullptr);
  }
  if (handle == nullptr) return {};
  return Outcome(library_->functions().ncclCommDestroy(handle));
}

void Communicator::Overtake(std::function<void()> task) {
  try {
    // A new thread each time: earlier ones may wait for long.
    overtaking_.emplace_back([this, task] {
      if (const Status status = device_.MakeCurrent(); !status.ok())
        LogError("{}", status.message());
      task();
    });
  } catch (const std::system_error& error) {
    LogWarn("cannot start a thread to interrupt NCCL's calls: {}", error.what());
    thread_->Run(std::move(task));
  }
}

void Communicator::Abort(std::function<void(NcclOutcome)> then) {
  {
    const MutexLock lock(work_);
    aborted_.store(true);
  }
  const std::shared_ptr<Watch> watch = OwnWatch();
  if (watch != nullptr && founded_.load()) watch->GiveUp();
  Overtake([this, then = std::move(then)] {
    {
      // No new calls of NCCL begin; give calls in progress time to return.
      MutexLock lock(work_);
      left_.wait_for(lock, kTimeToLeave, [this]() CUSPAN_REQUIRES(work_) { return calling_ == 0; });
    }
    NcclCommunicator* handle = nullptr;
    {
      // Other threads use the handle only with asking_ held; afterwards it is null.
      const MutexLock lock(asking_);
      handle = handle_.exchange(nullptr);
    }
    then(handle == nullptr ? NcclOutcome() : Outcome(library_->functions().ncclCommAbort(handle)));
  });
}

void Communicator::Revoke(std::function<void(NcclOutcome)> then) {
  Overtake([this, then = std::move(then)] {
    {
      const MutexLock lock(work_);
      if (aborted() || handle_.load() == nullptr) return then(Aborted());
      ++calling_;
    }
    NcclCommunicator* const handle = handle_.load();
    const bool known = library_->functions().ncclCommRevoke != nullptr;
    NcclOutcome outcome = known ? Settle(library_->functions().ncclCommRevoke(handle, 0))
                                : Lacks(*library_, "ncclCommRevoke");
    Leave();
    then(std::move(outcome));
  });
}

}  // namespace cuspan::proxy
