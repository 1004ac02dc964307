#include "launcher/agent/node/visible_devices.h"

#include <numeric>
#include <string>

#include "common/visible_list.h"
#include "launcher/run/run_key.h"

namespace cuspan {
namespace {

// Values of CUresult (cuda.h).
constexpr std::int32_t kNoDevice = 100;
constexpr std::int32_t kInvalidDevice = 101;

}  // namespace

Result<VisibleChoice> ChooseVisible(std::span<const DeviceDescription> devices,
                                    const VisibleDevices& visible) {
  std::vector<std::uint32_t> numbers(devices.size());
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (const std::uint32_t each = visible.devices_a_rank; each != 0) {
    const std::uint64_t first = std::uint64_t{visible.rank} * each;
    if (first + each > devices.size())
      return Status::Refused(
          "rank {} has no {}: the run has {}, and each rank has {} of its own; start fewer ranks, "
          "or run with --gpus {}",
          visible.rank, each == 1 ? "GPU" : "GPUs", devices.size(), each, first + each);
    numbers.assign(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                   numbers.begin() + static_cast<std::ptrdiff_t>(first + each));
  }
  if (!visible.chosen) return VisibleChoice{std::move(numbers), devices.empty() ? kNoDevice : 0};
  std::vector<std::string> identifiers;
  for (const std::uint32_t number : numbers) identifiers.push_back(ToHex(devices[number].uuid));
  const VisibleList list = ReadVisibleList(visible.choice, identifiers);
  if (list.repeats) return VisibleChoice{{}, kInvalidDevice};
  VisibleChoice chosen;
  for (const std::size_t position : list.positions) chosen.devices.push_back(numbers[position]);
  if (chosen.devices.empty()) chosen.result = kNoDevice;
  return chosen;
}

}  // namespace cuspan
