#include "launcher/command/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/settings.h"
#include "launcher/command/cluster_line.h"
#include "launcher/command/completion.h"
#include "launcher/command/run_line.h"
#include "launcher/command/store.h"
#include "launcher/text/command_description.h"
#include "launcher/text/help_text.h"
#include "launcher/text/man_page.h"
#include "launcher/text/nearest.h"
#include "launcher/text/option_values.h"
#include "launcher/text/parse_errors.h"

namespace cuspan {
namespace {

constexpr const char* kVersionLine = "cuspan " CUSPAN_VERSION "\n";
constexpr const char* kVariablesTopic = "variables";

struct LineWords {
  std::vector<std::string> own;      // Words for cuspan.
  std::vector<std::string> program;  // Words after the first "--".
  bool separated = false;            // The line has a "--".
};

LineWords SplitAtSeparator(int argc, const char* const* argv) {
  LineWords words;
  for (int i = 1; i < argc; ++i) {
    if (!words.separated && std::string_view(argv[i]) == "--")
      words.separated = true;
    else
      (words.separated ? words.program : words.own).emplace_back(argv[i]);
  }
  return words;
}

// Options and arguments as written by the user, not yet checked.
struct LineTexts {
  OptionValues values;
  std::string target;              // metrics
  std::vector<std::string> names;  // support
  std::string action;              // store
  std::string shell;               // completion
  std::string topic;               // help
};

// A line parsed by CLI11.
struct ParsedLine {
  const CLI::App& app;
  const CLI::App& command;
  const LineTexts& texts;
  const LineWords& words;
};

struct Command {
  const char* name;
  const char* description;
  unsigned options;  // Bit of SettingCommands; 0: no options in the table.
  void (*add_arguments)(CLI::App& command, LineTexts& texts);
  Result<CommandLine> (*finish)(const ParsedLine& line);
};

// --- Arguments

void AddNone(CLI::App& command, LineTexts& /*texts*/) { command.allow_extras(); }
// Remaining words are the command line of a program.
void AddProgram(CLI::App& command, LineTexts& /*texts*/) { command.prefix_command(); }
void AddTarget(CLI::App& command, LineTexts& texts) {
  command.allow_extras();
  command.add_option("where", texts.target, "[HOST:]PORT, unix:PATH, or a file")
      ->type_name("WHERE");
}
void AddNames(CLI::App& command, LineTexts& texts) {
  command.allow_extras();
  command.add_option("names", texts.names, "only these functions");
}
void AddAction(CLI::App& command, LineTexts& texts) {
  command.allow_extras();
  command.add_option("action", texts.action, "plan")->type_name("ACTION")->required();
}
void AddShell(CLI::App& command, LineTexts& texts) {
  command.allow_extras();
  command.add_option("shell", texts.shell, "bash, zsh or fish")->type_name("SHELL")->required();
}
void AddTopic(CLI::App& command, LineTexts& texts) {
  command.allow_extras();
  command.add_option("command", texts.topic, "name of a command, or variables");
}

// --- Parsed lines

std::vector<std::string> NamesOfCommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(AnyCommand))
    names.push_back(command->get_name());
  return names;
}

std::string ListOf(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

// " (did you mean 'run'?)", or empty if no word is near.
std::string Suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::optional<std::string> nearest = Nearest(word, known);
  return nearest ? Format(" (did you mean '{}'?)", *nearest) : std::string();
}

CommandLine TextLine(std::string text) {
  CommandLine line;
  line.text = std::move(text);
  return line;
}

Result<CommandLine> FinishRun(const ParsedLine& parsed) {
  // The program's words are the last ones, unchanged. Without a separator, the program's command
  // line starts at the first word other than an option.
  const std::vector<std::string>& own = parsed.words.own;
  const auto count = static_cast<std::ptrdiff_t>(parsed.command.remaining().size());
  std::vector<std::string> program(own.end() - count, own.end());
  if (!program.empty() && parsed.words.separated) program.emplace_back("--");
  program.insert(program.end(), parsed.words.program.begin(), parsed.words.program.end());
  CommandLine line;
  CUSPAN_ASSIGN_OR_RETURN(line.run, CheckRunOptions(parsed.texts.values, std::move(program)));
  return line;
}

// Cluster options of a command without a program.
Result<ClusterOptions> CheckWithoutProgram(const ParsedLine& parsed) {
  CUSPAN_ASSIGN_OR_RETURN(ClusterOptions cluster, CheckClusterOptions(parsed.texts.values));
  if (!parsed.words.program.empty())
    return Status::Invalid("{0} takes no program; see cuspan {0} --help",
                           parsed.command.get_name());
  return cluster;
}

Result<DevicesOptions> CheckDevicesOptions(const ParsedLine& parsed) {
  DevicesOptions devices;
  CUSPAN_ASSIGN_OR_RETURN(devices.cluster, CheckWithoutProgram(parsed));
  devices.json = parsed.texts.values.Flag(settings::kJson);
  return devices;
}

Result<CommandLine> FinishDevices(const ParsedLine& parsed) {
  CommandLine line;
  CUSPAN_ASSIGN_OR_RETURN(line.devices, CheckDevicesOptions(parsed));
  return line;
}

Result<CommandLine> FinishQueue(const ParsedLine& parsed) {
  CommandLine line;
  CUSPAN_ASSIGN_OR_RETURN(line.queue, CheckDevicesOptions(parsed));
  return line;
}

// Parses "0.5" or "30".
Result<std::chrono::milliseconds> ParseEvery(const std::string& text) {
  double seconds = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() ||
      !(seconds >= 0.5 && seconds <= 3600))
    return Status::Invalid("--every {}: use a number of seconds from 0.5 to 3600", text);
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

Result<CommandLine> FinishTop(const ParsedLine& parsed) {
  const OptionValues& values = parsed.texts.values;
  TopOptions top;
  CUSPAN_ASSIGN_OR_RETURN(top.cluster, CheckWithoutProgram(parsed));
  CUSPAN_ASSIGN_OR_RETURN(top.every, ParseEvery(values.Text(settings::kEvery)));
  top.json = values.Flag(settings::kJson);
  top.once = values.Flag(settings::kOnce);
  CommandLine line;
  line.top = std::move(top);
  return line;
}

Result<CommandLine> FinishMetrics(const ParsedLine& parsed) {
  NodeMetricsOptions metrics;
  CUSPAN_ASSIGN_OR_RETURN(metrics.cluster, CheckWithoutProgram(parsed));
  if (const std::string& target = parsed.texts.target; !target.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(metrics.target, ParseMetricsTarget(target));
  }
  CommandLine line;
  line.metrics = std::move(metrics);
  return line;
}

Result<CommandLine> FinishDoctor(const ParsedLine& parsed) {
  const OptionValues& values = parsed.texts.values;
  DoctorOptions doctor;
  CUSPAN_ASSIGN_OR_RETURN(doctor.cluster, CheckWithoutProgram(parsed));
  CUSPAN_ASSIGN_OR_RETURN(
      const std::uint32_t seconds,
      ParseUpTo4096(values.Text(settings::kTimeout), settings::kTimeout.option, "seconds are"));
  doctor.limit = std::chrono::seconds(seconds);
  doctor.json = values.Flag(settings::kJson);
  doctor.probe = values.Flag(settings::kProbe);
  CommandLine line;
  line.doctor = std::move(doctor);
  return line;
}

Result<CommandLine> FinishSupport(const ParsedLine& parsed) {
  if (parsed.words.separated)
    return Status::Invalid("support runs no program; see cuspan support --help");
  CommandLine line;
  line.support = {.names = parsed.texts.names, .json = parsed.texts.values.Flag(settings::kJson)};
  return line;
}

// The benchmark parses its options itself.
Result<CommandLine> FinishBench(const ParsedLine& parsed) {
  const std::vector<std::string> rest = parsed.command.remaining();
  BenchOptions bench;
  if (!rest.empty()) bench.name = rest.front();
  if (rest.size() > 1) bench.arguments.assign(rest.begin() + 1, rest.end());
  if (parsed.words.separated) bench.arguments.emplace_back("--");
  bench.arguments.insert(bench.arguments.end(), parsed.words.program.begin(),
                         parsed.words.program.end());
  CommandLine line;
  line.bench = std::move(bench);
  return line;
}

Result<CommandLine> FinishStore(const ParsedLine& parsed) {
  if (parsed.texts.action != "plan")
    return Status::Invalid("store {}: use plan", parsed.texts.action);
  if (parsed.words.separated)
    return Status::Invalid("store takes no program; see cuspan store --help");
  CUSPAN_ASSIGN_OR_RETURN(const StorePlan plan, CheckStorePlan(parsed.texts.values));
  return TextLine(StorePlanTable(plan));
}

Result<CommandLine> FinishCompletion(const ParsedLine& parsed) {
  CUSPAN_ASSIGN_OR_RETURN(std::string script, CompletionScript(parsed.app, parsed.texts.shell));
  return TextLine(std::move(script));
}

Result<CommandLine> FinishHelp(const ParsedLine& parsed) {
  const std::string& topic = parsed.texts.topic;
  if (parsed.texts.values.Flag(settings::kMarkdown)) return TextLine(SettingsDocument());
  if (topic.empty()) return TextLine(ProgramHelp(parsed.app));
  if (topic == kVariablesTopic) return TextLine(VariablesHelp());
  for (const CLI::App* command : parsed.app.get_subcommands(AnyCommand))
    if (topic == command->get_name()) return TextLine(CommandHelp(*command));
  std::vector<std::string> topics = NamesOfCommands(parsed.app);
  topics.emplace_back(kVariablesTopic);
  return Status::NotFound("no help on '{}'{}; there is help on {}", topic,
                          Suggestion(topic, topics), ListOf(topics));
}

Result<CommandLine> FinishVersion(const ParsedLine& /*parsed*/) { return TextLine(kVersionLine); }

constexpr Command kCommands[] = {
    {"run", "run a program: cuspan run [OPTIONS] -- PROGRAM [ARGUMENTS]", kOnRun, AddProgram,
     FinishRun},
    {"devices", "list the GPUs available to a run, and the runs holding them", kOnDevices, AddNone,
     FinishDevices},
    {"queue", "list the runs holding GPUs or waiting for them, in order", kOnQueue, AddNone,
     FinishQueue},
    {"top", "show the activity of runs with shared GPUs: GPU time, waits and memory", kOnTop,
     AddNone, FinishTop},
    {"metrics",
     "print metrics of the hosts' GPUs, and of the runs holding them, for Prometheus: cuspan "
     "metrics [OPTIONS] [WHERE]; with WHERE, as for run --metrics, serve them",
     kOnMetrics, AddTarget, FinishMetrics},
    {"doctor", "report everything a run would need and not find, each with a remedy", kOnDoctor,
     AddNone, FinishDoctor},
    {"support",
     "list the supported functions of CUDA, NVML and NCCL: cuspan support [OPTIONS] [NAMES]",
     kOnSupport, AddNames, FinishSupport},
    {"bench", "run a benchmark: cuspan bench NAME [OPTIONS]; without NAME, list the benchmarks", 0,
     AddProgram, FinishBench},
    {"store",
     "plan reads of files by kernels: cuspan store plan [OPTIONS]; print the requests under way, "
     "and compare reads of single lines with those of whole extents of 2 MiB",
     kOnStore, AddAction, FinishStore},
    {"completion", "print the script for completion of cuspan's command line in a shell", 0,
     AddShell, FinishCompletion},
    {"version", "print the version", 0, AddNone, FinishVersion},
    {"help", "print the help of a command, or the variables: cuspan help [COMMAND|variables]",
     kOnHelp, AddTopic, FinishHelp},
};

void AddCommands(CLI::App& app, LineTexts& texts) {
  for (const Command& row : kCommands) {
    CLI::App* command = app.add_subcommand(row.name, row.description);
    if (row.options != 0) texts.values.AddTo(*command, row.options);
    row.add_arguments(*command, texts);
    AddHelpOption(*command);
  }
  app.set_version_flag("--version", "cuspan " CUSPAN_VERSION, "print the version and exit")
      ->group(kHelpGroup);
  AddHelpOption(app);
  AddManualPageOption(app);
}

// --- Errors

// Checks that the first of `words` is a command, or an option allowed without one.
Status CheckCommand(const std::vector<std::string>& words, CLI::App& app) {
  const std::vector<std::string> commands = NamesOfCommands(app);
  const std::string list = ListOf(commands);
  if (words.empty())
    return Status::NotFound("no command given; the commands are {}; see cuspan --help", list);
  const std::string& word = words.front();
  if (std::find(commands.begin(), commands.end(), word) != commands.end() ||
      app.get_option_no_throw(word) != nullptr)
    return Status::Ok();
  if (word.starts_with("-"))
    return Status::NotFound("unknown option '{}'; a command comes first: {}; see cuspan --help",
                            word, list);
  return Status::NotFound("unknown command '{}'{}; the commands are {}; see cuspan --help", word,
                          Suggestion(word, commands), list);
}

// Checks that the words not parsed by `command` are the command line of a program.
Status CheckExtras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return Status::Ok();
  const std::string& word = extras.front();
  if (word.starts_with("-")) {
    std::vector<std::string> options;
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    return Status::Invalid("unknown option '{}'{}; see cuspan {} --help", word,
                           Suggestion(word.substr(0, word.find('=')), options), command.get_name());
  }
  if (command.get_prefix_command()) return Status::Ok();
  return Status::Invalid("unexpected argument '{}'; see cuspan {} --help", word,
                         command.get_name());
}

// Parses cuspan's own words. The result is set if the line is complete: --help and the like.
Result<std::optional<CommandLine>> Parse(CLI::App& app, const std::vector<std::string>& own) {
  try {
    // CLI11 expects the words from last to first, and would read -np as -n p.
    std::vector<std::string> reversed(own.rbegin(), own.rend());
    std::replace(reversed.begin(), reversed.end(), std::string("-np"), std::string("--np"));
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return std::optional(TextLine(HelpText(app)));
  } catch (const CLI::CallForAllHelp&) {
    return std::optional(TextLine(ManualPage(app)));
  } catch (const CLI::CallForVersion&) {
    return std::optional(TextLine(kVersionLine));
  } catch (const CLI::ParseError& error) {
    return Status::Invalid("{}; see cuspan --help", DescribeParseError(error));
  }
  return std::optional<CommandLine>();
}

}  // namespace

Result<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  const LineWords words = SplitAtSeparator(argc, argv);
  CLI::App app("Runs unmodified CUDA programs on the GPUs of a whole cluster.", "cuspan");
  app.require_subcommand(1);
  LineTexts texts;
  AddCommands(app, texts);
  CUSPAN_RETURN_IF_ERROR(CheckCommand(words.own, app));
  CUSPAN_ASSIGN_OR_RETURN(std::optional<CommandLine> complete, Parse(app, words.own));
  if (complete) return *std::move(complete);
  const CLI::App& command = *app.get_subcommands().front();
  CUSPAN_RETURN_IF_ERROR(CheckExtras(command));
  const Command& row =
      *std::find_if(std::begin(kCommands), std::end(kCommands),
                    [&](const Command& known) { return command.get_name() == known.name; });
  return row.finish({app, command, texts, words});
}

}  // namespace cuspan
