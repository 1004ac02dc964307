// NVML over the session's devices, with values from the fake GPU's node.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "interpose/nvml/library.h"
#include "tests/unit/interpose/loopback/loopback.h"

using cuspan::nvml::ConfComputeSettings;
using cuspan::nvml::Device;
using cuspan::nvml::FabricInfoV;
using cuspan::nvml::FieldValue;
using cuspan::nvml::Memory;
using cuspan::nvml::MemoryV2;
using cuspan::nvml::PciInfo;
using cuspan::nvml::PciInfoExt;
using cuspan::nvml::ProcessInfo;
using cuspan::nvml::ProcessInfoV1;
using cuspan::nvml::Temperature;
using cuspan::nvml::Utilization;

// Declared as in NVML's header.
extern "C" {
int nvmlInit_v2();
int nvmlInitWithFlags(unsigned flags);
int nvmlShutdown();
const char* nvmlErrorString(int result);
int nvmlSystemGetDriverVersion(char* version, unsigned length);
int nvmlSystemGetCudaDriverVersion_v2(int* version);
int nvmlSystemGetConfComputeSettings(ConfComputeSettings* settings);
int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device);
int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device);
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Device* device);
int nvmlDeviceGetIndex(Device device, unsigned* index);
int nvmlDeviceGetName(Device device, char* name, unsigned length);
int nvmlDeviceGetUUID(Device device, char* uuid, unsigned length);
int nvmlDeviceGetPciInfo_v2(Device device, PciInfo* info);
int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info);
int nvmlDeviceGetPciInfoExt(Device device, PciInfoExt* info);
int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending);
int nvmlDeviceGetMemoryInfo(Device device, Memory* memory);
int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory);
int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned* celsius);
int nvmlDeviceGetTemperatureV(Device device, Temperature* temperature);
int nvmlDeviceGetUtilizationRates(Device device, Utilization* percent);
int nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts);
int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, ProcessInfoV1* infos);
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* infos);
int nvmlDeviceGetP2PStatus(Device device, Device peer, unsigned ability, int* status);
int nvmlDeviceGetNvLinkState(Device device, unsigned connection, unsigned* active);
int nvmlDeviceGetGpuFabricInfoV(Device device, FabricInfoV* info);
int nvmlDeviceGetFieldValues(Device device, int count, FieldValue* fields);
int cuspan_nvml_not_supported(const char* name);
}

namespace cuspan {
namespace {

using testing::ElementsAre;

// The observers of a node. Each returns the reply prepared by the test.
class Node : public DeviceOpener {
 public:
  explicit Node(const Bell& client) : client_fd_(::dup(client.fd())) {}
  ~Node() override {
    for (const auto& [device, observer] : observers_) End(*observer);
  }

  Result<Opened> Open(const OpenDevice& request, int /*region*/) override {
    if (refuse) return Status::Unavailable("the test refuses");
    EXPECT_EQ(request.shared.bytes, 0U);
    auto observer = std::make_unique<Observer>();
    Result<UniqueFd> memory = Channel::Create(ChannelLayout{2048, 1, 4096});
    Result<Bell> peer = Bell::Open(UniqueFd(::dup(client_fd_.get())));
    Result<std::unique_ptr<Channel>> channel = Channel::Attach(
        UniqueFd(::dup(memory->get())), ChannelSide::kProxy, &observer->bell, std::move(*peer));
    observer->channel = std::move(*channel);
    observer->thread = std::thread([this, at = observer.get()] { Serve(*at); });
    Opened opened;
    opened.answer.context = request.context;
    opened.channel = std::move(*memory);
    opened.bell = UniqueFd(::dup(observer->bell.fd()));
    ++opened_;
    observers_[request.device] = std::move(observer);
    return opened;
  }
  Status Close(std::uint32_t device) override {
    End(*observers_.at(device));
    observers_.erase(device);
    return Status::Ok();
  }
  Status Join(const JoinDevices&) override { return Status::Internal("observers join nothing"); }
  bool Gone() const override { return false; }

  void Lose(std::uint32_t device) { observers_.at(device)->channel->Close(true); }
  int opened() const { return opened_; }

  // Set between requests only.
  bool refuse = false;
  NvmlAnswer answer;
  std::vector<NvmlAsk> asked;

 private:
  struct Observer {
    Bell bell = std::move(*Bell::Create());
    std::unique_ptr<Channel> channel;
    std::thread thread;
  };
  void Serve(Observer& observer) {
    while (!observer.channel->closed()) {
      observer.bell.Wait([&] { return observer.channel->HasFrame() || observer.channel->closed(); },
                         std::chrono::seconds(10), WaitStages::ForThisMachine());
      const auto frame = observer.channel->Peek();
      if (!frame.ok() || !frame->has_value()) continue;
      asked.push_back(*ParseMessage<NvmlAsk>(**frame));
      observer.channel->Pop();
      observer.channel->Post(answer);
    }
  }
  static void End(Observer& observer) {
    observer.channel->Close(false);
    observer.thread.join();
  }

  const UniqueFd client_fd_;
  std::map<std::uint32_t, std::unique_ptr<Observer>> observers_;
  int opened_ = 0;
};

// Two software GPUs of the session, a GPU and a MIG part of one on another node, and the session's
// first device as a GPU.
class NvmlTest : public LoopbackTest {
 protected:
  static constexpr unsigned kGpu = 2, kPart = 3, kUsedGpu = 4;

  NvmlTest() {
    Bell bell = std::move(*Bell::Create());
    auto node = std::make_unique<Node>(bell);
    node_ = node.get();
    std::vector<DeviceDescription> devices = {session().devices().description(0),
                                              session().devices().description(1)};
    devices.push_back(devices[0]);
    devices[kGpu].software = false;
    devices[kGpu].agent = 7;
    devices[kGpu].name = "a GPU";
    devices[kGpu].uuid.fill(0xAB);
    devices[kGpu].pci_bus_id = "0001:c1:02.0";
    devices[kGpu].driver_version = 12080;
    devices[kGpu].attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
    devices[kGpu].attributes[CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID] = 0x233010de;
    devices.push_back(devices[kGpu]);
    devices[kPart].mig = true;
    devices[kPart].uuid.fill(0xCD);
    devices.push_back(devices[0]);
    devices[kUsedGpu].software = false;
    nvml::ManagementLibrary::Instance().StartWith(
        std::move(devices), std::make_unique<Observers>(std::move(node), std::move(bell)));
  }
  ~NvmlTest() override {
    while (nvmlShutdown() == nvml::kSuccess) {
    }
  }

  static Device At(unsigned index) {
    Device device = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &device), nvml::kSuccess);
    return device;
  }

  Node& node() { return *node_; }

 private:
  Node* node_ = nullptr;
};

TEST_F(NvmlTest, CountsItsBeginningsAndEnds) {
  unsigned count = 0;
  EXPECT_EQ(nvmlInit_v2(), nvml::kSuccess);
  EXPECT_EQ(nvmlInitWithFlags(1), nvml::kSuccess);
  EXPECT_EQ(nvmlInitWithFlags(4), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlShutdown(), nvml::kSuccess);
  EXPECT_EQ(nvmlShutdown(), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
  EXPECT_EQ(count, 5U);
  const Device device = At(0);
  EXPECT_EQ(nvmlShutdown(), nvml::kSuccess);
  EXPECT_EQ(nvmlShutdown(), nvml::kUninitialized);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kUninitialized);
  EXPECT_EQ(nvmlDeviceGetIndex(device, &count), nvml::kUninitialized);
}

TEST_F(NvmlTest, DevicesAreFoundByAllTheirNames) {
  Device device = nullptr;
  char text[96];
  unsigned index = 9;
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(nvmlDeviceGetIndex(At(i), &index), nvml::kSuccess);
    EXPECT_EQ(index, i);
    ASSERT_EQ(nvmlDeviceGetUUID(At(i), text, sizeof text), nvml::kSuccess);
    EXPECT_EQ(nvmlDeviceGetHandleByUUID(text, &device), nvml::kSuccess);
    EXPECT_EQ(device, At(i));
  }
  EXPECT_STREQ(text, "MIG-cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd");
  for (const char* bus : {"00000001:C1:02.0", "0001:c1:02.0", "1:c1:2"}) {
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(bus, &device), nvml::kSuccess) << bus;
    EXPECT_EQ(device, At(kGpu));
  }
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0001:c2:02.0", &device), nvml::kNotFound);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("nothing", &device), nvml::kNotFound);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(nullptr, &device), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-0", &device), nvml::kNotFound);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(nullptr, &device), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(kUsedGpu + 1, &device), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(0, nullptr), nvml::kInvalidArgument);
}

TEST_F(NvmlTest, RefusesWhatIsNoDeviceAndNoRoom) {
  char text[96];
  unsigned number = 0;
  for (Device device : {Device{nullptr}, Device{&number}, Device{static_cast<char*>(At(0)) + 1}}) {
    EXPECT_EQ(nvmlDeviceGetName(device, text, sizeof text), nvml::kInvalidArgument);
    EXPECT_EQ(nvmlDeviceGetTemperature(device, 0, &number), nvml::kInvalidArgument);
  }
  EXPECT_EQ(nvmlDeviceGetName(At(kGpu), text, 6), nvml::kSuccess);
  EXPECT_STREQ(text, "a GPU");
  EXPECT_EQ(nvmlDeviceGetName(At(kGpu), text, 5), nvml::kInsufficientSize);
  EXPECT_EQ(nvmlDeviceGetName(At(kGpu), nullptr, 5), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetTemperature(At(kGpu), 0, nullptr), nvml::kInvalidArgument);
  EXPECT_THAT(node().asked, ElementsAre());
}

TEST_F(NvmlTest, PciInfoInAllForms) {
  PciInfo info{};
  ASSERT_EQ(nvmlDeviceGetPciInfo_v3(At(kGpu), &info), nvml::kSuccess);
  EXPECT_STREQ(info.bus_id, "00000001:C1:02.0");
  EXPECT_STREQ(info.bus_id_legacy, "0001:C1:02.0");
  EXPECT_EQ(info.domain, 1U);
  EXPECT_EQ(info.bus, 0xC1U);
  EXPECT_EQ(info.device, 2U);
  EXPECT_EQ(info.pci_device_id, 0x233010deU);
  // The earlier form has no last member.
  std::memset(&info, 0x55, sizeof info);
  ASSERT_EQ(nvmlDeviceGetPciInfo_v2(At(kGpu), &info), nvml::kSuccess);
  EXPECT_STREQ(info.bus_id_legacy, "0001:C1:02.0");
  EXPECT_EQ(info.bus_id[0], 0x55);
  PciInfoExt more{};
  EXPECT_EQ(nvmlDeviceGetPciInfoExt(At(kGpu), &more), nvml::kVersionMismatch);
  more.version = nvml::VersionOf<PciInfoExt>(1);
  EXPECT_EQ(nvmlDeviceGetPciInfoExt(At(kGpu), &more), nvml::kSuccess);
  EXPECT_EQ(more.base_class, 3U);
  EXPECT_STREQ(more.bus_id, "00000001:C1:02.0");
}

TEST_F(NvmlTest, TheSystem) {
  int version = 0;
  char text[80];
  EXPECT_EQ(nvmlSystemGetCudaDriverVersion_v2(&version), nvml::kSuccess);
  EXPECT_EQ(version, 12080);
  // No node has reported one.
  EXPECT_EQ(nvmlSystemGetDriverVersion(text, sizeof text), nvml::kNotSupported);
  ConfComputeSettings settings{};
  EXPECT_EQ(nvmlSystemGetConfComputeSettings(&settings), nvml::kVersionMismatch);
  settings.version = nvml::VersionOf<ConfComputeSettings>(1);
  settings.feature = 5;
  EXPECT_EQ(nvmlSystemGetConfComputeSettings(&settings), nvml::kSuccess);
  EXPECT_EQ(settings.feature, 0U);
  EXPECT_STREQ(nvmlErrorString(nvml::kNotSupported), "Not supported");
  EXPECT_STREQ(nvmlErrorString(12345), "Unknown error");
  EXPECT_EQ(cuspan_nvml_not_supported("nvmlDeviceSetPersistenceMode"), nvml::kNotSupported);
}

TEST_F(NvmlTest, LiveValuesAreAskedOfTheNode) {
  unsigned celsius = 0;
  node().answer = {nvml::kSuccess, {41}};
  EXPECT_EQ(nvmlDeviceGetTemperature(At(kGpu), 0, &celsius), nvml::kSuccess);
  EXPECT_EQ(celsius, 41U);
  ASSERT_EQ(node().asked.size(), 1U);
  EXPECT_EQ(node().asked[0].function, "nvmlDeviceGetTemperature");
  EXPECT_THAT(node().asked[0].arguments, ElementsAre(0));
  Temperature temperature{0, 2, 0};
  EXPECT_EQ(nvmlDeviceGetTemperatureV(At(kGpu), &temperature), nvml::kVersionMismatch);
  EXPECT_EQ(nvmlDeviceGetTemperatureV(At(kGpu), nullptr), nvml::kInvalidArgument);
  temperature.version = nvml::VersionOf<Temperature>(1);
  EXPECT_EQ(nvmlDeviceGetTemperatureV(At(kGpu), &temperature), nvml::kSuccess);
  EXPECT_EQ(temperature.celsius, 41);
  EXPECT_THAT(node().asked.at(1).arguments, ElementsAre(2));
  Utilization percent{};
  node().answer = {nvml::kSuccess, {93, 17}};
  EXPECT_EQ(nvmlDeviceGetUtilizationRates(At(kGpu), &percent), nvml::kSuccess);
  EXPECT_EQ(percent.gpu, 93U);
  EXPECT_EQ(percent.memory, 17U);
  EXPECT_EQ(node().opened(), 1);
  // If the node refuses a request or sends an invalid reply, the caller's memory stays unchanged.
  node().answer = {nvml::kNotSupported, {}};
  EXPECT_EQ(nvmlDeviceGetTemperature(At(0), 0, &celsius), nvml::kNotSupported);
  EXPECT_EQ(celsius, 41U);
  EXPECT_EQ(node().opened(), 2);
  node().answer = {nvml::kSuccess, {1, 2, 3}};
  EXPECT_EQ(nvmlDeviceGetPowerUsage(At(kGpu), &celsius), nvml::kUnknown);
  // All this creates no CUDA context.
  EXPECT_EQ(session().devices().Opened(0), nullptr);
}

TEST_F(NvmlTest, ALostObserverIsReplaced) {
  unsigned celsius = 0;
  node().answer = {nvml::kSuccess, {41}};
  EXPECT_EQ(nvmlDeviceGetTemperature(At(kGpu), 0, &celsius), nvml::kSuccess);
  node().Lose(kGpu);
  node().refuse = true;
  EXPECT_EQ(nvmlDeviceGetTemperature(At(kGpu), 0, &celsius), nvml::kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetTemperature(At(kPart), 0, &celsius), nvml::kGpuIsLost);
  node().refuse = false;
  EXPECT_EQ(nvmlDeviceGetTemperature(At(kGpu), 0, &celsius), nvml::kSuccess);
  EXPECT_EQ(node().opened(), 2);
}

TEST_F(NvmlTest, MemoryOfSoftwareGpusIsWhatThisProcessUses) {
  Memory memory{};
  ProcessInfo info{};
  unsigned count = 1;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(At(1), &memory), nvml::kSuccess);
  EXPECT_EQ(memory.total, std::uint64_t{1} << 30);
  EXPECT_EQ(memory.used, 0U);
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(At(1), &count, &info), nvml::kSuccess);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(session().devices().Opened(1), nullptr);

  ASSERT_CUDA(cudaSetDevice(1));
  void* bytes = nullptr;
  ASSERT_CUDA(cudaMalloc(&bytes, 1 << 20));
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(At(1), &memory), nvml::kSuccess);
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(memory.used, total - std::min(free, total));
  EXPECT_EQ(memory.free + memory.used, memory.total);
  MemoryV2 second{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(At(1), &second), nvml::kVersionMismatch);
  second.version = nvml::VersionOf<MemoryV2>(2);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(At(1), &second), nvml::kSuccess);
  EXPECT_EQ(second.used, memory.used);

  count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(At(1), &count, nullptr),
            nvml::kInsufficientSize);
  ASSERT_EQ(count, 1U);
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(At(1), &count, &info), nvml::kSuccess);
  EXPECT_EQ(info.pid, static_cast<unsigned>(::getpid()));
  EXPECT_EQ(info.used_memory, memory.used);
  EXPECT_EQ(info.gpu_instance, nvml::kNoInstance);
  ProcessInfoV1 first{};
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses(At(1), &count, &first), nvml::kSuccess);
  EXPECT_EQ(first.used_memory, memory.used);
  EXPECT_CUDA(cudaFree(bytes));
  EXPECT_EQ(node().opened(), 0);
}

TEST_F(NvmlTest, MemoryOfThisProcessOnAGpuIsWhatItAllocates) {
  ProcessInfo info{};
  unsigned count = 1;
  void* bytes = nullptr;
  ASSERT_CUDA(cudaFree(nullptr));
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(At(kUsedGpu), &count, &info), nvml::kSuccess);
  ASSERT_EQ(count, 1U);
  const unsigned long long before = info.used_memory;
  ASSERT_CUDA(cudaMalloc(&bytes, 24 << 20));
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(At(kUsedGpu), &count, &info), nvml::kSuccess);
  EXPECT_GE(info.used_memory, before + (24 << 20));

  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const unsigned long long with_block = info.used_memory;
  ASSERT_EQ(cuMemCreate(&handle, 4 << 20, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(At(kUsedGpu), &count, &info), nvml::kSuccess);
  EXPECT_EQ(info.used_memory, with_block + (4 << 20));
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(At(kUsedGpu), &count, &info), nvml::kSuccess);
  EXPECT_EQ(info.used_memory, with_block);
  EXPECT_CUDA(cudaFree(bytes));
}

TEST_F(NvmlTest, MemoryOfGpusIsAskedOfTheNode) {
  node().answer = {nvml::kSuccess, {9, 5, 4}};
  Memory memory{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(At(kGpu), &memory), nvml::kSuccess);
  EXPECT_EQ(memory.total, 9U);
  EXPECT_EQ(memory.free, 5U);
  EXPECT_EQ(memory.used, 4U);
  MemoryV2 second{};
  second.version = nvml::VersionOf<MemoryV2>(2);
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(At(kGpu), &second), nvml::kUnknown);
  node().answer = {nvml::kSuccess, {9, 1, 5, 3}};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(At(kGpu), &second), nvml::kSuccess);
  EXPECT_EQ(second.reserved, 1U);
}

TEST_F(NvmlTest, ConnectionsAreThoseThatTheProgramHas) {
  int status = -1;
  // Software GPUs of one node are connected. The node reports real ones. Between nodes there is no
  // connection.
  EXPECT_EQ(nvmlDeviceGetP2PStatus(At(0), At(1), nvml::kPeerRead, &status), nvml::kSuccess);
  EXPECT_EQ(status, nvml::kPeerOk);
  node().answer = {nvml::kSuccess, {2}};
  EXPECT_EQ(nvmlDeviceGetP2PStatus(At(kGpu), At(kPart), nvml::kPeerWrite, &status), nvml::kSuccess);
  EXPECT_EQ(status, 2);
  ASSERT_EQ(node().asked.size(), 1U);
  EXPECT_THAT(node().asked[0].arguments,
              ElementsAre(1, 0xCDCDCDCD, 0xCDCDCDCD, 0xCDCDCDCD, 0xCDCDCDCD));
  EXPECT_EQ(nvmlDeviceGetP2PStatus(At(0), At(kGpu), nvml::kPeerRead, &status), nvml::kSuccess);
  EXPECT_EQ(status, nvml::kPeerNotSupported);
  EXPECT_EQ(nvmlDeviceGetP2PStatus(At(kGpu), At(kPart), nvml::kPeerNvLink, &status),
            nvml::kSuccess);
  EXPECT_EQ(status, nvml::kPeerNotSupported);
  EXPECT_EQ(nvmlDeviceGetP2PStatus(At(0), At(1), 5, &status), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetP2PStatus(At(0), nullptr, 0, &status), nvml::kInvalidArgument);
  unsigned active = 9;
  EXPECT_EQ(nvmlDeviceGetNvLinkState(At(kGpu), 0, &active), nvml::kNotSupported);
  FabricInfoV fabric{};
  EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(At(kGpu), &fabric), nvml::kVersionMismatch);
  for (const unsigned version : {2U << 24 | 36U, 3U << 24 | 40U}) {
    std::memset(&fabric, 0x55, sizeof fabric);
    fabric.version = version;
    EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(At(kGpu), &fabric), nvml::kSuccess);
    EXPECT_EQ(fabric.version, version);
    EXPECT_EQ(fabric.state, 0);
    EXPECT_EQ(fabric.health_summary, version >> 24 == 2 ? 0x55 : 0);
  }
}

TEST_F(NvmlTest, FieldsAreAnsweredOneByOne) {
  node().answer = {nvml::kSuccess, {nvml::kUnsignedLongLong, 1234567890123}};
  FieldValue fields[3]{};
  fields[0].field = nvml::kTotalEnergy;
  fields[1].field = nvml::kNvLinkCount;
  fields[1].value.number = 9;
  fields[2].field = 1;  // NVML_FI_DEV_ECC_CURRENT
  ASSERT_EQ(nvmlDeviceGetFieldValues(At(kGpu), 3, fields), nvml::kSuccess);
  EXPECT_EQ(fields[0].result, nvml::kSuccess);
  EXPECT_EQ(fields[0].type, nvml::kUnsignedLongLong);
  EXPECT_EQ(fields[0].value.long_number, 1234567890123U);
  EXPECT_EQ(fields[1].result, nvml::kSuccess);
  EXPECT_EQ(fields[1].value.number, 0U);
  EXPECT_EQ(fields[2].result, nvml::kNotSupported);
  EXPECT_EQ(node().asked.size(), 1U);
  EXPECT_EQ(nvmlDeviceGetFieldValues(At(kGpu), 0, fields), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetFieldValues(At(kGpu), 1, nullptr), nvml::kInvalidArgument);
}

TEST_F(NvmlTest, NoDeviceIsInParts) {
  unsigned current = 9;
  unsigned pending = 9;
  EXPECT_EQ(nvmlDeviceGetMigMode(At(kGpu), &current, &pending), nvml::kSuccess);
  EXPECT_EQ(current + pending, 0U);
  EXPECT_EQ(nvmlDeviceGetMigMode(At(0), &current, &pending), nvml::kNotSupported);
}

}  // namespace
}  // namespace cuspan
