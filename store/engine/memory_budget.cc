#include "store/engine/memory_budget.h"

#include <limits>
#include <string_view>

#include "common/available_memory.h"
#include "common/log.h"
#include "common/settings.h"

namespace cuspan::store {
namespace {

std::uint64_t LimitOfRun() {
  const std::uint64_t automatic = AvailableMemory() / 4;
  if (std::string_view(SettingText(settings::kFileMemory)) == "auto") return automatic;
  const Result<std::uint64_t> limit =
      SettingBytes(settings::kFileMemory, 0, std::numeric_limits<std::uint64_t>::max());
  if (limit.ok()) return *limit;
  LogWarn("{}: a quarter of the available memory is taken for files", limit.status().message());
  return automatic;
}

}  // namespace

MemoryBudget& MemoryBudget::OfProcess() {
  static auto* const kBudget = new MemoryBudget(LimitOfRun());
  return *kBudget;
}

}  // namespace cuspan::store
