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

// The start of ncclConfig_t, which later releases have members behind.
struct Config {
  std::size_t size;
  std::uint32_t magic;  // kConfigMagic.
  std::uint32_t version;
  int blocking;  // 0: functions that would wait return kInProgress.
};
inline constexpr std::uint32_t kConfigMagic = 0xcafebeef;

// As ncclGetVersion tells it.
constexpr int VersionCode(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}

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
