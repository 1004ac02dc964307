// Parameters of the library, and its statistics.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "group.h"

namespace cufile {
namespace {

struct Parameter {
  const char* name;
  int value;
};
#define PARAMETER(name) \
  { #name, CUFILE_PARAM_##name }

const Parameter kSizes[] = {
    PARAMETER(PROFILE_STATS),
    PARAMETER(EXECUTION_MAX_IO_QUEUE_DEPTH),
    PARAMETER(EXECUTION_MAX_IO_THREADS),
    PARAMETER(EXECUTION_MIN_IO_THRESHOLD_SIZE_KB),
    PARAMETER(EXECUTION_MAX_REQUEST_PARALLELISM),
    PARAMETER(PROPERTIES_MAX_DIRECT_IO_SIZE_KB),
    PARAMETER(PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB),
    PARAMETER(PROPERTIES_PER_BUFFER_CACHE_SIZE_KB),
    PARAMETER(PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB),
    PARAMETER(PROPERTIES_IO_BATCHSIZE),
    PARAMETER(POLLTHRESHOLD_SIZE_KB),
    PARAMETER(PROPERTIES_BATCH_IO_TIMEOUT_MS),
};
const Parameter kFlags[] = {
    PARAMETER(PROPERTIES_USE_POLL_MODE),
    PARAMETER(PROPERTIES_ALLOW_COMPAT_MODE),
    PARAMETER(FORCE_COMPAT_MODE),
    PARAMETER(FS_MISC_API_CHECK_AGGRESSIVE),
    PARAMETER(EXECUTION_PARALLEL_IO),
    PARAMETER(PROFILE_NVTX),
    PARAMETER(PROPERTIES_ALLOW_SYSTEM_MEMORY),
    PARAMETER(USE_PCIP2PDMA),
    PARAMETER(PREFER_IO_URING),
    PARAMETER(FORCE_ODIRECT_MODE),
    PARAMETER(SKIP_TOPOLOGY_DETECTION),
    PARAMETER(STREAM_MEMOPS_BYPASS),
    PARAMETER(PROPERTIES_POSIX_IO_MODE),
    PARAMETER(GDS_FALLBACK_IO),
};
const Parameter kStrings[] = {
    PARAMETER(LOGGING_LEVEL),
    PARAMETER(ENV_LOGFILE_PATH),
    PARAMETER(LOG_DIR),
    PARAMETER(RDMA_TRANSPORT),
};
#undef PARAMETER

std::string Size(int parameter) {
  std::size_t value = 77;
  const std::string result =
      cuFileGetParameterSizeT(Rubbish<CUFileSizeTConfigParameter_t>(parameter), &value);
  return WithValue(result, [&] { return std::to_string(value); });
}

std::string SetSize(int parameter, std::size_t value) {
  return Then(cuFileSetParameterSizeT(Rubbish<CUFileSizeTConfigParameter_t>(parameter), value),
              [&] { return Size(parameter); });
}

std::string Limits(int parameter, std::size_t* low, std::size_t* high) {
  const std::string result =
      cuFileGetParameterMinMaxValue(Rubbish<CUFileSizeTConfigParameter_t>(parameter), low, high);
  return WithValue(result, [&] { return std::to_string(*low) + " to " + std::to_string(*high); });
}

std::string Flag(int parameter) {
  bool value = false;
  const std::string result =
      cuFileGetParameterBool(Rubbish<CUFileBoolConfigParameter_t>(parameter), &value);
  return WithValue(result, [&] { return std::string(value ? "true" : "false"); });
}

std::string SetFlag(int parameter, bool value) {
  return Then(cuFileSetParameterBool(Rubbish<CUFileBoolConfigParameter_t>(parameter), value),
              [&] { return Flag(parameter); });
}

std::string String(int parameter, int length = 4096) {
  char text[4097];
  std::memset(text, '#', sizeof text);
  const std::string result =
      cuFileGetParameterString(Rubbish<CUFileStringConfigParameter_t>(parameter), text, length);
  text[4096] = '\0';
  return WithValue(
      result, [&] { return "'" + WithoutFolder(std::string(text, strnlen(text, 200))) + "'"; });
}

std::string SetString(int parameter, const char* value) {
  return Then(cuFileSetParameterString(Rubbish<CUFileStringConfigParameter_t>(parameter), value),
              [&] { return String(parameter); });
}

void GetSizes() {
  for (const Parameter& each : kSizes) BAD_AS(each.name, Size(each.value));
  BAD(Size(-1));
  BAD(Size(12));
  BAD(Size(99));
  BAD(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, nullptr));
  BAD(cuFileGetParameterSizeT(Rubbish<CUFileSizeTConfigParameter_t>(99), nullptr));
}

void GetFlags() {
  for (const Parameter& each : kFlags) BAD_AS(each.name, Flag(each.value));
  BAD(Flag(-1));
  BAD(Flag(14));
  BAD(Flag(99));
  BAD(cuFileGetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, nullptr));
  BAD(cuFileGetParameterBool(Rubbish<CUFileBoolConfigParameter_t>(99), nullptr));
}

void GetStrings() {
  for (const Parameter& each : kStrings) BAD_AS(each.name, String(each.value));
  BAD(String(-1));
  BAD(String(4));
  BAD(String(99));
  BAD(String(CUFILE_PARAM_LOGGING_LEVEL, 0));
  BAD(String(CUFILE_PARAM_LOGGING_LEVEL, -1));
  BAD(String(CUFILE_PARAM_LOGGING_LEVEL, 1));
  BAD(String(CUFILE_PARAM_LOGGING_LEVEL, 2));
  BAD(String(CUFILE_PARAM_LOGGING_LEVEL, 5));
  BAD(String(CUFILE_PARAM_LOGGING_LEVEL, 6));
  BAD(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, nullptr, 100));
  BAD(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, nullptr, 0));
}

using Slabs = Function<CUfileError_t(const std::size_t*, const std::size_t*, int)>;
using SlabsOf = Function<CUfileError_t(std::size_t*, std::size_t*, int)>;

std::string GetSlabs(const SlabsOf& function, int length) {
  std::size_t sizes[32]{};
  std::size_t counts[32]{};
  const std::string result = function(sizes, counts, length);
  return WithValue(result, [&] {
    std::string text;
    for (int i = 0; i < length; ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]) + " * " + std::to_string(counts[i]);
    }
    return text;
  });
}

std::string SetSlabs(const Slabs& function, const std::vector<std::size_t>& sizes,
                     const std::vector<std::size_t>& counts) {
  return function(sizes.data(), counts.data(), static_cast<int>(sizes.size()));
}

// Calls of one pair of functions.
void SlabCalls(const std::string& name, const Slabs& set, const SlabsOf& get) {
  std::size_t values[4] = {4, 64, 1024, 2048};
  const auto each = [&](const std::string& text, auto&& call) { Bad(name + ", " + text, call); };
  each("get NULL sizes", [&] { return get(nullptr, values, 3); });
  each("get NULL counts", [&] { return get(values, nullptr, 3); });
  for (const int length : {-1, 0, 1, 2, 3, 4, 5, 32}) {
    each("get " + std::to_string(length), [&] { return GetSlabs(get, length); });
  }
  each("set NULL sizes", [&] { return set(nullptr, values, 3); });
  each("set NULL counts", [&] { return set(values, nullptr, 3); });
  each("set length 0", [&] { return set(values, values, 0); });
  each("set length -1", [&] { return set(values, values, -1); });
  each("set size 0", [&] { return SetSlabs(set, {0}, {4}); });
  each("set size 1", [&] { return SetSlabs(set, {1}, {4}); });
  each("set size 5", [&] { return SetSlabs(set, {5}, {4}); });
  each("set count 0", [&] { return SetSlabs(set, {4}, {0}); });
  each("set descending sizes", [&] { return SetSlabs(set, {64, 4}, {4, 4}); });
  each("set equal sizes", [&] { return SetSlabs(set, {64, 64}, {4, 4}); });
  each("set huge size", [&] { return SetSlabs(set, {SIZE_MAX}, {4}); });
  each("set huge count", [&] { return SetSlabs(set, {4}, {SIZE_MAX}); });
  each("set 1", [&] { return SetSlabs(set, {64}, {8}); });
  each("get 1 after it", [&] { return GetSlabs(get, 1); });
  each("set 3", [&] { return SetSlabs(set, {8, 64, 512}, {4, 5, 6}); });
  each("get 3 after it", [&] { return GetSlabs(get, 3); });
  for (const int length : {4, 5, 8, 16, 32, 33}) {
    each("set " + std::to_string(length), [&] {
      std::vector<std::size_t> sizes;
      for (int i = 0; i < length; ++i) sizes.push_back(4 * (i + 1));
      return SetSlabs(set, sizes, std::vector<std::size_t>(sizes.size(), 2));
    });
  }
  each("get 3 after all", [&] { return GetSlabs(get, 3); });
}

std::string Level(int level) {
  int found = -1;
  const std::string result =
      Then(cuFileSetStatsLevel(level), [&] { return cuFileGetStatsLevel(&found); });
  return result + " level " + std::to_string(found);
}

}  // namespace

void SizesBefore() {
  GetSizes();
  for (const Parameter& each : kSizes) {
    std::size_t low = 0;
    std::size_t high = 0;
    BAD_AS(std::string(each.name) + " limits", Limits(each.value, &low, &high));
  }
  for (const Parameter& each : kSizes) {
    for (const std::size_t value : {std::size_t{0}, std::size_t{5}, SIZE_MAX}) {
      BAD_AS(std::string(each.name) + " set " + std::to_string(value), SetSize(each.value, value));
    }
  }
  BAD(SetSize(-1, 4));
  BAD(SetSize(12, 4));
  BAD(SetSize(99, 4));
  BAD(cuFileUseCount());
}

void SizesAfter() {
  Open();
  GetSizes();
  for (const Parameter& each : kSizes) {
    BAD_AS(std::string(each.name) + " set 4", SetSize(each.value, 4));
  }
  BAD(SetSize(99, 4));
  BAD(cuFileDriverClose_v2());
  BAD_AS("set after close", SetSize(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16));
}

void SizeLimits() {
  std::size_t low = 0;
  std::size_t high = 0;
  BAD(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, nullptr, &high));
  BAD(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &low, nullptr));
  BAD(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, nullptr, nullptr));
  BAD(Limits(-1, &low, &high));
  BAD(Limits(12, &low, &high));
  BAD(Limits(99, &low, &high));
  for (const Parameter& each : kSizes) {
    if (!Succeeded(cuFileGetParameterMinMaxValue(
            static_cast<CUFileSizeTConfigParameter_t>(each.value), &low, &high))) {
      continue;
    }
    const std::string name = each.name;
    if (low > 0) BAD_AS(name + " below the minimum", SetSize(each.value, low - 1));
    BAD_AS(name + " minimum", SetSize(each.value, low));
    BAD_AS(name + " above the minimum", SetSize(each.value, low + 1));
    BAD_AS(name + " below the maximum", SetSize(each.value, high - 1));
    BAD_AS(name + " maximum", SetSize(each.value, high));
    if (high < SIZE_MAX) BAD_AS(name + " above the maximum", SetSize(each.value, high + 1));
  }
  Open();
  BAD_AS("limits, open", Limits(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &low, &high));
}

void FlagsBefore() {
  GetFlags();
  for (const Parameter& each : kFlags) {
    BAD_AS(std::string(each.name) + " set true", SetFlag(each.value, true));
    BAD_AS(std::string(each.name) + " set false", SetFlag(each.value, false));
  }
  BAD(SetFlag(-1, true));
  BAD(SetFlag(14, true));
  BAD(SetFlag(99, true));
}

void FlagsAfter() {
  Open();
  GetFlags();
  for (const Parameter& each : kFlags) {
    BAD_AS(std::string(each.name) + " set true", SetFlag(each.value, true));
  }
  BAD(SetFlag(99, true));
}

void StringsBefore() {
  GetStrings();
  for (const char* const level : {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "NOTICE", "FATAL",
                                  "CRITICAL", "error", "bad", ""}) {
    BAD_AS(std::string("level ") + level, SetString(CUFILE_PARAM_LOGGING_LEVEL, level));
  }
  BAD(cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, nullptr));
  BAD(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, nullptr));
  BAD(SetString(CUFILE_PARAM_LOG_DIR, ""));
  BAD(SetString(CUFILE_PARAM_LOG_DIR, "/missing/folder"));
  BAD(SetString(CUFILE_PARAM_LOG_DIR, "/tmp"));
  BAD(SetString(CUFILE_PARAM_LOG_DIR, std::string(5000, 'x').c_str()));
  BAD(SetString(CUFILE_PARAM_ENV_LOGFILE_PATH, ""));
  BAD(SetString(CUFILE_PARAM_ENV_LOGFILE_PATH, "/missing/folder/cufile.log"));
  for (const char* const transport : {"", "ib", "rc", "RC", "dc", "DC", "rc_only", "bad"}) {
    BAD_AS(std::string("transport ") + transport,
           SetString(CUFILE_PARAM_RDMA_TRANSPORT, transport));
  }
  BAD(SetString(-1, "INFO"));
  BAD(SetString(4, "INFO"));
  BAD(SetString(99, "INFO"));
}

void StringsAfter() {
  Open();
  GetStrings();
  BAD(SetString(CUFILE_PARAM_LOGGING_LEVEL, "INFO"));
  BAD(SetString(CUFILE_PARAM_LOG_DIR, "/tmp"));
  BAD(SetString(99, "INFO"));
}

void SlabsBefore() {
  SlabCalls("posix", cuFileSetParameterPosixPoolSlabArray, cuFileGetParameterPosixPoolSlabArray);
  SlabCalls("gpu", cuFileSetParameterGpuBounceBufferSlabArray,
            cuFileGetParameterGpuBounceBufferSlabArray);
}

void SlabsAfter() {
  Open();
  SlabsBefore();
}

// Parameters set before the driver is open have their values afterwards.
void ParametersApplied() {
  BAD(SetSize(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16));
  BAD(SetSize(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 1024));
  BAD(SetFlag(CUFILE_PARAM_FORCE_COMPAT_MODE, true));
  Open();
  BAD_AS("batch size, open", Size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE));
  BAD_AS("direct size, open", Size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB));
  BAD_AS("compat mode, open", Flag(CUFILE_PARAM_FORCE_COMPAT_MODE));
  CUfileBatchHandle_t batch = nullptr;
  BAD(cuFileBatchIOSetUp(&batch, 16));
  BAD(cuFileBatchIOSetUp(&batch, 17));
  BAD(cuFileDriverClose_v2());
  BAD_AS("batch size, closed", Size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE));
  BAD(cuFileDriverOpen());
  BAD_AS("batch size, open again", Size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE));
}

// Bad values set before the driver is open have their effects when it opens.
void ParametersAtOpen() {
  const auto open_with = [](const std::string& set, const std::function<std::string()>& get) {
    const std::string opened = cuFileDriverOpen();
    return set + ", open " + opened + ", then " + get();
  };
  for (const Parameter& each : kSizes) {
    for (const std::size_t value :
         {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{128}, std::size_t{1001},
          std::size_t{65536}, std::size_t{1} << 32, SIZE_MAX}) {
      // NVIDIA's library crashes.
      const bool fatal =
          each.value == CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB && value == 0;
      if (fatal && !WithFatal()) continue;
      Bad(std::string(each.name) + " " + std::to_string(value), [&] {
        return InProcess([&] {
          return open_with(
              cuFileSetParameterSizeT(static_cast<CUFileSizeTConfigParameter_t>(each.value), value),
              [&] { return Size(each.value); });
        });
      });
    }
  }
  for (const Parameter& each : kFlags) {
    for (const bool value : {false, true}) {
      Bad(std::string(each.name) + (value ? " true" : " false"), [&] {
        return InProcess([&] {
          return open_with(
              cuFileSetParameterBool(static_cast<CUFileBoolConfigParameter_t>(each.value), value),
              [&] { return Flag(each.value); });
        });
      });
    }
  }
  const auto string = [&](CUFileStringConfigParameter_t parameter, const char* value) {
    return InProcess([&] {
      return open_with(cuFileSetParameterString(parameter, value),
                       [&] { return String(parameter); });
    });
  };
  BAD(string(CUFILE_PARAM_LOGGING_LEVEL, "INFO"));
  BAD(string(CUFILE_PARAM_LOGGING_LEVEL, "bad"));
  BAD(string(CUFILE_PARAM_LOGGING_LEVEL, "error"));
  BAD(string(CUFILE_PARAM_LOG_DIR, "/missing/folder"));
  BAD(string(CUFILE_PARAM_ENV_LOGFILE_PATH, "/missing/folder/cufile.log"));
  const auto slabs = [&](const std::vector<std::size_t>& sizes,
                         const std::vector<std::size_t>& counts) {
    return InProcess([&] {
      const int length = static_cast<int>(sizes.size());
      return open_with(SetSlabs(cuFileSetParameterPosixPoolSlabArray, sizes, counts),
                       [&] { return GetSlabs(cuFileGetParameterPosixPoolSlabArray, length); });
    });
  };
  BAD(slabs({0}, {4}));
  BAD(slabs({5}, {4}));
  BAD(slabs({64}, {0}));
  BAD(slabs({64, 4}, {4, 4}));
  BAD(slabs({4, 64}, {4, 4}));
  const auto batch = [](std::size_t limit, unsigned entries) {
    return InProcess([&] {
      cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, limit);
      Open();
      CUfileBatchHandle_t handle = nullptr;
      return cuFileBatchIOSetUp(&handle, entries);
    });
  };
  BAD(batch(256, 256));
  BAD(batch(256, 257));
  BAD(batch(1, 1));
  BAD(batch(1, 2));
}

void StatsLevels() {
  BAD(cuFileGetStatsLevel(nullptr));
  for (const int level : {-1, 0, 1, 2, 3, 4, 99}) {
    BAD_AS("before open, " + std::to_string(level), Level(level));
  }
  Open();
  BAD_AS("open, cuFileGetStatsLevel(nullptr)", cuFileGetStatsLevel(nullptr));
  for (const int level : {-1, 0, 1, 2, 3, 4, 99}) {
    BAD_AS("open, " + std::to_string(level), Level(level));
  }
}

void StatsBefore() {
  static CUfileStatsLevel3_t stats;
  BAD(cuFileStatsStop());
  BAD(cuFileStatsReset());
  BAD(cuFileStatsStart());
  BAD(cuFileGetStatsL1(&stats.detailed.basic));
  BAD(cuFileGetStatsL1(nullptr));
  BAD(cuFileSetStatsLevel(3));
  BAD(cuFileStatsStart());
  BAD(cuFileGetStatsL3(&stats));
  BAD(cuFileUseCount());
}

void StatsOrder() {
  Open();
  static CUfileStatsLevel3_t stats;
  BAD(cuFileStatsStop());
  BAD(cuFileStatsReset());
  BAD(cuFileStatsStart());
  BAD_AS("cuFileStatsStart() twice", cuFileStatsStart());
  BAD(cuFileStatsStop());
  BAD_AS("cuFileStatsStop() twice", cuFileStatsStop());
  for (const int level : {0, 1, 2, 3}) {
    const std::string prefix = "level " + std::to_string(level) + ": ";
    BAD_AS(prefix + "cuFileSetStatsLevel", cuFileSetStatsLevel(level));
    BAD_AS(prefix + "L1, not started", cuFileGetStatsL1(&stats.detailed.basic));
    BAD_AS(prefix + "cuFileStatsReset(), not started", cuFileStatsReset());
    BAD_AS(prefix + "cuFileStatsStart()", cuFileStatsStart());
    BAD_AS(prefix + "cuFileStatsStart() twice", cuFileStatsStart());
    BAD_AS(prefix + "L1 NULL", cuFileGetStatsL1(nullptr));
    BAD_AS(prefix + "L2 NULL", cuFileGetStatsL2(nullptr));
    BAD_AS(prefix + "L3 NULL", cuFileGetStatsL3(nullptr));
    BAD_AS(prefix + "L1", cuFileGetStatsL1(&stats.detailed.basic));
    BAD_AS(prefix + "L2", cuFileGetStatsL2(&stats.detailed));
    BAD_AS(prefix + "L3", cuFileGetStatsL3(&stats));
    BAD_AS(prefix + "cuFileStatsReset()", cuFileStatsReset());
    BAD_AS(prefix + "cuFileStatsStop()", cuFileStatsStop());
    BAD_AS(prefix + "L1, stopped", cuFileGetStatsL1(&stats.detailed.basic));
    BAD_AS(prefix + "cuFileStatsStop() twice", cuFileStatsStop());
  }
}

void StatsValues() {
  Open();
  char* const memory = Device();
  static CUfileStatsLevel3_t all;
  CUfileStatsLevel1_t& stats = all.detailed.basic;
  const CUfileHandle_t read_only = Register(open(Path("cufile.json").c_str(), O_RDONLY));
  MUST(cuFileSetStatsLevel(1));
  MUST(cuFileStatsStart());
  const auto values = [&] {
    const std::string result = cuFileGetStatsL1(&stats);
    const auto of = [](const char* name, const CUfileOpCounter_t& counter) {
      return std::string(name) + std::to_string(counter.ok) + "/" + std::to_string(counter.err);
    };
    return result + of(" reads ", stats.read_ops) + of(" writes ", stats.write_ops) +
           of(" registered ", stats.hdl_register_ops) +
           of(" deregistered ", stats.hdl_deregister_ops) +
           of(" buffers ", stats.buf_register_ops) + of(" released ", stats.buf_deregister_ops) +
           " read " + std::to_string(stats.read_bytes) + " written " +
           std::to_string(stats.write_bytes);
  };
  BAD_AS("at first", values());
  const CUfileHandle_t file = Register(MakeFile("data"));
  cuFileRead(file, memory, 4096, 0, 0);
  cuFileRead(file, memory, 0, 0, 0);
  BAD_AS("after two reads", values());
  cuFileRead(file, memory, 4096, -1, 0);
  cuFileRead(nullptr, memory, 4096, 0, 0);
  cuFileRead(file, memory, kMemoryBytes + 1, 0, 0);
  BAD_AS("after three bad reads", values());
  cuFileWrite(file, memory, 8192, 0, 0);
  cuFileWrite(read_only, memory, 4096, 0, 0);
  BAD_AS("after a write and a bad one", values());
  cuFileBufRegister(memory, 65536, 0);
  cuFileBufRegister(memory, 65536, 0);
  cuFileBufRegister(nullptr, 65536, 0);
  cuFileBufDeregister(memory);
  cuFileBufDeregister(memory);
  BAD_AS("after buffers", values());
  cuFileHandleDeregister(file);
  BAD_AS("after cuFileHandleDeregister", values());
  cuFileStatsStop();
  cuFileRead(read_only, memory, 1, 0, 0);
  BAD_AS("stopped, after a read", values());
  cuFileStatsReset();
  BAD_AS("reset", values());
  cuFileStatsStart();
  BAD_AS("started again", values());
}

}  // namespace cufile
