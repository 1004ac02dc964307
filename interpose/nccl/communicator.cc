// Communicators: creation, queries and destruction.
#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "interpose/load/load.h"
#include "interpose/nccl/entry.h"

namespace cuspan::nccl {
namespace {

// Maximum number of ids fitting into a frame.
constexpr int kMaxIds = 128;

ncclComm* HandleOf(const Communicator& communicator) {
  return cuspan::HandleOf<ncclComm*>(communicator.number);
}

// Hash of the ids to distinguish communicators: FNV-1a.
std::uint64_t Mix(std::uint64_t hash, const void* data, std::size_t bytes) {
  const auto* const at = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3ULL;
  return hash;
}
constexpr std::uint64_t kHashStart = 0xcbf29ce484222325ULL;

// First release with the member of a configuration at `offset`.
int ReleaseOf(std::size_t offset) {
  if (offset >= offsetof(Config, channels_per_net_peer)) return VersionCode(2, 28, 0);
  if (offset >= offsetof(Config, comm_name)) return VersionCode(2, 27, 0);
  if (offset >= offsetof(Config, traffic_class)) return VersionCode(2, 26, 0);
  if (offset >= offsetof(Config, split_share)) return VersionCode(2, 18, 0);
  if (offset >= offsetof(Config, cga_cluster_size)) return VersionCode(2, 17, 0);
  return VersionCode(2, 14, 0);
}

// The member, if the program's version of the structure has it, else `otherwise`, the value for
// "not set". The size is not enough: a member may be in the padding of an earlier structure.
template <typename Member>
Member MemberOf(const Config& config, Member Config::*member, Member otherwise) {
  const auto* const start = reinterpret_cast<const char*>(&config);
  const auto* const at = reinterpret_cast<const char*>(&(config.*member));
  const auto offset = static_cast<std::size_t>(at - start);
  const bool has = offset + sizeof(Member) <= config.size &&
                   static_cast<int>(config.version) >= ReleaseOf(offset);
  return has ? config.*member : otherwise;
}

std::int32_t NumberOf(const Config& config, int Config::*member) {
  return MemberOf(config, member, int{kUndefined});
}

std::string TextOf(const Config& config, const char* Config::*member) {
  const char* const text = MemberOf<const char*>(config, member, nullptr);
  // The texts are names of files and networks.
  constexpr std::size_t kMaxText = 1024;
  return text != nullptr ? std::string(text, ::strnlen(text, kMaxText)) : "";
}

// Returns kSuccess or an error. The proxies' NCCL checks the members it uses.
int CheckConfig(const Config* config) {
  if (config == nullptr) return kSuccess;
  if (config->magic != kConfigMagic || config->size < sizeof(int) * 5)
    return Refuse(kInvalidArgument, "the configuration was not made by NCCL_CONFIG_INITIALIZER");
  const std::int32_t blocking = NumberOf(*config, &Config::blocking);
  if (blocking != kUndefined && blocking != 0 && blocking != 1)
    return Refuse(kInvalidArgument, Format("the configuration has blocking {}", blocking));
  return kSuccess;
}

CommunicatorSettings SettingsOf(const Config* given, bool blocking) {
  CommunicatorSettings settings;
  const Config nothing;
  const Config& config = given != nullptr ? *given : nothing;
  settings.blocking = blocking;
  settings.cluster_blocks = NumberOf(config, &Config::cga_cluster_size);
  settings.least_blocks = NumberOf(config, &Config::min_ctas);
  settings.most_blocks = NumberOf(config, &Config::max_ctas);
  settings.network = TextOf(config, &Config::net_name);
  settings.split_share = NumberOf(config, &Config::split_share);
  settings.traffic_class = NumberOf(config, &Config::traffic_class);
  settings.name = TextOf(config, &Config::comm_name);
  settings.collnet = NumberOf(config, &Config::collnet_enable);
  settings.block_policy = NumberOf(config, &Config::cta_policy);
  settings.shrink_share = NumberOf(config, &Config::shrink_share);
  settings.nvls_blocks = NumberOf(config, &Config::nvls_ctas);
  settings.peer_channels = NumberOf(config, &Config::channels_per_net_peer);
  settings.nvlink_centric = NumberOf(config, &Config::nvlink_centric_sched);
  return settings;
}

bool IsBlocking(const Config* config, bool otherwise) {
  if (config == nullptr) return otherwise;
  const std::int32_t blocking = NumberOf(*config, &Config::blocking);
  return blocking == kUndefined ? otherwise : blocking != 0;
}

int End(const Communicator& communicator, const std::shared_ptr<ContextConnection>& connection,
        Ending how) {
  CommunicatorEnd op;
  op.communicator = communicator.number;
  op.how = static_cast<std::uint32_t>(how);
  return ResultOf(Error(connection->Send(op)));
}

// Waits until the communicator is created, if it is blocking. Inside a group, this happens at its
// end. `whole`: the communicator of a split or shrink, or null. Programs poll it if both are
// nonblocking.
int AwaitJoined(Session& session, const std::shared_ptr<Communicator>& made, ncclComm** handle,
                const std::shared_ptr<Communicator>& whole = nullptr) {
  *handle = HandleOf(*made);
  const auto give_up = [&session, made, handle] {
    *handle = nullptr;
    if (!made->end.Begin()) return;
    const std::shared_ptr<ContextConnection> connection =
        session.devices().ConnectionNumbered(made->connection);
    if (connection != nullptr) static_cast<void>(End(*made, connection, Ending::kAbort));
    session.communicators().Remove(made->number);
  };
  return Group::OfThisThread().Await(
      [made, whole, give_up]() -> int {
        if (!made->blocking) {
          if (whole != nullptr && !whole->blocking) made->JoinFor(whole);
          return kInProgress;
        }
        const Communicator::State state = made->AwaitJoined();
        if (state.result == kSuccess) return kSuccess;
        give_up();
        return ResultOf(state);
      },
      give_up);
}

int Join(Session& session, ncclComm** handle, int size, std::span<const UniqueId> ids, int rank,
         const Config* config) {
  if (handle == nullptr) return Refuse(kInvalidArgument, "the pointer to the communicator is null");
  *handle = nullptr;
  if (size < 1 || rank < 0 || rank >= size)
    return Refuse(kInvalidArgument, Format("no rank {} in a communicator of {}", rank, size));
  if (const int checked = CheckConfig(config); checked != kSuccess) return checked;
  std::shared_ptr<ContextConnection> connection;
  Error error = session.devices().OpenCurrent(&connection);
  if (error.failed()) return ResultOf(error);
  CommunicatorJoin op;
  std::uint64_t family = kHashStart;
  for (const UniqueId& id : ids) {
    std::memcpy(op.ids.emplace_back().bytes.data(), id.bytes, sizeof(id.bytes));
    family = Mix(family, id.bytes, sizeof(id.bytes));
  }
  const bool blocking = IsBlocking(config, true);
  const auto made = session.communicators().Add(family, *connection, blocking);
  op.communicator = made->number;
  op.path = ProgramsNccl();
  op.size = static_cast<std::uint32_t>(size);
  op.rank = static_cast<std::uint32_t>(rank);
  op.settings = SettingsOf(config, blocking);
  error = connection->Send(op);
  if (error.failed()) {
    session.communicators().Remove(made->number);
    return ResultOf(error);
  }
  return AwaitJoined(session, made, handle);
}

// Ranks joining the same part pass the same `which`.
std::shared_ptr<Communicator> AddPart(Session& session, Communicator& whole,
                                      const ContextConnection& connection, const Config* config,
                                      std::int64_t which) {
  const std::uint32_t number = whole.NextPart();
  std::uint64_t family = Mix(whole.family, &number, sizeof(number));
  family = Mix(family, &which, sizeof(which));
  return session.communicators().Add(family, connection, IsBlocking(config, whole.blocking));
}

int Split(Session& session, const std::shared_ptr<Communicator>& whole,
          const std::shared_ptr<ContextConnection>& connection, int color, int key,
          ncclComm** handle, const Config* config) {
  if (handle == nullptr) return Refuse(kInvalidArgument, "the pointer to the communicator is null");
  *handle = nullptr;
  if (const int checked = CheckConfig(config); checked != kSuccess) return checked;
  if (color < kNoColor) return Refuse(kInvalidArgument, Format("invalid color {}", color));
  if (const Communicator::State now = whole->Now(); now.result != kSuccess)
    return now.result == kInProgress ? RefuseUnready() : ResultOf(now);
  const auto part = AddPart(session, *whole, *connection, config, color);
  CommunicatorSplit op;
  op.communicator = whole->number;
  op.part = color == kNoColor ? 0 : part->number;
  op.color = color;
  op.key = key;
  op.inherit = config == nullptr;
  op.settings = SettingsOf(config, part->blocking);
  const Error error = connection->Send(op);
  if (error.failed() || color == kNoColor) session.communicators().Remove(part->number);
  if (error.failed()) return ResultOf(error);
  return color == kNoColor ? int{kSuccess} : AwaitJoined(session, part, handle, whole);
}

int Shrink(Session& session, const std::shared_ptr<Communicator>& whole,
           const std::shared_ptr<ContextConnection>& connection, std::span<const int> excluded,
           ncclComm** handle, const Config* config, int flags) {
  if (handle == nullptr) return Refuse(kInvalidArgument, "the pointer to the communicator is null");
  *handle = nullptr;
  if (const int checked = CheckConfig(config); checked != kSuccess) return checked;
  const auto part = AddPart(session, *whole, *connection, config, -1);
  CommunicatorShrink op;
  op.communicator = whole->number;
  op.part = part->number;
  op.excluded.assign(excluded.begin(), excluded.end());
  op.flags = flags;
  op.inherit = config == nullptr;
  op.settings = SettingsOf(config, part->blocking);
  const Error error = connection->Send(op);
  if (!error.failed()) return AwaitJoined(session, part, handle, whole);
  session.communicators().Remove(part->number);
  return ResultOf(error);
}

int RefuseFinalized() {
  return Refuse(kInvalidArgument, "the communicator has been finalized or revoked");
}

// Stores get(const Communicator&) in *number.
template <typename Get>
int ReportNumber(const ncclComm* handle, int* number, Get&& get) {
  return AnswerQuery([&](Session& session) -> int {
    return WithCommunicator(
        session, handle, [&](Session&, const std::shared_ptr<Communicator>& communicator) -> int {
          if (number == nullptr)
            return Refuse(kInvalidArgument, "the pointer to the result is null");
          // An existing communicator has numbers even after a failure.
          if (communicator->size() == 0) {
            if (const int ready = CheckReady(*communicator); ready != kSuccess) return ready;
          }
          *number = get(*communicator);
          return kSuccess;
        });
  });
}

}  // namespace
}  // namespace cuspan::nccl

using namespace cuspan;        // NOLINT: the entry points below are the C API.
using namespace cuspan::nccl;  // NOLINT: the same.

CUSPAN_EXPORT int ncclCommInitRankConfig(ncclComm** handle, int size, UniqueId id, int rank,
                                         Config* config) {
  return Answer([&](Session& session) {
    return Join(session, handle, size, {&id, 1}, rank, config);
  });
}

CUSPAN_EXPORT int ncclCommInitRank(ncclComm** handle, int size, UniqueId id, int rank) {
  return ncclCommInitRankConfig(handle, size, id, rank, nullptr);
}

CUSPAN_EXPORT int ncclCommInitRankScalable(ncclComm** handle, int size, int rank, int count,
                                           UniqueId* ids, Config* config) {
  return Answer([&](Session& session) {
    if (count < 1 || count > size || count > kMaxIds || ids == nullptr)
      return Refuse(kInvalidArgument, Format("cannot use {} ids for {} ranks", count, size));
    return Join(session, handle, size, {ids, static_cast<std::size_t>(count)}, rank, config);
  });
}

CUSPAN_EXPORT int ncclGetUniqueId(UniqueId* id);

CUSPAN_EXPORT int ncclCommInitAll(ncclComm** handles, int count, const int* devices) {
  return Answer([&](Session& session) {
    if (handles == nullptr || count < 1)
      return Refuse(kInvalidArgument, Format("cannot create {} communicators", count));
    const auto device_of = [&](int i) { return devices != nullptr ? devices[i] : i; };
    std::set<int> used;
    for (int i = 0; i < count; ++i) {
      if (!HasDevice(session, device_of(i)))
        return Refuse(kInvalidArgument, Format("there is no device {}", device_of(i)));
      if (!used.insert(device_of(i)).second)
        return Refuse(kInvalidUsage, Format("device {} is listed twice", device_of(i)));
    }
    ContextStack& current = ThisThread().contexts;
    Context* const before = current.top();
    Group& group = Group::OfThisThread();
    UniqueId id;
    int result = kSuccess;
    group.Start();
    for (int i = 0; i < count && result == kSuccess; ++i) {
      const int device = device_of(i);
      current.Set(&session.devices().Primary(device));
      if (i == 0) result = ncclGetUniqueId(&id);
      if (result == kSuccess) result = Join(session, handles + i, count, {&id, 1}, i, nullptr);
    }
    group.Note(result);
    result = group.End(session);
    if (before != nullptr)
      current.Set(before);
    else
      current.Pop();
    return result;
  });
}

CUSPAN_EXPORT int ncclCommSplit(ncclComm* handle, int color, int key, ncclComm** part,
                                Config* config) {
  return AnswerOnDevice(handle, [&](Session& session, const std::shared_ptr<Communicator>& whole,
                                    const std::shared_ptr<ContextConnection>& connection) {
    return Split(session, whole, connection, color, key, part, config);
  });
}

CUSPAN_EXPORT int ncclCommShrink(ncclComm* handle, int* excluded, int count, ncclComm** part,
                                 Config* config, int flags) {
  return AnswerOnDevice(handle, [&](Session& session, const std::shared_ptr<Communicator>& whole,
                                    const std::shared_ptr<ContextConnection>& connection) {
    if (excluded == nullptr || count < 1 || count >= whole->size())
      return Refuse(kInvalidArgument,
                    Format("cannot exclude {} of {} ranks", count, whole->size()));
    if (std::find(excluded, excluded + count, whole->rank()) != excluded + count)
      return Refuse(kInvalidArgument, Format("rank {} excludes itself", whole->rank()));
    return Shrink(session, whole, connection, {excluded, static_cast<std::size_t>(count)}, part,
                  config, flags);
  });
}

// Does not wait; the proxies finalize by themselves. A thread finalizing ranks on several devices
// in turn must not wait for the first one.
CUSPAN_EXPORT int ncclCommFinalize(ncclComm* handle) {
  if (handle == nullptr) return kSuccess;
  return AnswerOnDevice(handle, [&](Session&, const std::shared_ptr<Communicator>& communicator,
                                    const std::shared_ptr<ContextConnection>& connection) {
    if (const Communicator::State now = communicator->Now(); now.result != kSuccess)
      return now.result == kInProgress ? RefuseUnready() : ResultOf(now);
    if (!communicator->end.BeginFinalize()) return RefuseFinalized();
    communicator->Begin();
    const int result = End(*communicator, connection, Ending::kFinalize);
    return result == kSuccess && !communicator->blocking ? int{kInProgress} : result;
  });
}

CUSPAN_EXPORT int ncclCommDestroy(ncclComm* handle) {
  if (handle == nullptr) return kSuccess;
  return AnswerAbout(handle,
                     [&](Session& session, const std::shared_ptr<Communicator>& communicator) {
                       if (!communicator->end.Begin()) return RefuseUnknown();
                       session.communicators().Remove(communicator->number);
                       const std::shared_ptr<ContextConnection> connection =
                           session.devices().ConnectionNumbered(communicator->connection);
                       // A lost device has nothing left to destroy.
                       if (connection == nullptr || connection->fault() != CUDA_SUCCESS)
                         return int{kSuccess};
                       return End(*communicator, connection, Ending::kDestroy);
                     });
}

CUSPAN_EXPORT int ncclCommAbort(ncclComm* handle) {
  if (handle == nullptr) return kSuccess;
  return AnswerAbout(handle,
                     [&](Session& session, const std::shared_ptr<Communicator>& communicator) {
                       if (!communicator->end.Begin()) return RefuseUnknown();
                       const std::shared_ptr<ContextConnection> connection =
                           session.devices().ConnectionNumbered(communicator->connection);
                       if (connection != nullptr && connection->fault() == CUDA_SUCCESS &&
                           End(*communicator, connection, Ending::kAbort) == kSuccess)
                         communicator->AwaitEnded();
                       session.communicators().Remove(communicator->number);
                       return int{kSuccess};
                     });
}

CUSPAN_EXPORT int ncclCommRevoke(ncclComm* handle, int flags) {
  if (handle == nullptr) return kSuccess;
  return AnswerOnDevice(handle, [&](Session&, const std::shared_ptr<Communicator>& communicator,
                                    const std::shared_ptr<ContextConnection>& connection) {
    if (flags != 0) return Refuse(kInvalidArgument, Format("unknown flags {}", flags));
    if (!communicator->end.BeginFinalize()) return RefuseFinalized();
    communicator->end.Revoke();
    communicator->Begin();
    const int result = End(*communicator, connection, Ending::kRevoke);
    if (result != kSuccess) return result;
    return communicator->blocking ? ResultOf(communicator->AwaitFinalized()) : int{kInProgress};
  });
}

CUSPAN_EXPORT int ncclCommGetAsyncError(ncclComm* handle, int* error) {
  return AnswerAbout(handle, [&](Session&, const std::shared_ptr<Communicator>& communicator) {
    if (error == nullptr) return Refuse(kInvalidArgument, "the pointer to the error is null");
    *error = ResultOf(communicator->AsynchronousError());
    return int{kSuccess};
  });
}

CUSPAN_EXPORT int ncclCommCount(const ncclComm* handle, int* count) {
  return ReportNumber(handle, count, [](const Communicator& one) { return one.size(); });
}

CUSPAN_EXPORT int ncclCommUserRank(const ncclComm* handle, int* rank) {
  return ReportNumber(handle, rank, [](const Communicator& one) { return one.rank(); });
}

CUSPAN_EXPORT int ncclCommCuDevice(const ncclComm* handle, int* device) {
  return ReportNumber(handle, device, [](const Communicator& one) { return one.device; });
}
