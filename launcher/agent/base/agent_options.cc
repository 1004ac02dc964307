#include "launcher/agent/base/agent_options.h"

#include <CLI/CLI.hpp>

#include "common/settings.h"
#include "launcher/text/man_page.h"
#include "launcher/text/words.h"

namespace cuspan {

Result<AgentCommandLine> ParseAgentCommandLine(int argc, const char* const* argv) {
  std::vector<std::string> own;
  AgentOptions options;
  bool separated = false;
  for (int i = 1; i < argc; ++i) {
    if (!separated && std::string_view(argv[i]) == "--")
      separated = true;
    else
      (separated ? options.command : own).emplace_back(argv[i]);
  }
  if (separated && options.command.empty()) return Status::Invalid("no program after --");

  CLI::App app(
      "Serves the GPUs of its node to a run. There is one per node, started by cuspan run or by "
      "hand:\n"
      "  mpirun -np 1 --host A cuspan-agent [OPTIONS] -- PROGRAM [ARGUMENTS] : -np 2 --host B,C "
      "cuspan-agent",
      "cuspan-agent");
  app.set_help_flag("-h,--help", "print this help and exit");
  app.set_version_flag("--version", "cuspan " CUSPAN_VERSION, "print the version and exit");
  AddManualPageOption(app);
  // Internal options, set by cuspan run and not shown by --help.
  constexpr const char* internal = "";
  std::string serve;
  std::string others;
  std::string remote_shell;
  std::string same_node = SettingText(settings::kSameNode);
  GpuRequestTexts request;
  bool look = false;
  std::uint64_t order = 0;
  std::string program;
  std::string job;
  options.device = SettingText(settings::kDevice);
  app.add_flag("--alone", options.alone, "no other agents, and no MPI")->group(internal);
  // Options for the head agent of a run without MPI; it starts the others.
  app.add_option("--others", others, "the other agents: HOST=GPUS,...")->group(internal);
  app.add_option("--remote-shell", remote_shell, "called as ssh is")->group(internal);
  app.add_option("--remote-agent", options.remote_agent, "cuspan-agent there")->group(internal);
  // Option for the agents started by it.
  app.add_option("--rank", options.rank, "of this agent")->group(internal);
  app.add_option("--serve", serve, "number of GPUs of this node to serve at most, or all")
      ->type_name("N|all");
  app.add_option("--place", options.place, "number of hosts whose devices come before this one's")
      ->group(internal);
  AddGpuRequestOptions(app, request);
  app.add_flag("--look", look, "report the GPUs and who holds them, and take none")
      ->group(internal);
  app.add_option("--order", order, "start time of the run, in ns since 1970 (default: now)")
      ->group(internal);
  app.add_option("--process-niceness", request.process_niceness, "niceness of the launcher")
      ->group(internal);
  app.add_option("--program", program, "program name shown to other users")->group(internal);
  app.add_option("--job", job, "Slurm job that has the GPUs")->group(internal);
  app.add_option("--device", options.device,
                 "driver to use: cuda, soft (the software GPU), or auto (cuda where it works)")
      ->type_name("DRIVER");
  app.add_option(
         "--same-node", same_node,
         "auto: program and GPU share memory if they are on one node; never: always use agents")
      ->type_name("auto|never");
  app.add_flag("--stats", options.statistics,
               "with a program: print what each device did, when the program has ended");
  app.add_option("--trace", options.trace,
                 "with a program: write a timeline of all transfers and kernels to FILE")
      ->type_name("FILE");
  AgentCommandLine line;
  try {
    std::vector<std::string> reversed(own.rbegin(), own.rend());  // Order required by CLI11.
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
    return line;
  } catch (const CLI::CallForAllHelp&) {
    line.text = ManualPage(app, {});
    return line;
  } catch (const CLI::CallForVersion&) {
    line.text = "cuspan " CUSPAN_VERSION "\n";
    return line;
  } catch (const CLI::ParseError& error) {
    return Status::Invalid("{}; see cuspan-agent --help", error.what());
  }
  if (!serve.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(options.serve, ParseServe(serve));
  }
  CUSPAN_ASSIGN_OR_RETURN(options.others, ParseAgents(others));
  options.remote_shell = SplitWords(remote_shell);
  CUSPAN_ASSIGN_OR_RETURN(options.request, CheckGpuRequest(request));
  options.request.look = look;
  options.request.order = order;
  options.request.job = job;
  options.request.program = program.empty() && separated ? options.command.front() : program;
  if (options.device != "auto" && options.device != "cuda" && options.device != "soft")
    return Status::Invalid("--device must be auto, cuda or soft, not '{}'", options.device);
  Result<SameNode> parsed = ParseSameNode(same_node);
  if (!parsed.ok()) return Status::Invalid("--{}", parsed.status().message());
  options.same_node = *parsed;
  line.options = std::move(options);
  return line;
}

}  // namespace cuspan
