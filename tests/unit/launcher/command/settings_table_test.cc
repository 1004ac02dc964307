// The table of settings compared with the command lines, help, manual pages, completion scripts and
// docs/settings.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/settings.h"
#include "launcher/agent/base/agent_options.h"
#include "launcher/command/options.h"
#include "launcher/starter/agent_command.h"
#include "launcher/text/help_text.h"

namespace cuspan {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct NamedCommand {
  const char* name;
  unsigned bit;  // 0: no options in the table.
};
constexpr NamedCommand kCommands[] = {
    {"run", kOnRun},         {"devices", kOnDevices}, {"queue", kOnQueue},     {"top", kOnTop},
    {"metrics", kOnMetrics}, {"doctor", kOnDoctor},   {"support", kOnSupport}, {"bench", 0},
    {"store", kOnStore},     {"completion", 0},       {"version", 0},          {"help", kOnHelp},
    {"", kOnAgent}};

// Text printed by a command line: of `cuspan-agent` for kOnAgent, else of `cuspan`.
std::string Printed(const NamedCommand& command, const char* option) {
  const char* const words[] = {"cuspan", command.name, option};
  if (command.bit == kOnAgent) {
    const char* const agent[] = {"cuspan-agent", option};
    const Result<AgentCommandLine> line = ParseAgentCommandLine(2, agent);
    return line.ok() ? line->text : line.status().message();
  }
  const Result<CommandLine> line = ParseCommandLine(3, words);
  return line.ok() ? line->text : line.status().message();
}

std::string Script(const char* shell) { return Printed({"completion", 0}, shell); }

bool IsHidden(const Setting& setting) { return setting.group == SettingGroup::kInternal; }

// "--np" of "-n,--np".
std::string LongName(const Setting& setting) {
  const std::string names = setting.option;
  return names.substr(names.rfind(',') + 1);
}

// True if `text` has the name, and not only as part of a longer one.
bool HasName(const std::string& text, const std::string& name) {
  const auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-';
  };
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !in_name(text[at - 1])) && (end == text.size() || !in_name(text[end])))
      return true;
  }
  return false;
}

// Names of options missing in the text of their command, and of those wrongly in it.
using TextOf = std::function<std::string(const NamedCommand&)>;
std::vector<std::string> Mismatches(std::span<const Setting> table, const TextOf& text_of) {
  std::vector<std::string> wrong;
  for (const NamedCommand& command : kCommands) {
    const std::string text = text_of(command);
    for (const Setting& setting : table) {
      if ((setting.commands & command.bit) == 0) continue;
      const std::string name = LongName(setting);
      if (HasName(text, name) == IsHidden(setting)) wrong.push_back(command.name + (" " + name));
    }
  }
  return wrong;
}

// Options at the start of a line of help, in their order.
std::vector<std::string> OptionsOf(const std::string& help) {
  static const std::regex kOption("\n  (?:-., )?(--[a-z-]+)");
  std::vector<std::string> options;
  for (std::sregex_iterator at(help.begin(), help.end(), kOption), end; at != end; ++at)
    options.push_back((*at)[1]);
  return options;
}

std::string HelpOf(const NamedCommand& command) { return Printed(command, "--help"); }

// The manual page without escapes and fonts.
std::string PageOf(const NamedCommand& command) {
  const std::string page = Printed(command, "--manual-page");
  return std::regex_replace(std::regex_replace(page, std::regex("\\\\f[BIR]"), ""),
                            std::regex("\\\\-"), "-");
}

std::size_t Columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::vector<std::string> LongLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (Columns(line) > 80 || line.ends_with(' ')) lines.push_back(line);
  return lines;
}

TEST(SettingsTable, HelpFits80Columns) {
  for (const NamedCommand& command : kCommands)
    EXPECT_THAT(LongLines(HelpOf(command)), IsEmpty()) << command.name;
  EXPECT_THAT(LongLines(VariablesHelp()), IsEmpty());
  const char* const whole[] = {"cuspan", "--help"};
  EXPECT_THAT(LongLines(ParseCommandLine(2, whole)->text), IsEmpty());
  EXPECT_THAT(LongLines(std::string(81, 'x')), testing::SizeIs(1));
}

TEST(SettingsTable, EachOptionIsInTheHelpOfItsCommands) {
  EXPECT_THAT(Mismatches(AllSettings(), HelpOf), IsEmpty());
  // Help has no other options.
  for (const NamedCommand& command : kCommands) {
    std::vector<std::string> expected;
    for (const Setting& setting : AllSettings())
      if ((setting.commands & command.bit) != 0 && !IsHidden(setting))
        expected.push_back(LongName(setting));
    if (command.bit == kOnAgent) expected.emplace_back("--version");
    expected.emplace_back("--help");
    EXPECT_EQ(OptionsOf(HelpOf(command)), expected) << command.name;
  }
}

TEST(SettingsTable, EachOptionIsInTheManualPageOfItsCommands) {
  EXPECT_THAT(Mismatches(AllSettings(), PageOf), IsEmpty());
}

TEST(SettingsTable, HelpHasEachValue) {
  const std::string help = HelpOf(kCommands[0]);
  for (const char* part :
       {"\n  --share[=time|pair] ", "\n  --wait[=SECONDS] ", "\n  --gpus N|all ",
        "\n  --policy local-first|pack|spread|fastest|pair\n", "\n  --device auto|cuda|soft\n",
        "\n  --priority low|normal|high|N\n", "\n  --stats ", "\n  -n, --np N "})
    EXPECT_THAT(help, HasSubstr(part));
  EXPECT_THAT(help, HasSubstr("; not with --wait\n"));
  for (const char* title : {"GPUs", "Sharing GPUs", "Hosts", "MPI programs", "Output and checks"})
    EXPECT_THAT(help, HasSubstr(Format("\n\n{}:\n", title)));
}

TEST(SettingsTable, EachOptionIsInTheCompletionScripts) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = Script(shell);
    const bool is_fish = std::string_view(shell) == "fish";
    for (const Setting& setting : AllSettings()) {
      if ((setting.commands & ~kOnAgent) == 0) continue;
      const std::string name = is_fish ? "-l " + LongName(setting).substr(2) : LongName(setting);
      EXPECT_NE(HasName(script, name), IsHidden(setting)) << shell << " " << name;
    }
  }
}

TEST(SettingsTable, IsThatOfTheDocument) {
  std::ifstream file(SETTINGS_DOCUMENT);
  std::ostringstream text;
  text << file.rdbuf();
  std::istringstream page(text.str());
  std::istringstream wanted(SettingsDocument());
  for (std::string line, wanted_line; std::getline(wanted, wanted_line);) {
    std::getline(page, line);
    ASSERT_EQ(line, wanted_line) << "update it: cuspan help --markdown > docs/settings.md";
  }
  EXPECT_EQ(text.str(), SettingsDocument());
  for (const Setting& setting : AllSettings()) {
    if (IsHidden(setting)) continue;
    if (*setting.option != '\0') {
      EXPECT_TRUE(HasName(text.str(), LongName(setting))) << setting.option;
    }
    if (*setting.name != '\0') {
      EXPECT_TRUE(HasName(text.str(), setting.name)) << setting.name;
    }
  }
}

TEST(SettingsTable, HelpOfVariablesHasEach) {
  const std::string help = Printed({"help", 0}, "variables");
  EXPECT_EQ(help, VariablesHelp());
  const std::string page = [] {
    const char* const words[] = {"cuspan", "--manual-page"};
    return ParseCommandLine(2, words)->text;
  }();
  EXPECT_TRUE(std::all_of(page.begin(), page.end(), [](char c) { return c == '\n' || c >= ' '; }))
      << "characters besides ASCII are escaped";
  for (const Setting& setting : AllSettings()) {
    if (*setting.name == '\0') continue;
    EXPECT_THAT(help, HasSubstr(Format("\n  {}=", setting.name)));
    EXPECT_THAT(page, HasSubstr(Format("\n\\fB{}\\fR=", setting.name)));
  }
}

TEST(SettingsTable, AMissingOptionIsFound) {
  const Setting planted[] = {
      {"", "", "not there", SettingGroup::kGpus, "--gpu", "N", kOnRun, AgentsGet::kNothing},
      {"", "", "there, though hidden", SettingGroup::kInternal, "--json", "", kOnTop,
       AgentsGet::kNothing}};
  for (const TextOf& text_of : {TextOf(HelpOf), TextOf(PageOf)})
    EXPECT_THAT(Mismatches(planted, text_of), ElementsAre("run --gpu", "top --json"));
}

// --- Agents

TEST(SettingsTable, AgentsGetTheVariablesMarked) {
  std::vector<std::string> marked;
  for (const Setting& setting : AllSettings())
    if (setting.agents == AgentsGet::kVariable && *setting.option != '\0')
      marked.emplace_back(setting.name);
  std::vector<std::string> passed;
  for (const AgentVariable& variable : AgentVariables({}, 1))
    passed.emplace_back(variable.setting->name);
  EXPECT_THAT(passed, testing::UnorderedElementsAreArray(marked))
      << "the rows of AgentVariables, launcher/starter/agent_command.cc, against those of "
         "common/settings.def with kVariable";
}

TEST(SettingsTable, AgentsHaveTheOptionsMarked) {
  for (const Setting& setting : AllSettings())
    EXPECT_TRUE(setting.agents != AgentsGet::kOption || (setting.commands & kOnAgent) != 0)
        << setting.option;
}

// The agent parses the words made of a request.
TEST(SettingsTable, AgentsParseTheRequestOfARun) {
  const char* const run[] = {"cuspan",
                             "run",
                             "--gpus",
                             "2",
                             "--policy",
                             "spread",
                             "--wait=9",
                             "--min-memory",
                             "4G",
                             "--share=pair",
                             "--quota",
                             "30",
                             "--priority=-3",
                             "--memory",
                             "1G",
                             "--kind",
                             "memory",
                             "--share-limit",
                             "3",
                             "--limit",
                             "70",
                             "--min-capability",
                             "8.0",
                             "--",
                             "true"};
  const Result<CommandLine> line = ParseCommandLine(static_cast<int>(std::size(run)), run);
  ASSERT_TRUE(line.ok()) << line.status().message();
  GpuRequest request = line->run->cluster.request;
  request.order = 7;
  request.program = "-p";
  request.job = "12";
  request.look = true;
  const std::vector<std::string> words = GpuRequestOptions(request);
  EXPECT_THAT(words, Contains("--share=pair"));
  std::vector<const char*> agent = {"cuspan-agent", "--rank", "1", "--place", "2"};
  for (const std::string& word : words) agent.push_back(word.c_str());
  const Result<AgentCommandLine> parsed =
      ParseAgentCommandLine(static_cast<int>(agent.size()), agent.data());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(GpuRequestOptions(parsed->options->request), words);
  EXPECT_EQ(parsed->options->rank, 1U);
  EXPECT_EQ(parsed->options->place, 2U);
  const char* const wrong[] = {"cuspan-agent", "--rank", "first"};
  EXPECT_EQ(ParseAgentCommandLine(3, wrong).status().message(), "--rank first: not a number");
}

}  // namespace
}  // namespace cuspan
