#include "launcher/doctor/probe.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "common/available_memory.h"
#include "common/cache_folder.h"
#include "common/find_command.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/agent/node/inventory.h"
#include "launcher/doctor/checks.h"
#include "launcher/doctor/child.h"
#include "launcher/doctor/folders.h"
#include "launcher/doctor/listener.h"
#include "launcher/host/app_process.h"
#include "launcher/host/own_host.h"
#include "launcher/run/client_environment.h"
#include "launcher/run/device_attributes.h"
#include "launcher/run/mpi_app.h"
#include "launcher/text/nearest.h"
#include "ops.gen.h"
#include "protocol/channel/channel.h"

namespace cuspan::doctor {
namespace {

// Limit for a program to print its version.
constexpr std::chrono::milliseconds kVersionLimit{10'000};
// Maximum life, in s, in case the shell never closes the input.
constexpr unsigned kMaxSeconds = 600;

// Environment of proxies, as set by agents.
Environment ProxyEnvironment() {
  Environment environment = Environment::OfThisProcess();
  StripOuterRun(environment);
  StripMpi(environment);
  return environment;
}

std::string InstallProblem(const InstallPaths& paths) {
  for (const std::string& path : {paths.agent, paths.proxy})
    if (::access(path.c_str(), X_OK) != 0) return Format("{} is missing", path);
  const Status client = CheckClient(paths);
  if (client.ok()) return "";
  // Without the remedy: the check adds one.
  return client.message().substr(
      0, client.message().rfind(client.code() == StatusCode::kInvalid ? ": install" : ": build"));
}

// Daemon of mpirun on other hosts, in PATH or beside this host's mpirun.
std::string FindDaemon(const std::string& mpirun, const std::string& path) {
  std::error_code error;
  std::string folders = path;
  for (const std::filesystem::path& found :
       {std::filesystem::path(mpirun), std::filesystem::canonical(mpirun, error)})
    if (found.has_parent_path()) folders += ":" + found.parent_path().string();
  for (const char* const name : {"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy"})
    if (Result<std::string> daemon = FindCommand(name, folders); daemon.ok()) return *daemon;
  return "";
}

void AddMpi(const std::string& mpirun, const Environment& environment, HostFacts& facts) {
  const std::string path(environment.Get("PATH").value_or(""));
  if (const Result<std::string> found = FindCommand(mpirun, path); found.ok()) {
    facts.mpirun = *found;
    MpiProgram app;
    app.mpirun = {*found};
    if (const Result<MpiKind> kind = FindMpiKind(app); kind.ok())
      facts.mpirun_kind = *kind == MpiKind::kHydra ? "MPICH" : "Open MPI";
  }
  facts.mpi_daemon = FindDaemon(facts.mpirun, path);
}

void AddGpus(InventoryQuery& query, HostFacts& facts) {
  Inventory found = query.Collect(facts.host, 0);
  facts.gpu_problem = std::move(found.problem);
  for (const DeviceDescription& device : found.devices)
    facts.gpus.push_back({device.name, device.software, Attribute(device, kAttributeComputeMode),
                          device.driver_version});
}

FolderFacts FindTemporary(const Environment& environment) {
  const std::string named(environment.Get("TMPDIR").value_or(""));
  const std::string path = named.empty() ? "/tmp" : named;
  // Open MPI creates the folder if it is missing.
  return ::access(path.c_str(), F_OK) == 0 ? TryFolder(path) : TryCacheFolder(path);
}

void Print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// The doctor's first request; empty if started by a user at a terminal.
std::optional<Request> FirstRequest() {
  if (::isatty(STDIN_FILENO) != 0) return std::nullopt;
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  const Result<Request> request = ParseRequest(line);
  return request.ok() && request->own.size() == 1 ? std::optional(*request) : std::nullopt;
}

}  // namespace

std::vector<std::string> UnknownSettings(const Environment& environment) {
  std::vector<std::string> known;
  for (const Setting& setting : AllSettings()) known.emplace_back(setting.name);
  std::vector<std::string> unknown;
  for (const std::string& entry : environment.entries()) {
    const std::string name = entry.substr(0, entry.find('='));
    if (!name.starts_with("CUSPAN_") || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    const std::optional<std::string> nearest = Nearest(name, known);
    unknown.push_back(nearest ? Format("{} (did you mean {}?)", name, *nearest) : name);
  }
  return unknown;
}

HostFacts FindFacts(const InstallPaths& paths, const ClusterOptions& options) {
  const Environment environment = ProxyEnvironment();
  InventoryQuery query(paths.proxy, environment, options.device, true);
  // Starting the driver takes time.
  query.Begin();
  HostFacts facts;
  facts.host = OwnHostName();
  facts.version = CUSPAN_VERSION;
  facts.protocol = Format("{:016x}", kOpTableHash);
  facts.install_problem = InstallProblem(paths);
  facts.agent_problem = FailureOf({paths.agent, "--version"}, environment, kVersionLimit);
  facts.ucx_problem = FailureOf({paths.agent + "-ucx", "--version"}, environment, kVersionLimit);
  facts.code_problem = TryCode();
  facts.thread_problem = TryThreads();
  AddMpi(options.mpirun, environment, facts);
  facts.denied_devices = DeniedDevices();
  facts.unknown_settings = UnknownSettings(environment);
  facts.limits = FindLimits();
  facts.rdma = HasRdma();
  facts.shared_memory = TryFolder(SettingText(settings::kShareFolder));
  facts.temporary = FindTemporary(environment);
  facts.leases = SettingText(settings::kLeases);
  facts.locks = TryLockFolder(SettingText(settings::kLeaseFolder));
  facts.kernels = TryCacheFolder(CacheFolder(settings::kSoftCache));
  facts.memory_bytes = AvailableMemory();
  if (const Result<ChannelLayout> layout = ChannelLayout::FromSettings(); layout.ok())
    facts.channel_bytes = Channel::BytesFor(*layout);
  AddGpus(query, facts);
  return facts;
}

int RunProbe(const ClusterOptions& options) {
  SetLogName("cuspan", "launcher");
  const Result<InstallPaths> paths = InstallPaths::Find();
  if (!paths.ok()) {
    LogError("{}", paths.status().message());
    return kExitOwnFailure;
  }
  ::signal(SIGPIPE, SIG_IGN);
  // A write beyond the file size limit returns an error.
  ::signal(SIGXFSZ, SIG_IGN);
  ::alarm(kMaxSeconds);
  const std::optional<Request> first = FirstRequest();
  std::unique_ptr<Listener> listener;
  if (first) {
    Result<std::unique_ptr<Listener>> opened = Listener::Open(first->own.front());
    if (opened.ok()) listener = std::move(*opened);
  }
  HostFacts facts = FindFacts(*paths, options);
  if (listener) facts.places = listener->places();
  facts.time = Now();
  Print(FactsText(facts));
  for (std::string line; first && std::getline(std::cin, line);) {
    const Result<Request> request = ParseRequest(line);
    if (!request.ok()) break;
    Answer answer;
    answer.reached = ReachAll(request->reach);
    for (const Target& target : request->measure)
      answer.reached.push_back(Measure(target, kEnoughBytesPerSecond));
    answer.time = Now();
    Print(AnswerText(answer));
  }
  std::fflush(stdout);
  // Open connections belong to other probes; these have their answers.
  ::_exit(0);
}

}  // namespace cuspan::doctor
