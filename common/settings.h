// All settings: the CUSPAN_* variables and the options of `cuspan` and `cuspan-agent`, declared in
// one table (settings.def). An option takes precedence over its variable.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"

namespace cuspan {

enum class SettingGroup : unsigned char {
  kGpus,
  kSharing,
  kHosts,
  kMpi,
  kOutput,
  kTransfers,
  kStorage,
  kSoftware,
  kInternal,  // Options set by cuspan itself: not in help and documents.
};

// Commands with an option, as bits. kOnAgent is `cuspan-agent`.
enum SettingCommands : unsigned {
  kOnRun = 1,
  kOnDevices = 2,
  kOnQueue = 4,
  kOnTop = 8,
  kOnMetrics = 16,
  kOnDoctor = 32,
  kOnSupport = 64,
  kOnHelp = 128,
  kOnAgent = 256,
  kOnStore = 512,
  kOnCluster = kOnRun | kOnDevices | kOnQueue | kOnTop | kOnMetrics | kOnDoctor,
};

// Way of a setting from the launcher to the agents of a run. Variables in the launcher's
// environment are passed in any case.
enum class AgentsGet : unsigned char {
  kNothing,   // Used by the launcher or the program only.
  kVariable,  // An option sets the variable for the agents.
  kOption,    // An option of the agents' command line.
};

struct Setting {
  const char* name;           // Name of the environment variable; "" for an option without one.
  const char* default_value;  // Value without variable and option; "" for none.
  const char* help;           // One line.
  SettingGroup group = SettingGroup::kInternal;
  const char* option = "";  // Names of the option, with dashes; "" for a variable without one.
  // Values in the syntax of help: words in lower case are literal, words in capitals are
  // placeholders, "|" separates them. "": a flag; its variable is on or off. "[VALUE]": the value
  // may be omitted. "[=VALUE]": the same, and "=" must precede it.
  const char* values = "";
  unsigned commands = 0;  // SettingCommands with the option.
  AgentsGet agents = AgentsGet::kNothing;
};

namespace settings {
#define CUSPAN_SETTING(name, group, variable, default_value, option, values, commands, agents, \
                       help)                                                                   \
  inline constexpr Setting name{variable, default_value, help,     SettingGroup::group,        \
                                option,   values,        commands, AgentsGet::agents};
#include "common/settings.def"
#undef CUSPAN_SETTING
}  // namespace settings

// All settings, in the order of help.
std::span<const Setting> AllSettings();
// Heading of a group: "GPUs".
const char* Title(SettingGroup group);

// The variable's value, or the default.
const char* SettingText(const Setting& setting);
// A count within [lowest, highest]; kInvalid names the variable, its value and the range.
Result<std::uint64_t> SettingNumber(const Setting& setting, std::uint64_t lowest,
                                    std::uint64_t highest);
// Bytes, with an optional suffix K, M or G (powers of 1024).
Result<std::uint64_t> SettingBytes(const Setting& setting, std::uint64_t lowest,
                                   std::uint64_t highest);

// "on" or "off".
Result<bool> SettingSwitch(const Setting& setting);

}  // namespace cuspan
