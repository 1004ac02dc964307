#include "bench/agents/processes.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "common/format.h"

namespace cuspan::bench::agents {
namespace {

namespace fs = std::filesystem;

struct Process {
  pid_t parent = -1;
  std::string name;
  std::uint64_t started = 0;  // Unit: kernel ticks.
};

// Reads /proc/PID/stat: PID (NAME) STATE PARENT …; the start time is field 22.
bool ReadProcess(const fs::path& folder, Process& process) {
  std::ifstream file(folder / "stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return false;
  process.name = line.substr(open + 1, close - open - 1);
  std::istringstream rest(line.substr(close + 1));
  std::string skipped;
  rest >> skipped >> process.parent;
  for (int field = 5; field < 22; ++field) rest >> skipped;
  rest >> process.started;
  return !rest.fail();
}

std::map<pid_t, Process> AllProcesses() {
  std::map<pid_t, Process> processes;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    Process process;
    if (pid > 0 && ReadProcess(entry.path(), process)) processes.emplace(pid, std::move(process));
  }
  return processes;
}

bool IsBelow(const std::map<pid_t, Process>& processes, pid_t pid, pid_t root) {
  for (auto at = processes.find(pid); at != processes.end(); at = processes.find(at->second.parent))
    if (at->second.parent == root) return true;
  return false;
}

// If the process has ended meanwhile, all values are 0.
Agent Look(pid_t pid) {
  Agent agent{.pid = pid};
  const fs::path folder = fs::path("/proc") / std::to_string(pid);
  std::error_code ignored;
  for (const fs::directory_entry& thread : fs::directory_iterator(folder / "task", ignored)) {
    std::ifstream file(thread.path() / "schedstat");
    std::uint64_t nanoseconds = 0;
    if (file >> nanoseconds) agent.processor_nanoseconds += nanoseconds;
  }
  std::ifstream memory(folder / "smaps_rollup");
  for (std::string line; std::getline(memory, line);)
    if (line.starts_with("Private_"))
      agent.private_bytes += 1024 * std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
  for (const fs::directory_entry& file : fs::directory_iterator(folder / "fd", ignored)) {
    std::error_code gone;
    if (fs::read_symlink(file.path(), gone).string().starts_with("socket:")) ++agent.sockets;
  }
  return agent;
}

}  // namespace

Result<std::vector<Agent>> FindAgents(pid_t root) {
  const std::map<pid_t, Process> processes = AllProcesses();
  std::vector<pid_t> pids;
  for (const auto& [pid, process] : processes)
    if (process.name == "cuspan-agent" && IsBelow(processes, pid, root)) pids.push_back(pid);
  std::sort(pids.begin(), pids.end(), [&](pid_t a, pid_t b) {
    return std::pair(processes.at(a).started, a) < std::pair(processes.at(b).started, b);
  });
  std::vector<Agent> agents;
  for (const pid_t pid : pids) agents.push_back(Look(pid));
  if (agents.empty()) return Status::NotFound("process {} has started no agents", root);
  return agents;
}

}  // namespace cuspan::bench::agents
