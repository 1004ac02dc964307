#include "launcher/agent/visible_devices.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <string_view>

#include "common/trim.h"
#include "launcher/run_key.h"

namespace cuspan {
namespace {

// Of CUresult, from cuda.h.
constexpr std::int32_t kNoDevice = 100;
constexpr std::int32_t kInvalidDevice = 101;

bool IsIdentifier(std::string_view choice) {
  return choice.starts_with("GPU-") || choice.starts_with("MIG-");
}

// GPU-01234567-89ab-… of the start of an identifier, as nvidia-smi -L prints it.
bool Names(std::string_view choice, const DeviceDescription& device) {
  std::string digits;
  for (const char c : choice.substr(std::string_view("GPU-").size()))
    if (c != '-') digits += static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  return !digits.empty() && ToHex(device.uuid).starts_with(digits);
}

// The position in `numbers` that `choice` names; only one device may have such an identifier.
std::optional<std::size_t> Find(std::span<const DeviceDescription> devices,
                                std::span<const std::uint32_t> numbers, std::string_view choice) {
  if (!IsIdentifier(choice)) {
    std::size_t position = 0;
    const auto [end, error] =
        std::from_chars(choice.data(), choice.data() + choice.size(), position);
    const bool whole = error == std::errc{} && end == choice.data() + choice.size();
    return whole && position < numbers.size() ? std::optional(position) : std::nullopt;
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!Names(choice, devices[numbers[i]])) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

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
  VisibleChoice chosen;
  std::string_view rest = visible.choice;
  const bool identifiers = IsIdentifier(Trim(rest));
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view entry = Trim(rest.substr(0, comma));
    if (IsIdentifier(entry) != identifiers) break;
    const std::optional<std::size_t> position = Find(devices, numbers, entry);
    if (!position) break;
    if (std::find(chosen.devices.begin(), chosen.devices.end(), numbers[*position]) !=
        chosen.devices.end())
      return VisibleChoice{{}, kInvalidDevice};
    chosen.devices.push_back(numbers[*position]);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (chosen.devices.empty()) chosen.result = kNoDevice;
  return chosen;
}

}  // namespace cuspan
