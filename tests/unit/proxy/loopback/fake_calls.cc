// Driver functions of the fake GPU.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "common/log.h"
#include "tests/unit/proxy/loopback/fake_gpu_parts.h"

namespace cuspan::proxy {
namespace {

// Options of the driver's compiler. Writes the same text into both logs, and a number into options
// returning one.
class FakeJit {
 public:
  FakeJit(unsigned count, const CUjit_option* names, void** values)
      : names_(names, names + count), values_(values) {}
  void Write(const std::string& text) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const bool log = names_[i] == CU_JIT_INFO_LOG_BUFFER || names_[i] == CU_JIT_ERROR_LOG_BUFFER;
      if (log) {
        // The next option is the size, as passed by the proxy.
        const auto room = reinterpret_cast<std::uintptr_t>(values_[i + 1]);
        const std::size_t bytes = std::min<std::size_t>(text.size(), room - 1);
        std::memcpy(values_[i], text.data(), bytes);
        static_cast<char*>(values_[i])[bytes] = '\0';
        values_[i + 1] = reinterpret_cast<void*>(bytes);
      }
      if (names_[i] == CU_JIT_THREADS_PER_BLOCK)
        values_[i] = reinterpret_cast<void*>(std::uintptr_t{96});
    }
  }

 private:
  std::vector<CUjit_option> names_;
  void** values_;
};
struct FakeLink {
  FakeJit jit;
  std::string inputs;
};

// A function missing in the fake driver.
template <const char* const& kName, typename... Arguments>
CUresult NotThere(Arguments...) {
  LogWarn("the fake GPU has no {}", kName);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

// All driver functions, assigned to their table entries below.
struct FakeCalls {
  static FakeGpu::Stream& StreamOf(CUstream stream) { return fake->StreamOf(stream); }

  static CUresult Name(CUresult, const char** text) {
    *text = "a result of the fake GPU";
    return CUDA_SUCCESS;
  }
  static CUresult Count(int* count) {
    *count = 1;
    return CUDA_SUCCESS;
  }
  static CUresult Get(CUdevice* device, int ordinal) {
    *device = 0;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  }
  static CUresult Retain(CUcontext* context, CUdevice) {
    std::scoped_lock lock(fake->mutex_);
    auto& contexts = fake->contexts_;
    if (contexts.empty() || contexts.back()->retained) {
      contexts.push_back(std::make_unique<FakeGpu::Context>());
      contexts.back()->legacy = fake->AddStream(contexts.back().get(), true);
    }
    contexts.back()->retained = true;
    *context = reinterpret_cast<CUcontext>(contexts.size());
    return CUDA_SUCCESS;
  }
  static CUresult ReleaseContext(CUdevice) {
    std::scoped_lock lock(fake->mutex_);
    for (const auto& stream : fake->streams_)
      if (stream->context == &fake->Current()) stream->tasks.clear();
    return CUDA_SUCCESS;
  }
  static CUresult SetFlags(CUdevice, unsigned) { return CUDA_SUCCESS; }
  static CUresult SetCurrent(CUcontext context) {
    current_context = reinterpret_cast<std::uintptr_t>(context);
    return CUDA_SUCCESS;
  }
  static CUresult GetCurrent(CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(current_context);
    return CUDA_SUCCESS;
  }
  static CUresult GetLimit(std::size_t* value, CUlimit limit) {
    *value = 1024;
    return limit == CU_LIMIT_STACK_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  static CUresult SetLimit(CUlimit limit, std::size_t) {
    return limit == CU_LIMIT_STACK_SIZE ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
  }

  // --- Memory
  static CUresult GetInfo(std::size_t* free, std::size_t* total) {
    std::scoped_lock lock(fake->mutex_);
    *free = fake->free_bytes_;
    *total = 2 * fake->free_bytes_;
    return fake->Refusal("cuMemGetInfo");
  }
  static CUresult Reserve(CUdeviceptr* got, std::size_t bytes, std::size_t, CUdeviceptr wanted,
                          unsigned long long) {
    void* destination = ::mmap(reinterpret_cast<void*>(wanted), bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (destination == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *got = reinterpret_cast<CUdeviceptr>(destination);
    std::scoped_lock lock(fake->mutex_);
    if (fake->has_own_addresses_ && wanted != 0) *got = wanted;
    fake->Current().reserved[*got] = {bytes, static_cast<std::byte*>(destination)};
    return CUDA_SUCCESS;
  }
  static CUresult FreeAddress(CUdeviceptr address, std::size_t bytes) {
    std::scoped_lock lock(fake->mutex_);
    ::munmap(fake->Memory(address), bytes);
    fake->Current().reserved.erase(address);
    return CUDA_SUCCESS;
  }
  static CUresult CreateMemory(CUmemGenericAllocationHandle* memory, std::size_t bytes,
                               const CUmemAllocationProp*, unsigned long long) {
    std::scoped_lock lock(fake->mutex_);
    if (bytes > (64 << 20)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (const CUresult refusal = fake->Refusal("cuMemCreate"); refusal != CUDA_SUCCESS)
      return refusal;
    // A handle is a file; mappings keep its memory alive.
    const int file = ::memfd_create("fake-gpu", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
      return CUDA_ERROR_OPERATING_SYSTEM;
    *memory = static_cast<CUmemGenericAllocationHandle>(file);
    fake->log_.push_back("create");
    return CUDA_SUCCESS;
  }
  static CUresult ReleaseMemory(CUmemGenericAllocationHandle memory) {
    std::scoped_lock lock(fake->mutex_);
    ::close(static_cast<int>(memory));
    fake->log_.push_back("release");
    return CUDA_SUCCESS;
  }
  static CUresult MapMemory(CUdeviceptr address, std::size_t bytes, std::size_t,
                            CUmemGenericAllocationHandle memory, unsigned long long) {
    struct stat status {};
    if (address % 4096 != 0 || bytes % 4096 != 0 || bytes == 0 ||
        ::fstat(static_cast<int>(memory), &status) != 0 ||
        static_cast<std::size_t>(status.st_size) != bytes)
      return CUDA_ERROR_INVALID_VALUE;
    std::scoped_lock lock(fake->mutex_);
    if (::mmap(fake->Memory(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               static_cast<int>(memory), 0) == MAP_FAILED)
      return CUDA_ERROR_OUT_OF_MEMORY;
    fake->Current().mapped[address] = bytes;
    return CUDA_SUCCESS;
  }
  static CUresult UnmapMemory(CUdeviceptr address, std::size_t bytes) {
    std::scoped_lock lock(fake->mutex_);
    fake->Current().mapped.erase(address);
    ::mmap(fake->Memory(address), bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    fake->log_.push_back("unmap");
    return CUDA_SUCCESS;
  }
  static CUresult SetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc*,
                            std::size_t) {
    std::unique_lock lock(fake->mutex_);
    fake->log_.push_back("asked for access");
    fake->changed_.notify_all();
    fake->changed_.wait_for(lock, kPatience, [] { return !fake->access_held_; });
    if (!fake->Mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return fake->Refusal("cuMemSetAccess");
  }

  // --- Copies
  static CUresult ToDevice(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    if (!fake->Mapped(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    std::byte* const memory = fake->Memory(to);
    // A slot of the channel is read when the copy runs. A frame's bytes are copied at once, as the
    // driver does.
    const bool slot = reinterpret_cast<std::uintptr_t>(from) % 4096 == 0;
    if (!slot) {
      const auto* data = static_cast<const std::byte*>(from);
      return fake->Enqueue(stream, "to-device", [memory, kept = std::vector(data, data + bytes)] {
        std::memcpy(memory, kept.data(), kept.size());
      });
    }
    return fake->Enqueue(stream, "to-device", [=] { std::memcpy(memory, from, bytes); });
  }
  static CUresult FromDevice(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    if (!fake->Mapped(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return fake->Enqueue(stream, "from-device", [to, bytes, memory = fake->Memory(from)] {
      std::memcpy(to, memory, bytes);
    });
  }
  static CUresult OnDevice(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    if (!fake->Mapped(from, bytes) || !fake->Mapped(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return fake->Enqueue(stream, "on-device",
                         [bytes, target = fake->Memory(to), source = fake->Memory(from)] {
                           std::memmove(target, source, bytes);
                         });
  }
  template <typename T>
  static CUresult Set(CUdeviceptr to, T value, std::size_t count, CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    if (!fake->Mapped(to, count * sizeof value) || to % sizeof value != 0)
      return CUDA_ERROR_INVALID_VALUE;
    return fake->Enqueue(stream, "set", [value, count, memory = fake->Memory(to)] {
      std::fill_n(reinterpret_cast<T*>(memory), count, value);
    });
  }

  static CUresult SetRows(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                          std::size_t rows, CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    if (width > pitch || !fake->Mapped(to, pitch * (rows - 1) + width))
      return CUDA_ERROR_INVALID_VALUE;
    return fake->Enqueue(stream, "set-rows", [=, memory = fake->Memory(to)] {
      for (std::size_t row = 0; row < rows; ++row)
        std::fill_n(reinterpret_cast<unsigned char*>(memory) + row * pitch, width, value);
    });
  }

  // --- Boxes and arrays. Arrays have no contents: copies to and from them do nothing.
  static CUresult CopyBox(const CUDA_MEMCPY3D* copy, CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY)
      return fake->Enqueue(stream, "box-array", [] {});
    const std::byte* const from = copy->srcMemoryType == CU_MEMORYTYPE_HOST
                                      ? static_cast<const std::byte*>(copy->srcHost)
                                      : fake->Memory(copy->srcDevice);
    std::byte* const to = copy->dstMemoryType == CU_MEMORYTYPE_HOST
                              ? static_cast<std::byte*>(copy->dstHost)
                              : fake->Memory(copy->dstDevice);
    return fake->Enqueue(stream, "box", [c = *copy, from, to] {
      for (std::size_t z = 0; z < c.Depth; ++z) {
        for (std::size_t y = 0; y < c.Height; ++y) {
          const std::uint64_t source =
              ((c.srcZ + z) * c.srcHeight + c.srcY + y) * c.srcPitch + c.srcXInBytes;
          const std::uint64_t target =
              ((c.dstZ + z) * c.dstHeight + c.dstY + y) * c.dstPitch + c.dstXInBytes;
          std::memmove(to + target, from + source, c.WidthInBytes);
        }
      }
    });
  }
  static CUresult CreateArray(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR*) {
    *array = reinterpret_cast<CUarray>(fake);
    return fake->Refusal("cuArray3DCreate");
  }
  static CUresult DestroyArray(CUarray) { return CUDA_SUCCESS; }
  static CUresult CreateMipmap(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned) {
    *array = reinterpret_cast<CUmipmappedArray>(fake);
    return fake->Refusal("cuMipmappedArrayCreate");
  }
  static CUresult Level(CUarray* array, CUmipmappedArray, unsigned level) {
    *array = reinterpret_cast<CUarray>(fake);
    return level < 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  static CUresult DestroyMipmap(CUmipmappedArray) { return CUDA_SUCCESS; }
  static CUresult CreateTexture(CUtexObject* object, const CUDA_RESOURCE_DESC*,
                                const CUDA_TEXTURE_DESC*, const CUDA_RESOURCE_VIEW_DESC*) {
    std::scoped_lock lock(fake->mutex_);
    *object = ++fake->objects_;
    return fake->Refusal("cuTexObjectCreate");
  }
  static CUresult DestroyTexture(CUtexObject) { return CUDA_SUCCESS; }
  static CUresult CreateSurface(CUsurfObject* object, const CUDA_RESOURCE_DESC*) {
    std::scoped_lock lock(fake->mutex_);
    *object = ++fake->objects_;
    return fake->Refusal("cuSurfObjectCreate");
  }
  static CUresult DestroySurface(CUsurfObject) { return CUDA_SUCCESS; }

  // --- Modules and kernels
  static CUresult LoadModule(CUmodule* module, const void*) {
    std::unique_lock lock(fake->mutex_);
    fake->changed_.wait_for(lock, kPatience, [] { return !fake->modules_held_; });
    *module = reinterpret_cast<CUmodule>(fake);
    return fake->Refusal("cuModuleLoadData");
  }
  static CUresult LoadModuleWith(CUmodule* module, const void* image, unsigned count,
                                 CUjit_option* names, void** values) {
    FakeJit(count, names, values).Write("loaded");
    return LoadModule(module, image);
  }
  // A link state consists of its log and the concatenated inputs.
  static CUresult CreateLink(unsigned count, CUjit_option* names, void** values,
                             CUlinkState* state) {
    *state = reinterpret_cast<CUlinkState>(new FakeLink{FakeJit(count, names, values), {}});
    std::scoped_lock lock(fake->mutex_);
    fake->log_.push_back("link");
    return fake->Refusal("cuLinkCreate");
  }
  static CUresult AddToLink(CUlinkState handle, CUjitInputType type, void* data, std::size_t bytes,
                            const char* name, unsigned count, CUjit_option*, void**) {
    auto& state = *reinterpret_cast<FakeLink*>(handle);
    state.inputs.append(static_cast<const char*>(data), bytes);
    std::scoped_lock lock(fake->mutex_);
    const CUresult result = fake->Refusal("cuLinkAddData");
    state.jit.Write(Format("{} of kind {} with {} options", name, static_cast<int>(type), count));
    return result;
  }
  static CUresult CompleteLink(CUlinkState handle, void** image, std::size_t* bytes) {
    auto& state = *reinterpret_cast<FakeLink*>(handle);
    *image = state.inputs.data();
    *bytes = state.inputs.size();
    state.jit.Write("complete");
    std::scoped_lock lock(fake->mutex_);
    return fake->Refusal("cuLinkComplete");
  }
  static CUresult DestroyLink(CUlinkState handle) {
    delete reinterpret_cast<FakeLink*>(handle);
    std::scoped_lock lock(fake->mutex_);
    fake->log_.push_back("unlink");
    fake->changed_.notify_all();
    return CUDA_SUCCESS;
  }
  static CUresult UnloadModule(CUmodule) {
    std::scoped_lock lock(fake->mutex_);
    fake->log_.push_back("unload");
    return CUDA_SUCCESS;
  }
  static CUresult GetFunction(CUfunction* function, CUmodule, const char* name) {
    std::scoped_lock lock(fake->mutex_);
    for (const auto& known : fake->functions_) {
      if (known->name != name) continue;
      *function = reinterpret_cast<CUfunction>(known.get());
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
  }
  static CUresult GetGlobal(CUdeviceptr* address, std::size_t* bytes, CUmodule, const char* name) {
    if (std::string(name) != "variable") return CUDA_ERROR_NOT_FOUND;
    *address = reinterpret_cast<CUdeviceptr>(fake->variable_.data());
    *bytes = fake->variable_.size();
    return CUDA_SUCCESS;
  }
  static CUresult CountFunctions(unsigned* count, CUmodule) {
    std::scoped_lock lock(fake->mutex_);
    *count = static_cast<unsigned>(fake->functions_.size());
    return fake->Refusal("cuModuleGetFunctionCount");
  }
  static CUresult ListFunctions(CUfunction* functions, unsigned count, CUmodule) {
    std::scoped_lock lock(fake->mutex_);
    for (unsigned i = 0; i < count && i < fake->functions_.size(); ++i)
      functions[i] = reinterpret_cast<CUfunction>(fake->functions_[i].get());
    return CUDA_SUCCESS;
  }
  static CUresult FunctionName(const char** name, CUfunction function) {
    *name = reinterpret_cast<FakeGpu::Function*>(function)->name.c_str();
    return CUDA_SUCCESS;
  }
  static CUresult PointerAttribute(void* data, CUpointer_attribute, CUdeviceptr) {
    *static_cast<unsigned*>(data) = 0;
    return CUDA_SUCCESS;
  }
  static CUresult ParamInfo(CUfunction function, std::size_t index, std::size_t* offset,
                            std::size_t* bytes) {
    const auto& parameters = reinterpret_cast<FakeGpu::Function*>(function)->parameters;
    if (index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = std::accumulate(parameters.begin(), parameters.begin() + index, std::size_t{0});
    *bytes = parameters[index];
    return CUDA_SUCCESS;
  }
  static CUresult FunctionAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
      *value = 1024;
    else  // Its kernels set no cluster attributes.
      *value = attribute >= CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET ? 0 : 7;
    return CUDA_SUCCESS;
  }
  static CUresult SetFunctionAttribute(CUfunction, CUfunction_attribute, int value) {
    return value < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  static CUresult SetCacheConfig(CUfunction, CUfunc_cache) {
    return fake->Refusal("cuFuncSetCacheConfig");
  }
  static CUresult LaunchIt(CUfunction function, unsigned grid, unsigned, unsigned, unsigned block,
                           unsigned, unsigned, unsigned, CUstream stream, void** arguments,
                           void**) {
    std::scoped_lock lock(fake->mutex_);
    fake->launching_threads_.insert(std::this_thread::get_id());
    const FakeGpu::Function& kernel = *reinterpret_cast<FakeGpu::Function*>(function);
    if (grid == 0 || block == 0 || kernel.name == "refused") return CUDA_ERROR_INVALID_VALUE;
    if (kernel.name == "nothing") return fake->Enqueue(stream, "nothing", [] {});
    CUresult& lost = StreamOf(stream).context->lost;
    if (kernel.name == "faults")
      return fake->Enqueue(stream, "faults", [&lost] { lost = CUDA_ERROR_ILLEGAL_ADDRESS; });
    if (kernel.name == "cuspan_patch") return FakePatch::Launch(block, stream, arguments);
    std::uint64_t address = 0;
    std::uint32_t count = 0;
    std::uint32_t value = 0;
    std::memcpy(&address, arguments[0], sizeof address);
    std::memcpy(&count, arguments[1], sizeof count);
    std::memcpy(&value, arguments[2], sizeof value);
    const bool mapped = fake->Mapped(address, count * sizeof value) && address % sizeof value == 0;
    auto* const words = reinterpret_cast<std::uint32_t*>(fake->Memory(address));
    return fake->Enqueue(stream, "add", [=, &lost] {
      if (!mapped) {
        lost = CUDA_ERROR_ILLEGAL_ADDRESS;
        return;
      }
      for (std::uint32_t i = 0; i < count; ++i) words[i] += value;
    });
  }
  static CUresult LaunchTogether(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                 unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                 CUstream stream, void** arguments) {
    return LaunchIt(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, nullptr);
  }
  static CUresult Occupancy(int* blocks, CUfunction, int, std::size_t, unsigned) {
    *blocks = 3;
    return CUDA_SUCCESS;
  }
  static CUresult AvailableShared(std::size_t* bytes, CUfunction, int, int) {
    *bytes = 4096;
    return CUDA_SUCCESS;
  }

  // --- Streams and events
  static CUresult CreateStream(CUstream* stream, unsigned flags, int) {
    std::scoped_lock lock(fake->mutex_);
    if (const CUresult refusal = fake->Refusal("cuStreamCreateWithPriority");
        refusal != CUDA_SUCCESS)
      return refusal;
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    *stream = reinterpret_cast<CUstream>(
        fake->AddStream(&fake->Current(), (flags & CU_STREAM_NON_BLOCKING) == 0));
    return CUDA_SUCCESS;
  }
  static CUresult DestroyStream(CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    fake->log_.push_back("destroy " + std::to_string(StreamOf(stream).number));
    return CUDA_SUCCESS;
  }
  static CUresult QueryStream(CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    FakeGpu::Stream& asked = StreamOf(stream);
    if (asked.context->lost != CUDA_SUCCESS) return asked.context->lost;
    fake->LogAsked(asked);
    const bool legacy = &asked == asked.context->legacy;
    for (const auto& other : fake->streams_) {
      const bool counts = legacy && other->blocking && other->context == asked.context;
      if ((counts || other.get() == &asked) && !other->tasks.empty()) return CUDA_ERROR_NOT_READY;
    }
    return CUDA_SUCCESS;
  }
  static CUresult WaitEvent(CUstream stream, CUevent event, unsigned) {
    std::scoped_lock lock(fake->mutex_);
    auto* awaited = reinterpret_cast<FakeGpu::Event*>(event);
    return fake->Enqueue(
        stream, "wait", [] {}, [awaited] { return !awaited->pending; });
  }
  static CUresult CreateEvent(CUevent* event, unsigned flags) {
    std::scoped_lock lock(fake->mutex_);
    auto* made = new FakeGpu::Event;
    made->context = &fake->Current();
    made->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    fake->events_.insert(made);
    *event = reinterpret_cast<CUevent>(made);
    return made->context->lost;
  }
  static CUresult DestroyEvent(CUevent event) {
    std::scoped_lock lock(fake->mutex_);
    fake->events_.erase(reinterpret_cast<FakeGpu::Event*>(event));
    delete reinterpret_cast<FakeGpu::Event*>(event);
    return CUDA_SUCCESS;
  }
  static CUresult RecordEvent(CUevent event, CUstream stream) {
    std::scoped_lock lock(fake->mutex_);
    if (const CUresult lost = StreamOf(stream).context->lost; lost != CUDA_SUCCESS) return lost;
    auto* recorded = reinterpret_cast<FakeGpu::Event*>(event);
    recorded->pending = true;
    return fake->Enqueue(stream, "record", [recorded] {
      recorded->pending = false;
      if (recorded->timed) recorded->time = ++fake->timed_records_;
    });
  }
  static CUresult QueryEvent(CUevent event) {
    std::scoped_lock lock(fake->mutex_);
    const auto& asked = *reinterpret_cast<FakeGpu::Event*>(event);
    if (asked.context->lost != CUDA_SUCCESS) return asked.context->lost;
    return asked.pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  }
  static CUresult Elapsed(float* milliseconds, CUevent start, CUevent end) {
    std::scoped_lock lock(fake->mutex_);
    if (reinterpret_cast<FakeGpu::Event*>(start)->pending ||
        reinterpret_cast<FakeGpu::Event*>(end)->pending)
      return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(2.5 * (reinterpret_cast<FakeGpu::Event*>(end)->time -
                                              reinterpret_cast<FakeGpu::Event*>(start)->time));
    return CUDA_SUCCESS;
  }
};

void FakeGpu::InstallCalls() {
  Driver& d = driver_;
  d.cuGetErrorName = d.cuGetErrorString = FakeCalls::Name;
  d.cuDeviceGetCount = FakeCalls::Count;
  d.cuDeviceGet = FakeCalls::Get;
  d.cuDeviceGetName = [](char* name, int bytes, CUdevice) {
    std::snprintf(name, static_cast<std::size_t>(bytes), "a fake GPU");
    return CUDA_SUCCESS;
  };
  d.cuDevicePrimaryCtxRetain = FakeCalls::Retain;
  d.cuDevicePrimaryCtxRelease = FakeCalls::ReleaseContext;
  d.cuDevicePrimaryCtxSetFlags = FakeCalls::SetFlags;
  d.cuCtxSetCurrent = FakeCalls::SetCurrent;
  d.cuCtxGetCurrent = FakeCalls::GetCurrent;
  d.cuCtxGetLimit = FakeCalls::GetLimit;
  d.cuCtxSetLimit = FakeCalls::SetLimit;
  d.cuMemGetInfo = FakeCalls::GetInfo;
  d.cuMemAddressReserve = FakeCalls::Reserve;
  d.cuMemAddressFree = FakeCalls::FreeAddress;
  d.cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = 0;
    return CUDA_SUCCESS;
  };
  d.cuMemCreate = FakeCalls::CreateMemory;
  d.cuMemRelease = FakeCalls::ReleaseMemory;
  d.cuMemMap = FakeCalls::MapMemory;
  d.cuMemUnmap = FakeCalls::UnmapMemory;
  d.cuMemSetAccess = FakeCalls::SetAccess;
  d.cuMemHostRegister = FakeMemoryBatch::RegisterHost;
  d.cuMemHostUnregister = FakeMemoryBatch::UnregisterHost;
  d.cuMemHostGetDevicePointer = [](CUdeviceptr* mapped, void* host, unsigned) {
    *mapped = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  };
  d.cuMemcpyHtoDAsync = FakeCalls::ToDevice;
  d.cuMemcpyDtoHAsync = FakeCalls::FromDevice;
  d.cuMemcpyDtoDAsync = FakeCalls::OnDevice;
  d.cuMemsetD8Async = FakeCalls::Set<unsigned char>;
  d.cuMemsetD16Async = FakeCalls::Set<unsigned short>;
  d.cuMemsetD32Async = FakeCalls::Set<unsigned>;
  d.cuMemsetD2D8Async = FakeCalls::SetRows;
  d.cuMemcpy3DAsync = FakeCalls::CopyBox;
  d.cuStreamBatchMemOp = FakeMemoryBatch::Call;
  d.cuArray3DCreate = FakeCalls::CreateArray;
  d.cuArrayDestroy = FakeCalls::DestroyArray;
  d.cuMipmappedArrayCreate = FakeCalls::CreateMipmap;
  d.cuMipmappedArrayGetLevel = FakeCalls::Level;
  d.cuMipmappedArrayDestroy = FakeCalls::DestroyMipmap;
  d.cuTexObjectCreate = FakeCalls::CreateTexture;
  d.cuTexObjectDestroy = FakeCalls::DestroyTexture;
  d.cuSurfObjectCreate = FakeCalls::CreateSurface;
  d.cuSurfObjectDestroy = FakeCalls::DestroySurface;
  d.cuModuleLoadData = FakeCalls::LoadModule;
  d.cuModuleLoadDataEx = FakeCalls::LoadModuleWith;
  d.cuLinkCreate = FakeCalls::CreateLink;
  d.cuLinkAddData = FakeCalls::AddToLink;
  d.cuLinkComplete = FakeCalls::CompleteLink;
  d.cuLinkDestroy = FakeCalls::DestroyLink;
  d.cuModuleUnload = FakeCalls::UnloadModule;
  d.cuModuleGetFunction = FakeCalls::GetFunction;
  d.cuModuleGetGlobal = FakeCalls::GetGlobal;
  d.cuModuleGetFunctionCount = FakeCalls::CountFunctions;
  d.cuModuleEnumerateFunctions = FakeCalls::ListFunctions;
  d.cuPointerGetAttribute = FakeCalls::PointerAttribute;
  d.cuFuncGetName = FakeCalls::FunctionName;
  d.cuFuncGetParamInfo = FakeCalls::ParamInfo;
  d.cuFuncGetAttribute = FakeCalls::FunctionAttribute;
  d.cuFuncSetAttribute = FakeCalls::SetFunctionAttribute;
  d.cuFuncSetCacheConfig = FakeCalls::SetCacheConfig;
  d.cuLaunchKernel = FakeCalls::LaunchIt;
  d.cuLaunchCooperativeKernel = FakeCalls::LaunchTogether;
  d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = FakeCalls::Occupancy;
  d.cuOccupancyAvailableDynamicSMemPerBlock = FakeCalls::AvailableShared;
  d.cuStreamCreateWithPriority = FakeCalls::CreateStream;
  d.cuStreamDestroy = FakeCalls::DestroyStream;
  d.cuStreamQuery = FakeCalls::QueryStream;
  d.cuStreamWaitEvent = FakeCalls::WaitEvent;
  d.cuEventCreate = FakeCalls::CreateEvent;
  d.cuEventDestroy = FakeCalls::DestroyEvent;
  d.cuEventRecord = FakeCalls::RecordEvent;
  d.cuEventQuery = FakeCalls::QueryEvent;
  d.cuEventElapsedTime = FakeCalls::Elapsed;
  graphs_.Install(d);
  InstallTensorMaps();
#define CUSPAN_DRIVER_FUNCTION(name)             \
  static constexpr const char* k_##name = #name; \
  if (d.name == nullptr) d.name = NotThere<k_##name>;
#include "proxy/gpu/driver_functions.def"
#undef CUSPAN_DRIVER_FUNCTION
}

}  // namespace cuspan::proxy
