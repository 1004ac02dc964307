// Common code of cufile_bad_input's groups. Each group runs in a separate process.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <cufile.h>
// The header replaces the name of the first version by that of the second one. Both are called.
#undef cuFileDriverClose

#include <fcntl.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>

#include "tests/apps/driver_check.h"

// Entry points of the library have the names of cufile.h in this namespace.
namespace cufile {

constexpr std::size_t kFileBytes = 65536;
constexpr std::size_t kMemoryBytes = std::size_t{2} << 20;

// Address of a function in the library, or nullptr.
void* Symbol(const char* name);

// "5022 CU_FILE_INVALID_VALUE", with the driver's error if there is one.
std::string Text(CUfileError_t error);

// "4096", "-1 errno 22 EINVAL" or "-5027 CU_FILE_HANDLE_NOT_REGISTERED".
std::string Text(long result);

// The same without errno, for results that arrive later.
std::string Late(long result);

template <typename Signature>
class Function;

// A function of the library. Calls return the text of the result, or "absent".
template <typename Result, typename... Arguments>
class Function<Result(Arguments...)> {
 public:
  explicit Function(const char* name) : name_(name) {}

  std::string operator()(Arguments... arguments) const {
    auto* const function = reinterpret_cast<Result (*)(Arguments...)>(Symbol(name_));
    if (function == nullptr) return "absent";
    errno = 0;
    if constexpr (std::is_void_v<Result>) {
      function(arguments...);
      return "returned";
    } else {
      return Text(function(arguments...));
    }
  }

 private:
  const char* name_;
};

#define CUFILE_FUNCTION(name) \
  inline const Function<decltype(::name)> name { #name }
CUFILE_FUNCTION(cuFileBatchIOCancel);
CUFILE_FUNCTION(cuFileBatchIODestroy);
CUFILE_FUNCTION(cuFileBatchIOGetStatus);
CUFILE_FUNCTION(cuFileBatchIOSetUp);
CUFILE_FUNCTION(cuFileBatchIOSubmit);
CUFILE_FUNCTION(cuFileBufDeregister);
CUFILE_FUNCTION(cuFileBufRegister);
CUFILE_FUNCTION(cuFileDriverClose);
CUFILE_FUNCTION(cuFileDriverClose_v2);
CUFILE_FUNCTION(cuFileDriverGetP2PFlags);
CUFILE_FUNCTION(cuFileDriverGetProperties);
CUFILE_FUNCTION(cuFileDriverOpen);
CUFILE_FUNCTION(cuFileDriverSetMaxCacheSize);
CUFILE_FUNCTION(cuFileDriverSetMaxDirectIOSize);
CUFILE_FUNCTION(cuFileDriverSetMaxPinnedMemSize);
CUFILE_FUNCTION(cuFileDriverSetP2PFlags);
CUFILE_FUNCTION(cuFileDriverSetPollMode);
CUFILE_FUNCTION(cuFileExportPCIeTopology);
CUFILE_FUNCTION(cuFileGetBARSizeInKB);
CUFILE_FUNCTION(cuFileGetParameterBool);
CUFILE_FUNCTION(cuFileGetParameterGpuBounceBufferSlabArray);
CUFILE_FUNCTION(cuFileGetParameterMinMaxValue);
CUFILE_FUNCTION(cuFileGetParameterPosixPoolSlabArray);
CUFILE_FUNCTION(cuFileGetParameterSizeT);
CUFILE_FUNCTION(cuFileGetParameterString);
CUFILE_FUNCTION(cuFileGetStatsL1);
CUFILE_FUNCTION(cuFileGetStatsL2);
CUFILE_FUNCTION(cuFileGetStatsL3);
CUFILE_FUNCTION(cuFileGetStatsLevel);
CUFILE_FUNCTION(cuFileGetVersion);
CUFILE_FUNCTION(cuFileHandleDeregister);
CUFILE_FUNCTION(cuFileHandleRegister);
CUFILE_FUNCTION(cuFileRead);
CUFILE_FUNCTION(cuFileReadAsync);
CUFILE_FUNCTION(cuFileReadv);
CUFILE_FUNCTION(cuFileSetParameterBool);
CUFILE_FUNCTION(cuFileSetParameterGpuBounceBufferSlabArray);
CUFILE_FUNCTION(cuFileSetParameterPosixPoolSlabArray);
CUFILE_FUNCTION(cuFileSetParameterSizeT);
CUFILE_FUNCTION(cuFileSetParameterString);
CUFILE_FUNCTION(cuFileSetStatsLevel);
CUFILE_FUNCTION(cuFileStatsReset);
CUFILE_FUNCTION(cuFileStatsStart);
CUFILE_FUNCTION(cuFileStatsStop);
CUFILE_FUNCTION(cuFileStreamDeregister);
CUFILE_FUNCTION(cuFileStreamRegister);
CUFILE_FUNCTION(cuFileUseCount);
CUFILE_FUNCTION(cuFileWrite);
CUFILE_FUNCTION(cuFileWriteAsync);
CUFILE_FUNCTION(cuFileWritev);
#undef CUFILE_FUNCTION

// Begins a call. Returns true if it is to be made. The limit until the next call is kMaxSeconds.
bool Begin(const std::string& text);

// Ends the call: prints `group: text = result`.
void Tell(const std::string& text, const std::string& result);

template <typename Call>
void Bad(const std::string& text, Call&& call) {
  if (Begin(text)) Tell(text, call());
}

// Makes the call, and prints its result with the given text, or with the call's own.
#define BAD_AS(text, ...) Bad(text, [&] { return (__VA_ARGS__); })
#define BAD(...) BAD_AS(#__VA_ARGS__, __VA_ARGS__)

// A call made only with --fatal. NVIDIA's library crashes, hangs, or reads freed memory.
bool WithFatal();
#define FATAL_AS(text, ...) \
  if (WithFatal()) BAD_AS(text, __VA_ARGS__)
#define FATAL(...) FATAL_AS(#__VA_ARGS__, __VA_ARGS__)

// A necessary call between the others. If it fails, prints its result and ends the group.
#define MUST(...) Must(#__VA_ARGS__, __VA_ARGS__)
void Must(const char* text, const std::string& result);

bool Succeeded(const std::string& result);

// Adds the value to a successful result.
template <typename Value>
std::string WithValue(const std::string& result, Value&& value) {
  return Succeeded(result) ? result + " value " + value() : result;
}

// Results of two calls. The first call is made by the caller.
template <typename Call>
std::string Then(std::string result, Call&& next) {
  result += ", then ";
  result += next();
  return result;
}

template <typename T>
T Rubbish(long number) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(number);
  } else {
    return static_cast<T>(number);
  }
}

// Opens the driver. Device 0 is current, with its primary context.
void Open();

// Path of a file in the group's folder.
std::string Path(const char* name);

// Replaces the group's folder by FOLDER.
std::string WithoutFolder(std::string text);

// Creates a file of the group with bytes of the given value, and opens it.
int MakeFile(const char* name, std::size_t bytes = kFileBytes, int flags = O_RDWR, char value = 7);

long SizeOf(int file);

CUfileDescr_t DescriptorOf(int file);
CUfileHandle_t Register(int file);

// Device memory filled with 1.
char* Device(std::size_t bytes = kMemoryBytes);

// Returns the first byte of device or host memory.
int FirstByte(const void* memory);

// Reserves twice kMemoryBytes of addresses, for MapAt.
char* Reserve();

// Maps new device memory of kMemoryBytes at the address.
void MapAt(char* address);
void UnmapAt(char* address);

// Runs the function in a new process. Only a process without CUDA context may call it. Returns its
// text, "crash" or "hang".
std::string InProcess(const std::function<std::string()>& call);

// Runs the function in a new thread, without a current context.
std::string InThread(const std::function<std::string()>& call);

// One function per group, in the file of its family.
void Alone();
void OpenClose();
void CloseFirst();
void CloseWithHandles();
void ExitOpen();
void SettingsBefore();
void SettingsAfter();
void Properties();
void Topology();
void BarSizes();
void P2pFlags();

void Handles();
void FileKinds();
void SameFile();
void Deregistration();
void HandlesAfterClose();

void Buffers();
void BufferFlags();
void BufferKinds();
void BufferOverlaps();
void BufferDeregistration();

void ReadHandles();
void ReadSizes();
void ReadLarge();
void ReadBuffers();
void ReadPointers();
void ReadFiles();
void ReadContexts();
void WriteSizes();
void WritePointers();
void WriteFiles();
void DirectFiles();
void HostMemoryOff();

void Vectors();
void VectorEntries();
void VectorBuffers();
void VectorWrites();

void BatchSetUp();
void BatchSubmit();
void BatchEntries();
void BatchBuffers();
void BatchFlags();
void BatchStatus();
void BatchLate();
void BatchEnd();

void StreamRegistration();
void AsyncArguments();
void AsyncReads();
void AsyncWrites();
void AsyncRegistered();
void AsyncLate();
void AsyncFixed();
void AsyncCapture();

void SizesBefore();
void SizesAfter();
void SizeLimits();
void FlagsBefore();
void FlagsAfter();
void StringsBefore();
void StringsAfter();
void SlabsBefore();
void SlabsAfter();
void ParametersApplied();
void ParametersAtOpen();

void StatsLevels();
void StatsBefore();
void StatsOrder();
void StatsValues();

}  // namespace cufile
