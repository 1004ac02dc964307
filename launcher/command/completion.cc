#include "launcher/command/completion.h"

#include <algorithm>
#include <vector>

#include "common/format.h"
#include "launcher/text/command_description.h"
#include "launcher/text/option_values.h"

namespace cuspan {
namespace {

struct OptionWords {
  std::vector<std::string> names;  // Including dashes.
  bool has_value = false;
  std::vector<std::string> values;  // Fixed values.
  std::string type;                 // Type as in --help.
  std::string description;
};

struct CommandWords {
  std::string name;  // Empty: cuspan itself.
  std::string description;
  std::vector<OptionWords> options;
  bool runs_program = false;
};

// The description without its details.
std::string Brief(const std::string& description) {
  std::string brief = description.substr(0, description.find_first_of(":;(["));
  while (brief.ends_with(' ')) brief.pop_back();
  return brief;
}

CommandWords WordsOf(const CLI::App& command, bool is_root) {
  CommandWords words;
  if (!is_root) words.name = command.get_name();
  words.description = Brief(command.get_description());
  words.runs_program = !is_root && words.name == "run";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // Hidden options are not in --help either.
    OptionWords known;
    known.names = OptionNames(*option);
    if (known.names.empty()) continue;
    known.has_value = option->get_items_expected_max() > 0;
    known.type = known.has_value ? ValueNames(*option) : "";
    known.values = LiteralValues(known.type);
    known.description = Brief(option->get_description());
    words.options.push_back(std::move(known));
  }
  return words;
}

std::vector<CommandWords> AllWords(const CLI::App& app) {
  std::vector<CommandWords> all = {WordsOf(app, true)};
  for (const CLI::App* command : app.get_subcommands(AnyCommand))
    all.push_back(WordsOf(*command, false));
  return all;
}

std::string Joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

std::vector<std::string> CommandNames(const std::vector<CommandWords>& all) {
  std::vector<std::string> names;
  for (const CommandWords& command : all)
    if (!command.name.empty()) names.push_back(command.name);
  return names;
}

// --- bash

constexpr std::string_view kBashHead = R"(# Completion of cuspan's command line for bash.
_cuspan() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' valued='' previous='' i
  COMPREPLY=()
  # --option=value is three words.
  if [[ $word == = ]]; then
    word=''
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ -z $command ]]; then
      [[ ${COMP_WORDS[i]} == -* ]] && continue
      command=${COMP_WORDS[i]}
      case $command in
)";

constexpr std::string_view kBashProgram = R"(      esac
    elif [[ $command == run ]]; then
      # The first word that is neither an option nor an option's value begins the program's.
      if [[ ${COMP_WORDS[i]} == -- ]]; then
        _cuspan_program $((i + 1))
        return
      fi
      if [[ ${COMP_WORDS[i]} != -* && ${COMP_WORDS[i]} != = && $previous != = &&
        " $valued " != *" $previous "* ]]; then
        _cuspan_program $i
        return
      fi
    fi
    previous=${COMP_WORDS[i]}
  done
  case "$command $before" in
)";

constexpr std::string_view kBashTail = R"(  esac
  if [[ $command == run && $word != -* ]]; then
    _cuspan_program $COMP_CWORD
  fi
}
_cuspan_program() {
  if [[ $1 -lt $COMP_CWORD ]] && declare -F _command_offset > /dev/null; then
    _command_offset "$1"
  elif [[ $1 -lt $COMP_CWORD ]]; then
    compopt -o default 2> /dev/null
    COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
  else
    compopt -o default 2> /dev/null
    COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
  fi
}
complete -F _cuspan cuspan
)";

// Option of compgen for listing the value; empty: no list.
std::string BashValue(const OptionWords& option) {
  if (!option.values.empty()) return Format("-W '{}'", Joined(option.values, " "));
  if (option.type == "FILE") return "-f";
  if (option.type == "DIR") return "-d";
  if (option.type == "COMMAND") return "-c";
  return "";
}

std::string BashScript(const std::vector<CommandWords>& all) {
  std::string text(kBashHead);
  for (const CommandWords& command : all) {
    std::vector<std::string> valued;
    for (const OptionWords& option : command.options)
      if (option.has_value) valued.insert(valued.end(), option.names.begin(), option.names.end());
    if (!command.name.empty() && !valued.empty())
      text += Format("        {}) valued='{}' ;;\n", command.name, Joined(valued, " "));
  }
  text += kBashProgram;
  for (const CommandWords& command : all) {
    for (const OptionWords& option : command.options) {
      if (!option.has_value) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back(Format("'{} {}'", command.name, name));
      const std::string value = BashValue(option);
      text += Format("    {}) ", Joined(patterns, " | "));
      if (!value.empty()) text += Format("COMPREPLY=($(compgen {} -- \"$word\")); ", value);
      text += "return ;;\n";
    }
  }
  text += "  esac\n  case $command in\n";
  for (const CommandWords& command : all) {
    std::vector<std::string> names;
    if (command.name.empty()) names = CommandNames(all);
    for (const OptionWords& option : command.options)
      names.insert(names.end(), option.names.begin(), option.names.end());
    text += Format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n",
                   command.name.empty() ? "''" : command.name, Joined(names, " "));
  }
  text += kBashTail;
  return text;
}

// --- zsh

// Text for single quotes, with characters special to _arguments and _describe escaped by a
// backslash.
std::string ZshText(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

std::string ZshValue(const OptionWords& option) {
  if (!option.has_value) return "";
  std::string action = " ";
  if (!option.values.empty())
    action = Format("({})", Joined(option.values, " "));
  else if (option.type == "FILE")
    action = "_files";
  else if (option.type == "DIR")
    action = "_files -/";
  else if (option.type == "COMMAND")
    action = "_command_names";
  return Format(":{}:{}", ZshText(option.type), action);
}

std::string ZshScript(const std::vector<CommandWords>& all) {
  std::string text =
      "#compdef cuspan\n"
      "# Completion of cuspan's command line for zsh.\n"
      "local context state state_descr line\n"
      "typeset -A opt_args\n"
      "local -a commands=(\n";
  for (const CommandWords& command : all)
    if (!command.name.empty())
      text += Format("  '{}:{}'\n", command.name, ZshText(command.description));
  text += ")\n";
  for (const CommandWords& command : all) {
    if (command.name.empty())
      text += "_arguments -C \\\n";
    else
      text += Format("  {})\n    _arguments \\\n", command.name);
    for (const OptionWords& option : command.options)
      for (const std::string& name : option.names)
        text +=
            Format("      '{}[{}]{}' \\\n", name, ZshText(option.description), ZshValue(option));
    if (command.name.empty())
      text +=
          "      '1:command:->command' '*::argument:->argument' && return\n"
          "if [[ $state == command ]]; then\n"
          "  _describe command commands\n"
          "  return\n"
          "fi\n"
          "case $words[1] in\n";
    else
      text +=
          Format("      {}\n    ;;\n", command.runs_program ? "'*::program:_normal'" : "&& return");
  }
  text += "esac\n";
  return text;
}

// --- fish

std::string FishText(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

std::string FishOption(const OptionWords& option) {
  std::string text;
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    text += Format(" -{} {}", is_long ? "l" : "s", name.substr(is_long ? 2 : 1));
  }
  if (option.has_value) {
    const bool files = option.type == "FILE" || option.type == "DIR";
    text += files ? " -r -F" : " -x";
    if (!option.values.empty()) text += Format(" -a '{}'", Joined(option.values, " "));
    if (option.type == "COMMAND") text += " -a '(__fish_complete_command)'";
  }
  return text + Format(" -d '{}'", FishText(option.description));
}

std::string FishScript(const std::vector<CommandWords>& all) {
  std::string text =
      "# Completion of cuspan's command line for fish.\n"
      "complete -c cuspan -f\n";
  for (const CommandWords& command : all) {
    if (command.name.empty()) {
      for (const OptionWords& option : command.options)
        text += Format("complete -c cuspan -n __fish_use_subcommand{}\n", FishOption(option));
      continue;
    }
    text += Format("complete -c cuspan -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                   FishText(command.description));
    const std::string seen = Format("'__fish_seen_subcommand_from {}'", command.name);
    for (const OptionWords& option : command.options)
      text += Format("complete -c cuspan -n {}{}\n", seen, FishOption(option));
    if (!command.runs_program) continue;
    // Options with a value in the next word. fish treats a long option in the first position as its
    // own.
    std::vector<std::string> valued = {"-"};
    for (const OptionWords& option : command.options)
      if (option.has_value) valued.insert(valued.end(), option.names.begin(), option.names.end());
    text +=
        Format("complete -c cuspan -n {} -x -a '(__fish_complete_subcommand --fcs-skip=2 {})'\n",
               seen, Joined(valued, " "));
  }
  return text;
}

}  // namespace

Result<std::string> CompletionScript(const CLI::App& app, std::string_view shell) {
  const std::vector<CommandWords> all = AllWords(app);
  if (shell == "bash") return BashScript(all);
  if (shell == "zsh") return ZshScript(all);
  if (shell == "fish") return FishScript(all);
  return Status::Invalid("completion {}: use bash, zsh or fish", shell);
}

}  // namespace cuspan
