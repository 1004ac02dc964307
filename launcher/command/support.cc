#include "launcher/command/support.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "common/log.h"

namespace cuspan {
namespace {

const char* Word(Support support) {
  switch (support) {
    case Support::kYes:
      return "supported";
    case Support::kPartly:
      return "partly";
    case Support::kNo:
      return "not";
  }
  return "?";
}

}  // namespace

int ShowSupport(const SupportOptions& options) {
  const std::span table(kSupportTable, kSupportTableSize);
  std::vector<SupportEntry> shown;
  if (options.names.empty()) shown.assign(table.begin(), table.end());
  int status = 0;
  for (const std::string& name : options.names) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const SupportEntry& entry) { return entry.name == name; });
    if (found == table.end()) {
      LogError(
          "{} is not a function of the CUDA runtime, versions 11 to 13, of the CUDA driver, of "
          "NVML or "
          "of NCCL",
          name);
      status = 1;
    } else {
      shown.push_back(*found);
    }
  }
  if (options.json) {
    nlohmann::json out = nlohmann::json::array();
    for (const SupportEntry& entry : shown)
      out.push_back(
          {{"function", entry.name}, {"support", Word(entry.support)}, {"missing", entry.missing}});
    std::puts(out.dump(2).c_str());
    return status;
  }
  std::size_t width = 0;
  for (const SupportEntry& entry : shown)
    width = std::max(width, std::string_view(entry.name).size());
  for (const SupportEntry& entry : shown) {
    std::string line = Format("{:{}}  {}", entry.name, width, Word(entry.support));
    if (entry.support == Support::kNo) line += " supported";
    if (*entry.missing != '\0') line += Format(": {}", entry.missing);
    std::puts(line.c_str());
  }
  return status;
}

}  // namespace cuspan
