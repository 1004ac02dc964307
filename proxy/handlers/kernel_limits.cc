#include "proxy/handlers/kernel_limits.h"

#include "common/log.h"
#include "proxy/kernel_class/kernel_class.h"

namespace cuspan::proxy {
namespace {

// Total run time of a kernel before its PTX is analysed (ns).
constexpr double kWorthLook = 5'000'000;

kernel_class::DeviceRates RatesOf(const Device& device) {
  kernel_class::DeviceRates rates;
  rates.multiprocessors = AttributeOf(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  rates.capability = CapabilityOf(device);
  rates.clock_khz = AttributeOf(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  rates.memory_clock_khz = AttributeOf(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  rates.memory_bits = AttributeOf(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  return rates;
}

Result<scheduling::Bottleneck> BottleneckIn(const Device& device, const Module& module,
                                            const std::string& kernel) {
  CUSPAN_ASSIGN_OR_RETURN(const std::string ptx, module.ptx.Text());
  CUSPAN_ASSIGN_OR_RETURN(const kernel_class::KernelMix mix, kernel_class::MixOf(ptx, kernel));
  return kernel_class::ClassOf(mix, RatesOf(device));
}

}  // namespace

void AskWhatLimits(DeviceSession& session, const std::shared_ptr<Kernel>& kernel,
                   double nanoseconds) {
  if (kernel->limits_asked ||
      kernel->bottleneck.load(std::memory_order_relaxed) != scheduling::Bottleneck::kUnknown)
    return;
  kernel->had += nanoseconds;
  if (kernel->had < kWorthLook) return;
  kernel->limits_asked = true;
  const std::shared_ptr<Module> module = session.objects().modules.Find(kernel->module);
  if (module == nullptr) return;
  session.worker().Run([&session, kernel, module] {
    const Result<scheduling::Bottleneck> bottleneck =
        BottleneckIn(session.device(), *module, kernel->name);
    if (!bottleneck.ok())
      return LogInfo("the bottleneck of kernel {} is unknown: {}", kernel->name,
                     bottleneck.status().message());
    kernel->bottleneck = *bottleneck;
    if (session.sharing().kernel_table() != nullptr)
      session.sharing().kernel_table()->SetBottleneck({module->hash, kernel->name}, *bottleneck);
  });
}

}  // namespace cuspan::proxy
