// Launches in the style before CUDA 4: separate calls set the shape and arguments of a function's
// launches. They stay set until changed.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "interpose/calls/base/attributes.h"
#include "interpose/driver/launch.h"

namespace cuspan {
namespace {

// CUDA's limit for the arguments of one launch, in bytes.
constexpr std::size_t kMaxArgumentBytes = 32764;

// Settings of a function's launches.
struct NextLaunch {
  std::weak_ptr<const FunctionRecord> function;
  Dim3 block{1, 1, 1};
  unsigned shared = 0;  // Bytes.
  unsigned argument_bytes = 0;
  std::vector<std::byte> arguments;  // At the offsets of the parameters.
};

// Threads: any.
class NextLaunches final : public ContextTable {
 public:
  // Calls use(NextLaunch&) with mutex_ held.
  template <typename Use>
  void With(const FunctionRecord& function, Use&& use) {
    const MutexLock lock(mutex_);
    NextLaunch& next = launches_[function.handle];
    if (next.function.expired()) {
      next.function = SharedRecord(function);
      if (launches_.size() > 2 * kept_) ForgetUnloaded();
    }
    use(next);
  }
  // A module's functions end with its context.
  void Forget(const ContextConnection&) override {
    const MutexLock lock(mutex_);
    ForgetUnloaded();
  }

 private:
  // Erases all functions of unloaded libraries and modules.
  void ForgetUnloaded() CUSPAN_REQUIRES(mutex_) {
    std::erase_if(launches_, [](const auto& entry) { return entry.second.function.expired(); });
    kept_ = std::max(launches_.size(), kFew);
  }

  static constexpr std::size_t kFew = 16;
  Mutex mutex_;
  std::map<const void*, NextLaunch> launches_ CUSPAN_GUARDED_BY(mutex_);  // Key: handle.
  // Number of entries after the last ForgetUnloaded, at least kFew.
  std::size_t kept_ CUSPAN_GUARDED_BY(mutex_) = kFew;
};

// Calls change(NextLaunch&) if `possible`.
template <typename Change>
CUresult ChangeLaunch(CUfunction function, bool possible, Change&& change) {
  return AnswerInContext([&](Session& session) -> Error {
    LaunchCall call;
    CUSPAN_RETURN_IF_FAILED(ReadFunction(function, &call));
    if (!possible) return CUDA_ERROR_INVALID_VALUE;
    session.TableOf<NextLaunches>().With(*call.function, change);
    return CUDA_SUCCESS;
  });
}

CUresult SetArgument(CUfunction function, int offset, const void* value, std::size_t bytes) {
  const std::size_t start = static_cast<unsigned>(offset);
  const bool possible = offset >= 0 && (value != nullptr || bytes == 0) &&
                        bytes <= kMaxArgumentBytes && start <= kMaxArgumentBytes - bytes;
  return ChangeLaunch(function, possible, [&](NextLaunch& next) {
    if (bytes == 0) return;
    if (next.arguments.size() < start + bytes) next.arguments.resize(start + bytes);
    std::memcpy(next.arguments.data() + start, value, bytes);
  });
}

// True if the block is within the device's limits. Limits of the function are not checked.
bool IsBlock(const DeviceDescription& device, const int (&block)[3]) {
  std::uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (block[i] < 1 || block[i] > AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i))
      return false;
    threads *= static_cast<unsigned>(block[i]);
  }
  const int most = AttributeOf(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  return threads <= static_cast<std::uint64_t>(most);
}

CUresult LaunchNext(CUfunction function, int width, int height, CUstream stream) {
  return AnswerOnStream(stream, [&](Session& session) -> Error {
    LaunchCall call;
    CUSPAN_RETURN_IF_FAILED(ReadFunction(function, &call));
    if (width < 1 || height < 1) return CUDA_ERROR_INVALID_VALUE;
    NextLaunch next;
    session.TableOf<NextLaunches>().With(*call.function,
                                         [&](const NextLaunch& said) { next = said; });
    next.arguments.resize(next.argument_bytes);
    call.shape = {
        {static_cast<unsigned>(width), static_cast<unsigned>(height), 1}, next.block, next.shared};
    call.stream = stream;
    call.buffer = next.arguments.data();
    call.buffer_bytes = next.arguments.size();
    return LaunchKernel(call, DefaultStream::kLegacy);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  return AnswerInContext([&](Session& session, ContextConnection& connection) -> Error {
    LaunchCall call;
    CUSPAN_RETURN_IF_FAILED(ReadFunction(function, &call));
    if (!IsBlock(session.devices().description(connection.device()), {x, y, z}))
      return CUDA_ERROR_INVALID_VALUE;
    session.TableOf<NextLaunches>().With(*call.function, [&](NextLaunch& next) {
      next.block = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
    });
    return CUDA_SUCCESS;
  });
}

// If `bytes` exceeds the device's limit, the launch fails.
CUSPAN_EXPORT CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
  return ChangeLaunch(function, true, [&](NextLaunch& next) { next.shared = bytes; });
}

CUSPAN_EXPORT CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
  return ChangeLaunch(function, bytes <= kMaxArgumentBytes,
                      [&](NextLaunch& next) { next.argument_bytes = bytes; });
}

CUSPAN_EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
  return SetArgument(function, offset, &value, sizeof value);
}

CUSPAN_EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value) {
  return SetArgument(function, offset, &value, sizeof value);
}

CUSPAN_EXPORT CUresult cuParamSetv(CUfunction function, int offset, void* value, unsigned bytes) {
  return SetArgument(function, offset, value, bytes);
}

CUSPAN_EXPORT CUresult cuLaunch(CUfunction function) { return LaunchNext(function, 1, 1, nullptr); }

CUSPAN_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  return LaunchNext(function, width, height, nullptr);
}

CUSPAN_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height,
                                         CUstream stream) {
  return LaunchNext(function, width, height, stream);
}
