// cuspan bench apps: small applications, end to end. Runs them locally if there is a GPU, over
// agents with and without the pipeline, and on one node.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "bench/common/child.h"
#include "bench/common/command.h"
#include "bench/common/median.h"
#include "bench/common/origin.h"
#include "bench/common/raw_link.h"
#include "common/format.h"
#include "common/settings.h"

namespace cuspan::bench::apps {
namespace {

struct Options {
  std::string device = "auto";
  std::string hosts = "localhost";
  std::string transport = "auto";
  std::vector<int> matmul = {1024, 2048, 4096};
  std::vector<int> fft = {8, 64, 512, 1024, 4096, 8192};
  std::vector<int> walk = {1, 4, 16, 64};
  int rounds = 3;
  std::string csv_path;
  std::string json_path;
};

using Work = std::pair<std::string, int>;  // Name and size of the application.

struct Place {
  const char* name;
  std::vector<std::string> words;  // Command before the program.
  bool pipelined = true;
  bool optional = false;  // If it fails, the results omit it.
  std::map<Work, std::vector<double>> seconds;
};

Status Measure(const std::vector<std::string>& program, Place& place) {
  std::vector<std::string> words = place.words;
  words.insert(words.end(), program.begin(), program.end());
  Environment environment = Environment::OfThisProcess();
  environment.Set(settings::kPipeline.name, place.pipelined ? "on" : "off");
  CUSPAN_ASSIGN_OR_RETURN(const std::string text, Capture(words, place.optional, &environment));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Work work;
    if (!(fields >> work.first >> work.second))
      return Status::Internal("the measuring program printed '{}'", line);
    for (double seconds = 0; fields >> seconds;) place.seconds[work].push_back(seconds);
  }
  return Status::Ok();
}

std::optional<double> SecondsOf(const Place& place, const Work& work) {
  const auto found = place.seconds.find(work);
  if (found == place.seconds.end() || found->second.empty()) return std::nullopt;
  return Median(found->second);
}

Status Run(const Options& options, const Origin& origin) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(ChooseTransport(options.transport));
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.csv_path, options.json_path}));
  std::vector<Work> works;
  for (const int n : options.matmul) works.emplace_back("matmul", n);
  for (const int n : options.fft) works.emplace_back("fft", n);
  for (const int n : options.walk) {
    works.emplace_back("walk", n);
    works.emplace_back("copies", n);
  }
  std::vector<std::string> program = {folder + "/bench-apps-program"};
  for (const auto& [name, n] : works) program.push_back(Format("{}:{}", name, n));

  const std::string cuspan = folder + "/../../bin/cuspan";
  const std::vector<std::string> away = {cuspan,         "run",     "--device",
                                         options.device, "--hosts", options.hosts,
                                         "--same-node",  "never",   "--"};
  std::vector<Place> places(4);
  places[0] = {"local", {}, true, true, {}};
  places[1] = {"pipelined", away, true, false, {}};
  places[2] = {"not pipelined", away, false, false, {}};
  places[3] = {"same node", {cuspan, "run", "--device", options.device, "--"}, true, false, {}};
  bool local = options.device != "soft";
  for (int round = 0; round < options.rounds; ++round) {
    for (Place& place : places) {
      if (place.optional && !local) continue;
      const Status measured = Measure(program, place);
      if (!measured.ok() && !place.optional)
        return Status::Internal("{}: {}", place.name, measured.message());
      if (!measured.ok()) local = false;
    }
  }

  std::string table = Format("seconds from start to end, medians\n{:<8}{:>8}", "", "size");
  std::string csv = CsvHead(origin) + "application,size,place,seconds,ratio_local\n";
  nlohmann::json rows = nlohmann::json::array();
  for (const Place& place : places) table += Format("{:>16}", place.name);
  table += '\n';
  for (const Work& work : works) {
    table += Format("{:<8}{:>8}", work.first, work.second);
    const std::optional<double> reference = SecondsOf(places[0], work);
    for (const Place& place : places) {
      const std::optional<double> seconds = SecondsOf(place, work);
      table += seconds ? Format("{:>16.6f}", *seconds) : Format("{:>16}", "");
      if (!seconds) continue;
      const bool compared = reference && *reference > 0;
      csv += Format("{},{},{},{:.9f},{}\n", work.first, work.second, place.name, *seconds,
                    compared ? Format("{:.3f}", *seconds / *reference) : "");
      nlohmann::json row = {{"application", work.first},
                            {"size", work.second},
                            {"place", place.name},
                            {"seconds", *seconds},
                            {"ratio_local", nullptr}};
      if (compared) row["ratio_local"] = *seconds / *reference;
      rows.push_back(std::move(row));
    }
    table += '\n';
  }
  std::fputs(table.c_str(), stdout);
  CUSPAN_RETURN_IF_ERROR(WriteFile(options.csv_path, csv));
  nlohmann::ordered_json document = JsonHead(origin);
  document["results"] = rows;
  return WriteFile(options.json_path, document.dump(2) + '\n');
}

}  // namespace
}  // namespace cuspan::bench::apps

int main(int argc, char** argv) {
  cuspan::bench::apps::Options options;
  CLI::App app(
      "Measures the run time of a matrix multiplication, of Fourier transforms and of walks "
      "through managed memory.",
      "cuspan bench apps");
  cuspan::bench::AddDeviceOption(app, options.device);
  app.add_option("--hosts", options.hosts, "hosts of the GPUs, for the path over agents")
      ->type_name("HOSTS");
  cuspan::bench::AddTransportOption(app, options.transport);
  app.add_option("--matmul", options.matmul, "sizes of matrices (default: 1024,2048,4096)")
      ->type_name("N,…")
      ->delimiter(',')
      ->check(cuspan::bench::Between(1, 32768));
  app.add_option("--fft", options.fft, "numbers of transforms (default: 8,64,512,1024,4096,8192)")
      ->type_name("N,…")
      ->delimiter(',')
      ->check(cuspan::bench::Between(1, 1 << 20));
  app.add_option("--walk", options.walk,
                 "MiB of managed memory, changed alternately by host and kernel, and copied both "
                 "ways for comparison (default: 1,4,16,64)")
      ->type_name("MIB,…")
      ->delimiter(',')
      ->check(cuspan::bench::Between(1, 4096));
  app.add_option("--rounds", options.rounds,
                 "rounds of all measurements, one after the other (default: 3)")
      ->type_name("N")
      ->check(cuspan::bench::Between(1, 1000));
  cuspan::bench::AddResultsOption(app, "--csv", options.csv_path);
  cuspan::bench::AddResultsOption(app, "--json", options.json_path);
  if (const std::optional<int> status = cuspan::bench::Parse(app, argc, argv)) return *status;
  return cuspan::bench::ExitStatusOf(
      cuspan::bench::apps::Run(options, cuspan::bench::OriginOf("apps", argc, argv)));
}
