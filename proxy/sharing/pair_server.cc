#include "proxy/sharing/pair_server.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

#include "common/find_command.h"
#include "common/format.h"
#include "common/log.h"
#include "common/scheduling/time_slices.h"
#include "proxy/sharing/mps_control.h"
#include "proxy/sharing/pair_keeper.h"

namespace cuspan::proxy {
namespace {

// Until a server is ready, including the end of a previous one.
constexpr std::chrono::milliseconds kServerJoinLimit{30'000};
constexpr std::chrono::milliseconds kPairJoinPause{10};
// Until each answer of the daemon to a client about to end.
constexpr std::chrono::milliseconds kLeaveLimit{750};

using Part = PairFolder::Part;

// `folder` is a client's.
Status StartOne(const PairServer::Request& wanted, const PairFolder& folder, PairFolder& lock) {
  const Result<std::string> control = FindMpsControl();
  if (!control.ok())
    return Status::NotFound("--share=pair needs NVIDIA's MPS: {}; install it, or use --share",
                            control.status().message());
  return StartPairKeeper(wanted.executable, {folder.path(), wanted.table, wanted.gpu, *control},
                         lock);
}

}  // namespace

Result<std::unique_ptr<PairServer>> PairServer::Join(const Request& wanted) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string path, PairFolder::PathFor(wanted.table));
  const auto deadline = std::chrono::steady_clock::now() + kServerJoinLimit;
  for (; std::chrono::steady_clock::now() < deadline; std::this_thread::sleep_for(kPairJoinPause)) {
    Result<PairFolder> folder = PairFolder::Open(path);
    if (!folder.ok() && folder.status().code() == StatusCode::kNotFound) continue;
    if (!folder.ok()) return folder.status();
    // The process ending a server holds this lock exclusively until the folder is removed.
    if (!folder->LockTogether(Part::kClients) || !folder->Named()) continue;
    // From now on the server stays.
    std::unique_ptr<PairServer> joined(new PairServer(std::move(*folder), wanted.gpu));
    for (; std::chrono::steady_clock::now() < deadline;
         std::this_thread::sleep_for(kPairJoinPause)) {
      if (joined->folder_.OthersHave(Part::kReady)) return joined;
      // A separate open file description: the locks will be the keeper's, not this client's.
      CUSPAN_ASSIGN_OR_RETURN(PairFolder lock, joined->folder_.OpenAgain());
      if (!lock.LockAlone(Part::kKeeper)) continue;
      CUSPAN_RETURN_IF_ERROR(StartOne(wanted, joined->folder_, lock));
      return joined;
    }
  }
  return Status::Unavailable(
      "the MPS server in {} neither became ready nor ended within {} s: end the processes using "
      "this directory, or use --share to share the GPU by time",
      path, kServerJoinLimit.count() / 1000);
}

void PairServer::SetEnvironment(const ShareTerms& terms) const {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("CUDA_MPS_PIPE_DIRECTORY", folder_.pipe());
  set("CUDA_MPS_LOG_DIRECTORY", folder_.log());
  set("CUDA_VISIBLE_DEVICES", gpu_);
  // MPS has only two priorities: normal (0) and below normal (1).
  const std::int64_t niceness = std::int64_t{terms.niceness} + terms.process_niceness;
  set("CUDA_MPS_CLIENT_PRIORITY", niceness > 0 ? "1" : "0");
  // Whole percents: finer than one multiprocessor of the GPU.
  constexpr std::uint32_t kPercent = scheduling::kWhole / 100;
  if (terms.limit < scheduling::kWhole)
    set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        std::to_string(std::max(1U, (terms.limit + kPercent / 2) / kPercent)));
}

void PairServer::Leave() const {
  const Result<std::string> program = FindMpsControl();
  if (!program.ok()) return;
  const MpsControl control(*program, folder_, gpu_);
  Result<std::string> servers = control.Ask("get_server_list", kLeaveLimit);
  if (servers.ok()) {
    std::istringstream list(*servers);
    pid_t server = 0;
    while (list >> server) {
      servers = control.Ask(Format("terminate_client {} {}", server, ::getpid()), kLeaveLimit);
      if (!servers.ok()) break;
    }
  }
  if (!servers.ok())
    LogInfo("cannot terminate the kernels of this session: {}", servers.status().message());
}

FaultExplanation ExplainPairFault(CUresult result, bool had_work) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      if (had_work)
        return {result,
                "a kernel of this run, or of another run sharing the GPU in pairs, has failed; MPS "
                "ends all these runs"};
      return {
          CUDA_ERROR_DEVICE_UNAVAILABLE,
          "a kernel of another run sharing the GPU in pairs has failed; MPS ends all these runs"};
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
      return {CUDA_ERROR_DEVICE_UNAVAILABLE,
              "the MPS server of the runs sharing the GPU in pairs has ended; all these runs end"};
    default:
      return {result, ""};
  }
}

}  // namespace cuspan::proxy
