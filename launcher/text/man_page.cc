#include "launcher/text/man_page.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "common/format.h"
#include "common/settings.h"
#include "launcher/text/command_description.h"
#include "launcher/text/option_values.h"

namespace cuspan {
namespace {

constexpr const char* kManualPage = "--manual-page";
// mandoc's lint allows lines of at most 80 bytes.
constexpr std::size_t kLineBytes = 78;

// The code point at text[at] (UTF-8); moves `at` behind it.
std::uint32_t NextCodePoint(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  std::uint32_t code = first < 0x80 ? first : first < 0xe0 ? first & 0x1f : first & 0x0f;
  if (first >= 0xf0) code = first & 0x07;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80)
    code = code << 6 | (static_cast<unsigned char>(text[at++]) & 0x3f);
  return code;
}

// Escapes characters for literal output: otherwise "-" could not be copied into a shell.
std::string Roff(std::string_view text) {
  std::string escaped;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t code = NextCodePoint(text, at);
    if (code >= 0x80)
      escaped += Format("\\[u{:04X}]", code);
    else if (code == '\\')
      escaped += "\\e";
    else if (code == '-')
      escaped += "\\-";
    else if (code == '\'')
      escaped += "\\(aq";
    else if (code == '`')
      escaped += "\\(ga";
    else if (code == '~')
      escaped += "\\(ti";
    else if (code == '^')
      escaped += "\\(ha";
    else
      escaped += static_cast<char>(code);
  }
  return escaped;
}

// A paragraph with short lines, each sentence on a new line, as man(7) recommends.
std::string Filled(std::string_view text) {
  std::string paragraph;
  std::size_t line = 0;
  bool sentence_ended = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    std::string word = Roff(text.substr(begin, end - begin));
    begin = end + 1;
    if (word.empty()) continue;
    if (line > 0 && (sentence_ended || line + 1 + word.size() > kLineBytes)) {
      paragraph += '\n';
      line = 0;
    }
    if (line > 0) {
      paragraph += ' ';
      ++line;
    } else if (word.front() == '.') {
      word.insert(0, "\\&");  // Not a request.
    }
    sentence_ended = word.ends_with('.');
    paragraph += word;
    line += word.size();
  }
  return paragraph + '\n';
}

std::string Bold(std::string_view text) { return Format("\\fB{}\\fR", Roff(text)); }
std::string Italic(std::string_view text) { return Format("\\fI{}\\fR", Roff(text)); }

// Formats a command line: literal words are bold, placeholders (in capitals) are italic, and other
// characters are plain.
std::string Synopsis(std::string_view usage) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
  };
  std::string text;
  for (std::size_t at = 0; at < usage.size();) {
    std::size_t end = at;
    while (end < usage.size() && is_word(usage[end])) ++end;
    if (end == at) {
      while (end < usage.size() && !is_word(usage[end])) ++end;
      text += Roff(usage.substr(at, end - at));
      at = end;
      continue;
    }
    const std::string_view word = usage.substr(at, end - at);
    const bool fixed = std::none_of(word.begin(), word.end(), [](char c) {
      return std::isupper(static_cast<unsigned char>(c)) != 0;
    });
    text += fixed ? Bold(word) : Italic(word);
    at = end;
  }
  return text;
}

std::string OptionEntry(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : OptionNames(option))
    names += (names.empty() ? "" : ", ") + Bold(name);
  return ".TP\n" + names + Synopsis(ValueSuffix(option)) + "\n" + Filled(FullDescription(option));
}

std::string OptionEntries(const CLI::App& command) {
  std::string entries;
  for (const OptionGroup& group : VisibleGroups(command)) {
    entries += Format(".SS {}\n", Roff(group.title));
    for (const CLI::Option* option : group.options) entries += OptionEntry(*option);
  }
  return entries;
}

// Entries of all variables, in their groups.
std::string VariableEntries() {
  std::string entries;
  SettingGroup group = SettingGroup::kInternal;
  for (const Setting& setting : AllSettings()) {
    if (*setting.name == '\0') continue;
    if (setting.group != group) entries += Format(".SS {}\n", Roff(Title(setting.group)));
    group = setting.group;
    entries += Format(".TP\n{}={}\n{}", Bold(setting.name), Synopsis(VariableValues(setting)),
                      Filled(VariableHelp(setting)));
  }
  return entries;
}

std::string PageDate() {
  std::time_t when = std::time(nullptr);
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH"); epoch != nullptr) {
    const std::string_view text = epoch;
    std::int64_t seconds = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), seconds).ec == std::errc{})
      when = seconds;
  }
  std::tm day{};
  gmtime_r(&when, &day);
  return Format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

// "cuspan(1)" and the pages of its commands, without `own`.
std::string OtherPages(const CLI::App& root, const std::string& own) {
  std::vector<std::string> names;
  for (const CLI::App* command : root.get_subcommands(AnyCommand))
    names.push_back(root.get_name() + "-" + command->get_name());
  names.insert(names.begin(), "cuspan");
  if (names.size() > 1) names.emplace_back("cuspan-agent");
  std::erase(names, own);
  std::string pages;
  for (const std::string& name : names)
    pages += Format("{}.BR {} (1)", pages.empty() ? "" : " ,\n", Roff(name));
  return pages + "\n";
}

}  // namespace

void AddManualPageOption(CLI::App& app) {
  const auto add = [](CLI::App& to) {
    to.set_help_all_flag(kManualPage, "print the manual page and exit")->group("");
  };
  add(app);
  for (CLI::App* command : app.get_subcommands(AnyCommand)) add(*command);
}

std::string ManualPage(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const CommandDescription read = DescribeCommand(command);
  std::string page = Format(".TH {} 1 {} \"cuspan " CUSPAN_VERSION "\" \"User Commands\"\n",
                            Roff(UpperCase(read.name)), PageDate());
  page += ".SH NAME\n" + Filled(read.name + " - " + read.brief);
  page += ".SH SYNOPSIS\n" + Synopsis(read.usage) + "\n.SH DESCRIPTION\n" + Filled(read.text);
  if (!read.examples.empty()) {
    page += ".PP\n.nf\n";
    for (std::size_t begin = 0; begin < read.examples.size();) {
      const std::size_t end = std::min(read.examples.find('\n', begin), read.examples.size());
      page += Roff(read.examples.substr(begin, end - begin)) + "\n";
      begin = end + 1;
    }
    page += ".fi\n";
  }
  std::string arguments;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional())
      arguments +=
          ".TP\n" + Italic(ArgumentName(*option)) + "\n" + Filled(option->get_description());
  if (!arguments.empty()) page += ".SH ARGUMENTS\n" + arguments;
  page += ".SH OPTIONS\n" + OptionEntries(command);
  const std::vector<const CLI::App*> commands = command.get_subcommands(AnyCommand);
  if (!commands.empty()) page += ".SH COMMANDS\n";
  for (const CLI::App* one : commands)
    page += ".TP\n" + Bold(one->get_name()) + "\n" + Filled(one->get_description());
  page += ".SH ENVIRONMENT\n";
  if (commands.empty())
    page += "The variables are in\n.BR cuspan (1).\n";
  else
    page += Filled("An option of the same meaning takes precedence.") + VariableEntries();
  return page + ".SH SEE ALSO\n" + OtherPages(app, read.name);
}

}  // namespace cuspan
