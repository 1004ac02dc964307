#include "bench/bandwidth/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/format.h"

namespace cuspan::bench::bandwidth {
namespace {

std::optional<double> Ratio(double value, const std::optional<double>& of) {
  if (!of || *of == 0) return std::nullopt;
  return value / *of;
}

std::optional<double> Better(const std::optional<double>& one, const std::optional<double>& other) {
  return one && other ? std::max(*one, *other) : one ? one : other;
}

std::string Number(const std::optional<double>& value) {
  return value ? Format("{:.{}f}", *value, *value < 10 ? 3 : 1) : "";
}

nlohmann::json OrNull(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

// "64K", "1M", …, or the number.
std::string SizeText(std::uint64_t bytes) {
  const char* const units[] = {"", "K", "M", "G"};
  int unit = 0;
  while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return Format("{}{}", bytes, units[unit]);
}

}  // namespace

std::string Table(const SweepResult& result) {
  std::string text = Format(
      "GB/s, medians; {}; 64 bytes, one way: raw MPI {} us{}\n",
      result.local ? "local: this machine's GPU" : "no local GPU", Number(result.mpi_one_way_us),
      result.ucx_one_way_us ? ", raw UCX " + Number(result.ucx_one_way_us) + " us" : "");
  constexpr const char* kLine =
      "{:<17}{:<9}{:<10}{:<6}{:>8}{:>6}{:>6}{:>8} "
      "{:>9}{:>8}{:>8}{:>9}{:>8}{:>9}{:>8}{:>6}{:>9}{:>8}\n";
  text += Format(kLine, "direction", "memory", "placement", "relay", "proxies", "lanes", "copy",
                 "buffer", "pipelined", "cuspan", "MPI", "MPI mem", "UCX", "UCX mem", "local",
                 "/raw", "/raw mem", "/local");
  for (const Row& row : result.rows)
    text +=
        Format(kLine, row.direction, row.memory, row.placement, row.relay, row.proxies, row.lanes,
               SizeText(row.transfer_bytes), SizeText(row.buffer_bytes),
               row.pipelined ? "yes" : "no", Number(row.gbps), Number(row.mpi_gbps),
               Number(row.mpi_memory_gbps), Number(row.ucx_gbps), Number(row.ucx_memory_gbps),
               Number(row.local_gbps), Number(Ratio(row.gbps, Better(row.mpi_gbps, row.ucx_gbps))),
               Number(Ratio(row.gbps, Better(row.mpi_memory_gbps, row.ucx_memory_gbps))),
               Number(Ratio(row.gbps, row.local_gbps)));
  return text;
}

std::string Csv(const Origin& origin, const SweepResult& result) {
  std::string text =
      CsvHead(origin) +
      "direction,memory,placement,relay,transfer_bytes,buffer_bytes,buffers,proxies,lanes,sends,"
      "pipelined,gbps,gbps_low,gbps_high,mpi_gbps,mpi_memory_gbps,ucx_gbps,ucx_memory_gbps,local_"
      "gbps,ratio_mpi,"
      "ratio_mpi_memory,ratio_ucx,ratio_ucx_memory,ratio_local\n";
  for (const Row& row : result.rows)
    text += Format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.direction,
        row.memory, row.placement, row.relay, row.transfer_bytes, row.buffer_bytes, row.buffers,
        row.proxies, row.lanes, row.sends, row.pipelined ? "true" : "false", Number(row.gbps),
        Number(row.gbps_low), Number(row.gbps_high), Number(row.mpi_gbps),
        Number(row.mpi_memory_gbps), Number(row.ucx_gbps), Number(row.ucx_memory_gbps),
        Number(row.local_gbps), Number(Ratio(row.gbps, row.mpi_gbps)),
        Number(Ratio(row.gbps, row.mpi_memory_gbps)), Number(Ratio(row.gbps, row.ucx_gbps)),
        Number(Ratio(row.gbps, row.ucx_memory_gbps)), Number(Ratio(row.gbps, row.local_gbps)));
  return text;
}

std::string Json(const Origin& origin, const SweepResult& result, const std::vector<LegsRow>& legs,
                 const std::vector<Footprint>& footprints) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : result.rows)
    rows.push_back({{"direction", row.direction},
                    {"memory", row.memory},
                    {"placement", row.placement},
                    {"relay", row.relay},
                    {"transfer_bytes", row.transfer_bytes},
                    {"buffer_bytes", row.buffer_bytes},
                    {"buffers", row.buffers},
                    {"proxies", row.proxies},
                    {"lanes", row.lanes},
                    {"sends", row.sends},
                    {"pipelined", row.pipelined},
                    {"gbps", row.gbps},
                    {"gbps_low", row.gbps_low},
                    {"gbps_high", row.gbps_high},
                    {"mpi_gbps", OrNull(row.mpi_gbps)},
                    {"mpi_memory_gbps", OrNull(row.mpi_memory_gbps)},
                    {"ucx_gbps", OrNull(row.ucx_gbps)},
                    {"ucx_memory_gbps", OrNull(row.ucx_memory_gbps)},
                    {"local_gbps", OrNull(row.local_gbps)},
                    {"ratio_mpi", OrNull(Ratio(row.gbps, row.mpi_gbps))},
                    {"ratio_mpi_memory", OrNull(Ratio(row.gbps, row.mpi_memory_gbps))},
                    {"ratio_ucx", OrNull(Ratio(row.gbps, row.ucx_gbps))},
                    {"ratio_ucx_memory", OrNull(Ratio(row.gbps, row.ucx_memory_gbps))},
                    {"ratio_local", OrNull(Ratio(row.gbps, row.local_gbps))}});
  nlohmann::json leg_rows = nlohmann::json::array();
  for (const LegsRow& row : legs)
    leg_rows.push_back({{"direction", row.direction},
                        {"memory", row.memory},
                        {"placement", row.placement},
                        {"transfer_bytes", row.transfer_bytes},
                        {"buffer_bytes", row.buffer_bytes},
                        {"buffers", row.buffers},
                        {"pipelined_s", row.pipelined},
                        {"not_pipelined_s", row.not_pipelined},
                        {"legs_s", row.legs},
                        {"slowest_leg_s", row.slowest},
                        {"chunk_s", row.chunk},
                        {"ratio_bound", row.ratio()},
                        {"saved", row.saved()}});
  nlohmann::json memory_rows = nlohmann::json::array();
  for (const Footprint& one : footprints)
    memory_rows.push_back({{"placement", one.placement},
                           {"process", one.process},
                           {"private_dirty_bytes", one.private_dirty},
                           {"context_bytes", one.context},
                           {"beyond_bytes", one.beyond()},
                           {"bound_bytes", one.bound()}});
  nlohmann::ordered_json all = JsonHead(origin);
  all["mpi_one_way_us"] = OrNull(result.mpi_one_way_us);
  all["ucx_one_way_us"] = OrNull(result.ucx_one_way_us);
  all["results"] = rows;
  all["legs"] = leg_rows;
  all["memory"] = memory_rows;
  return all.dump(2) + '\n';
}

}  // namespace cuspan::bench::bandwidth
