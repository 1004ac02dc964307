#include "bench/bandwidth/report.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "common/format.h"

namespace cuspan::bench {
namespace {

std::optional<double> Ratio(double value, const std::optional<double>& of) {
  if (!of || *of == 0) return std::nullopt;
  return value / *of;
}

std::string Number(const std::optional<double>& value) {
  return value ? Format("{:.{}f}", *value, *value < 10 ? 3 : 1) : "";
}

nlohmann::json OrNull(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

std::string SizeText(std::uint64_t bytes) {
  const char* const units[] = {"", "K", "M", "G"};
  int unit = 0;
  while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return Format("{}{}", bytes, units[unit]);
}

std::string Table(const SweepResult& result) {
  std::string text = Format("GB/s, medians; {}; raw MPI, 64 bytes, one way: {} us\n",
                            result.local ? "local: this machine's GPU" : "no local GPU",
                            Number(result.mpi_one_way_us));
  text += Format("{:<17}{:<9}{:<10}{:>8}{:>8}{:>8} {:>9}{:>9}{:>9}{:>8}{:>8}{:>8}\n", "direction",
                 "memory", "placement", "proxies", "copy", "buffer", "pipelined", "cuspan", "MPI",
                 "local", "/MPI", "/local");
  for (const Row& row : result.rows)
    text +=
        Format("{:<17}{:<9}{:<10}{:>8}{:>8}{:>8} {:>9}{:>9}{:>9}{:>8}{:>8}{:>8}\n", row.direction,
               row.memory, row.placement, row.proxies, SizeText(row.transfer_bytes),
               SizeText(row.buffer_bytes), row.pipelined ? "yes" : "no", Number(row.gbps),
               Number(row.mpi_gbps), Number(row.local_gbps), Number(Ratio(row.gbps, row.mpi_gbps)),
               Number(Ratio(row.gbps, row.local_gbps)));
  return text;
}

std::string Csv(const SweepResult& result) {
  std::string text =
      "direction,memory,placement,transfer_bytes,buffer_bytes,buffers,proxies,pipelined,gbps,"
      "mpi_gbps,local_gbps,ratio_mpi,ratio_local\n";
  for (const Row& row : result.rows)
    text += Format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.direction, row.memory,
                   row.placement, row.transfer_bytes, row.buffer_bytes, row.buffers, row.proxies,
                   row.pipelined ? "true" : "false", Number(row.gbps), Number(row.mpi_gbps),
                   Number(row.local_gbps), Number(Ratio(row.gbps, row.mpi_gbps)),
                   Number(Ratio(row.gbps, row.local_gbps)));
  return text;
}

std::string Json(const SweepResult& result) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : result.rows)
    rows.push_back({{"direction", row.direction},
                    {"memory", row.memory},
                    {"placement", row.placement},
                    {"transfer_bytes", row.transfer_bytes},
                    {"buffer_bytes", row.buffer_bytes},
                    {"buffers", row.buffers},
                    {"proxies", row.proxies},
                    {"pipelined", row.pipelined},
                    {"gbps", row.gbps},
                    {"mpi_gbps", OrNull(row.mpi_gbps)},
                    {"local_gbps", OrNull(row.local_gbps)},
                    {"ratio_mpi", OrNull(Ratio(row.gbps, row.mpi_gbps))},
                    {"ratio_local", OrNull(Ratio(row.gbps, row.local_gbps))}});
  const nlohmann::json all = {{"benchmark", "bandwidth"},
                              {"mpi_one_way_us", OrNull(result.mpi_one_way_us)},
                              {"results", std::move(rows)}};
  return all.dump(2) + '\n';
}

}  // namespace cuspan::bench
