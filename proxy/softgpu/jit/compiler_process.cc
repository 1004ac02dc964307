#include "proxy/softgpu/jit/compiler_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "common/process_fd.h"
#include "proxy/softgpu/jit/kernel_key.h"
#include "proxy/softgpu/jit/parsed_module.h"

namespace cuspan::softgpu::jit {
namespace {

// First byte of the answer, followed by the code, or by the kind of failure and a message.
constexpr char kCode = 'C', kFailure = 'F';

// Optimised code for a thread is several times faster than the present code, and soon available, so
// its compilation has the workers' priority. Code for a warp takes longer and gains less; a kernel
// ending earlier should have lost little. On two busy cores, its compilation gets a fifth of the
// time at first. Compilations longer than most get a twentieth.
constexpr int kWarpNiceness = 3, kLongNiceness = 10;
constexpr rlim_t kUsualSeconds = 5;

// Full limit, set by OnUsualSeconds.
rlimit whole_limit{};

// SIGXCPU handler: the processor time of most compilations has elapsed.
void OnUsualSeconds(int) {
  ::setpriority(PRIO_PROCESS, 0, std::max(kLongNiceness, ::getpriority(PRIO_PROCESS, 0)));
  ::signal(SIGXCPU, SIG_DFL);
  ::setrlimit(RLIMIT_CPU, &whole_limit);
}

Status Errno(std::string_view what) {
  return Status::Unavailable("cannot start a compiler: {}: {}", what, std::strerror(errno));
}

Status WriteWhole(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return Errno("write");
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return Status::Ok();
}

Result<std::string> ReadWhole(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return Errno("fstat");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::pread(file, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Errno("read");
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

Result<UniqueFd> MemoryFile(const char* name) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) return Errno("memfd_create");
  return file;
}

std::string WriteAnswer(const Result<KernelCode>& code) {
  if (code.ok()) return kCode + WriteCode(*code);
  std::string answer{kFailure, static_cast<char>(code.status().code())};
  return answer += code.status().message();
}

Result<KernelCode> ReadAnswer(std::string_view kernel, std::string_view answer) {
  const char kind = answer.empty() ? '\0' : answer[0];
  if (kind == kCode) {
    if (auto code = ReadCode(answer.substr(1))) return std::move(*code);
  }
  if (kind == kFailure && answer.size() >= 2 && answer[1] > static_cast<char>(StatusCode::kOk) &&
      answer[1] <= static_cast<char>(StatusCode::kInternal))
    return Status(static_cast<StatusCode>(answer[1]), std::string(answer.substr(2)));
  return Status::Unavailable("kernel '{}': the compiler's answer is not complete", kernel);
}

Result<KernelCode> Build(std::shared_ptr<const std::string> ptx, std::string_view kernel,
                         const CodeForm& form) {
  CUSPAN_ASSIGN_OR_RETURN(const auto parsed, ParsedModule::Parse(std::move(ptx)));
  CUSPAN_ASSIGN_OR_RETURN(const std::uint32_t index, parsed->FindKernel(kernel));
  CUSPAN_ASSIGN_OR_RETURN(const auto plan, parsed->Plan(index));
  return BuildCode(parsed->module(), plan, form, false);
}

}  // namespace

Result<CompilerProcess> CompilerProcess::Start(const std::string& program,
                                               const CompilerTask& task) {
  CUSPAN_ASSIGN_OR_RETURN(const UniqueFd text, MemoryFile("cuspan-ptx"));
  CUSPAN_RETURN_IF_ERROR(WriteWhole(text.get(), *task.ptx));
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd answer, MemoryFile("cuspan-code"));

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, text.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, answer.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::string parent = std::to_string(::getpid());
  std::string seconds = std::to_string(task.limit.count());
  std::string form = task.form.Name();
  std::string kernel = task.kernel, name = program, build = BuildName();
  char* const arguments[] = {name.data(), build.data(),  parent.data(), seconds.data(),
                             form.data(), kernel.data(), nullptr};
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &files, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return Status::Unavailable("cannot start {}: {}", program, std::strerror(error));
  UniqueFd process = OpenProcess(pid);
  if (!process.valid()) {
    const Status failure = Errno("pidfd_open");
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return failure;
  }
  return CompilerProcess(task, std::move(process), std::move(answer));
}

CompilerProcess::~CompilerProcess() {
  if (!process_.valid() || waited_) return;
  Kill();
  (void)Wait();
}

void CompilerProcess::Kill() {
  ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
}

Result<KernelCode> CompilerProcess::Wait() {
  siginfo_t end{};
  while (::waitid(P_PIDFD, static_cast<id_t>(process_.get()), &end, WEXITED) != 0 &&
         errno == EINTR) {
  }
  waited_ = true;
  if (end.si_code != CLD_EXITED) {
    if (end.si_status == SIGXCPU)
      return Status::Exhausted("kernel '{}': its compilation took more than {} s of processor time",
                               what_, limit_.count());
    return Status::Internal("kernel '{}': its compiler was killed by signal {} ({})", what_,
                            end.si_status, ::strsignal(end.si_status));
  }
  CUSPAN_ASSIGN_OR_RETURN(const std::string answer, ReadWhole(answer_.get()));
  return ReadAnswer(what_, answer);
}

int CompilerMain(int argument_count, char** arguments) {
  const auto form = argument_count == 6 ? CodeForm::OfName(arguments[4]) : std::nullopt;
  if (!form) {
    constexpr std::string_view kUsage =
        "cuspan-kernel-compiler is started by the software GPU of cuspan only\n";
    (void)!::write(STDERR_FILENO, kUsage.data(), kUsage.size());
    return EXIT_FAILURE;
  }
  // The library may have been replaced since the start of the caller. Its code would then differ
  // from the caller's.
  if (arguments[1] != BuildName()) {
    const Status other = Status::Unavailable("its compiler is of another build: it was replaced");
    return WriteWhole(STDOUT_FILENO, WriteAnswer(other)).ok() ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != std::atoi(arguments[2])) return EXIT_FAILURE;
  if (form->warps)
    ::setpriority(PRIO_PROCESS, 0, std::max(kWarpNiceness, ::getpriority(PRIO_PROCESS, 0)));
  const auto seconds = static_cast<rlim_t>(std::atol(arguments[3]));
  whole_limit = {seconds, seconds + 1};
  const rlimit usual{std::min(kUsualSeconds, seconds), seconds + 1}, no_core{0, 0};
  if (usual.rlim_cur < seconds) ::signal(SIGXCPU, &OnUsualSeconds);
  ::setrlimit(RLIMIT_CPU, &usual);
  ::setrlimit(RLIMIT_CORE, &no_core);
  auto text = ReadWhole(STDIN_FILENO);
  if (!text.ok()) return EXIT_FAILURE;
  const auto code =
      Build(std::make_shared<const std::string>(std::move(*text)), arguments[5], *form);
  return WriteWhole(STDOUT_FILENO, WriteAnswer(code)).ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace cuspan::softgpu::jit
