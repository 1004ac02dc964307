// Creates and destroys objects again and again, and reports its memory in use.
//
//   grows          reads lines "KIND ROUNDS"; does each and answers the bytes of its heap
//   grows once     a short use of a device
#include <cuda.h>
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "driver_check.h"
#include "grows_images.h"
#include "include/cuspan/file.h"
#include "nccl.h"
#include "two_processes.h"

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int threads, uint3* thread, uint3* block, dim3* size, dim3* grid,
                            int* warp);
}

namespace {

__global__ void Add(int* to, int what) { *to += what; }
__global__ void Run(cudaGraphConditionalHandle condition) { cudaGraphSetConditional(condition, 0); }
__device__ int symbol;

int* shared_word = nullptr;  // On device 0.
const char* own_path = nullptr;

// --- Device code

void UseModule(const char* image) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr variable = 0;
  size_t bytes = 0;
  DRIVER(cuModuleLoadData(&module, image));
  DRIVER(cuModuleGetFunction(&function, module, "kernel"));
  DRIVER(cuModuleGetGlobal(&variable, &bytes, module, "variable"));
  int registers = 0;
  DRIVER(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
  DRIVER(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
  int blocks = 0;
  DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 0));
  if (cuModuleGetFunction(&function, module, "missing") == CUDA_SUCCESS) std::exit(1);
  DRIVER(cuModuleUnload(module));
}

void Modules(long) { UseModule(kPtx.c_str()); }

void LargeModules(long) {
  static const std::string image = kPtx + "//" + std::string(4 << 20, 'x') + "\n";
  UseModule(image.c_str());
}

void ModulesThatRun(long) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  DRIVER(cuModuleLoadData(&module, kPtx.c_str()));
  DRIVER(cuModuleGetFunction(&function, module, "kernel"));
  void* arguments[] = {&shared_word};
  DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  DRIVER(cuFuncSetBlockShape(function, 1, 1, 1));
  DRIVER(cuParamSetSize(function, 8));
  DRIVER(cuParamSetv(function, 0, &shared_word, 8));
  DRIVER(cuLaunchGrid(function, 1, 1));
  DRIVER(cuModuleUnload(module));
}

void DamagedModules(long) {
  CUmodule module = nullptr;
  if (cuModuleLoadData(&module, ".version 6.0\n.target sm_50\nrubbish") == CUDA_SUCCESS)
    std::exit(1);
}

void Libraries(long) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr variable = 0;
  size_t bytes = 0;
  DRIVER(cuLibraryLoadData(&library, kPtx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  DRIVER(cuLibraryGetKernel(&kernel, library, "kernel"));
  DRIVER(cuKernelGetFunction(&function, kernel));
  DRIVER(cuLibraryGetGlobal(&variable, &bytes, library, "variable"));
  DRIVER(cuLibraryUnload(library));
}

// Registers and unregisters a fat binary, like loading and unloading a library of the program.
void FatBinaries(long) {
  static const std::vector<unsigned char> container = Container();
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const void* container;
    const void* others = nullptr;
  } wrapper;
  wrapper.container = container.data();
  static const char stub = 0;
  void** const handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &stub, nullptr, "kernel", -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  __cudaRegisterFatBinaryEnd(handle);
  void* arguments[] = {&shared_word};
  CHECK(cudaLaunchKernel(&stub, 1, 1, arguments, 0, nullptr));
  __cudaUnregisterFatBinary(handle);
}

void Linkers(long) {
  CUlinkState state = nullptr;
  void* image = nullptr;
  size_t bytes = 0;
  DRIVER(cuLinkCreate(0, nullptr, nullptr, &state));
  DRIVER(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(kPtx.c_str()), kPtx.size() + 1,
                       "input", 0, nullptr, nullptr));
  DRIVER(cuLinkComplete(state, &image, &bytes));
  DRIVER(cuLinkDestroy(state));
}

// --- Streams and events

void Streams(long round) {
  cudaStream_t stream = nullptr;
  if (round % 2 == 0)
    CHECK(cudaStreamCreate(&stream));
  else
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  Add<<<1, 1, 0, stream>>>(shared_word, 1);
  CHECK_LAUNCH();
  CHECK(cudaStreamDestroy(stream));
}

void Events(long round) {
  cudaEvent_t events[2] = {};
  CHECK(cudaEventCreate(&events[0]));
  CHECK(cudaEventCreateWithFlags(&events[1], cudaEventDisableTiming));
  for (const cudaEvent_t event : events) {
    CHECK(cudaEventRecord(event));
    CHECK(cudaStreamWaitEvent(cudaStreamPerThread, event, 0));
  }
  if (round % 16 == 0) CHECK(cudaEventSynchronize(events[1]));
  for (const cudaEvent_t event : events) CHECK(cudaEventDestroy(event));
}

void HostFunctions(long round) {
  CHECK(cudaLaunchHostFunc(
      nullptr, [](void*) {}, nullptr));
  CHECK(cudaStreamAddCallback(
      nullptr, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0));
  if (round % 16 == 0) CHECK(cudaStreamSynchronize(nullptr));
}

void StreamMemoryOperations(long) {
  const auto address = reinterpret_cast<CUdeviceptr>(shared_word);
  DRIVER(cuStreamWriteValue32(nullptr, address, 7, 0));
  DRIVER(cuStreamWaitValue32(nullptr, address, 7, CU_STREAM_WAIT_VALUE_EQ));
}

// --- Memory

void Allocations(long round) {
  void* memory = nullptr;
  size_t pitch = 0;
  CHECK(cudaMalloc(&memory, static_cast<size_t>(1 + round % 100) << 10));
  CHECK(cudaFree(memory));
  CHECK(cudaMallocPitch(&memory, &pitch, 100, 10));
  CHECK(cudaMemset2D(memory, pitch, 0, 100, 10));
  CHECK(cudaFree(memory));
}

void StreamAllocations(long round) {
  void* memory = nullptr;
  CHECK(cudaMallocAsync(&memory, static_cast<size_t>(1 + round % 100) << 10, nullptr));
  CHECK(cudaMemsetAsync(memory, 0, 1024, nullptr));
  CHECK(cudaFreeAsync(memory, nullptr));
  if (round % 64 == 0) CHECK(cudaDeviceSynchronize());
}

void Pools(long) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  void* memory = nullptr;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaMallocFromPoolAsync(&memory, 4096, pool, nullptr));
  CHECK(cudaFreeAsync(memory, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaMemPoolDestroy(pool));
}

void HostAllocations(long) {
  void* memory = nullptr;
  void* device = nullptr;
  CHECK(cudaHostAlloc(&memory, 8192, cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&device, memory, 0));
  CHECK(cudaFreeHost(memory));
}

void HostRegistrations(long) {
  static void* const memory =
      mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(cudaHostRegister(memory, 1 << 16, cudaHostRegisterDefault));
  CHECK(cudaMemcpyAsync(shared_word, memory, 4, cudaMemcpyHostToDevice, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaHostUnregister(memory));
}

void Files(long round) {
  static const int fd = memfd_create("grows", MFD_CLOEXEC);
  cuspanFile_t file = nullptr;
  static cuspanFileStatus_t statuses[2];
  if (cuspanFileOpenFd(&file, fd, 0) != CUSPAN_FILE_SUCCESS ||
      cuspanFileWrite(file, shared_word, 4, 4 * (round % 100), nullptr, &statuses[0]) !=
          CUSPAN_FILE_SUCCESS ||
      cuspanFileRead(file, shared_word, 4, 4 * (round % 100), nullptr, &statuses[1]) !=
          CUSPAN_FILE_SUCCESS ||
      cuspanFileClose(file) != CUSPAN_FILE_SUCCESS)
    std::exit(1);
  CHECK(cudaStreamSynchronize(nullptr));
  if (statuses[0].bytes != 4 || statuses[1].bytes != 4) std::exit(1);
}

void ManagedAllocations(long) {
  int* memory = nullptr;
  CHECK(cudaMallocManaged(&memory, 8192));
  *memory = 1;
  Add<<<1, 1>>>(memory, 1);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  if (*memory != 2) std::exit(1);
  CHECK(cudaFree(memory));
}

void VirtualMemory(long) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t bytes = 0;
  DRIVER(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  DRIVER(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  DRIVER(cuMemCreate(&handle, bytes, &properties, 0));
  DRIVER(cuMemMap(address, bytes, 0, handle, 0));
  CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  DRIVER(cuMemSetAccess(address, bytes, &access, 1));
  DRIVER(cuMemsetD32(address, 1, 1));
  DRIVER(cuMemUnmap(address, bytes));
  int file = -1;
  CUmemGenericAllocationHandle imported = 0;
  DRIVER(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  DRIVER(cuMemImportFromShareableHandle(&imported,
                                        reinterpret_cast<void*>(static_cast<intptr_t>(file)),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  DRIVER(cuMemRelease(imported));
  DRIVER(cuMemRelease(handle));
  DRIVER(cuMemAddressFree(address, bytes));
}

void Copies(long round) {
  static std::vector<char> bytes(1 << 20);
  static char* const memory = [] {
    char* made = nullptr;
    CHECK(cudaMalloc(&made, 1 << 20));
    return made;
  }();
  const size_t size = round % 64 == 0 ? bytes.size() : 1 + round * 37 % 5000;
  CHECK(cudaMemcpy(memory, bytes.data(), size, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyAsync(memory, memory + (1 << 19), 100, cudaMemcpyDeviceToDevice, nullptr));
  CHECK(cudaMemcpy(bytes.data(), memory, size, cudaMemcpyDeviceToHost));
  int value = 1;
  CHECK(cudaMemcpyToSymbol(symbol, &value, sizeof value));
}

// --- Arrays

void Arrays(long) {
  cudaArray_t array = nullptr;
  cudaMipmappedArray_t mipmapped = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocArray(&array, &format, 32, 32, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc sampling{};
  cudaTextureObject_t texture = 0;
  cudaSurfaceObject_t surface = 0;
  CHECK(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr));
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  CHECK(cudaDestroySurfaceObject(surface));
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
  CHECK(cudaMallocMipmappedArray(&mipmapped, &format, cudaExtent{32, 32, 0}, 3));
  CHECK(cudaGetMipmappedArrayLevel(&array, mipmapped, 1));
  CHECK(cudaFreeMipmappedArray(mipmapped));
}

// --- Graphs

void Graphs(long) {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    CHECK(cudaStreamCreate(&made));
    return made;
  }();
  cudaGraph_t graph = nullptr;
  cudaGraph_t clone = nullptr;
  cudaGraphExec_t exec = nullptr;
  void* memory = nullptr;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Add<<<1, 1, 0, stream>>>(shared_word, 1);
  CHECK(cudaMallocAsync(&memory, 4096, stream));
  CHECK(cudaMemsetAsync(memory, 0, 4096, stream));
  CHECK(cudaFreeAsync(memory, stream));
  CHECK(cudaLaunchHostFunc(
      stream, [](void*) {}, nullptr));
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaUserObject_t object = nullptr;
  CHECK(cudaUserObjectCreate(
      &object, nullptr, [](void*) {}, 1, cudaUserObjectNoDestructorSync));
  CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  size_t count = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  for (int launch = 0; launch < 3; ++launch) {
    CHECK(cudaGraphLaunch(exec, stream));
    for (const cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type;
      CHECK(cudaGraphNodeGetType(node, &type));
      if (type != cudaGraphNodeTypeKernel) continue;
      cudaKernelNodeParams parameters{};
      CHECK(cudaGraphKernelNodeGetParams(node, &parameters));
      CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &parameters));
    }
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddEmptyNode(&nodes[0], graph, nullptr, 0));
  CHECK(cudaGraphClone(&clone, graph));
  CHECK(cudaGraphDestroy(clone));
  CHECK(cudaGraphDestroy(graph));
}

void ConditionalGraphs(long) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphConditionalHandle condition = 0;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&condition, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = condition;
  parameters.conditional.type = cudaGraphCondTypeWhile;
  parameters.conditional.size = 1;
  CHECK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
  void* arguments[] = {&condition};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(Run);
  kernel.gridDim = kernel.blockDim = dim3(1);
  kernel.kernelParams = arguments;
  CHECK(cudaGraphAddKernelNode(&node, parameters.conditional.phGraph_out[0], nullptr, 0, &kernel));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// --- Contexts, threads and processes

void Contexts(long) {
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  DRIVER(cuCtxCreate(&context, nullptr, 0, 0));
  DRIVER(cuMemAlloc(&memory, 4096));
  DRIVER(cuStreamCreate(&stream, 0));
  UseModule(kPtx.c_str());
  DRIVER(cuCtxDestroy(context));
}

void Resets(long) {
  int* memory = nullptr;
  cudaStream_t stream = nullptr;
  CHECK(cudaDeviceReset());
  CHECK(cudaMalloc(&memory, 4096));
  CHECK(cudaStreamCreate(&stream));
  Add<<<1, 1, 0, stream>>>(memory, 1);
  CHECK_LAUNCH();
  UseModule(kPtx.c_str());
  CHECK(cudaDeviceReset());
}

void Threads(long) {
  std::thread([] {
    Add<<<1, 1, 0, cudaStreamPerThread>>>(shared_word, 1);
    CHECK_LAUNCH();
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
}

void Processes(long) {
  const pid_t child = fork();
  if (child == 0) {
    execl(own_path, own_path, "once", nullptr);
    _exit(127);
  }
  if (!EndsWell(child)) std::exit(1);
}

// --- Between processes and devices

struct Export {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

// Creates an export for each received byte, after destroying the previous one.
[[noreturn]] void ServeExports(const End& end) {
  void* memory = nullptr;
  cudaEvent_t event = nullptr;
  char byte = 0;
  while (read(end.socket, &byte, 1) == 1) {
    if (memory != nullptr) {
      CHECK(cudaFree(memory));
      CHECK(cudaEventDestroy(event));
    }
    Export made{};
    CHECK(cudaMalloc(&memory, 1 << 16));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaIpcGetMemHandle(&made.memory, memory));
    CHECK(cudaIpcGetEventHandle(&made.event, event));
    end.Send(made);
  }
  _exit(0);
}

End exporter;

void InterProcess(long) {
  exporter.Signal();
  const auto from = exporter.Receive<Export>();
  void* memory = nullptr;
  cudaEvent_t event = nullptr;
  CHECK(cudaIpcOpenMemHandle(&memory, from.memory, cudaIpcMemLazyEnablePeerAccess));
  CHECK(cudaIpcOpenEventHandle(&event, from.event));
  CHECK(cudaEventRecord(event));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaIpcCloseMemHandle(memory));
}

void Peers(long) {
  static int* const there = [] {
    int* made = nullptr;
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&made, 4096));
    CHECK(cudaSetDevice(0));
    return made;
  }();
  cudaEvent_t event = nullptr;
  CHECK(cudaDeviceEnablePeerAccess(1, 0));
  CHECK(cudaMemcpyPeerAsync(there, 1, shared_word, 0, 4, nullptr));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaEventRecord(event));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(nullptr, event, 0));
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaSetDevice(0));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaDeviceDisablePeerAccess(1));
}

void Communicators(long) {
  devices = 2;
  {
    const Ranks ranks;
    const Buffers<int> buffers(16);
    ranks.Group([&](int rank) {
      return Call("ncclAllReduce", buffers.send[rank], buffers.receive[rank], size_t{16},
                  static_cast<int>(kInt32), static_cast<int>(kSum), ranks.comms[rank],
                  ranks.streams[rank]);
    });
    ranks.Wait();
  }
  CHECK(cudaSetDevice(0));
}

void Nvml(long) {
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) std::exit(1);
  const auto call = [](const char* name) {
    const auto function = reinterpret_cast<int (*)()>(dlsym(library, name));
    if (function == nullptr || function() != 0) std::exit(1);
  };
  call("nvmlInit_v2");
  call("nvmlShutdown");
}

const std::map<std::string, void (*)(long)> kKinds = {
    {"allocations", Allocations},
    {"arrays", Arrays},
    {"communicators", Communicators},
    {"conditional graphs", ConditionalGraphs},
    {"contexts", Contexts},
    {"copies", Copies},
    {"damaged modules", DamagedModules},
    {"events", Events},
    {"fat binaries", FatBinaries},
    {"files", Files},
    {"graphs", Graphs},
    {"host allocations", HostAllocations},
    {"host functions", HostFunctions},
    {"host registrations", HostRegistrations},
    {"inter-process", InterProcess},
    {"large modules", LargeModules},
    {"libraries", Libraries},
    {"linkers", Linkers},
    {"managed allocations", ManagedAllocations},
    {"modules", Modules},
    {"modules that run", ModulesThatRun},
    {"nvml", Nvml},
    {"peers", Peers},
    {"pools", Pools},
    {"processes", Processes},
    {"resets", Resets},
    {"stream allocations", StreamAllocations},
    {"stream memory operations", StreamMemoryOperations},
    {"streams", Streams},
    {"threads", Threads},
    {"virtual memory", VirtualMemory},
};

void Once() {
  CHECK(cudaMalloc(&shared_word, 4096));
  Add<<<1, 1>>>(shared_word, 1);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  own_path = argv[0];
  if (argc > 1) {
    Once();
    return 0;
  }
  if (StartOther(&exporter) == 0) ServeExports(exporter);
  Once();
  for (std::string line; std::getline(std::cin, line);) {
    const size_t blank = line.rfind(' ');
    const auto kind = kKinds.find(line.substr(0, blank));
    if (kind == kKinds.end()) return 2;
    const long rounds = std::stol(line.substr(blank + 1));
    for (long round = 0; round < rounds; ++round) kind->second(round);
    if (shared_word != nullptr && kind->second == Resets) Once();
    CHECK(cudaDeviceSynchronize());
    const struct mallinfo2 heap = mallinfo2();
    std::printf("%zu\n", heap.uordblks + heap.hblkhd);
    std::fflush(stdout);
  }
  return 0;
}
