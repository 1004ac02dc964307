#include "launcher/doctor/facts.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "ops.gen.h"

namespace cuspan::doctor {

// The library finds the fields by these names.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FolderFacts, path, problem, free_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuFacts, name, software, compute_mode, driver_version)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LimitFacts, locked_bytes, open_files, processes, file_bytes,
                                   address_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostFacts, host, version, protocol, install_problem,
                                   agent_problem, ucx_problem, code_problem, thread_problem,
                                   gpu_problem, mpirun, mpirun_kind, mpi_daemon, gpus,
                                   denied_devices, unknown_settings, limits, rdma, shared_memory,
                                   temporary, locks, kernels, leases, memory_bytes, channel_bytes,
                                   places, time)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Passwords, ask, answer)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Target, host, places, passwords)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Reached, host, problem, stalled, place, mtu, peer_mtu,
                                   bytes_per_second)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Request, own, clock, reach, measure)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Answer, time, reached)

namespace {

using nlohmann::json;

// Start of each line of facts.
constexpr std::string_view kFactsMark = R"({"cuspan_doctor":)";

// Output of programs and drivers may contain bytes other than UTF-8.
std::string LineOf(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <typename T>
Result<T> Parse(std::string_view line, const char* what) {
  try {
    return json::parse(line).get<T>();
  } catch (const json::exception& error) {
    return Status::Invalid("{} cannot be read: {}", what, error.what());
  }
}

}  // namespace

std::string FactsText(const HostFacts& facts) {
  return Format("{}{}}}", kFactsMark, LineOf(facts));
}

bool LooksLikeFacts(std::string_view line) { return line.starts_with(kFactsMark); }

Result<HostFacts> ParseFacts(std::string_view line) {
  const std::string own_protocol = Format("{:016x}", kOpTableHash);
  try {
    const json whole = json::parse(line);
    const json& facts = whole.at("cuspan_doctor");
    HostFacts found;
    found.version = facts.at("version").get<std::string>();
    found.protocol = facts.at("protocol").get<std::string>();
    if (found.version != CUSPAN_VERSION || found.protocol != own_protocol) return found;
    return facts.get<HostFacts>();
  } catch (const json::exception& error) {
    return Status::Invalid("the host's report cannot be read: {}", error.what());
  }
}

std::string RequestText(const Request& request) { return LineOf(request); }
Result<Request> ParseRequest(std::string_view line) { return Parse<Request>(line, "the request"); }
std::string AnswerText(const Answer& answer) { return LineOf(answer); }
Result<Answer> ParseAnswer(std::string_view line) { return Parse<Answer>(line, "the answer"); }

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace cuspan::doctor
