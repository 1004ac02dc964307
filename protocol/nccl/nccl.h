// Interface of NVIDIA's collective communication library (NCCL, libnccl.so.2): the numbers and
// structures needed by cuspan, from its documentation and header (2.28). NCCL's own header is not
// part of the CUDA Toolkit. Names are without NCCL's prefix; values and layouts are NCCL's.
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

// ncclRedOp_t. Larger numbers are operations created for a communicator.
enum ReduceOp : int {
  kSum = 0,
  kProduct = 1,
  kMaximum = 2,
  kMinimum = 3,
  kAverage = 4,
  kReduceOps = 5,
};

// ncclScalarResidence_t: the location of the factor of ncclRedOpCreatePreMulSum.
enum ScalarResidence : int { kScalarDevice = 0, kScalarHostImmediate = 1 };

// ncclUniqueId: created by one rank, passed to all.
struct UniqueId {
  char bytes[128];
};

// Value of members of Config not set by the caller; color of a rank left out of a split.
inline constexpr int kUndefined = INT_MIN;
inline constexpr int kNoColor = -1;

// Encoding of ncclGetVersion.
constexpr int VersionCode(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}

// ncclConfig_t of 2.28, initialized as by NCCL_CONFIG_INITIALIZER. Earlier releases have fewer
// members, later ones more at the end: `size` is the number of bytes.
inline constexpr std::uint32_t kConfigMagic = 0xcafebeef;
struct Config {
  std::size_t size = sizeof(Config);
  std::uint32_t magic = kConfigMagic;
  std::uint32_t version = VersionCode(2, 28, 0);
  int blocking = kUndefined;  // 0: functions return kInProgress instead of blocking.
  int cga_cluster_size = kUndefined, min_ctas = kUndefined, max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined, traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined, cta_policy = kUndefined, shrink_share = kUndefined,
      nvls_ctas = kUndefined, channels_per_net_peer = kUndefined, nvlink_centric_sched = kUndefined;
};
inline constexpr std::size_t kConfigBytesOf218 =
    offsetof(Config, traffic_class);  // Also of 2.19 to 2.26.
static_assert(sizeof(Config) == 80);

// A rank's operation. The numbers are cuspan's own; NCCL has none.
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
// Name of the function.
constexpr const char* NameOf(CallKind kind) {
  constexpr const char* kNames[kCallKinds] = {
      "ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclAllGather", "ncclReduceScatter",
      "ncclAlltoAll",  "ncclGather", "ncclScatter",   "ncclSend",      "ncclRecv"};
  return kNames[static_cast<std::uint32_t>(kind)];
}

// Ways to end a communicator: ncclCommFinalize, ncclCommDestroy, ncclCommAbort, ncclCommRevoke.
enum class Ending : std::uint32_t { kFinalize, kDestroy, kAbort, kRevoke };
inline constexpr std::uint32_t kEndings = 4;

// State changes of a communicator reported by a proxy.
enum class Step : std::uint32_t {
  kJoined,     // Created, or creation failed.
  kFinalized,  // Finalized or revoked, or this failed.
  kEnded,      // Destroyed or aborted: the last report.
  kFailed,     // Failed by itself or by an operation.
};
inline constexpr std::uint32_t kSteps = 4;

// Bytes of an element; 0 if `type` is not a data type.
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
