#include "bench/common/origin.h"

#include <sys/utsname.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "common/format.h"
#include "launcher/text/words.h"

namespace cuspan::bench {
namespace {

// Value of the first line "NAME : VALUE" of a file in /proc. Empty if there is none.
std::string FieldOf(const std::filesystem::path& path, std::string_view name) {
  constexpr const char* kBlanks = " \t";
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    const std::size_t first = line.find_first_not_of(kBlanks, colon + 1);
    if (first != std::string::npos) return line.substr(first);
  }
  return {};
}

// "2 NVIDIA H200", from the driver's files in /proc, so no driver is loaded.
std::string Gpus() {
  std::map<std::string, int> models;
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error))
    ++models[FieldOf(gpu.path() / "information", "Model")];
  std::string text;
  for (const auto& [model, count] : models)
    text += Format("{}{} {}", text.empty() ? "" : ", ", count, model);
  return text.empty() ? "no NVIDIA driver" : text;
}

std::string Machine() {
  const std::string processor = FieldOf("/proc/cpuinfo", "model name");
  utsname system = {};
  ::uname(&system);
  return Format("{} cores ({}), {}, {} {}", std::thread::hardware_concurrency(),
                processor.empty() ? system.machine : processor, Gpus(), system.sysname,
                system.release);
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[sizeof "2000-01-01T00:00:00Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

Origin OriginOf(const std::string& benchmark, int argc, const char* const* argv) {
  std::vector<std::string> words = {"cuspan", "bench", benchmark};
  words.insert(words.end(), argv + 1, argv + argc);
  return {benchmark, Machine(), Now(), CUSPAN_VERSION, QuoteForShell(words), "", 0};
}

std::string CsvHead(const Origin& origin) {
  std::string head =
      Format("# benchmark: {}\n# machine: {}\n# date: {}\n# version: {}\n# command: {}\n",
             origin.benchmark, origin.machine, origin.date, origin.version, origin.command);
  if (!origin.device.empty()) head += Format("# device: {}\n", origin.device);
  if (origin.rounds != 0) head += Format("# rounds: {}\n", origin.rounds);
  return head;
}

nlohmann::ordered_json JsonHead(const Origin& origin) {
  nlohmann::ordered_json head = {{"benchmark", origin.benchmark},
                                 {"machine", origin.machine},
                                 {"date", origin.date},
                                 {"version", origin.version},
                                 {"command", origin.command}};
  if (!origin.device.empty()) head["device"] = origin.device;
  if (origin.rounds != 0) head["rounds"] = origin.rounds;
  return head;
}

}  // namespace cuspan::bench
