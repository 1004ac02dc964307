#include "launcher/agent/base/agent_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "common/settings.h"
#include "launcher/text/help_text.h"
#include "launcher/text/man_page.h"
#include "launcher/text/option_values.h"
#include "launcher/text/words.h"

namespace cuspan {
namespace {

// Value of an internal option.
template <typename Number>
Status ReadNumber(const OptionValues& values, const Setting& setting, Number& number) {
  const std::string& text = values.Text(setting);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return Status::Ok();
  return Status::Invalid("{} {}: not a number", setting.option, text);
}

Status ReadRequest(const OptionValues& values, GpuRequest& request) {
  GpuRequestTexts texts = RequestTexts(values);
  if (values.Given(settings::kProcessNiceness))
    CUSPAN_RETURN_IF_ERROR(
        ReadNumber(values, settings::kProcessNiceness, texts.process_niceness.emplace()));
  CUSPAN_ASSIGN_OR_RETURN(request, CheckGpuRequest(texts));
  request.look = values.Flag(settings::kLook);
  CUSPAN_RETURN_IF_ERROR(ReadNumber(values, settings::kOrder, request.order));
  request.job = values.Text(settings::kJob);
  request.program = values.Text(settings::kProgram);
  return Status::Ok();
}

Status ReadValues(const OptionValues& values, AgentOptions& options) {
  options.alone = values.Flag(settings::kAlone);
  CUSPAN_ASSIGN_OR_RETURN(options.others, ParseAgents(values.Text(settings::kOthers)));
  options.remote_shell = SplitWords(values.Text(settings::kAgentShell));
  options.remote_agent = values.Text(settings::kRemoteAgent);
  CUSPAN_RETURN_IF_ERROR(ReadNumber(values, settings::kRank, options.rank));
  if (const std::string& serve = values.Text(settings::kServe); !serve.empty()) {
    CUSPAN_ASSIGN_OR_RETURN(options.serve, ParseServe(serve));
  }
  CUSPAN_RETURN_IF_ERROR(ReadNumber(values, settings::kPlace, options.place));
  CUSPAN_RETURN_IF_ERROR(ReadRequest(values, options.request));
  CUSPAN_ASSIGN_OR_RETURN(options.device, values.Choice(settings::kDevice));
  const Result<SameNode> same_node = ParseSameNode(values.Text(settings::kSameNode));
  if (!same_node.ok()) return Status::Invalid("--{}", same_node.status().message());
  options.same_node = *same_node;
  options.trace = values.Text(settings::kTrace);
  options.statistics = values.Flag(settings::kStatsFlag);
  return Status::Ok();
}

}  // namespace

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
      "  mpirun -np 1 --host A cuspan-agent [OPTIONS] -- PROGRAM [ARGUMENTS] : \\\n"
      "    -np 2 --host B,C cuspan-agent",
      "cuspan-agent");
  OptionValues values;
  values.AddTo(app, kOnAgent);
  app.set_version_flag("--version", "cuspan " CUSPAN_VERSION, "print the version and exit")
      ->group(kHelpGroup);
  AddHelpOption(app);
  AddManualPageOption(app);
  AgentCommandLine line;
  try {
    std::vector<std::string> reversed(own.rbegin(), own.rend());  // Order required by CLI11.
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    line.text = HelpText(app);
    return line;
  } catch (const CLI::CallForAllHelp&) {
    line.text = ManualPage(app);
    return line;
  } catch (const CLI::CallForVersion&) {
    line.text = "cuspan " CUSPAN_VERSION "\n";
    return line;
  } catch (const CLI::ParseError& error) {
    return Status::Invalid("{}; see cuspan-agent --help", error.what());
  }
  CUSPAN_RETURN_IF_ERROR(ReadValues(values, options));
  if (options.request.program.empty() && separated)
    options.request.program = options.command.front();
  line.options = std::move(options);
  return line;
}

}  // namespace cuspan
