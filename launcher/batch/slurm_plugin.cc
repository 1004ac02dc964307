// Slurm plugin (SPANK): if sbatch or srun has --cuspan-gpus=N, the job's script or the step's
// program is run by `cuspan run --gpus N`. For plugstack.conf; must be built with the version of
// Slurm in use. It is installed in PREFIX/lib/cuspan and uses the command of the same PREFIX.
#include <dlfcn.h>
#include <slurm/slurm.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Symbols looked up by Slurm under these names; its header declares them with C linkage.
#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>

extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(cuspan, 1)
}
#pragma GCC visibility pop

namespace {

constexpr const char* kWrong = "--cuspan-gpus=%s: use a number of GPUs from 1 to 4096, or all";

bool IsNumberOfGpus(std::string_view text) {
  if (text == "all") return true;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 1 && number <= 4096;
}

// Called on the submitting host, and again on the job's node.
int CheckOption(int, const char* text, int) {
  if (text != nullptr && IsNumberOfGpus(text)) return 0;
  slurm_error(kWrong, text == nullptr ? "" : text);
  return -1;
}

char g_name[] = "cuspan-gpus";
char g_argument[] = "N|all";
char g_usage[] =
    "run the program with `cuspan run --gpus N`: it sees N of the job's GPUs, on all nodes";
spank_option g_option = {g_name, g_argument, g_usage, 1, 0, &CheckOption};

std::string CommandOfThisInstallation() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&CheckOption), &info) == 0) return "cuspan";
  const std::filesystem::path library = std::filesystem::path(info.dli_fname).parent_path();
  return library.parent_path().parent_path() / "bin/cuspan";
}

// Called in a task about to execute the program: ends it, with a log line for the user.
[[noreturn]] void Fail(const std::string& why) {
  slurm_spank_log("cuspan: %s", why.c_str());
  ::_exit(125);
}

}  // namespace

int slurm_spank_init(spank_t spank, int, char**) {
  return spank_option_register(spank, &g_option) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_task_init(spank_t spank, int, char**) {
  char* gpus = nullptr;
  if (spank_option_getopt(spank, &g_option, &gpus) != ESPANK_SUCCESS || gpus == nullptr) return 0;
  int count = 0;
  char** words = nullptr;
  char** variables = nullptr;
  std::uint32_t step = 0, tasks = 0;
  if (spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_ENV, &variables) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS)
    Fail("Slurm does not report the task's program and environment");
  // The option refers to the whole job, even when given to a step.
  std::vector<const char*> environment = {"CUSPAN_BATCH=job"};
  for (; *variables != nullptr; ++variables) {
    const std::string_view variable = *variables;
    // This step is inside a job script run by cuspan: its program belongs to that run.
    if (variable.starts_with("CUSPAN_SOCKET=") && !variable.ends_with('=')) return 0;
    if (!variable.starts_with("CUSPAN_BATCH=")) environment.push_back(*variables);
  }
  environment.push_back(nullptr);
  if (step != SLURM_BATCH_SCRIPT && tasks > 1)
    Fail(
        "--cuspan-gpus is for one task: give it to sbatch, or start the ranks of an MPI program "
        "with cuspan run -np");

  const std::string command = CommandOfThisInstallation();
  std::vector<const char*> arguments = {command.c_str(), "run", "--gpus", gpus, "--"};
  arguments.insert(arguments.end(), words, words + count);
  arguments.push_back(nullptr);
  ::execve(command.c_str(), const_cast<char**>(arguments.data()),
           const_cast<char**>(environment.data()));
  Fail(command + ": " + std::strerror(errno));
}
