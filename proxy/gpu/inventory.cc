#include "proxy/gpu/inventory.h"

#include <cstring>

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

InventoryAnswer ReadInventory(const std::string& name) {
  InventoryAnswer answer;
  Result<LoadedDriver> driver = LoadDriver(name);
  if (!driver.ok()) {
    answer.problem = driver.status().message();
    return answer;
  }
  Result<std::vector<DeviceDescription>> devices = DescribeDevices(*driver);
  if (!devices.ok())
    answer.problem = devices.status().message();
  else if (devices->empty())
    answer.problem = Format("{} found no GPU", driver->path);
  else
    answer.devices = std::move(*devices);
  if (!driver->functions.software) AskNvml(answer.devices);
  return answer;
}

}  // namespace cuspan::proxy
