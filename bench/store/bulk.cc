#include "bench/store/bulk.h"

#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "bench/common/child.h"
#include "bench/common/median.h"
#include "common/format.h"

namespace cuspan::bench::store {
namespace {

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

std::vector<Case> CasesOf(const Options& options, const std::string& cuspan,
                          const std::string& vendors) {
  const std::vector<std::string> here = RunHere(options, cuspan);
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
    return RunAway(options, cuspan, relay, files);
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

}  // namespace

Status MeasureBulk(const Options& options, const std::string& own, const std::string& folder,
                   const std::string& file, Results& results) {
  std::string vendors;
  if (!options.cufile.empty()) {
    vendors = folder + "/vendors-cufile.so";
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
  for (const Case& one : cases) {
    if (one.values.empty()) continue;
    const double value = Median(one.values);
    const std::string to_local =
        Ratio(one, Find(cases, one, "local", one.unit == "us" ? "small-buffer" : "threads"));
    const std::string to_hand = Ratio(one, Find(cases, one, "agents", "pipeline"));
    const std::string to_vendors = Ratio(one, FindVendors(cases, one));
    table += Format("{:<38} {:<10} {:<5} {:>9.2f} {:>5} {:>11} {:>11} {:>11}\n", one.figure,
                    one.place, one.relay, value, one.unit, to_local, to_hand, to_vendors);
    Add({"bulk", one.figure, one.place, one.relay, one.unit, value, to_local, to_hand, to_vendors,
         ""},
        results);
  }
  results.table += table;
  return Status::Ok();
}

}  // namespace cuspan::bench::store
