#include "launcher/text/command_description.h"

#include <algorithm>
#include <cctype>

namespace cuspan {

std::string UpperCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string ArgumentName(const CLI::Option& argument) { return UpperCase(argument.get_name()); }

CommandDescription DescribeCommand(const CLI::App& command) {
  CommandDescription read;
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
    if (!command.get_subcommands(AnyCommand).empty()) read.usage += " COMMAND";
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

}  // namespace cuspan
