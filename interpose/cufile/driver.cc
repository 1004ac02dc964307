// Opening, properties and parameters.
#include "interpose/cufile/driver.h"

#include "interpose/cufile/buffers.h"
#include "interpose/cufile/handles.h"
#include "interpose/load/load.h"

namespace cuspan::cufile {
namespace {

// body(Parameters&) → Code.
template <typename Body>
CallResult AskParameters(Body&& body) {
  return Answer([&](Session& session) -> CallResult {
    const Code code = body(session.TableOf<Driver>().parameters());
    return code == kSuccess ? CallResult{} : Refuse(code, "the parameter or its value is unknown");
  });
}

// body(Driver&) → Code, for changes: they must come before cuFile is opened.
template <typename Body>
CallResult SetParameters(Body&& body) {
  return Answer([&](Session& session) -> CallResult {
    Driver& driver = session.TableOf<Driver>();
    if (driver.uses() != 0) return Refuse(kDriverAlreadyOpen, "cuFile is open already");
    const Code code = body(driver);
    return code == kSuccess ? CallResult{} : Refuse(code, "the parameter or its value is unknown");
  });
}

// Sets a size with a function of its own. No effect while cuFile is open.
CallResult SetSize(SizeParameter number, std::size_t value) {
  return Answer([&](Session& session) -> CallResult {
    if (!Parameters::IsValid(number, value)) {
      // The limit of a device's memory has a code of its own.
      const bool of_device = number == kMaxDeviceCache || number == kMaxDevicePinned;
      const bool above = of_device && value > Parameters::RangeOf(number)->most;
      return Refuse(above ? kUnsupportedLimit : kInvalidValue, "the size is out of range");
    }
    Driver& driver = session.TableOf<Driver>();
    if (driver.uses() == 0) static_cast<void>(driver.parameters().SetSize(number, value));
    return {};
  });
}

// Numbers of CUfileDriverStatusFlags_t.
bool IsFileSystem(int number) {
  constexpr int kFileSystems = 15;
  return number >= 0 && number < kFileSystems;
}

}  // namespace
}  // namespace cuspan::cufile

using namespace cuspan;          // NOLINT: the entry points below are the C API.
using namespace cuspan::cufile;  // NOLINT: the same.

CUSPAN_EXPORT CallResult cuFileDriverOpen() {
  return Answer([](Session& session) -> CallResult {
    session.TableOf<Driver>().Open();
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileDriverClose() {
  return Answer([](Session& session) -> CallResult {
    Driver& driver = session.TableOf<Driver>();
    if (!driver.Close()) return Refuse(kDriverNotInitialized, "cuFile is not open");
    if (driver.uses() == 0) {
      session.TableOf<Buffers>().Clear();
      session.TableOf<Handles>().CloseAll(session.TableOf<Files>());
    }
    return {};
  });
}

CUSPAN_EXPORT long cuFileUseCount() {
  const CancellationOff cancellation;
  Session* const session = Session::IfStarted();
  return session == nullptr ? 0 : session->TableOf<Driver>().uses();
}

CUSPAN_EXPORT CallResult cuFileDriverGetProperties(Properties* properties) {
  return Answer([&](Session& session) -> CallResult {
    if (properties == nullptr) return Refuse(kInvalidValue, "the place of the properties is null");
    const Parameters& parameters = session.TableOf<Driver>().parameters();
    const auto number = [&](SizeParameter which) {
      return static_cast<unsigned>(parameters.size(which));
    };
    *properties = {};
    properties->poll_threshold = parameters.size(kPollThreshold);
    properties->max_direct_io = parameters.size(kMaxDirectIo);
    // Routing to all devices, batches, streams and parallel reads.
    constexpr unsigned kFeatures = 0b1111;
    properties->features = kFeatures;
    properties->control = (parameters.is_set(kPollMode) ? 1U << 0 : 0) |
                          (parameters.is_set(kAllowCompatible) ? 1U << 1 : 0);
    properties->max_device_cache = number(kMaxDeviceCache);
    properties->per_buffer_cache = number(kPerBufferCache);
    properties->max_device_pinned = number(kMaxDevicePinned);
    properties->max_batch = number(kMaxBatch);
    properties->max_batch_timeout = number(kBatchTimeout);
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileDriverSetPollMode(bool poll, std::size_t threshold) {
  const CallResult result = SetSize(kPollThreshold, threshold);
  if (result.code != kSuccess) return result;
  return Answer([&](Session& session) -> CallResult {
    Driver& driver = session.TableOf<Driver>();
    if (driver.uses() == 0)
      static_cast<void>(driver.parameters().SetSwitch(cufile::kPollMode, poll));
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileDriverSetMaxDirectIOSize(std::size_t size) {
  return SetSize(kMaxDirectIo, size);
}

CUSPAN_EXPORT CallResult cuFileDriverSetMaxCacheSize(std::size_t size) {
  return SetSize(kMaxDeviceCache, size);
}

CUSPAN_EXPORT CallResult cuFileDriverSetMaxPinnedMemSize(std::size_t size) {
  return SetSize(kMaxDevicePinned, size);
}

CUSPAN_EXPORT CallResult cuFileGetParameterSizeT(int parameter, std::size_t* value) {
  return AskParameters([&](Parameters& known) { return known.Size(parameter, value); });
}

CUSPAN_EXPORT CallResult cuFileSetParameterSizeT(int parameter, std::size_t value) {
  return SetParameters([&](Driver& driver) {
    const Code code = driver.parameters().SetSize(parameter, value);
    if (code == kSuccess && parameter == kStatisticsLevel)
      driver.SetStatisticsLevel(static_cast<int>(value));
    return code;
  });
}

CUSPAN_EXPORT CallResult cuFileGetParameterBool(int parameter, bool* value) {
  return AskParameters([&](Parameters& known) { return known.Switch(parameter, value); });
}

CUSPAN_EXPORT CallResult cuFileSetParameterBool(int parameter, bool value) {
  return SetParameters(
      [&](Driver& driver) { return driver.parameters().SetSwitch(parameter, value); });
}

CUSPAN_EXPORT CallResult cuFileGetParameterString(int parameter, char* text, int room) {
  return AskParameters([&](Parameters& known) {
    return room <= 0 ? kInvalidValue : known.Text(parameter, text, static_cast<std::size_t>(room));
  });
}

CUSPAN_EXPORT CallResult cuFileSetParameterString(int parameter, const char* text) {
  return SetParameters(
      [&](Driver& driver) { return driver.parameters().SetText(parameter, text); });
}

CUSPAN_EXPORT CallResult cuFileGetParameterMinMaxValue(int parameter, std::size_t* least,
                                                       std::size_t* most) {
  return AskParameters([&](Parameters&) {
    const SizeRange* const range = Parameters::RangeOf(parameter);
    // The level of statistics has a function of its own.
    if (range == nullptr || parameter == kStatisticsLevel || least == nullptr || most == nullptr)
      return kInvalidValue;
    *least = range->least;
    *most = range->most;
    return kSuccess;
  });
}

namespace {

CallResult SetSlabs(std::size_t list, const std::size_t* sizes, const std::size_t* counts,
                    int length) {
  return SetParameters([&](Driver& driver) {
    return length <= 0 ? kInvalidValue
                       : driver.parameters().SetSlabs(list, sizes, counts,
                                                      static_cast<std::size_t>(length));
  });
}

CallResult GetSlabs(std::size_t list, std::size_t* sizes, std::size_t* counts, int length) {
  return AskParameters([&](Parameters& known) {
    return length <= 0 ? kInvalidValue
                       : known.GetSlabs(list, sizes, counts, static_cast<std::size_t>(length));
  });
}

}  // namespace

CUSPAN_EXPORT CallResult cuFileSetParameterPosixPoolSlabArray(const std::size_t* sizes,
                                                              const std::size_t* counts,
                                                              int length) {
  return SetSlabs(0, sizes, counts, length);
}

CUSPAN_EXPORT CallResult cuFileGetParameterPosixPoolSlabArray(std::size_t* sizes,
                                                              std::size_t* counts, int length) {
  return GetSlabs(0, sizes, counts, length);
}

CUSPAN_EXPORT CallResult cuFileSetParameterGpuBounceBufferSlabArray(const std::size_t* sizes,
                                                                    const std::size_t* counts,
                                                                    int length) {
  return SetSlabs(1, sizes, counts, length);
}

CUSPAN_EXPORT CallResult cuFileGetParameterGpuBounceBufferSlabArray(std::size_t* sizes,
                                                                    std::size_t* counts,
                                                                    int length) {
  return GetSlabs(1, sizes, counts, length);
}

CUSPAN_EXPORT CallResult cuFileGetVersion(int* version) {
  if (version == nullptr) return {kInvalidValue, CUDA_SUCCESS};
  *version = ProgramsCufileVersion();
  return {};
}

// The GPUs and the disks are those of other nodes: no topology is known here.
CUSPAN_EXPORT CallResult cuFileExportPCIeTopology(const char* name) {
  return Answer([&](Session&) -> CallResult {
    if (name == nullptr || *name == '\0')
      return Refuse(kInvalidValue, "there is no name of the file");
    return Refuse(kInternalError, "the PCIe topology of the GPUs' nodes is not available");
  });
}

// Size 0: the disks have no peer-to-peer access.
CUSPAN_EXPORT CallResult cuFileGetBARSizeInKB(int device, std::size_t* size) {
  return Answer([&](Session& session) -> CallResult {
    if (size == nullptr || !HasDevice(session, device))
      return Refuse(kInvalidValue, "there is no such device, or no place for its size");
    *size = 0;
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileDriverGetP2PFlags(int file_system, int* flags) {
  return Answer([&](Session&) -> CallResult {
    if (flags == nullptr || !IsFileSystem(file_system))
      return Refuse(kInvalidValue, "there is no such file system, or no place for its flags");
    *flags = 0;
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileDriverSetP2PFlags(int file_system, int flags) {
  return Answer([&](Session&) -> CallResult {
    if (!IsFileSystem(file_system)) return Refuse(kInvalidValue, "there is no such file system");
    if (flags != 0) return Refuse(kInvalidValue, "peer-to-peer access by disks is not supported");
    return {};
  });
}
