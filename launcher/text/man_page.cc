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
      text += Roff(usage.substr(at, 1));
      ++at;
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

std::string UpperCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Parts of a description.
struct Description {
  std::string name;      // Name of the command's page.
  std::string brief;     // Line in NAME.
  std::string usage;     // Command line.
  std::string text;      // Sentences.
  std::string examples;  // Lines.
};

Description Read(const CLI::App& command) {
  Description read;
  const bool is_root = command.get_parent() == nullptr;
  const std::string program = is_root ? command.get_name() : command.get_parent()->get_name();
  read.name = is_root ? program : program + "-" + command.get_name();
  read.text = command.get_description();
  if (const std::size_t lines = read.text.find("\n "); lines != std::string::npos) {
    read.examples = read.text.substr(lines + 1);
    read.text.resize(lines);
  }
  if (const std::size_t colon = read.text.find(": " + program + " "); colon != std::string::npos) {
    const std::size_t end = std::min(read.text.find(';', colon), read.text.size());
    read.usage = read.text.substr(colon + 2, end - colon - 2);
    read.text.erase(colon, end - colon);
  } else {
    read.usage = is_root ? program : program + " " + command.get_name();
    read.usage += " [OPTIONS]";
    if (!command.get_subcommands([](const CLI::App*) { return true; }).empty())
      read.usage += " COMMAND";
    for (const CLI::Option* option : command.get_options())
      if (option->get_positional()) read.usage += " " + option->get_type_name();
  }
  read.brief = read.text.substr(0, read.text.find_first_of(":;(."));
  read.brief.front() =
      static_cast<char>(std::tolower(static_cast<unsigned char>(read.brief.front())));
  read.text.front() =
      static_cast<char>(std::toupper(static_cast<unsigned char>(read.text.front())));
  if (!read.text.ends_with('.') && !read.text.ends_with(':')) read.text += '.';
  return read;
}

std::string OptionEntry(const CLI::Option& option) {
  std::string names;
  const auto add = [&](const std::string& name) {
    names += (names.empty() ? "" : ", ") + Bold(name);
  };
  for (const std::string& name : option.get_snames()) add("-" + name);
  for (const std::string& name : option.get_lnames()) add("--" + name);
  std::string entry = ".TP\n" + names;
  if (option.get_items_expected_max() > 0) entry += " " + Synopsis(option.get_type_name());
  std::string text = option.get_description();
  std::string others;
  for (const CLI::Option* other : option.get_excludes())
    others += (others.empty() ? "" : ", ") + other->get_name();
  if (!others.empty()) text += Format("; not with {}", others);
  return entry + "\n" + Filled(text);
}

std::string OptionEntries(const CLI::App& command) {
  std::string entries;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty() && !option->get_positional()) entries += OptionEntry(*option);
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
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; }))
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
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) add(*command);
}

std::string ManualPage(const CLI::App& app, std::span<const Setting> variables) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const Description read = Read(command);
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
      arguments += ".TP\n" + Italic(UpperCase(option->get_name())) + "\n" +
                   Filled(option->get_description());
  if (!arguments.empty()) page += ".SH ARGUMENTS\n" + arguments;
  page += ".SH OPTIONS\n" + OptionEntries(command);
  const std::vector<const CLI::App*> commands =
      command.get_subcommands([](const CLI::App*) { return true; });
  if (!commands.empty()) page += ".SH COMMANDS\n";
  for (const CLI::App* one : commands)
    page += ".TP\n" + Bold(one->get_name()) + "\n" + Filled(one->get_description());
  page += ".SH ENVIRONMENT\n";
  if (commands.empty()) {
    page += "The variables are in\n.BR cuspan (1).\n";
  } else {
    page += Filled("Each with its default. An option of the same meaning takes precedence.");
    for (const Setting& variable : variables)
      page += Format(".TP\n{} [{}]\n{}", Bold(variable.name), Roff(variable.default_value),
                     Filled(variable.help));
  }
  return page + ".SH SEE ALSO\n" + OtherPages(app, read.name);
}

}  // namespace cuspan
