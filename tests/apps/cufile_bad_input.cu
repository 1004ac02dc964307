// Bad input to the cuFile API. Prints the result of each call, one line each, to compare a library
// with another one. Each group of calls runs in a separate process. If a call ends the process or
// takes too long, its result is `crash` or `hang`, and its group runs once more without it.
//
//   cufile_bad_input [--library PATH] [--fatal] [--list] [GROUP]
//
//   --library PATH  library instead of libcufile.so.0
//   --fatal         also makes calls ending the process with NVIDIA's library
//   --list          prints the names of the groups
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "cufile_bad_input/group.h"

namespace cufile {
namespace {

int failures = 0;
const char* group = "";
bool checked = false;
const char* library_name = "libcufile.so.0";
void* library = nullptr;
bool with_fatal = false;
std::string folder;

constexpr unsigned kMaxSeconds = 10;
constexpr int kMaxCalls = 512;
// Exit status of a group's process whose context was lost.
constexpr int kContextLost = 77;

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
  // True if the context is checked after each call. If it is lost, the group runs once more without
  // the call.
  bool checked = false;
};

const Group kGroups[] = {
    {"alone", Alone},
    {"open and close", OpenClose},
    {"close first", CloseFirst},
    {"close with handles", CloseWithHandles},
    {"exit", ExitOpen},
    {"settings before open", SettingsBefore},
    {"settings after open", SettingsAfter},
    {"properties", Properties},
    {"topology", Topology},
    {"bar sizes", BarSizes},
    {"p2p flags", P2pFlags},
    {"handles", Handles},
    {"file kinds", FileKinds},
    {"same file", SameFile},
    {"deregistration", Deregistration},
    {"handles after close", HandlesAfterClose},
    {"buffers", Buffers},
    {"buffer flags", BufferFlags},
    {"buffer kinds", BufferKinds},
    {"buffer overlaps", BufferOverlaps},
    {"buffer deregistration", BufferDeregistration},
    {"read handles", ReadHandles},
    {"read sizes", ReadSizes, true},
    {"read large", ReadLarge, true},
    {"read buffers", ReadBuffers, true},
    {"read pointers", ReadPointers, true},
    {"read files", ReadFiles, true},
    {"read contexts", ReadContexts},
    {"write sizes", WriteSizes, true},
    {"write pointers", WritePointers, true},
    {"write files", WriteFiles},
    {"direct files", DirectFiles},
    {"no host memory", HostMemoryOff},
    {"vectors", Vectors},
    {"vector entries", VectorEntries, true},
    {"vector buffers", VectorBuffers, true},
    {"vector writes", VectorWrites, true},
    {"batch set up", BatchSetUp},
    {"batch submit", BatchSubmit},
    {"batch entries", BatchEntries, true},
    {"batch buffers", BatchBuffers, true},
    {"batch flags", BatchFlags},
    {"batch status", BatchStatus},
    {"batch late", BatchLate},
    {"batch end", BatchEnd},
    {"stream registration", StreamRegistration},
    {"async arguments", AsyncArguments},
    {"async reads", AsyncReads, true},
    {"async writes", AsyncWrites, true},
    {"async registered", AsyncRegistered, true},
    {"async late", AsyncLate, true},
    {"async fixed", AsyncFixed, true},
    {"async capture", AsyncCapture, true},
    {"sizes before open", SizesBefore},
    {"sizes after open", SizesAfter},
    {"size limits", SizeLimits},
    {"flags before open", FlagsBefore},
    {"flags after open", FlagsAfter},
    {"strings before open", StringsBefore},
    {"strings after open", StringsAfter},
    {"slabs before open", SlabsBefore},
    {"slabs after open", SlabsAfter},
    {"parameters applied", ParametersApplied},
    {"parameters at open", ParametersAtOpen},
    {"stats levels", StatsLevels},
    {"stats before open", StatsBefore},
    {"stats order", StatsOrder},
    {"stats values", StatsValues},
};

const char* Name(CUfileOpError error) {
  switch (error) {
#define CUFILE_OP(code, name, text) \
  case name:                        \
    return #name;
    CUFILEOP_STATUS_ENTRIES
#undef CUFILE_OP
    default:
      return "?";
  }
}

// Writes the settings read by the library. Its log is in the group's folder.
void WriteSettings() {
  std::ofstream(Path("cufile.json"))
      << "{\"logging\": {\"dir\": \"" << folder << "\", \"level\": \"ERROR\"},\n"
      << " \"properties\": {\"allow_compat_mode\": true}}\n";
  unsetenv("CUFILE_LOGFILE_PATH");
  setenv("CUFILE_ENV_PATH_JSON", Path("cufile.json").c_str(), 1);
}

// Runs the group in a child. Returns true if the child is to be repeated without its last call.
bool InChild(const Group& each) {
  std::fflush(stdout);
  progress->begun = 0;
  progress->inside = false;
  std::filesystem::create_directory(folder);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    std::exit(EXIT_FAILURE);
  }
  if (child == 0) {
    group = each.name;
    checked = each.checked;
    alarm(kMaxSeconds);
    WriteSettings();
    library = dlopen(library_name, RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      _exit(EXIT_FAILURE);
    }
    each.run();
    std::fflush(stdout);
    // Destructors of the library are the subject of one group only.
    _exit(EXIT_SUCCESS);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) {
    std::perror("waitpid");
    std::exit(EXIT_FAILURE);
  }
  std::filesystem::remove_all(folder);
  if (status == 0) return false;
  ++failures;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kContextLost) return true;
  const bool hang = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  if (!progress->inside) {
    std::printf("%s: after %s = %s\n", each.name, progress->call, hang ? "hang" : "end of group");
    return false;
  }
  if (progress->begun > progress->told) {
    std::printf("%s: %s = %s\n", each.name, progress->call, hang ? "hang" : "crash");
    progress->told = progress->begun;
  }
  progress->skipped[progress->begun] = true;
  return true;
}

void Run(const Group& each) {
  std::memset(progress, 0, sizeof *progress);
  while (InChild(each)) {
  }
}

// Returns the reason if the process has no usable context, else "".
std::string LostContext() {
  CUcontext current = nullptr;
  if (cuCtxGetCurrent(&current) != CUDA_SUCCESS) return "; no driver";
  if (current == nullptr) return "; no current context";
  const cudaError_t error = cudaDeviceSynchronize();
  return error == cudaSuccess ? "" : std::string("; context ") + cudaGetErrorName(error);
}

void Print(const std::string& text, const std::string& result) {
  // Already printed by an earlier run of the group.
  if (progress->begun <= progress->told) return;
  progress->told = progress->begun;
  std::printf("%s: %s = %s\n", group, text.c_str(), result.c_str());
  std::fflush(stdout);
}

}  // namespace

bool WithFatal() { return with_fatal; }

void* Symbol(const char* name) { return dlsym(library, name); }

std::string Text(CUfileError_t error) {
  std::string text = std::to_string(static_cast<int>(error.err)) + " " + Name(error.err);
  if (error.cu_err != CUDA_SUCCESS) text += " cuda " + std::to_string(error.cu_err);
  return text;
}

std::string Text(long result) {
  const int error = errno;
  if (result == -1) {
    std::string text = "-1";
    text += " errno " + std::to_string(error);
    const char* const name = error == 0 ? nullptr : strerrorname_np(error);
    return name == nullptr ? text : text + " " + name;
  }
  return Late(result);
}

std::string Late(long result) {
  const std::string text = std::to_string(result);
  if (result >= -CUFILEOP_BASE_ERR || result <= -2 * CUFILEOP_BASE_ERR) return text;
  return text + " " + Name(static_cast<CUfileOpError>(-result));
}

bool Begin(const std::string& text) {
  alarm(kMaxSeconds);
  progress->begun = progress->begun + 1;
  if (progress->begun >= kMaxCalls) {
    std::fprintf(stderr, "group %s: more than %d calls\n", group, kMaxCalls);
    _exit(EXIT_FAILURE);
  }
  if (progress->skipped[progress->begun]) return false;
  std::snprintf(progress->call, sizeof progress->call, "%s", text.c_str());
  progress->inside = true;
  return true;
}

void Tell(const std::string& text, const std::string& result) {
  const std::string lost = checked ? LostContext() : "";
  progress->inside = false;
  if (!lost.empty()) {
    progress->skipped[progress->begun] = true;
    Print(text, result + lost);
    _exit(kContextLost);
  }
  Print(text, result);
}

bool Succeeded(const std::string& result) { return result == "0 CU_FILE_SUCCESS"; }

void Must(const char* text, const std::string& result) {
  if (Succeeded(result)) return;
  std::printf("%s: necessary %s = %s\n", group, text, result.c_str());
  std::fflush(stdout);
  _exit(EXIT_FAILURE);
}

void Open() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  MUST(cuFileDriverOpen());
}

std::string Path(const char* name) { return folder + "/" + name; }

std::string WithoutFolder(std::string text) {
  const std::size_t begin = text.find(folder);
  if (begin != std::string::npos) text.replace(begin, folder.size(), "FOLDER");
  return text;
}

int MakeFile(const char* name, std::size_t bytes, int flags, char value) {
  const std::string path = Path(name);
  std::ofstream(path) << std::string(bytes, value);
  const int file = open(path.c_str(), flags);
  if (file < 0) {
    std::perror(path.c_str());
    _exit(EXIT_FAILURE);
  }
  return file;
}

long SizeOf(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 ? status.st_size : -1;
}

CUfileDescr_t DescriptorOf(int file) {
  CUfileDescr_t descriptor{};
  descriptor.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descriptor.handle.fd = file;
  return descriptor;
}

CUfileHandle_t Register(int file) {
  CUfileHandle_t handle = nullptr;
  CUfileDescr_t descriptor = DescriptorOf(file);
  MUST(cuFileHandleRegister(&handle, &descriptor));
  return handle;
}

char* Device(std::size_t bytes) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, bytes));
  CHECK(cudaMemset(memory, 1, bytes));
  CHECK(cudaDeviceSynchronize());
  return static_cast<char*>(memory);
}

int FirstByte(const void* memory) {
  char byte = -1;
  CHECK(cudaMemcpy(&byte, memory, 1, cudaMemcpyDefault));
  return byte;
}

char* Reserve() {
  CUdeviceptr address = 0;
  DRIVER(cuMemAddressReserve(&address, 2 * kMemoryBytes, 0, 0, 0));
  return reinterpret_cast<char*>(address);
}

void MapAt(char* address) {
  const CUdeviceptr begin = reinterpret_cast<CUdeviceptr>(address);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle memory = 0;
  DRIVER(cuMemCreate(&memory, kMemoryBytes, &properties, 0));
  DRIVER(cuMemMap(begin, kMemoryBytes, 0, memory, 0));
  DRIVER(cuMemRelease(memory));
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  DRIVER(cuMemSetAccess(begin, kMemoryBytes, &access, 1));
}

void UnmapAt(char* address) {
  DRIVER(cuMemUnmap(reinterpret_cast<CUdeviceptr>(address), kMemoryBytes));
}

std::string InProcess(const std::function<std::string()>& call) {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(5);
    const std::string result = call();
    const bool written = write(ends[1], result.data(), result.size()) > 0;
    _exit(written ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  close(ends[1]);
  std::string result;
  char part[256];
  for (ssize_t bytes = 0; (bytes = read(ends[0], part, sizeof part)) > 0;) {
    result.append(part, static_cast<std::size_t>(bytes));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "hang" : "crash";
  return result;
}

std::string InThread(const std::function<std::string()>& call) {
  std::string result;
  std::thread([&] { result = call(); }).join();
  return result;
}

}  // namespace cufile

int main(int argc, char** argv) {
  using namespace cufile;
  const char* only = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--fatal") == 0) {
      with_fatal = true;
    } else if (std::strcmp(argv[i], "--library") == 0 && i + 1 < argc) {
      library_name = argv[++i];
    } else if (std::strcmp(argv[i], "--list") == 0) {
      for (const Group& each : kGroups) std::printf("%s\n", each.name);
      return EXIT_SUCCESS;
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
  std::string made = (std::filesystem::temp_directory_path() / "cufile_bad_input.XXXXXX").string();
  if (mkdtemp(made.data()) == nullptr) {
    std::perror(made.c_str());
    return EXIT_FAILURE;
  }
  folder = made + "/group";
  for (const Group& each : kGroups) {
    if (only == nullptr || std::strcmp(only, each.name) == 0) Run(each);
  }
  std::filesystem::remove_all(made);
  std::printf("cufile_bad_input: %s\n", Verdict(failures));
  return ExitStatus(failures);
}
