#include "launcher/command/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <thread>

#include "common/settings.h"
#include "launcher/command/completion.h"
#include "launcher/text/man_page.h"
#include "launcher/text/nearest.h"
#include "launcher/text/parse_errors.h"
#include "launcher/text/words.h"
#include "protocol/channel/channel.h"

namespace cuspan {
namespace {

// Options of a program that uses MPI, not yet checked.
struct MpiTexts {
  std::string ranks;
  std::string devices_a_rank;
  std::string hosts;
  std::string mpirun = "mpirun";
};

// Options as written by the user, not yet checked.
struct Texts {
  GpuRequestTexts request;
  std::string hosts;
  std::string hostfile;
  std::string device = SettingText(settings::kDevice);
  std::string same_node = SettingText(settings::kSameNode);
  std::string mpirun_arguments;
  std::string remote_shell;
  std::string remote_prefix;
  std::string relay = SettingText(settings::kRelay);
  std::string secure = SettingText(settings::kSecure);
  std::string lanes = SettingText(settings::kLanes);
};

void AddClusterOptions(CLI::App& command, Texts& texts) {
  CLI::Option* hosts =
      command
          .add_option("--hosts", texts.hosts,
                      "hosts whose GPUs to use: HOST[:GPUS],… (default: this node)")
          ->type_name("HOSTS");
  CLI::Option* hostfile = command
                              .add_option("--hostfile", texts.hostfile,
                                          "file with one host per line: HOST, or HOST slots=GPUS")
                              ->type_name("FILE");
  hosts->excludes(hostfile);
  command
      .add_option("--device", texts.device,
                  "driver to use: cuda, soft (the software GPU), or auto (cuda where it works)")
      ->type_name("cuda|soft|auto");
  command
      .add_option("--same-node", texts.same_node,
                  "auto: program and GPU share memory if they are on one node; never: always use "
                  "agents")
      ->type_name("auto|never");
  command
      .add_option(
          "--relay", texts.relay,
          "what brings messages from host to host: mpi; ucx, which needs no mpirun; or auto "
          "(ucx where it is installed, but for --mpirun-args, and in batch jobs without "
          "--remote-shell)")
      ->type_name("mpi|ucx|auto");
  command
      .add_option("--secure", texts.secure,
                  "use no interface between hosts but those that encrypt: auto (WireGuard's), or "
                  "their names")
      ->type_name("auto|INTERFACES");
  command
      .add_option("--lanes", texts.lanes,
                  "lanes per node for bulk data between nodes: 1 (the agent itself) … 16, or "
                  "auto (by the number of cores)")
      ->type_name("N|auto");
  command
      .add_option("--mpirun-args", texts.mpirun_arguments,
                  "additional arguments for the mpirun that starts the agents")
      ->type_name("ARGUMENTS");
  command
      .add_option("--remote-shell", texts.remote_shell,
                  "command by which other hosts are reached, called as ssh is")
      ->type_name("COMMAND");
  command
      .add_option(
          "--remote-prefix", texts.remote_prefix,
          "directory in which cuspan is installed on other hosts (default: the same as here)")
      ->type_name("DIR");
}

Result<std::uint32_t> ParseNumber(const std::string& text, const char* option, const char* what) {
  char* end = nullptr;
  const unsigned long number = std::strtoul(text.c_str(), &end, 10);
  if (*end != '\0' || text.empty() || text.front() < '0' || text.front() > '9' || number == 0 ||
      number > 4096)
    return Status::Invalid("{} {}: {} 1 to 4096", option, text, what);
  return static_cast<std::uint32_t>(number);
}

void AddMpiOptions(CLI::App& command, MpiTexts& texts) {
  command
      .add_option("-n,--np", texts.ranks, "number of ranks to start: the program is an MPI program")
      ->type_name("N");
  command
      .add_option("--gpus-per-rank", texts.devices_a_rank,
                  "GPUs per rank (default: every rank sees all GPUs)")
      ->type_name("N");
  command
      .add_option("--app-hosts", texts.hosts,
                  "hosts on which the ranks run: HOST[:RANKS],… (default: this node)")
      ->type_name("HOSTS");
  command
      .add_option(
          "--app-mpirun", texts.mpirun,
          "mpirun command for the program, with options (default: mpirun); in a Slurm job srun, "
          "too, which places the ranks on the job's nodes")
      ->type_name("COMMAND");
}

// Checks the MPI options. If each rank has GPUs of its own, sets the number of GPUs in `request`.
Result<MpiApp> CheckMpiOptions(const MpiTexts& texts, GpuRequest& request) {
  MpiApp app;
  if (texts.devices_a_rank.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(const std::uint64_t each,
                            SettingNumber(settings::kGpusPerRank, 0, 4096));
    app.devices_a_rank = static_cast<std::uint32_t>(each);
  } else {
    CUSPAN_ASSIGN_OR_RETURN(app.devices_a_rank,
                            ParseNumber(texts.devices_a_rank, "--gpus-per-rank", "a rank has"));
  }
  if (texts.ranks.empty()) {
    if (!texts.hosts.empty())
      return Status::Invalid("--app-hosts needs -np: say how many ranks to start");
    return app;
  }
  CUSPAN_ASSIGN_OR_RETURN(app.ranks, ParseNumber(texts.ranks, "-np", "the number of ranks is"));
  app.mpirun = SplitWords(texts.mpirun);
  if (app.mpirun.empty()) return Status::Invalid("--app-mpirun: no command given");
  if (!texts.hosts.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(app.hosts, ParseHosts(texts.hosts, "--app-hosts"));
  }
  const std::uint64_t needed = std::uint64_t{app.ranks} * app.devices_a_rank;
  if (needed == 0) return app;
  if (needed > 4096 || (request.number && *request.number < needed))
    return Status::Invalid("{} ranks with {} GPUs each need {} GPUs, but the run has {}", app.ranks,
                           app.devices_a_rank, needed, request.number ? *request.number : 4096);
  if (!request.number && !request.all) request.number = static_cast<std::uint32_t>(needed);
  return app;
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

void AddTopOptions(CLI::App& command, TopOptions& top, std::string& every) {
  command.add_flag("--json", top.json, "print JSON, once");
  command.add_flag("--once", top.once,
                   "print once (default: on a terminal again and again, until Ctrl-C)");
  command
      .add_option("--every", every, "seconds from one time to the next, 0.5 to 3600 (default: 2)")
      ->type_name("SECONDS");
}

void AddDoctorOptions(CLI::App& command, DoctorOptions& doctor, std::string& limit) {
  command.add_flag("--json", doctor.json, "print JSON");
  command
      .add_option("--timeout", limit,
                  "seconds within which each host must answer, 1 to 4096 (default: 60)")
      ->type_name("SECONDS");
  // Used only by other doctors. Options with an empty group are hidden.
  command.add_flag("--probe", doctor.probe, "print what this host is")->group("");
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf()))
    return Status::Invalid("--hostfile: {} cannot be read, or is empty", path);
  return content.str();
}

Result<ClusterOptions> CheckClusterOptions(const Texts& texts) {
  ClusterOptions options;
  if (!texts.hosts.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(options.hosts, ParseHosts(texts.hosts));
  }
  if (!texts.hostfile.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(std::string text, ReadFile(texts.hostfile));
    CUSPAN_ASSIGN_OR_RETURN(options.hosts, ParseHostfile(text, texts.hostfile));
  }
  CUSPAN_ASSIGN_OR_RETURN(options.request, CheckGpuRequest(texts.request));
  if (texts.device != "auto" && texts.device != "cuda" && texts.device != "soft")
    return Status::Invalid("--device must be auto, cuda or soft, not '{}'", texts.device);
  options.device = texts.device;
  Result<SameNode> same_node = ParseSameNode(texts.same_node);
  if (!same_node.ok()) return Status::Invalid("--{}", same_node.status().message());
  options.same_node = *same_node;
  // Every agent reads these settings; checking them here reports an error only once.
  if (const Result<ChannelLayout> layout = ChannelLayout::FromSettings(); !layout.ok())
    return layout.status();
  if (const Result<std::uint64_t> sends = SettingNumber(settings::kSendsInFlight, 1, 64);
      !sends.ok())
    return sends.status();
  const Result<std::uint32_t> lanes = ParseLanes(texts.lanes, std::thread::hardware_concurrency());
  if (!lanes.ok()) return Status::Invalid("--{}", lanes.status().message());
  options.lanes = *lanes;
  const Result<std::optional<RelayKind>> relay = ParseRelay(texts.relay);
  if (!relay.ok()) return Status::Invalid("--{}", relay.status().message());
  options.relay = *relay;
  const Result<SecurePolicy> secure = ParseSecure(texts.secure);
  if (!secure.ok()) return Status::Invalid("--{}", secure.status().message());
  options.secure = *secure;
  if (const char* mpirun = std::getenv("MPIRUN"); mpirun != nullptr && *mpirun != '\0')
    options.mpirun = mpirun;
  options.remote_shell = texts.remote_shell;
  options.remote_prefix = texts.remote_prefix;
  if (!options.remote_prefix.empty() && options.remote_prefix.front() != '/')
    return Status::Invalid("--remote-prefix {}: an absolute path is needed", options.remote_prefix);
  const char* more = SettingText(settings::kMpirunArguments);
  options.mpirun_arguments =
      SplitWords(texts.mpirun_arguments.empty() ? more : texts.mpirun_arguments);
  return options;
}

std::vector<Setting> Variables() {
  const std::span<const Setting> settings = AllSettings();
  std::vector<Setting> variables(settings.begin(), settings.end());
  variables.push_back({"MPIRUN", "mpirun", "the mpirun of the agents' MPI"});
  return variables;
}

std::string VariablesHelp() {
  std::string text =
      "Environment variables, with their defaults (an option of the same meaning takes "
      "precedence):\n";
  for (const Setting& variable : Variables())
    text += Format("  {:24} {} [{}]\n", variable.name, variable.help, variable.default_value);
  return text;
}

constexpr const char* kVersionLine = "cuspan " CUSPAN_VERSION "\n";

// " (did you mean 'run'?)", or empty if no word is near.
std::string Suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::optional<std::string> nearest = Nearest(word, known);
  return nearest ? Format(" (did you mean '{}'?)", *nearest) : std::string();
}

// Checks that the first of `words` is a command, or an option allowed without one.
Status CheckCommand(const std::vector<std::string>& words, CLI::App& app) {
  std::vector<std::string> commands;
  std::string list;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    commands.push_back(command->get_name());
    list += (list.empty() ? "" : ", ") + commands.back();
  }
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

}  // namespace

Result<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  // Words after the first "--" belong to the program and are not parsed.
  std::vector<std::string> own;
  std::vector<std::string> command;
  bool separated = false;
  for (int i = 1; i < argc; ++i) {
    if (!separated && std::string_view(argv[i]) == "--")
      separated = true;
    else
      (separated ? command : own).emplace_back(argv[i]);
  }

  // Many users try "help COMMAND" first.
  if (!own.empty() && own.front() == "help") {
    own.erase(own.begin());
    own.emplace_back("--help");
  }

  CLI::App app("Runs unmodified CUDA programs on the GPUs of a whole cluster.", "cuspan");
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "print this help and exit");
  app.set_version_flag("--version", "cuspan " CUSPAN_VERSION, "print the version and exit");
  app.footer(VariablesHelp());
  Texts texts;
  RunOptions run;
  MpiTexts mpi;
  std::string trace;
  std::string metrics = SettingText(settings::kMetrics);
  DevicesOptions devices;
  TopOptions top;
  std::string every = "2";
  DoctorOptions doctor;
  std::string doctor_limit = "60";

  CLI::App* run_command =
      app.add_subcommand("run", "run a program: cuspan run [OPTIONS] -- PROGRAM [ARGUMENTS]");
  AddGpuRequestOptions(*run_command, texts.request);
  AddClusterOptions(*run_command, texts);
  run_command->add_flag(
      "--stats", run.statistics,
      "print what each GPU did, and on which lines a Python program waited for it, on "
      "stderr, when the program has ended");
  run_command
      ->add_option("--trace", trace,
                   "write a timeline of all transfers and kernels on all hosts to FILE, for "
                   "Perfetto and Chrome")
      ->type_name("FILE");
  run_command
      ->add_option(
          "--metrics", metrics,
          "serve metrics of the run for Prometheus at PORT (of this host; :PORT: of all its "
          "addresses), HOST:PORT, or unix:PATH; or write them to a file every 15 s, for "
          "node_exporter")
      ->type_name("WHERE");
  run_command->add_flag(
      "--strict", run.strict,
      "end the program at the first use of an unsupported feature (exit status 69)");
  run_command->add_flag("--dry-run", run.dry_run,
                        "print which agents would be started, and how, but start nothing");
  AddMpiOptions(*run_command, mpi);
  run_command->prefix_command();
  CLI::App* devices_command = app.add_subcommand(
      "devices", "list the GPUs that a run can use, and the runs that hold them");
  AddClusterOptions(*devices_command, texts);
  devices_command->add_flag("--json", devices.json, "print JSON");
  CLI::App* queue_command =
      app.add_subcommand("queue", "list the runs that hold GPUs or wait for them, in order");
  AddClusterOptions(*queue_command, texts);
  queue_command->add_flag("--json", devices.json, "print JSON");
  CLI::App* top_command = app.add_subcommand(
      "top", "show what the runs that share GPUs are doing: their parts, waits and memory");
  AddClusterOptions(*top_command, texts);
  AddTopOptions(*top_command, top, every);
  NodeMetricsOptions node_metrics;
  std::string node_target;
  CLI::App* metrics_command = app.add_subcommand(
      "metrics",
      "print metrics of the hosts' GPUs, and of the runs that hold them, for Prometheus: cuspan "
      "metrics [WHERE]; with WHERE, as of run --metrics, serve them");
  AddClusterOptions(*metrics_command, texts);
  metrics_command->add_option("where", node_target, "[HOST:]PORT, unix:PATH, or a file")
      ->type_name("WHERE");
  CLI::App* doctor_command = app.add_subcommand(
      "doctor", "say what a run would need and does not find, and what to do about it");
  AddClusterOptions(*doctor_command, texts);
  AddDoctorOptions(*doctor_command, doctor, doctor_limit);
  SupportOptions support;
  CLI::App* support_command = app.add_subcommand(
      "support", "list which functions of CUDA and NVML are supported: cuspan support [NAMES]");
  support_command->add_option("names", support.names, "only these functions");
  support_command->add_flag("--json", support.json, "print JSON");
  CLI::App* bench_command = app.add_subcommand(
      "bench", "run a benchmark: cuspan bench NAME [OPTIONS]; without NAME, list the benchmarks");
  bench_command->prefix_command();
  std::string shell;
  CLI::App* completion_command = app.add_subcommand(
      "completion", "print the script by which a shell completes cuspan's command line");
  completion_command->add_option("shell", shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->required();
  CLI::App* version_command = app.add_subcommand("version", "print the version");
  for (CLI::App* command : {devices_command, queue_command, top_command, metrics_command,
                            doctor_command, support_command, completion_command, version_command})
    command->allow_extras();  // CheckExtras reports them.
  AddManualPageOption(app);
  CUSPAN_RETURN_IF_ERROR(CheckCommand(own, app));

  CommandLine line;
  try {
    // CLI11 expects the words from last to first, and would read -np as -n p.
    std::vector<std::string> reversed(own.rbegin(), own.rend());
    std::replace(reversed.begin(), reversed.end(), std::string("-np"), std::string("--np"));
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
    return line;
  } catch (const CLI::CallForAllHelp&) {
    line.text = ManualPage(app, Variables());
    return line;
  } catch (const CLI::CallForVersion&) {
    line.text = kVersionLine;
    return line;
  } catch (const CLI::ParseError& error) {
    return Status::Invalid("{}; see cuspan --help", DescribeParseError(error));
  }
  for (const CLI::App* command : app.get_subcommands())
    CUSPAN_RETURN_IF_ERROR(CheckExtras(*command));

  if (version_command->parsed()) {
    line.text = kVersionLine;
    return line;
  }

  if (completion_command->parsed()) {
    CUSPAN_ASSIGN_OR_RETURN(line.text, CompletionScript(app, shell));
    return line;
  }

  if (bench_command->parsed()) {
    // The benchmark parses its options itself.
    std::vector<std::string> rest = bench_command->remaining();
    BenchOptions bench;
    if (!rest.empty()) bench.name = rest.front();
    if (rest.size() > 1) bench.arguments.assign(rest.begin() + 1, rest.end());
    if (separated) bench.arguments.emplace_back("--");
    bench.arguments.insert(bench.arguments.end(), command.begin(), command.end());
    line.bench = std::move(bench);
    return line;
  }

  if (support_command->parsed()) {
    if (separated) return Status::Invalid("support runs no program; see cuspan support --help");
    line.support = std::move(support);
    return line;
  }

  CUSPAN_ASSIGN_OR_RETURN(ClusterOptions cluster, CheckClusterOptions(texts));
  for (const CLI::App* looking :
       {devices_command, queue_command, top_command, metrics_command, doctor_command})
    if (looking->parsed() && !command.empty())
      return Status::Invalid("{0} takes no program; see cuspan {0} --help", looking->get_name());
  if (top_command->parsed()) {
    CUSPAN_ASSIGN_OR_RETURN(top.every, ParseEvery(every));
    top.cluster = std::move(cluster);
    line.top = std::move(top);
    return line;
  }
  if (metrics_command->parsed()) {
    if (!node_target.empty()) {
      CUSPAN_ASSIGN_OR_RETURN(node_metrics.target, ParseMetricsTarget(node_target));
    }
    node_metrics.cluster = std::move(cluster);
    line.metrics = std::move(node_metrics);
    return line;
  }
  if (doctor_command->parsed()) {
    CUSPAN_ASSIGN_OR_RETURN(const std::uint32_t seconds,
                            ParseNumber(doctor_limit, "--timeout", "seconds are"));
    doctor.limit = std::chrono::seconds(seconds);
    doctor.cluster = std::move(cluster);
    line.doctor = std::move(doctor);
    return line;
  }
  if (devices_command->parsed() || queue_command->parsed()) {
    devices.cluster = std::move(cluster);
    (queue_command->parsed() ? line.queue : line.devices) = std::move(devices);
    return line;
  }
  // The program's words are the last ones, unchanged.
  const auto program_words = static_cast<std::ptrdiff_t>(run_command->remaining().size());
  const std::vector<std::string> rest(own.end() - program_words, own.end());
  if (!rest.empty()) {
    // Without a separator, the program's command line starts at the first word other than an
    // option.
    std::vector<std::string> whole = rest;
    if (separated) whole.emplace_back("--");
    whole.insert(whole.end(), command.begin(), command.end());
    command = std::move(whole);
  }
  if (command.empty())
    return Status::Invalid("no program to run; use cuspan run [OPTIONS] -- PROGRAM [ARGUMENTS]");
  CUSPAN_ASSIGN_OR_RETURN(run.mpi, CheckMpiOptions(mpi, cluster.request));
  if (!run.mpi.hosts.empty() && !cluster.remote_prefix.empty())
    return Status::Invalid(
        "--app-hosts needs cuspan in the same directory on these hosts: omit --remote-prefix");
  if (!metrics.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(run.metrics, ParseMetricsTarget(metrics));
    run.metrics_demanded = run_command->count("--metrics") > 0;
  }
  cluster.app_hosts = run.mpi.hosts;
  run.cluster = std::move(cluster);
  if (!trace.empty()) {
    // Agents may have another working directory.
    run.cluster.trace = std::filesystem::absolute(trace).string();
  }
  run.command = std::move(command);
  line.run = std::move(run);
  return line;
}

}  // namespace cuspan
