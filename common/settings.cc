#include "common/settings.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace cuspan {
namespace {

constexpr Setting kAll[] = {
#define CUSPAN_SETTING(name, ...) settings::name,
#include "common/settings.def"
#undef CUSPAN_SETTING
};

Result<std::uint64_t> Parse(const Setting& setting, std::uint64_t lowest, std::uint64_t highest,
                            bool with_suffix) {
  const std::string_view text = SettingText(setting);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  int shift = 0;
  if (with_suffix && suffix.size() == 1) {
    if (suffix == "K" || suffix == "k") shift = 10;
    if (suffix == "M" || suffix == "m") shift = 20;
    if (suffix == "G" || suffix == "g") shift = 30;
    if (shift != 0) suffix = {};
  }
  const bool fits = value <= (~std::uint64_t{0} >> shift);
  if (error != std::errc{} || !suffix.empty() || !fits || (value << shift) < lowest ||
      (value << shift) > highest)
    return Status::Invalid("{}={} is not a number from {} to {}", setting.name, text, lowest,
                           highest);
  return value << shift;
}

}  // namespace

std::span<const Setting> AllSettings() { return kAll; }

const char* Title(SettingGroup group) {
  switch (group) {
    case SettingGroup::kGpus:
      return "GPUs";
    case SettingGroup::kSharing:
      return "Sharing GPUs";
    case SettingGroup::kHosts:
      return "Hosts";
    case SettingGroup::kMpi:
      return "MPI programs";
    case SettingGroup::kOutput:
      return "Output and checks";
    case SettingGroup::kTransfers:
      return "Memory and transfers";
    case SettingGroup::kStorage:
      return "Storage";
    case SettingGroup::kSoftware:
      return "Software GPU";
    case SettingGroup::kInternal:
      break;
  }
  return "";
}

const char* SettingText(const Setting& setting) {
  const char* text = *setting.name == '\0' ? nullptr : std::getenv(setting.name);
  return text == nullptr || *text == '\0' ? setting.default_value : text;
}

Result<std::uint64_t> SettingNumber(const Setting& setting, std::uint64_t lowest,
                                    std::uint64_t highest) {
  return Parse(setting, lowest, highest, false);
}

Result<std::uint64_t> SettingBytes(const Setting& setting, std::uint64_t lowest,
                                   std::uint64_t highest) {
  return Parse(setting, lowest, highest, true);
}

Result<bool> SettingSwitch(const Setting& setting) {
  const std::string_view text = SettingText(setting);
  if (text == "on" || text == "off") return text == "on";
  return Status::Invalid("{} must be on or off, not '{}'", setting.name, text);
}

}  // namespace cuspan
