// Options of a command line, added to CLI11 from the table of settings, and their values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/settings.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cuspan {

// Parsing writes into this object, so it must outlive it. One object may serve several commands of
// one command line.
class OptionValues {
 public:
  OptionValues() = default;
  OptionValues(const OptionValues&) = delete;
  OptionValues& operator=(const OptionValues&) = delete;

  // Adds all options of a command (a bit of SettingCommands) in the order of the table, each in its
  // group of help.
  void AddTo(CLI::App& app, unsigned command);

  // These are for options of added commands only.
  // The option's value: as given, else the variable's value or the default. "true" for an option
  // given without its optional value.
  const std::string& Text(const Setting& setting) const;
  // The same for an option with literal values only; kInvalid names them.
  Result<std::string> Choice(const Setting& setting) const;
  // True if the flag is given.
  bool Flag(const Setting& setting) const;
  // True if the option is on the command line.
  bool Given(const Setting& setting) const;

 private:
  struct Value {
    std::string text;
    bool flag = false;
    std::vector<const CLI::Option*> options;  // One per command; owned by CLI11.
  };
  const Value& At(const Setting& setting) const;

  std::map<std::string_view, Value> values_;  // Indexed by Setting::option.
};

// Help of a setting, with its default and its variable. In a list of variables: with its option.
std::string OptionHelp(const Setting& setting);
std::string VariableHelp(const Setting& setting);

// Values of a variable, in the syntax of Setting::values.
std::string VariableValues(const Setting& setting);

// Literal words of such values: "auto" and "never" of "auto|never|N".
std::vector<std::string> LiteralValues(std::string_view values);

// An option's value as written after its name: " N|all", "[=SECONDS]", or "" for a flag.
std::string ValueSuffix(const CLI::Option& option);
// Values of an option without marks of an optional value: "SECONDS"; "" for a flag.
std::string ValueNames(const CLI::Option& option);
// Description of an option, with the options excluded by it.
std::string FullDescription(const CLI::Option& option);
// "-n" and "--np", in this order.
std::vector<std::string> OptionNames(const CLI::Option& option);

// Visible options of one group.
struct OptionGroup {
  std::string title;
  std::vector<const CLI::Option*> options;
};
// Groups in the order of their first options; without hidden and positional options.
std::vector<OptionGroup> VisibleGroups(const CLI::App& app);

// Heading of --help and --version.
inline constexpr const char* kHelpGroup = "Help";
// Adds --help. Called after the addition of all other options, it is the last group of help.
void AddHelpOption(CLI::App& app);

}  // namespace cuspan
