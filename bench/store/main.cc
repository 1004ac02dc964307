// cuspan bench store: files read into device memory, by cuspanFileRead, by cuFileRead and by hand.
// Compares with the same file read by a program on a GPU of this machine, if there is one, and with
// NVIDIA's library for cuFile, if it is given.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "bench/common/child.h"
#include "bench/common/command.h"
#include "bench/common/median.h"
#include "bench/common/origin.h"
#include "bench/common/temporary_folder.h"
#include "common/format.h"
#include "common/log.h"
#include "common/same_file.h"
#include "common/unique_fd.h"

namespace cuspan::bench::store {
namespace {

struct Options {
  std::string device = "auto";
  std::string hosts = "localhost";
  std::vector<RelayKind> relays;
  std::vector<std::string> scenarios;
  std::string folder = "/var/tmp";
  std::string cufile;  // NVIDIA's libcufile.so.0; empty: none.
  int mebibytes = 16384;
  int rounds = 3;
  std::string csv_path;
  std::string json_path;
};

const std::vector<std::string> kScenarios = {"bulk"};

// One way of reading, at one place.
struct Case {
  std::string figure;              // Its line in tables.
  std::string place;               // local, same-node or agents.
  std::string relay;               // Between agents; else empty.
  std::vector<std::string> words;  // Command before the program.
  std::string way;                 // The program's first argument.
  bool direct = false;
  std::string unit = "GB/s";
  std::string library;         // NVIDIA's library in the program; empty: ours.
  std::vector<double> values;  // One for each round; empty: not possible here.
};

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

std::vector<Case> CasesOf(const Options& options, const std::string& cuspan,
                          const std::string& vendors) {
  const std::vector<std::string> here = {cuspan, "run", "--device", options.device, "--"};
  std::vector<Case> cases;
  const auto add = [&](const char* figure, const char* place, const std::string& relay,
                       const std::vector<std::string>& words, const char* way) {
    cases.push_back({figure, place, relay, words, way, false, "GB/s", "", {}});
    return &cases.back();
  };
  // Reads of NVIDIA's library for cuFile. By this name of the file, cuspan does not replace it.
  const auto add_vendors = [&](const char* figure, const char* place, const std::string& relay,
                               const std::vector<std::string>& words, const char* way) {
    if (vendors.empty()) return;
    Case* const made = add(figure, place, relay, words, way);
    made->library = vendors;
    if (std::string_view(way).starts_with("small")) made->unit = "us";
  };
  const auto away = [&](const std::string& relay, const char* files) {
    return std::vector<std::string>{
        cuspan,  "run",     "--device", options.device, "--hosts", options.hosts, "--same-node",
        "never", "--relay", relay,      "--files",      files,     "--"};
  };
  add("by 8 threads", "local", "", {}, "threads");
  add_vendors("cuFileRead by NVIDIA's library", "local", "", {}, "cufile");
  add_vendors("the same by 8 threads", "local", "", {}, "cufile-threads");
  add("cuspanFileRead", "same-node", "", here, "file");
  add("cuFileRead", "same-node", "", here, "cufile");
  add("cuFileRead by 8 threads", "same-node", "", here, "cufile-threads");
  for (const RelayKind relay : options.relays) {
    const std::string name(NameOf(relay));
    add("cuspanFileRead, the same file there", "agents", name, away(name, "auto"), "file");
    add("cuFileRead, the same file there", "agents", name, away(name, "auto"), "cufile");
    add("cuspanFileRead, the program's file", "agents", name, away(name, "off"), "file");
    add_vendors("NVIDIA's library in the program", "agents", name, away(name, "auto"), "cufile");
    add("by hand: read and copy", "agents", name, away(name, "auto"), "pipeline");
  }
  add("by 8 threads, O_DIRECT", "local", "", {}, "threads")->direct = true;
  add("cuspanFileRead, O_DIRECT", "same-node", "", here, "file")->direct = true;
  for (const RelayKind relay : options.relays) {
    const std::string name(NameOf(relay));
    add("cuspanFileRead there, O_DIRECT", "agents", name, away(name, "auto"), "file")->direct =
        true;
  }
  add("4 KiB, read and copy", "local", "", {}, "small-buffer")->unit = "us";
  add_vendors("4 KiB, NVIDIA's library", "local", "", {}, "small-cufile");
  add("4 KiB, cuspanFileRead", "same-node", "", here, "small-file")->unit = "us";
  add("4 KiB, cuFileRead", "same-node", "", here, "small-cufile")->unit = "us";
  for (const RelayKind relay : options.relays) {
    const std::string name(NameOf(relay));
    add("4 KiB, the same file there", "agents", name, away(name, "auto"), "small-file")->unit =
        "us";
    add("4 KiB, the program's file", "agents", name, away(name, "off"), "small-file")->unit = "us";
  }
  return cases;
}

Status Measure(Case& measured, const std::string& program, const std::string& file) {
  std::vector<std::string> words = measured.words;
  words.insert(words.end(), {program, measured.way, file, "1"});
  if (measured.direct) words.emplace_back("direct");
  if (!measured.library.empty()) words.push_back(measured.library);
  CUSPAN_ASSIGN_OR_RETURN(const std::string text, Capture(words, measured.place == "local"));
  std::istringstream numbers(text);
  double value = 0;
  if (!(numbers >> value)) return Status::Internal("the measuring program printed '{}'", text);
  measured.values.push_back(value);
  return Status::Ok();
}

// The first case with this place, relay and unit, and with a result.
const Case* Find(const std::vector<Case>& cases, const Case& like, const char* place,
                 const char* way) {
  for (const Case& one : cases)
    if (one.place == place && one.way == way && one.direct == like.direct &&
        one.unit == like.unit && (one.relay.empty() || one.relay == like.relay) &&
        !one.values.empty())
      return &one;
  return nullptr;
}

// NVIDIA's library doing the same: natively, or in a program whose GPU is elsewhere.
const Case* FindVendors(const std::vector<Case>& cases, const Case& like) {
  const bool small = like.unit == "us";
  const char* const place = like.place == "agents" && !small ? "agents" : "local";
  for (const Case& one : cases)
    if (!one.library.empty() && one.place == place && one.direct == like.direct &&
        one.way == (small ? "small-cufile" : "cufile") &&
        (one.relay.empty() || one.relay == like.relay) && !one.values.empty())
      return &one;
  return nullptr;
}

// The median in relation to that of `to`; more is better. Empty without one.
std::string Ratio(const Case& of, const Case* to) {
  if (to == nullptr || to == &of) return "";
  const double ratio = Median(of.values) / Median(to->values);
  return Format("{:.2f}", of.unit == "us" ? 1 / ratio : ratio);
}

Status Run(const Options& options, const Origin& origin) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string own, OwnFolder());
  CUSPAN_RETURN_IF_ERROR(MakeFiles({options.csv_path, options.json_path}));
  CUSPAN_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Create(options.folder));
  CUSPAN_ASSIGN_OR_RETURN(const std::string file, MakeFile(folder.path(), options.mebibytes));
  std::string vendors;
  if (!options.cufile.empty()) {
    vendors = folder.path() + "/vendors-cufile.so";
    std::error_code failed;
    std::filesystem::copy_file(options.cufile, vendors, failed);
    if (failed) return Status::Unavailable("--cufile {}: {}", options.cufile, failed.message());
  }
  std::vector<Case> cases = CasesOf(options, own + "/../../bin/cuspan", vendors);
  bool local = options.device != "soft";
  for (int round = 0; round < options.rounds; ++round)
    for (Case& one : cases) {
      if (one.place == "local" && !local) continue;
      const Status measured = Measure(one, own + "/bench-store-program", file);
      if (measured.ok()) continue;
      if (one.place != "local") return Status::Internal("{}: {}", one.figure, measured.message());
      local = false;
    }

  std::string table = Format(
      "a file of {} MiB, medians of {} rounds\n{:<38} {:<10} {:<5} {:>9} {:>5} "
      "{:>11} {:>11} {:>11}\n",
      options.mebibytes, options.rounds, "", "place", "relay", "", "", "/ 8 threads", "/ by hand",
      "/ NVIDIA's");
  std::string csv =
      CsvHead(origin) +
      "scenario,figure,place,relay,unit,value,ratio_local,ratio_by_hand,ratio_nvidia\n";
  nlohmann::json rows = nlohmann::json::array();
  for (const Case& one : cases) {
    if (one.values.empty()) continue;
    const double value = Median(one.values);
    const std::string to_local =
        Ratio(one, Find(cases, one, "local", one.unit == "us" ? "small-buffer" : "threads"));
    const std::string to_hand = Ratio(one, Find(cases, one, "agents", "pipeline"));
    const std::string to_vendors = Ratio(one, FindVendors(cases, one));
    table += Format("{:<38} {:<10} {:<5} {:>9.2f} {:>5} {:>11} {:>11} {:>11}\n", one.figure,
                    one.place, one.relay, value, one.unit, to_local, to_hand, to_vendors);
    csv += Format("bulk,\"{}\",{},{},{},{:.3f},{},{},{}\n", one.figure, one.place, one.relay,
                  one.unit, value, to_local, to_hand, to_vendors);
    nlohmann::json row = {
        {"scenario", "bulk"},     {"figure", one.figure},     {"place", one.place},
        {"relay", one.relay},     {"unit", one.unit},         {"value", value},
        {"ratio_local", nullptr}, {"ratio_by_hand", nullptr}, {"ratio_nvidia", nullptr}};
    if (!to_local.empty()) row["ratio_local"] = std::stod(to_local);
    if (!to_hand.empty()) row["ratio_by_hand"] = std::stod(to_hand);
    if (!to_vendors.empty()) row["ratio_nvidia"] = std::stod(to_vendors);
    rows.push_back(std::move(row));
  }
  std::fputs(table.c_str(), stdout);
  CUSPAN_RETURN_IF_ERROR(WriteFile(options.csv_path, csv));
  nlohmann::ordered_json document = JsonHead(origin);
  document["results"] = rows;
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
      ->type_name("bulk")
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
