// What NVIDIA's collective communication library (NCCL, libnccl.so.2) is to those who call it: the
// numbers and structures of its documentation and header (2.28) that cuspan needs. NCCL's own
// header is no part of the CUDA Toolkit. Names without NCCL's prefix; values and layouts are
// NCCL's.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

namespace cuspan::nccl {

// ncclResult_t.
enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// ncclDataType_t.
enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4M3 = 10,
  kFloat8E5M2 = 11,
  kDataTypes = 12,
};

// ncclRedOp_t. Larger numbers are operations that a communicator made.
enum ReduceOp : int {
  kSum = 0,
  kProduct = 1,
  kMaximum = 2,
  kMinimum = 3,
  kAverage = 4,
  kReduceOps = 5,
};

// ncclScalarResidence_t: where the factor of ncclRedOpCreatePreMulSum is.
enum ScalarResidence : int { kScalarDevice = 0, kScalarHostImmediate = 1 };

// ncclUniqueId: made by one rank, handed to all.
struct UniqueId {
  char bytes[128];
};

// What a member of Config is that the caller left as it was, and the colour of a rank that is to be
// in no part of a split communicator.
inline constexpr int kUndefined = INT_MIN;
inline constexpr int kNoColor = -1;

// As ncclGetVersion tells it.
constexpr int VersionCode(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}

// ncclConfig_t of 2.28, as NCCL_CONFIG_INITIALIZER makes it. Earlier releases have fewer members,
// later ones more behind these: `size` says how many bytes there are.
inline constexpr std::uint32_t kConfigMagic = 0xcafebeef;
struct Config {
  std::size_t size = sizeof(Config);
  std::uint32_t magic = kConfigMagic;
  std::uint32_t version = VersionCode(2, 28, 0);
  int blocking = kUndefined;  // 0: functions that would wait return kInProgress.
  int cga_cluster_size = kUndefined, min_ctas = kUndefined, max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined, traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined, cta_policy = kUndefined, shrink_share = kUndefined,
      nvls_ctas = kUndefined, channels_per_net_peer = kUndefined, nvlink_centric_sched = kUndefined;
};
inline constexpr std::size_t kConfigBytesOf218 =
    offsetof(Config, traffic_class);  // And 2.19 to 2.26.
static_assert(sizeof(Config) == 80);

// What a rank does in an operation: a number of cuspan's own, which has no name in NCCL.
enum class CallKind : std::uint32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
};
inline constexpr std::uint32_t kCallKinds = 10;
// The function.
constexpr const char* NameOf(CallKind kind) {
  constexpr const char* kNames[kCallKinds] = {
      "ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclAllGather", "ncclReduceScatter",
      "ncclAlltoAll",  "ncclGather", "ncclScatter",   "ncclSend",      "ncclRecv"};
  return kNames[static_cast<std::uint32_t>(kind)];
}

// How a communicator ends: ncclCommFinalize, ncclCommDestroy, ncclCommAbort, ncclCommRevoke.
enum class Ending : std::uint32_t { kFinalize, kDestroy, kAbort, kRevoke };
inline constexpr std::uint32_t kEndings = 4;

// What a proxy tells of a communicator.
enum class Step : std::uint32_t {
  kJoined,     // It is there, or could not be made.
  kFinalized,  // The same for what was asked of it; kFinalized also when it was revoked.
  kEnded,      // Destroyed or aborted: nothing more is told.
  kFailed,     // By itself, or by an operation.
};
inline constexpr std::uint32_t kSteps = 4;

// Bytes of an element; 0 for a number that is no data type.
constexpr std::size_t ElementBytes(int type) {
  switch (type) {
    case kInt8:
    case kUint8:
    case kFloat8E4M3:
    case kFloat8E5M2:
      return 1;
    case kFloat16:
    case kBfloat16:
      return 2;
    case kInt32:
    case kUint32:
    case kFloat32:
      return 4;
    case kInt64:
    case kUint64:
    case kFloat64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace cuspan::nccl
