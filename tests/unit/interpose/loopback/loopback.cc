#include "tests/unit/interpose/loopback/loopback.h"

#include <unistd.h>

#include <array>
#include <mutex>
#include <thread>

#include "proxy/server.h"

namespace cuspan {
namespace {

// The thread sanitizer leaves no room for mappings at the usual address.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kWindow = 0x10'0000'0000;
#else
constexpr std::uint64_t kWindow = 0x1800'0000'0000;
#endif
constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 30;

template <typename T>
T Must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok()) std::abort();
  return std::move(*result);
}

Bell Another(const Bell& bell) { return Must(Bell::Open(UniqueFd(::dup(bell.fd())))); }

// Small staging memory, so small copies take many chunks and exhaust the slots.
ChannelLayout SmallLayout() {
  ChannelLayout layout;
  layout.ring_slots = 4096;
  layout.staging_slots = 4;
  layout.staging_bytes = 4096;
  return layout;
}

// A proxy running in a thread.
class Proxy {
 public:
  Proxy(const proxy::Driver& driver, UniqueFd channel, const Bell& client,
        const OpenDevice& request)
      : bell_(Must(Bell::Create())),
        channel_(Must(
            Channel::Attach(std::move(channel), ChannelSide::kProxy, &bell_, Another(client)))) {
    const std::uint64_t base = kWindow + request.context * kWindowBytes;
    device_.emplace(Must(proxy::Device::Open(
        driver, 0, {base, kWindowBytes, LoopbackTest::kDevices * kWindowBytes})));
    // No file: to the client, the proxy is on another node.
    if (request.shared.bytes != 0) {
      const Status reserved = device_->ReserveShared(request.shared, UniqueFd(), 0);
      EXPECT_TRUE(reserved.ok()) << reserved.message();
    }
    thread_ = std::thread([this, &driver] {
      static_cast<void>(device_->MakeCurrent());
      {
        const proxy::ReceivingThread::Scope role(proxy::receiving_thread);
        proxy::DeviceSession session(driver, *device_, *channel_, std::nullopt, &joins_,
                                     {.most = 2});
        const Status ended = proxy::Serve(session);
        EXPECT_TRUE(ended.ok()) << ended.message();
      }
      device_.reset();  // Destroys its context, current in this thread.
    });
  }
  ~Proxy() {
    channel_->Close(false);
    End();
  }
  void Lose(std::string_view reason) {
    channel_->Lose(reason);
    End();
  }

  bool ended() const { return ended_; }
  Bell& bell() { return bell_; }
  proxy::JoinInbox& joins() { return joins_; }
  const proxy::Device& device() const { return *device_; }

 private:
  void End() {
    ended_ = true;
    joins_.End();
    if (thread_.joinable()) thread_.join();
  }

  Bell bell_;
  const std::unique_ptr<Channel> channel_;
  std::optional<proxy::Device> device_;
  proxy::JoinInbox joins_;
  bool ended_ = false;
  std::thread thread_;
};

// Stands in for the agent.
class Opener : public DeviceOpener {
 public:
  explicit Opener(Bell client) : client_(std::move(client)) {}

  Result<Opened> Open(const OpenDevice& request, int /*region*/) override {
    std::lock_guard lock(mutex_);
    UniqueFd memory = Must(Channel::Create(SmallLayout()));
    auto& proxy = proxies_[request.context];
    proxy = std::make_unique<Proxy>(gpu->driver(), UniqueFd(::dup(memory.get())), client_, request);
    DeviceOpened answer;
    answer.context = request.context;
    answer.relayed = true;
    answer.window = proxy->device().window();
    answer.shared = proxy->device().shared().bytes != 0;
    return Opened{answer, std::move(memory), UniqueFd(::dup(proxy->bell().fd()))};
  }
  Status Close(std::uint32_t context) override {
    std::lock_guard lock(mutex_);
    EndJoins(context);
    proxies_.erase(context);
    return Status::Ok();
  }
  Status Join(const JoinDevices& request) override {
    std::lock_guard lock(mutex_);
    Proxy& first = *proxies_.at(request.first);
    Proxy& second = *proxies_.at(request.second);
    if (first.ended() || second.ended()) {
      for (Proxy* end : {&first, &second})
        end->joins().Put(request.join, {nullptr, "the other device is lost"});
      return Status::Ok();
    }
    UniqueFd memory = Must(Channel::Create(SmallLayout()));
    first.joins().Put(request.join,
                      {Must(Channel::Attach(UniqueFd(::dup(memory.get())), ChannelSide::kClient,
                                            &first.bell(), Another(second.bell()))),
                       ""});
    joins_.push_back({{request.first, request.second},
                      Must(Channel::Attach(UniqueFd(::dup(memory.get())), ChannelSide::kClient,
                                           &bell_, Another(second.bell())))});
    second.joins().Put(request.join, {Must(Channel::Attach(std::move(memory), ChannelSide::kProxy,
                                                           &second.bell(), Another(first.bell()))),
                                      ""});
    return Status::Ok();
  }
  bool Gone() const override { return false; }

  void Lose(int device) {
    std::lock_guard lock(mutex_);
    EndJoins(static_cast<std::uint32_t>(device));
    proxies_.at(static_cast<std::uint32_t>(device))->Lose("the test ended it");
  }

  proxy::FakeGpu* gpu = nullptr;  // GPU of the running test.

 private:
  struct Joined {
    std::array<std::uint32_t, 2> contexts;
    std::unique_ptr<Channel> channel;  // Closed by this class, as by an agent.
  };
  // Notifies the remaining ends of joined channels.
  void EndJoins(std::uint32_t context) {
    std::erase_if(joins_, [&](const Joined& joined) {
      if (joined.contexts[0] != context && joined.contexts[1] != context) return false;
      joined.channel->Close(true);
      for (const std::uint32_t end : joined.contexts)
        if (const auto found = proxies_.find(end); found != proxies_.end())
          found->second->bell().Ring();
      return true;
    });
  }

  const Bell client_;
  Bell bell_ = Must(Bell::Create());
  std::mutex mutex_;
  std::vector<Joined> joins_;
  std::map<std::uint32_t, std::unique_ptr<Proxy>> proxies_;  // Keyed by number of context.
};

DeviceDescription Description(int device) {
  DeviceDescription description;
  description.host = "elsewhere";
  description.ordinal = static_cast<std::uint32_t>(device);
  description.name = "a fake GPU";
  description.uuid.fill(static_cast<std::uint8_t>(device + 1));
  description.pci_bus_id = "0000:01:00.0";
  description.memory_bytes = std::uint64_t{1} << 30;
  description.driver_version = CUDART_VERSION;
  description.software = true;
  description.virtual_memory = true;
  description.attributes.assign(CU_DEVICE_ATTRIBUTE_MAX, 0);
  const auto set = [&](CUdevice_attribute attribute, int value) {
    description.attributes[attribute] = value;
  };
  set(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
  for (const CUdevice_attribute size :
       {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z})
    set(size, 1024);
  set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10);
  set(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32);
  set(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4);
  set(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9);
  set(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1);
  set(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1);
  set(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1);
  set(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1);
  set(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1);
  set(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1);
  return description;
}

// The only session of the process.
struct Started {
  Opener* opener;
  Session* session;
};
Started& TheSession() {
  static Started started = [] {
    Bell bell = Must(Bell::Create());
    auto opener = std::make_unique<Opener>(Another(bell));
    Opener* const kept = opener.get();
    std::vector<DeviceDescription> devices;
    for (int device = 0; device < LoopbackTest::kDevices; ++device)
      devices.push_back(Description(device));
    return Started{kept,
                   Session::StartWith(std::move(opener), std::move(bell), std::move(devices))};
  }();
  return started;
}

}  // namespace

std::vector<std::uint32_t> Count(std::size_t words) {
  std::vector<std::uint32_t> counted(words);
  for (std::size_t i = 0; i < words; ++i) counted[i] = static_cast<std::uint32_t>(i);
  return counted;
}

LoopbackTest::LoopbackTest() : gpu_(std::make_unique<proxy::FakeGpu>()) {
  gpu_->HaveOwnAddresses();
  TheSession().opener->gpu = gpu_.get();
  EXPECT_NE(TheSession().session, nullptr);
  EXPECT_CUDA(cudaSetDevice(0));
}

LoopbackTest::~LoopbackTest() {
  gpu_->LetAll();
  for (int device = 0; device < kDevices; ++device) {
    EXPECT_CUDA(cudaSetDevice(device));
    EXPECT_CUDA(cudaDeviceReset());
  }
  static_cast<void>(cudaGetLastError());
  TheSession().opener->gpu = nullptr;
}

void LoopbackTest::LoseProxy(int device) { TheSession().opener->Lose(device); }

void LoopbackTest::Hold(cudaStream_t stream) {
  const std::size_t before = gpu().Log().size();
  EXPECT_CUDA(Launch("nothing", stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  const std::vector<std::string> log = gpu().Log();
  for (std::size_t i = before; i < log.size(); ++i)
    if (log[i].starts_with("nothing ")) numbers_[stream] = std::stoi(log[i].substr(8));
  gpu().Hold(NumberOf(stream));
}

cudaStream_t LoopbackTest::NewStream(unsigned flags) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

cudaEvent_t LoopbackTest::NewEvent(unsigned flags) {
  cudaEvent_t event = nullptr;
  EXPECT_CUDA(cudaEventCreateWithFlags(&event, flags));
  return event;
}

std::uint32_t* LoopbackTest::NewWords(std::size_t count) {
  void* words = nullptr;
  EXPECT_CUDA(cudaMalloc(&words, count * sizeof(std::uint32_t)));
  EXPECT_CUDA(cudaMemset(words, 0, count * sizeof(std::uint32_t)));
  EXPECT_CUDA(cudaDeviceSynchronize());
  return static_cast<std::uint32_t*>(words);
}

std::vector<std::uint32_t> LoopbackTest::Read(const std::uint32_t* words, std::size_t count) {
  std::vector<std::uint32_t> read(count);
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaMemcpy(read.data(), words, count * sizeof read[0], cudaMemcpyDefault));
  return read;
}

std::uint32_t LoopbackTest::ReadWord(const std::uint32_t* words, cudaStream_t stream) {
  std::uint32_t word = 0;
  EXPECT_CUDA(cudaMemcpyAsync(&word, words, sizeof word, cudaMemcpyDefault, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  return word;
}

Session& LoopbackTest::session() { return *TheSession().session; }

const void* LoopbackTest::Kernel(const char* name) {
  if (library_ == nullptr) {
    // PTX to the client. All modules of the fake GPU have the same contents.
    constexpr const char* kImage = ".version 8.0\n.target sm_80\n.address_size 64\n";
    EXPECT_CUDA(cudaLibraryLoadData(&library_, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  cudaKernel_t& kernel = kernels_[name];
  if (kernel == nullptr) {
    EXPECT_CUDA(cudaLibraryGetKernel(&kernel, library_, name));
  }
  return reinterpret_cast<const void*>(kernel);
}

cudaError_t LoopbackTest::Add(std::uint32_t* words, std::uint32_t count, std::uint32_t value,
                              cudaStream_t stream) {
  void* arguments[] = {&words, &count, &value};
  return cudaLaunchKernel(Kernel("add"), dim3{1, 1, 1}, dim3{1, 1, 1}, arguments, 0, stream);
}

cudaError_t LoopbackTest::Launch(const char* kernel, cudaStream_t stream) {
  return cudaLaunchKernel(Kernel(kernel), dim3{1, 1, 1}, dim3{1, 1, 1}, nullptr, 0, stream);
}

}  // namespace cuspan
