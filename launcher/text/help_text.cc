#include "launcher/text/help_text.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "common/format.h"
#include "common/settings.h"
#include "launcher/text/command_description.h"
#include "launcher/text/option_values.h"

namespace cuspan {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kTermIndent = 2;
constexpr std::size_t kTextIndent = 26;

// Number of code points: one column each, since help has no wide characters.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// Appends words to `line` up to kColumns, and continues in lines with `indent` spaces.
std::string Wrapped(std::string line, std::string_view words, std::size_t indent) {
  std::string text;
  bool first = true;
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    const std::string_view word = words.substr(begin, end - begin);
    begin = end + 1;
    if (!first && Width(line) + 1 + Width(word) > kColumns) {
      text += line + "\n";
      line.assign(indent, ' ');
      first = true;
    }
    if (!first) line += ' ';
    line += word;
    first = false;
  }
  return text + line + "\n";
}

// A term and its text in two columns; a long term has its own line.
std::string Entry(std::string_view term, std::string_view words) {
  std::string line(kTermIndent, ' ');
  line += term;
  std::string text;
  if (Width(line) + 2 > kTextIndent) {
    text = line + "\n";
    line.clear();
  }
  line.append(kTextIndent - Width(line), ' ');
  return text + Wrapped(std::move(line), words, kTextIndent);
}

std::string Term(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : OptionNames(option)) names += (names.empty() ? "" : ", ") + name;
  return names + ValueSuffix(option);
}

std::string Arguments(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional()) text += Entry(ArgumentName(*option), option->get_description());
  return text.empty() ? "" : "\nArguments:\n" + text;
}

std::string Commands(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : app.get_subcommands(AnyCommand))
    text += Entry(command->get_name(), DescribeCommand(*command).text);
  return text.empty() ? "" : "\nCommands:\n" + text;
}

bool IsVariable(const Setting& setting) { return *setting.name != '\0'; }

// Calls `begin` at the start of each group of settings, and `entry` for each of its settings.
template <typename Wanted, typename Begin, typename AddEntry>
void ForEachInGroups(Wanted wanted, Begin begin, AddEntry entry) {
  SettingGroup group = SettingGroup::kInternal;
  for (const Setting& setting : AllSettings()) {
    if (setting.group == SettingGroup::kInternal || !wanted(setting)) continue;
    if (setting.group != group) begin(Title(setting.group));
    group = setting.group;
    entry(setting);
  }
}

// Text for a cell of a table in Markdown.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string CodeCell(std::string_view text) {
  return text.empty() ? "" : Format("`{}`", Cell(text));
}

std::string CommandsCell(const Setting& setting) {
  constexpr struct {
    unsigned command;
    const char* name;
  } kNames[] = {{kOnRun, "run"},           {kOnDevices, "devices"}, {kOnQueue, "queue"},
                {kOnTop, "top"},           {kOnMetrics, "metrics"}, {kOnDoctor, "doctor"},
                {kOnSupport, "support"},   {kOnStore, "store"},     {kOnHelp, "help"},
                {kOnAgent, "cuspan-agent"}};
  std::string cell;
  for (const auto& known : kNames)
    if ((setting.commands & known.command) != 0)
      cell += Format("{}{}", cell.empty() ? "" : ", ", known.name);
  return cell;
}

const char* AgentsCell(AgentsGet agents) {
  switch (agents) {
    case AgentsGet::kVariable:
      return "variable";
    case AgentsGet::kOption:
      return "option";
    case AgentsGet::kNothing:
      break;
  }
  return "";
}

std::string OptionCell(const Setting& setting) {
  if (*setting.option == '\0') return "";
  const std::string_view values = setting.values;
  if (values.empty()) return CodeCell(setting.option);
  if (values.starts_with("[=")) return CodeCell(Format("{}{}", setting.option, values));
  if (values.starts_with('[')) return CodeCell(Format("{}[={}", setting.option, values.substr(1)));
  return CodeCell(Format("{} {}", setting.option, values));
}

std::string VariableCell(const Setting& setting) {
  return IsVariable(setting) ? CodeCell(Format("{}={}", setting.name, VariableValues(setting)))
                             : std::string();
}

constexpr const char* kDocumentHead = R"(# Settings

This page lists all options of `cuspan` and `cuspan-agent`, and all environment variables. An option
takes precedence over the variable in the same row. `cuspan COMMAND --help` lists the options of a
command, `cuspan help variables` the variables.

Words in capitals are placeholders, `|` separates values, and `[=VALUE]` may be omitted. The column
*agents* shows the way of a setting to the agents of a run: *option* of `cuspan-agent`, or
*variable*. Variables in the environment of `cuspan` reach the agents in any case.

`common/settings.def` is the source of this page; `cuspan help --markdown` prints it.
)";

}  // namespace

std::string CommandHelp(const CLI::App& command) {
  const CommandDescription description = DescribeCommand(command);
  std::string text = Wrapped("Usage: ", description.usage, 9) + "\n";
  text += Wrapped("", description.text, 0);
  if (!description.examples.empty()) text += description.examples + "\n";
  text += Arguments(command) + Commands(command);
  for (const OptionGroup& group : VisibleGroups(command)) {
    text += Format("\n{}:\n", group.title);
    for (const CLI::Option* option : group.options)
      text += Entry(Term(*option), FullDescription(*option));
  }
  return text;
}

std::string ProgramHelp(const CLI::App& app) {
  std::string text = CommandHelp(app);
  if (!app.get_subcommands(AnyCommand).empty())
    text += "\n" + Wrapped("",
                           "`cuspan COMMAND --help` lists the options of a command, `cuspan help "
                           "variables` the environment variables.",
                           0);
  return text;
}

std::string HelpText(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? ProgramHelp(app) : CommandHelp(*parsed.front());
}

std::string VariablesHelp() {
  std::string text = "Environment variables. An option of the same meaning takes precedence.\n";
  ForEachInGroups(
      IsVariable, [&text](const char* title) { text += Format("\n{}:\n", title); },
      [&text](const Setting& setting) {
        text +=
            Entry(Format("{}={}", setting.name, VariableValues(setting)), VariableHelp(setting));
      });
  return text;
}

std::string SettingsDocument() {
  std::string text = kDocumentHead;
  ForEachInGroups([](const Setting& /*setting*/) { return true; },
                  [&text](const char* title) {
                    text += Format(
                        "\n## {}\n\n| option | variable | default | commands | agents | meaning |\n"
                        "| --- | --- | --- | --- | --- | --- |\n",
                        title);
                  },
                  [&text](const Setting& setting) {
                    text += Format("| {} | {} | {} | {} | {} | {} |\n", OptionCell(setting),
                                   VariableCell(setting), CodeCell(setting.default_value),
                                   CommandsCell(setting), AgentsCell(setting.agents),
                                   Cell(setting.help));
                  });
  return text;
}

}  // namespace cuspan
