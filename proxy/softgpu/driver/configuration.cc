#include "proxy/softgpu/driver/configuration.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "common/log.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "proxy/softgpu/rt/physical.h"

namespace cuspan::softgpu {
namespace {

// Oldest capability supported by the compiler of CUDA 13; PTX for older ones runs as well.
constexpr int kLowestCapability = 75;
constexpr int kHighestCapability = 121;

Status ReadCapability(Configuration* configuration) {
  const std::string_view text = SettingText(settings::kSoftCapability);
  const char* const end = text.data() + text.size();
  int major = 0, minor = 0;
  const auto [dot, error] = std::from_chars(text.data(), end, major);
  if (error == std::errc() && end - dot == 2 && *dot == '.' && dot[1] >= '0' && dot[1] <= '9') {
    minor = dot[1] - '0';
    const int capability = major > 99 ? 0 : major * 10 + minor;
    if (capability >= kLowestCapability && capability <= kHighestCapability) {
      configuration->capability_major = major;
      configuration->capability_minor = minor;
      return Status::Ok();
    }
  }
  return Status::Invalid("{}='{}' is not a compute capability from 7.5 to 12.1, such as 9.0",
                         settings::kSoftCapability.name, text);
}

// Parses "N" for every node, or "HOST=N,…", with a number alone for all other nodes. A listed node
// may have 0 devices.
Result<int> ReadDevices() {
  const std::string_view list = SettingText(settings::kSoftGpus);
  char own[HOST_NAME_MAX + 1] = {};
  ::gethostname(own, sizeof own - 1);
  std::optional<int> named, others;
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const std::string_view item = list.substr(start, end - start);
    start = end + 1;
    const std::size_t equals = item.find('=');
    const bool for_others = equals == std::string_view::npos;
    const std::string_view number = for_others ? item : item.substr(equals + 1);
    int count = 0;
    const auto [last, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    if (error != std::errc() || last != number.data() + number.size() || equals == 0 ||
        count < (for_others ? 1 : 0) || count > 64 || (for_others && others))
      return Status::Invalid(
          "{}='{}' is neither a number from 1 to 64 nor a list such as n1=2,n2=0,1",
          settings::kSoftGpus.name, list);
    if (for_others)
      others = count;
    else if (item.substr(0, equals) == own)
      named = count;
  }
  return named.value_or(others.value_or(1));
}

Result<unsigned> ReadThreads() {
  if (std::strcmp(SettingText(settings::kSoftThreads), settings::kSoftThreads.default_value) == 0) {
    return std::max(std::thread::hardware_concurrency(), 1u);
  }
  CUSPAN_ASSIGN_OR_RETURN(std::uint64_t threads, SettingNumber(settings::kSoftThreads, 1, 1024));
  return static_cast<unsigned>(threads);
}

bool IsOff(const Setting& setting) { return std::string_view(SettingText(setting)) == "off"; }

Status ReadKernelLimit(Configuration* configuration) {
  configuration->kernel_limit = {};
  if (IsOff(settings::kSoftWatchdog)) return Status::Ok();
  CUSPAN_ASSIGN_OR_RETURN(std::uint64_t seconds,
                          SettingNumber(settings::kSoftWatchdog, 1, 1'000'000));
  configuration->kernel_limit = std::chrono::seconds(seconds);
  return Status::Ok();
}

Status ReadCheck(Configuration* configuration) {
  const std::string_view text = SettingText(settings::kSoftCheck);
  configuration->check_memory = text == "memory" || text == "all";
  configuration->check_races = text == "races" || text == "all";
  const bool checks = configuration->check_memory || configuration->check_races;
  if (checks || IsOff(settings::kSoftCheck)) return Status::Ok();
  return Status::Invalid("{}='{}' is not memory, races, all or off", settings::kSoftCheck.name,
                         text);
}

Status ReadWaits(Configuration* configuration) {
  const std::string_view text = SettingText(settings::kSoftWaits);
  configuration->waits = text == "on";
  if (configuration->waits || IsOff(settings::kSoftWaits)) return Status::Ok();
  return Status::Invalid("{}='{}' is neither on nor off", settings::kSoftWaits.name, text);
}

Status ReadSchedule(Configuration* configuration) {
  const std::string_view text = SettingText(settings::kSoftSchedule);
  configuration->order.reset();
  if (text == "barrier" || text == "interleaved") return Status::Ok();
  constexpr std::string_view kRandom = "random:";
  const std::string_view number = text.substr(std::min(text.size(), kRandom.size()));
  std::uint64_t seed = 0;
  const auto end = std::from_chars(number.data(), number.data() + number.size(), seed);
  if (!text.starts_with(kRandom) || number.empty() || end.ec != std::errc() ||
      end.ptr != number.data() + number.size())
    return Status::Invalid(
        "{}='{}' is not barrier, interleaved or random:SEED, where SEED is a number",
        settings::kSoftSchedule.name, text);
  configuration->order = seed;
  return Status::Ok();
}

// Checks the compiler's settings at start. The compiler reads them itself.
Status CheckCompilation() {
  const std::string_view tier = SettingText(settings::kSoftTier);
  if (tier != "auto" && tier != "first" && tier != "last") {
    return Status::Invalid("{}='{}' is not auto, first or last", settings::kSoftTier.name, tier);
  }
  const std::string_view model = SettingText(settings::kSoftModel);
  if (model != "auto" && model != "vector" && model != "thread")
    return Status::Invalid("{}='{}' is not auto, vector or thread", settings::kSoftModel.name,
                           model);
  const std::string_view instructions = SettingText(settings::kSoftInstructions);
  if (instructions == "host" || instructions == "avx2") return Status::Ok();
  return Status::Invalid("{}='{}' is neither host nor avx2", settings::kSoftInstructions.name,
                         instructions);
}

// Parses a decimal number; returns nullopt if it is not within [lowest, highest].
std::optional<double> ReadDecimal(std::string_view text, double lowest, double highest) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(number >= lowest && number <= highest))
    return std::nullopt;
  return number;
}

Status ReadCopyRate(Configuration* configuration) {
  configuration->copy_rate = 0;
  if (IsOff(settings::kSoftCopyRate)) return Status::Ok();
  const std::string_view text = SettingText(settings::kSoftCopyRate);
  const std::optional<double> gigabytes_a_second = ReadDecimal(text, 0.001, 1e4);
  if (!gigabytes_a_second)
    return Status::Invalid("{}='{}' is neither a rate in GB/s from 0.001 to 10000 nor off",
                           settings::kSoftCopyRate.name, text);
  configuration->copy_rate = *gigabytes_a_second * 1e9;
  return Status::Ok();
}

Status ReadBlockRate(Configuration* configuration) {
  configuration->block_rate = 0;
  if (IsOff(settings::kSoftRate)) return Status::Ok();
  const std::string_view text = SettingText(settings::kSoftRate);
  const std::optional<double> microseconds = ReadDecimal(text, 0.001, 1e6);
  if (!microseconds)
    return Status::Invalid(
        "{}='{}' is neither a time in microseconds from 0.001 to 1000000 nor off",
        settings::kSoftRate.name, text);
  configuration->block_rate = 1e6 / *microseconds;
  return Status::Ok();
}

}  // namespace

Result<Configuration> ReadConfiguration() {
  Configuration configuration;
  CUSPAN_ASSIGN_OR_RETURN(configuration.devices, ReadDevices());
  CUSPAN_ASSIGN_OR_RETURN(
      std::uint64_t memory,
      SettingBytes(settings::kSoftMemory, 8 * kMemoryGranularity, std::uint64_t{1} << 44));
  configuration.memory_bytes = memory;
  // Device memory is a file, so the file size limit applies.
  if (const std::uint64_t largest = LargestSharedMemory(); memory > largest) {
    configuration.memory_bytes = largest / kMemoryGranularity * kMemoryGranularity;
    LogWarn(
        "software GPU: {} bytes of memory instead of {}: the file size limit is {} bytes; raise it "
        "(ulimit -f)",
        configuration.memory_bytes, memory, largest);
    if (configuration.memory_bytes == 0)
      return Status::Exhausted(
          "the software GPU has no memory: the file size limit is too low; raise it (ulimit -f)");
  }
  configuration.name = SettingText(settings::kSoftName);
  if (configuration.name.empty()) {
    return Status::Invalid("{} is empty: give the software GPU a name", settings::kSoftName.name);
  }
  CUSPAN_RETURN_IF_ERROR(ReadCapability(&configuration));
  CUSPAN_ASSIGN_OR_RETURN(configuration.threads, ReadThreads());
  CUSPAN_RETURN_IF_ERROR(ReadKernelLimit(&configuration));
  CUSPAN_RETURN_IF_ERROR(ReadCheck(&configuration));
  CUSPAN_RETURN_IF_ERROR(ReadSchedule(&configuration));
  CUSPAN_RETURN_IF_ERROR(ReadWaits(&configuration));
  CUSPAN_RETURN_IF_ERROR(CheckCompilation());
  CUSPAN_RETURN_IF_ERROR(ReadCopyRate(&configuration));
  CUSPAN_RETURN_IF_ERROR(ReadBlockRate(&configuration));
  return configuration;
}

}  // namespace cuspan::softgpu
