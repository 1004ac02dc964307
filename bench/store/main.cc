// cuspan bench store: files read into device memory, by cuspanFileRead, by cuFileRead and by hand,
// and arrays in files, read by kernels, also by lines that the host's threads read for them.
// Compares with the same on a GPU of this machine, if there is one, and with NVIDIA's library for
// cuFile, if it is given.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "bench/common/child.h"
#include "bench/common/origin.h"
#include "bench/common/temporary_folder.h"
#include "bench/store/bulk.h"
#include "bench/store/engine.h"
#include "bench/store/results.h"
#include "bench/store/served.h"
#include "common/format.h"
#include "common/same_file.h"
#include "common/unique_fd.h"

namespace cuspan::bench::store {

void Add(const Row& row, Results& results) {
  results.csv += Format("{},\"{}\",{},{},{},{:.3f},{},{},{},{}\n", row.scenario, row.figure,
                        row.place, row.relay, row.unit, row.value, row.to_local, row.to_hand,
                        row.to_nvidia, row.to_plain);
  nlohmann::json json = {{"scenario", row.scenario}, {"figure", row.figure}, {"place", row.place},
                         {"relay", row.relay},       {"unit", row.unit},     {"value", row.value}};
  const std::pair<const char*, const std::string*> ratios[] = {{"ratio_local", &row.to_local},
                                                               {"ratio_by_hand", &row.to_hand},
                                                               {"ratio_nvidia", &row.to_nvidia},
                                                               {"ratio_plain", &row.to_plain}};
  for (const auto& [name, ratio] : ratios)
    json[name] = ratio->empty() ? nlohmann::json(nullptr) : nlohmann::json(std::stod(*ratio));
  results.rows.push_back(std::move(json));
}

std::vector<std::string> RunHere(const Options& options, const std::string& cuspan) {
  return {cuspan, "run", "--device", options.device, "--"};
}

std::vector<std::string> RunAway(const Options& options, const std::string& cuspan,
                                 const std::string& relay, const std::string& files) {
  return {cuspan,  "run",     "--device", options.device, "--hosts", options.hosts, "--same-node",
          "never", "--relay", relay,      "--files",      files,     "--"};
}

namespace {

const std::vector<std::string> kScenarios = {"bulk", "engine", "served"};

// A file of random bytes. The system has not changed it for a second afterwards, and has it in its
// page cache.
Result<std::string> MakeFile(const std::string& folder, int mebibytes) {
  const std::string path = folder + "/file";
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return Status::Unavailable("{}: {}", path, std::strerror(errno));
  std::vector<std::uint64_t> part((std::size_t{1} << 20) / sizeof(std::uint64_t));
  std::uint64_t number = 1;
  for (int i = 0; i < mebibytes; ++i) {
    // Marsaglia's xorshift: any bytes will do, if compression can not make them fewer.
    for (std::uint64_t& word : part) {
      number ^= number << 13;
      number ^= number >> 7;
      number ^= number << 17;
      word = number;
    }
    if (::write(file.get(), part.data(), std::size_t{1} << 20) != ssize_t{1} << 20)
      return Status::Unavailable("{}: {}", path, std::strerror(errno));
  }
  if (::fsync(file.get()) != 0) return Status::Unavailable("{}: {}", path, std::strerror(errno));
  while (!FileState::Of(file.get())->settled())
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return path;
}

bool Wants(const Options& options, const char* scenario) {
  return std::find(options.scenarios.begin(), options.scenarios.end(), scenario) !=
         options.scenarios.end();
}

Status Run(const Options& options, const Origin& origin) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string own, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.csv_path, options.json_path}));
  CUSPAN_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Create(options.folder));
  CUSPAN_ASSIGN_OR_RETURN(const std::string file, MakeFile(folder.path(), options.mebibytes));
  Results results;
  if (Wants(options, "bulk"))
    CUSPAN_RETURN_IF_ERROR(MeasureBulk(options, own, folder.path(), file, results));
  if (Wants(options, "engine")) CUSPAN_RETURN_IF_ERROR(MeasureEngine(options, own, file, results));
  if (Wants(options, "served")) CUSPAN_RETURN_IF_ERROR(MeasureServed(options, own, file, results));
  std::fputs(results.table.c_str(), stdout);
  CUSPAN_RETURN_IF_ERROR(WriteFile(
      options.csv_path, CsvHead(origin) +
                            "scenario,figure,place,relay,unit,value,ratio_local,ratio_by_hand,"
                            "ratio_nvidia,ratio_plain\n" +
                            results.csv));
  nlohmann::ordered_json document = JsonHead(origin);
  document["results"] = results.rows;
  return WriteFile(options.json_path, document.dump(2) + '\n');
}

}  // namespace
}  // namespace cuspan::bench::store

int main(int argc, char** argv) {
  using namespace cuspan::bench;
  store::Options options;
  options.scenarios = store::kScenarios;
  CLI::App app("Measures files read into device memory.", "cuspan bench store");
  AddDeviceOption(app, options.device);
  app.add_option("--hosts", options.hosts, "hosts of the GPUs, for the path over agents")
      ->type_name("HOSTS");
  AddRelaysOption(app, options.relays);
  app.add_option("--scenario", options.scenarios, "scenarios (default: all)")
      ->type_name("bulk|engine|served")
      ->delimiter(',')
      ->check(OneOf(store::kScenarios));
  app.add_option("--folder", options.folder,
                 "directory for the file, the same on all hosts (default: /var/tmp)")
      ->type_name("DIR");
  app.add_option(
         "--cufile", options.cufile,
         "NVIDIA's libcufile.so.0, to compare with (the node needs what that library needs: "
         "docs/files.md)")
      ->type_name("FILE");
  app.add_option("--mebibytes", options.mebibytes, "size of the file (default: 16384)")
      ->type_name("N")
      ->check(Between(1, 1 << 20));
  app.add_option("--rounds", options.rounds, "rounds of measurements (default: 3)")
      ->type_name("N")
      ->check(Between(1, 1000));
  AddResultsOption(app, "--csv", options.csv_path);
  AddResultsOption(app, "--json", options.json_path);
  if (const auto status = Parse(app, argc, argv)) return *status;
  Origin origin = OriginOf("store", argc, argv);
  origin.device = options.device == "auto" ? "" : options.device;
  origin.rounds = options.rounds;
  return ExitStatusOf(store::Run(options, origin));
}
