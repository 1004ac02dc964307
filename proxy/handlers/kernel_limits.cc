#include "proxy/handlers/kernel_limits.h"

#include "common/log.h"
#include "proxy/kernel_class/kernel_class.h"
#include "proxy/sharing/module_ptx.h"

namespace cuspan::proxy {
namespace {

// What a kernel takes in all before it is looked at (ns).
constexpr double kWorthLook = 5'000'000;

kernel_class::DeviceRates RatesOf(const Device& device) {
  const auto read = [&](CUdevice_attribute attribute) {
    int value = 0;
    device.driver().cuDeviceGetAttribute(&value, attribute, device.handle());
    return static_cast<std::uint32_t>(std::max(value, 0));
  };
  kernel_class::DeviceRates rates;
  rates.multiprocessors = read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  rates.capability = read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                     read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  rates.clock_khz = read(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  rates.memory_clock_khz = read(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  rates.memory_bits = read(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  return rates;
}

Result<scheduling::Limits> LimitsIn(const Device& device, const Module& module,
                                    const std::string& kernel) {
  const kernel_class::DeviceRates rates = RatesOf(device);
  CUSPAN_ASSIGN_OR_RETURN(const std::string ptx, FindPtx(module.image, rates.capability));
  CUSPAN_ASSIGN_OR_RETURN(const kernel_class::KernelMix mix, kernel_class::MixOf(ptx, kernel));
  return kernel_class::ClassOf(mix, rates);
}

}  // namespace

void AskWhatLimits(DeviceSession& session, const std::shared_ptr<Kernel>& kernel,
                   double nanoseconds) {
  if (kernel->limits_asked ||
      kernel->limits.load(std::memory_order_relaxed) != scheduling::Limits::kUnknown)
    return;
  kernel->had += nanoseconds;
  if (kernel->had < kWorthLook) return;
  kernel->limits_asked = true;
  const std::shared_ptr<Module> module = session.modules.Find(kernel->module);
  if (module == nullptr) return;
  session.worker.Run([&session, kernel, module] {
    const Result<scheduling::Limits> limits = LimitsIn(session.device, *module, kernel->name);
    if (!limits.ok())
      return LogInfo("what limits kernel {} is not known: {}", kernel->name,
                     limits.status().message());
    kernel->limits = *limits;
    if (session.kernel_table != nullptr)
      session.kernel_table->SetLimits({module->hash, kernel->name}, *limits);
  });
}

}  // namespace cuspan::proxy
