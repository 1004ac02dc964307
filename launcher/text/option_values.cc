#include "launcher/text/option_values.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "common/format.h"

namespace cuspan {
namespace {

// Pairs of options excluding each other.
constexpr const Setting* kExclusive[][2] = {{&settings::kHostfile, &settings::kHosts},
                                            {&settings::kNoWait, &settings::kWait}};

bool Optional(std::string_view values) { return values.starts_with('['); }
bool OnlyAfterEquals(std::string_view values) { return values.starts_with("[="); }

// "help [default: 2; variable: CUSPAN_X]", with the notes given that are not empty.
std::string WithNotes(const Setting& setting, const char* kind, const char* other) {
  std::string notes;
  if (*setting.default_value != '\0') notes = Format("default: {}", setting.default_value);
  if (*other != '\0') notes += Format("{}{}: {}", notes.empty() ? "" : "; ", kind, other);
  return notes.empty() ? setting.help : Format("{} [{}]", setting.help, notes);
}

}  // namespace

void OptionValues::AddTo(CLI::App& app, unsigned command) {
  for (const Setting& setting : AllSettings()) {
    if ((setting.commands & command) == 0) continue;
    const std::string_view values = setting.values;
    Value& value = values_[setting.option];
    value.text = SettingText(setting);
    CLI::Option* option = nullptr;
    if (values.empty()) {
      option = app.add_flag(setting.option, value.flag);
    } else if (OnlyAfterEquals(values)) {
      option = app.add_flag(setting.option, value.text);
    } else {
      option = app.add_option(setting.option, value.text);
      if (Optional(values)) option->expected(0, 1);
      // The option may be repeated: one value on each line.
      if (values == "ROOTS") option->join();
    }
    option->description(OptionHelp(setting))->group(Title(setting.group));
    if (!values.empty()) option->type_name(setting.values);
    value.options.push_back(option);
  }
  for (const auto& [one, other] : kExclusive) {
    CLI::Option* option = app.get_option_no_throw(one->option);
    if (option != nullptr) option->excludes(app.get_option(other->option));
  }
}

const OptionValues::Value& OptionValues::At(const Setting& setting) const {
  return values_.at(setting.option);
}

const std::string& OptionValues::Text(const Setting& setting) const { return At(setting).text; }

Result<std::string> OptionValues::Choice(const Setting& setting) const {
  const std::string& text = Text(setting);
  const std::vector<std::string> choices = LiteralValues(setting.values);
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  std::string list;
  for (std::size_t i = 0; i < choices.size(); ++i)
    list += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  return Status::Invalid("{} must be {}, not '{}'", setting.option, list, text);
}

bool OptionValues::Flag(const Setting& setting) const { return At(setting).flag; }

bool OptionValues::Given(const Setting& setting) const {
  const std::vector<const CLI::Option*>& options = At(setting).options;
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->count() > 0; });
}

std::string OptionHelp(const Setting& setting) {
  return WithNotes(setting, "variable", setting.name);
}

std::string VariableHelp(const Setting& setting) {
  return WithNotes(setting, "option", setting.option);
}

std::string VariableValues(const Setting& setting) {
  return *setting.values == '\0' ? "on|off" : setting.values;
}

std::vector<std::string> LiteralValues(std::string_view values) {
  std::vector<std::string> literal;
  for (std::size_t begin = 0; begin <= values.size();) {
    const std::size_t end = std::min(values.find('|', begin), values.size());
    const std::string_view word = values.substr(begin, end - begin);
    const bool is_literal = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || c == '-';
    });
    if (is_literal) literal.emplace_back(word);
    begin = end + 1;
  }
  return literal;
}

std::string ValueNames(const CLI::Option& option) {
  // CLI11 has a type's name for flags, too.
  if (option.get_items_expected_max() == 0 && !OnlyAfterEquals(option.get_type_name())) return "";
  std::string names = option.get_type_name();
  if (Optional(names)) {
    names.pop_back();
    names.erase(0, OnlyAfterEquals(names) ? 2 : 1);
  }
  return names;
}

std::string ValueSuffix(const CLI::Option& option) {
  const std::string names = ValueNames(option);
  if (names.empty()) return "";
  return Optional(option.get_type_name()) ? Format("[={}]", names) : " " + names;
}

std::string FullDescription(const CLI::Option& option) {
  std::string text = option.get_description();
  std::string others;
  for (const CLI::Option* other : option.get_excludes())
    others += (others.empty() ? "" : ", ") + other->get_name();
  return others.empty() ? text : Format("{}; not with {}", text, others);
}

std::vector<std::string> OptionNames(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<OptionGroup> VisibleGroups(const CLI::App& app) {
  std::vector<OptionGroup> groups;
  for (const CLI::Option* option : app.get_options()) {
    const std::string& title = option->get_group();
    if (title.empty() || option->get_positional()) continue;
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [&](const OptionGroup& group) { return group.title == title; });
    if (found == groups.end())
      groups.push_back({title, {option}});
    else
      found->options.push_back(option);
  }
  return groups;
}

void AddHelpOption(CLI::App& app) {
  app.set_help_flag("-h,--help", "print this help and exit")->group(kHelpGroup);
}

}  // namespace cuspan
