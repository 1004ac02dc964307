#include "proxy/gpu/inventory.h"

#include <cstring>
#include <memory>
#include <optional>

#include "common/log.h"
#include "proxy/gpu/known_devices.h"
#include "proxy/gpu/nvml.h"

namespace cuspan::proxy {
namespace {

Result<DeviceDescription> Describe(const LoadedDriver& loaded, int ordinal) {
  const Driver& driver = loaded.functions;
  DeviceDescription description;
  description.ordinal = static_cast<std::uint32_t>(ordinal);
  description.driver_version = static_cast<std::uint32_t>(loaded.version);
  description.software = loaded.functions.software;
  CUdevice device = 0;
  char name[256] = "";
  char bus[32] = "";
  CUuuid uuid{};
  std::size_t memory = 0;
  CUresult result = driver.cuDeviceGet(&device, ordinal);
  if (result == CUDA_SUCCESS) result = driver.cuDeviceGetName(name, sizeof name, device);
  if (result == CUDA_SUCCESS) result = driver.cuDeviceGetUuid(&uuid, device);
  if (result == CUDA_SUCCESS) result = driver.cuDeviceGetPCIBusId(bus, sizeof bus, device);
  if (result == CUDA_SUCCESS) result = driver.cuDeviceTotalMem(&memory, device);
  if (result != CUDA_SUCCESS)
    return Status::Unavailable("cannot query GPU {}: {}", ordinal, driver.Describe(result));
  name[sizeof name - 1] = '\0';
  bus[sizeof bus - 1] = '\0';
  description.name = name;
  description.pci_bus_id = bus;
  static_assert(sizeof uuid.bytes == sizeof description.uuid);
  std::memcpy(description.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  description.memory_bytes = memory;
  // Each process has its own software GPU, with all its memory free.
  if (loaded.functions.software) description.free_bytes = memory;
  description.attributes.assign(CU_DEVICE_ATTRIBUTE_MAX, 0);
  for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; ++i) {
    // Attributes unknown to an older driver stay 0.
    int value = 0;
    if (driver.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i), device) ==
        CUDA_SUCCESS)
      description.attributes[static_cast<std::size_t>(i)] = value;
  }
  description.virtual_memory =
      description.attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] != 0;
  return description;
}

}  // namespace

Result<std::vector<DeviceDescription>> DescribeDevices(const LoadedDriver& driver) {
  int count = 0;
  if (const CUresult result = driver.functions.cuDeviceGetCount(&count); result != CUDA_SUCCESS)
    return Status::Unavailable("cannot count the GPUs: {}", driver.functions.Describe(result));
  std::vector<DeviceDescription> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUSPAN_ASSIGN_OR_RETURN(DeviceDescription description, Describe(driver, ordinal));
    devices.push_back(std::move(description));
  }
  return devices;
}

Result<std::vector<DeviceDescription>> ReadInventory(const std::string& name, bool fresh) {
  CUSPAN_ASSIGN_OR_RETURN(const LoadedDriver driver, OpenDriver(name));
  std::unique_ptr<Nvml> nvml;
  std::optional<KnownDevices> known;
  std::string state;
  if (!driver.functions.software) {
    nvml = Nvml::Load();
    if (nvml == nullptr)
      LogInfo("libnvidia-ml.so.1 not found: the free memory of the GPUs is unknown");
    else
      known = KnownDevices::Open();
  }
  if (known) state = StateOfDevices(*nvml, driver);
  std::vector<DeviceDescription> devices;
  if (!state.empty() && !fresh) devices = known->Find(state);
  if (devices.empty()) {
    CUSPAN_RETURN_IF_ERROR(InitDriver(driver, name));
    CUSPAN_ASSIGN_OR_RETURN(devices, DescribeDevices(driver));
    if (devices.empty()) return Status::NotFound("{} found no GPU", driver.path);
    if (nvml != nullptr) AskNvml(*nvml, devices);
    if (!state.empty())
      if (const Status kept = known->Keep(state, devices); !kept.ok())
        LogInfo("{}", kept.message());
    return devices;
  }
  AskNvml(*nvml, devices);
  return devices;
}

}  // namespace cuspan::proxy
