// Bad input to the CUDA driver API. Prints the result of each call, one line each, to compare a
// GPU's driver with another one. Each group of calls runs in a separate process. Sticky errors of a
// context and crashes do not affect other groups.
//
//   driver_bad_input [--fatal] [--find-crashes] [GROUP]
//
//   --fatal         also makes calls ending the process with the GPU's driver
//   --find-crashes  if a call ends the process or takes too long, runs its group once more without
//                   it, and prints `crash: group: call`
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver_bad_input/group.h"

const char* const kPtx = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry kernel(.param .u64 words, .param .u32 count, .param .u32 factor)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 scratch[16];
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [factor];
  mov.u32 %r3, %tid.x;
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra done;
  mul.wide.u32 %rd2, %r3, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.shared.u32 [scratch], %r2;
  st.global.u32 [%rd3], %r2;
done:
  ret;
}
)";

namespace {

int failures = 0;
const char* group = "";
bool with_fatal = false;

constexpr unsigned kMaxSeconds = 20;
constexpr int kMaxCalls = 256;

// Progress of a group, left behind by its process. Calls are numbered in their order.
struct Progress {
  volatile int begun;
  volatile int told;
  volatile bool inside;
  char call[256];
  bool skipped[kMaxCalls];
};
Progress* progress = nullptr;

struct Group {
  const char* name;
  void (*run)();
};

const Group kGroups[] = {
    {"before cuInit", BeforeInit},
    {"errors", Errors},
    {"names", Names},
    {"devices", Devices},
    {"primary contexts", PrimaryContexts},
    {"no context", NoContext},
    {"contexts", Contexts},
    {"destroyed context", DestroyedContext},
    {"other context", OtherContext},
    {"other thread", OtherThread},
    {"peers", Peers},
    {"modules", Modules},
    {"images", Images},
    {"functions", Functions},
    {"libraries", Libraries},
    {"linker", Linker},
    {"launches", Launches},
    {"launch buffers", LaunchBuffers},
    {"occupancy", Occupancy},
    {"after a fault", AfterFault},
    {"memory", Memory},
    {"host memory", HostMemory},
    {"copies", Copies},
    {"box copies", BoxCopies},
    {"sets", Sets},
    {"managed", Managed},
    {"pools", Pools},
    {"virtual memory", VirtualMemory},
    {"pointers", Pointers},
    {"ipc", Ipc},
    {"arrays", Arrays},
    {"textures", Textures},
    {"surfaces", Surfaces},
    {"streams", Streams},
    {"capture", Capture},
    {"events", Events},
    {"graphs", Graphs},
    {"graph nodes", GraphNodes},
    {"graph execs", GraphExecs},
    {"null handles", NullHandles},
};

// Runs the group in a child. Returns true on success.
bool InChild(const Group& each) {
  std::fflush(stdout);
  progress->begun = 0;
  progress->inside = false;
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    std::exit(EXIT_FAILURE);
  }
  if (child == 0) {
    group = each.name;
    alarm(kMaxSeconds);
    each.run();
    std::exit(EXIT_SUCCESS);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) {
    std::perror("waitpid");
    std::exit(EXIT_FAILURE);
  }
  if (status == 0) return true;
  ++failures;
  if (progress->inside) {
    std::printf("crash: %s: %s\n", each.name, progress->call);
  } else {
    std::printf("crash: %s: after %s\n", each.name, progress->call);
  }
  if (WIFSIGNALED(status)) {
    std::printf("group %s: signal %d\n", each.name, WTERMSIG(status));
  } else {
    std::printf("group %s: exit status %d\n", each.name, WEXITSTATUS(status));
  }
  return false;
}

// Runs the group. If find_crashes is set, repeats until all calls but those ending the process are
// made.
void Run(const Group& each, bool find_crashes) {
  std::memset(progress, 0, sizeof *progress);
  while (!InChild(each) && find_crashes && progress->inside) {
    progress->skipped[progress->begun] = true;
  }
}

}  // namespace

bool WithFatal() { return with_fatal; }

bool Begin(const char* text) {
  alarm(kMaxSeconds);
  progress->begun = progress->begun + 1;
  if (progress->begun >= kMaxCalls) {
    std::fprintf(stderr, "group %s: more than %d calls\n", group, kMaxCalls);
    std::exit(EXIT_FAILURE);
  }
  if (progress->skipped[progress->begun]) return false;
  std::snprintf(progress->call, sizeof progress->call, "%s", text);
  progress->inside = true;
  return true;
}

void Tell(const char* text, const std::string& result) {
  progress->inside = false;
  // Already printed by an earlier run of the group.
  if (progress->begun <= progress->told) return;
  progress->told = progress->begun;
  std::printf("%s: %s = %s\n", group, text, result.c_str());
  std::fflush(stdout);
}

void Tell(const char* text, CUresult result) {
  Tell(text, std::to_string(static_cast<int>(result)) + " " + Name(result));
}

void Start() {
  CUdevice device = -1;
  DRIVER(cuInit(0));
  DRIVER(cuDeviceGet(&device, 0));
}

CUcontext StartContext() {
  Start();
  CUcontext context = nullptr;
  DRIVER(cuCtxCreate(&context, nullptr, 0, 0));
  return context;
}

Code LoadCode() {
  Code code{};
  DRIVER(cuModuleLoadData(&code.module, kPtx));
  DRIVER(cuModuleGetFunction(&code.kernel, code.module, "kernel"));
  return code;
}

int main(int argc, char** argv) {
  const char* only = nullptr;
  bool find_crashes = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--fatal") == 0) {
      with_fatal = true;
    } else if (std::strcmp(argv[i], "--find-crashes") == 0) {
      find_crashes = true;
    } else {
      only = argv[i];
    }
  }
  void* const shared =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("mmap");
    return EXIT_FAILURE;
  }
  progress = static_cast<Progress*>(shared);
  for (const Group& each : kGroups) {
    if (only == nullptr || std::strcmp(only, each.name) == 0) Run(each, find_crashes);
  }
  std::printf("driver_bad_input: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
