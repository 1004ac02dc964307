#include "tests/unit/proxy/loopback/fake_nccl.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace cuspan::proxy {
namespace {

constexpr std::chrono::seconds kTimeLimit{20};

// Number of the calling thread's group; 0 outside.
thread_local std::uint64_t current_group = 0;
thread_local int group_depth = 0;

}  // namespace

// ncclComm_t of this library.
struct FakeNcclCommunicator {
  // Communicators created together.
  struct Family {
    struct Choice {
      int color = 0;
      int key = 0;
    };
    std::vector<std::map<int, Choice>> splits;  // Choices of the ranks, by split.
    std::map<std::pair<std::size_t, int>, std::shared_ptr<Family>> parts;  // Key: split, color.
  };

  std::shared_ptr<Family> family;
  int size = 0;
  int rank = 0;
  bool blocking = true;
  bool ended = false;
  std::size_t splits = 0;
  std::string started;       // Last function started for a nonblocking communicator.
  std::set<int> operations;  // Created by the program.
};

struct FakeNccl::State {
  using Communicator = FakeNcclCommunicator;
  using Family = Communicator::Family;

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<NcclCall> calls;
  std::map<std::string, int> refusals;
  std::set<std::string> held;
  int failure = nccl::kSuccess;
  std::string problem;
  std::map<Communicator*, std::shared_ptr<Communicator>> communicators;
  std::map<std::string, std::weak_ptr<Family>> families;  // Key: id.
  std::uint64_t ids = 0;
  std::uint64_t groups = 0;
  int operations = nccl::kReduceOps;
  // Parts of held splits of nonblocking communicators, created by Let.
  struct Part {
    Communicator* whole;
    std::function<void()> make;
  };
  std::vector<Part> parts;

  // Records the call and returns the result set by the test. The lock is `mutex`'s.
  int Record(NcclCall call) {
    call.group = current_group;
    const auto refusal = refusals.find(call.function);
    const int result = refusal != refusals.end() ? refusal->second : int{nccl::kSuccess};
    calls.push_back(std::move(call));
    changed.notify_all();
    return result;
  }
  // The same, for a call of an existing communicator.
  int RecordOf(const Communicator& communicator, NcclCall call) {
    call.size = communicator.size;
    call.rank = communicator.rank;
    return Record(std::move(call));
  }
  // Waits while the function is held and the communicator exists, if it is blocking.
  int Finish(std::unique_lock<std::mutex>& lock, Communicator& communicator,
             const std::string& function) {
    if (!communicator.blocking) {
      communicator.started = function;
      return held.contains(function) ? nccl::kInProgress : nccl::kSuccess;
    }
    changed.wait(lock, [&] { return !held.contains(function) || communicator.ended; });
    return communicator.ended ? nccl::kInvalidUsage : nccl::kSuccess;
  }
  std::shared_ptr<Communicator> Add(std::shared_ptr<Family> family, int size, int rank,
                                    bool blocking) {
    auto made = std::make_shared<Communicator>();
    made->family = std::move(family);
    made->size = size;
    made->rank = rank;
    made->blocking = blocking;
    communicators[made.get()] = made;
    changed.notify_all();
    return made;
  }
  int Join(Communicator** made, const char* function, int size, const std::string& id, int rank,
           const nccl::Config* config) {
    std::unique_lock lock(mutex);
    NcclCall call{function, size, rank};
    call.configured = config != nullptr;
    if (config != nullptr)
      std::memcpy(static_cast<void*>(&call.config), config,
                  std::min(config->size, sizeof(call.config)));
    const bool blocking = call.config.blocking != 0;
    if (const int refused = Record(std::move(call)); refused != nccl::kSuccess) return refused;
    std::shared_ptr<Family> family = families[id].lock();
    if (family == nullptr) families[id] = family = std::make_shared<Family>();
    const auto communicator = Add(std::move(family), size, rank, blocking);
    *made = communicator.get();
    return Finish(lock, *communicator, function);
  }
  int Split(Communicator* handle, int color, int key, Communicator** made,
            const nccl::Config* config) {
    std::unique_lock lock(mutex);
    const std::shared_ptr<Communicator> whole = communicators.at(handle);
    NcclCall call{"ncclCommSplit"};
    call.color = color;
    call.key = key;
    call.configured = config != nullptr;
    if (config != nullptr)
      std::memcpy(static_cast<void*>(&call.config), config,
                  std::min(config->size, sizeof(call.config)));
    const bool blocking = config != nullptr ? call.config.blocking != 0 : whole->blocking;
    if (const int refused = RecordOf(*whole, std::move(call)); refused != nccl::kSuccess)
      return refused;
    Family& family = *whole->family;
    const std::size_t number = whole->splits++;
    if (family.splits.size() <= number) family.splits.resize(number + 1);
    family.splits[number][whole->rank] = {color, key};
    changed.notify_all();
    changed.wait(lock, [&] {
      return whole->ended || family.splits[number].size() == static_cast<std::size_t>(whole->size);
    });
    if (whole->ended) return nccl::kInvalidUsage;
    if (color == nccl::kNoColor) return Finish(lock, *whole, "ncclCommSplit");
    std::vector<std::pair<int, int>> members;  // Key and former rank.
    for (const auto& [rank, choice] : family.splits[number])
      if (choice.color == color) members.emplace_back(choice.key, rank);
    std::sort(members.begin(), members.end());
    const auto own = std::find(members.begin(), members.end(), std::pair(key, whole->rank));
    std::shared_ptr<Family>& part = family.parts[{number, color}];
    if (part == nullptr) part = std::make_shared<Family>();
    const auto make = [this, made, part, size = static_cast<int>(members.size()),
                       rank = static_cast<int>(own - members.begin()),
                       blocking] { *made = Add(part, size, rank, blocking).get(); };
    const int result = Finish(lock, *whole, "ncclCommSplit");
    if (result == nccl::kInProgress) parts.push_back({handle, make});
    if (result == nccl::kSuccess) make();
    return result;
  }
  // The ranks do not wait for each other.
  int Shrink(Communicator* handle, std::vector<int> excluded, Communicator** made) {
    std::unique_lock lock(mutex);
    const std::shared_ptr<Communicator> whole = communicators.at(handle);
    NcclCall call{"ncclCommShrink"};
    call.excluded = excluded;
    if (const int refused = RecordOf(*whole, std::move(call)); refused != nccl::kSuccess)
      return refused;
    const auto before = std::count_if(excluded.begin(), excluded.end(),
                                      [&](int rank) { return rank < whole->rank; });
    *made = Add(std::make_shared<Family>(), whole->size - static_cast<int>(excluded.size()),
                whole->rank - static_cast<int>(before), whole->blocking)
                .get();
    return Finish(lock, *whole, "ncclCommShrink");
  }
  // `frees`: the communicator does not exist afterwards.
  int End(const char* function, Communicator* handle, bool frees) {
    std::unique_lock lock(mutex);
    const std::shared_ptr<Communicator> communicator = communicators.at(handle);
    const int refused = RecordOf(*communicator, {function});
    if (frees) {
      communicator->ended = true;
      communicators.erase(handle);
      std::erase_if(parts, [&](const Part& part) { return part.whole == handle; });
      changed.notify_all();
      return refused;
    }
    return refused != nccl::kSuccess ? refused : Finish(lock, *communicator, function);
  }
  int Do(Communicator* handle, NcclCall call) {
    const std::scoped_lock lock(mutex);
    const bool known = call.operation < nccl::kReduceOps ||
                       communicators.at(handle)->operations.contains(call.operation);
    const int refused = RecordOf(*communicators.at(handle), std::move(call));
    return known ? refused : int{nccl::kInvalidArgument};
  }
};

FakeNccl::FakeNccl() : state_(new State) {}

FakeNccl& FakeNccl::Instance() {
  static auto* const instance = new FakeNccl;
  return *instance;
}

std::string FakeNccl::Path() {
  Dl_info info;
  return ::dladdr(reinterpret_cast<const void*>(&FakeNccl::Path), &info) != 0 ? info.dli_fname : "";
}

void FakeNccl::Reset() {
  const std::scoped_lock lock(state_->mutex);
  state_->calls.clear();
  state_->refusals.clear();
  state_->held.clear();
  state_->failure = nccl::kSuccess;
  state_->problem.clear();
  state_->changed.notify_all();
}

void FakeNccl::Refuse(const std::string& function, int result, const std::string& problem) {
  const std::scoped_lock lock(state_->mutex);
  state_->refusals[function] = result;
  state_->problem = problem;
}

void FakeNccl::Hold(const std::string& function) {
  const std::scoped_lock lock(state_->mutex);
  state_->held.insert(function);
}

void FakeNccl::Let(const std::string& function) {
  const std::scoped_lock lock(state_->mutex);
  state_->held.erase(function);
  if (function == "ncclCommSplit")
    for (const State::Part& part : std::exchange(state_->parts, {})) part.make();
  state_->changed.notify_all();
}

void FakeNccl::Fail(int result) {
  const std::scoped_lock lock(state_->mutex);
  state_->failure = result;
}

std::vector<NcclCall> FakeNccl::Calls(const std::string& function) const {
  const std::scoped_lock lock(state_->mutex);
  std::vector<NcclCall> found;
  for (const NcclCall& call : state_->calls)
    if (function.empty() || call.function == function) found.push_back(call);
  return found;
}

bool FakeNccl::WaitForCalls(const std::string& function, std::size_t count) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, kTimeLimit, [&] {
    return static_cast<std::size_t>(std::count_if(
               state_->calls.begin(), state_->calls.end(),
               [&](const NcclCall& call) { return call.function == function; })) >= count;
  });
}

bool FakeNccl::WaitForCommunicators(std::size_t count) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, kTimeLimit,
                                  [&] { return state_->communicators.size() == count; });
}

}  // namespace cuspan::proxy

// --- The library.

namespace {

using cuspan::nccl::Config;
using cuspan::nccl::UniqueId;
using cuspan::proxy::FakeNccl;
using cuspan::proxy::NcclCall;
using Communicator = cuspan::proxy::FakeNcclCommunicator;

FakeNccl::State& TheState() { return FakeNccl::Instance().state(); }

}  // namespace

#define FAKE_NCCL_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_NCCL_EXPORT int ncclGetVersion(int* version) {
  *version = FakeNccl::kVersion;
  return cuspan::nccl::kSuccess;
}

FAKE_NCCL_EXPORT const char* ncclGetErrorString(int) { return "an error of the test"; }

FAKE_NCCL_EXPORT const char* ncclGetLastError(Communicator*) {
  thread_local std::string kept;
  const std::scoped_lock lock(TheState().mutex);
  kept = TheState().problem;
  return kept.c_str();
}

FAKE_NCCL_EXPORT int ncclGetUniqueId(UniqueId* id) {
  FakeNccl::State& state = TheState();
  const std::scoped_lock lock(state.mutex);
  *id = {};
  ++state.ids;
  std::memcpy(id->bytes, &state.ids, sizeof(state.ids));
  return state.Record({"ncclGetUniqueId"});
}

FAKE_NCCL_EXPORT int ncclCommInitRankConfig(Communicator** made, int size, UniqueId id, int rank,
                                            Config* config) {
  return TheState().Join(made, "ncclCommInitRankConfig", size,
                         std::string(id.bytes, sizeof(id.bytes)), rank, config);
}

FAKE_NCCL_EXPORT int ncclCommInitRankScalable(Communicator** made, int size, int rank, int count,
                                              UniqueId* ids, Config* config) {
  std::string all;
  for (int i = 0; i < count; ++i) all.append(ids[i].bytes, sizeof(ids[i].bytes));
  return TheState().Join(made, "ncclCommInitRankScalable", size, all, rank, config);
}

FAKE_NCCL_EXPORT int ncclCommSplit(Communicator* whole, int color, int key, Communicator** made,
                                   Config* config) {
  return TheState().Split(whole, color, key, made, config);
}

FAKE_NCCL_EXPORT int ncclCommShrink(Communicator* whole, int* excluded, int count,
                                    Communicator** made, Config*, int) {
  return TheState().Shrink(whole, std::vector<int>(excluded, excluded + count), made);
}

FAKE_NCCL_EXPORT int ncclCommFinalize(Communicator* communicator) {
  return TheState().End("ncclCommFinalize", communicator, false);
}

FAKE_NCCL_EXPORT int ncclCommDestroy(Communicator* communicator) {
  return TheState().End("ncclCommDestroy", communicator, true);
}

FAKE_NCCL_EXPORT int ncclCommAbort(Communicator* communicator) {
  return TheState().End("ncclCommAbort", communicator, true);
}

FAKE_NCCL_EXPORT int ncclCommRevoke(Communicator* communicator, int) {
  return TheState().End("ncclCommRevoke", communicator, false);
}

FAKE_NCCL_EXPORT int ncclCommGetAsyncError(Communicator* communicator, int* error) {
  const FakeNccl::State& state = TheState();
  const std::scoped_lock lock(state.mutex);
  *error = state.held.contains(state.communicators.at(communicator)->started)
               ? int{cuspan::nccl::kInProgress}
               : state.failure;
  return cuspan::nccl::kSuccess;
}

FAKE_NCCL_EXPORT int ncclCommCount(Communicator* communicator, int* count) {
  *count = communicator->size;
  return cuspan::nccl::kSuccess;
}

FAKE_NCCL_EXPORT int ncclCommUserRank(Communicator* communicator, int* rank) {
  *rank = communicator->rank;
  return cuspan::nccl::kSuccess;
}

FAKE_NCCL_EXPORT int ncclRedOpCreatePreMulSum(int* operation, void* factor, int type, int residence,
                                              Communicator* communicator) {
  FakeNccl::State& state = TheState();
  const std::scoped_lock lock(state.mutex);
  NcclCall call{"ncclRedOpCreatePreMulSum"};
  call.type = type;
  call.residence = residence;
  if (residence == cuspan::nccl::kScalarHostImmediate)
    std::memcpy(&call.factor, factor,
                std::min(cuspan::nccl::ElementBytes(type), sizeof(call.factor)));
  else
    call.send = factor;
  call.operation = *operation = ++state.operations;
  communicator->operations.insert(*operation);
  return state.RecordOf(*communicator, std::move(call));
}

FAKE_NCCL_EXPORT int ncclRedOpDestroy(int operation, Communicator* communicator) {
  FakeNccl::State& state = TheState();
  const std::scoped_lock lock(state.mutex);
  NcclCall call{"ncclRedOpDestroy"};
  call.operation = operation;
  const int refused = state.RecordOf(*communicator, std::move(call));
  return communicator->operations.erase(operation) == 1 ? refused
                                                        : int{cuspan::nccl::kInvalidArgument};
}

FAKE_NCCL_EXPORT int ncclAllReduce(const void* send, void* receive, std::size_t count, int type,
                                   int operation, Communicator* communicator, void* stream) {
  return TheState().Do(communicator, {.function = "ncclAllReduce",
                                      .send = send,
                                      .receive = receive,
                                      .count = count,
                                      .type = type,
                                      .operation = operation,
                                      .stream = stream});
}

FAKE_NCCL_EXPORT int ncclReduce(const void* send, void* receive, std::size_t count, int type,
                                int operation, int root, Communicator* communicator, void* stream) {
  return TheState().Do(communicator, {.function = "ncclReduce",
                                      .send = send,
                                      .receive = receive,
                                      .count = count,
                                      .type = type,
                                      .operation = operation,
                                      .peer = root,
                                      .stream = stream});
}

FAKE_NCCL_EXPORT int ncclReduceScatter(const void* send, void* receive, std::size_t count, int type,
                                       int operation, Communicator* communicator, void* stream) {
  return TheState().Do(communicator, {.function = "ncclReduceScatter",
                                      .send = send,
                                      .receive = receive,
                                      .count = count,
                                      .type = type,
                                      .operation = operation,
                                      .stream = stream});
}

// Functions with a root, without an operation.
#define FAKE_NCCL_ROOTED(name)                                                            \
  FAKE_NCCL_EXPORT int name(const void* send, void* receive, std::size_t count, int type, \
                            int root, Communicator* communicator, void* stream) {         \
    return TheState().Do(communicator, {.function = #name,                                \
                                        .send = send,                                     \
                                        .receive = receive,                               \
                                        .count = count,                                   \
                                        .type = type,                                     \
                                        .peer = root,                                     \
                                        .stream = stream});                               \
  }
FAKE_NCCL_ROOTED(ncclBroadcast)
FAKE_NCCL_ROOTED(ncclGather)
FAKE_NCCL_ROOTED(ncclScatter)

// Functions without a root and an operation.
#define FAKE_NCCL_PLAIN(name)                                                             \
  FAKE_NCCL_EXPORT int name(const void* send, void* receive, std::size_t count, int type, \
                            Communicator* communicator, void* stream) {                   \
    return TheState().Do(communicator, {.function = #name,                                \
                                        .send = send,                                     \
                                        .receive = receive,                               \
                                        .count = count,                                   \
                                        .type = type,                                     \
                                        .stream = stream});                               \
  }
FAKE_NCCL_PLAIN(ncclAllGather)
FAKE_NCCL_PLAIN(ncclAlltoAll)

FAKE_NCCL_EXPORT int ncclSend(const void* send, std::size_t count, int type, int peer,
                              Communicator* communicator, void* stream) {
  return TheState().Do(communicator, {.function = "ncclSend",
                                      .send = send,
                                      .count = count,
                                      .type = type,
                                      .peer = peer,
                                      .stream = stream});
}

FAKE_NCCL_EXPORT int ncclRecv(void* receive, std::size_t count, int type, int peer,
                              Communicator* communicator, void* stream) {
  return TheState().Do(communicator, {.function = "ncclRecv",
                                      .receive = receive,
                                      .count = count,
                                      .type = type,
                                      .peer = peer,
                                      .stream = stream});
}

FAKE_NCCL_EXPORT int ncclGroupStart() {
  FakeNccl::State& state = TheState();
  const std::scoped_lock lock(state.mutex);
  if (cuspan::proxy::group_depth++ == 0) cuspan::proxy::current_group = ++state.groups;
  return cuspan::nccl::kSuccess;
}

FAKE_NCCL_EXPORT int ncclGroupEnd() {
  FakeNccl::State& state = TheState();
  const std::scoped_lock lock(state.mutex);
  if (--cuspan::proxy::group_depth == 0) cuspan::proxy::current_group = 0;
  return state.Record({"ncclGroupEnd"});
}
