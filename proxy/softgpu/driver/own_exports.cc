// Exports of the library besides the driver API.
#include "common/log.h"
#include "proxy/softgpu/compilations.h"
#include "proxy/softgpu/driver/state.h"
#include "proxy/softgpu/jit/compile_notice.h"
#include "proxy/softgpu/jit/compiler_process.h"
#include "proxy/softgpu/log_identity.h"
#include "proxy/softgpu/placed_variables.h"

#define CUSPAN_SOFT_OWN extern "C" __attribute__((visibility("default")))

// cuspan-kernel-compiler has no code of its own, so it compiles exactly like the library.
CUSPAN_SOFT_OWN int cuspan_soft_compiler_main(int argument_count, char** arguments) {
  return cuspan::softgpu::jit::CompilerMain(argument_count, arguments);
}

CUSPAN_SOFT_OWN CUresult cuspan_soft_place_variable(CUmodule handle, const char* name,
                                                    CUdeviceptr address) {
  using cuspan::softgpu::Driver;
  using cuspan::softgpu::Number;
  CUSPAN_SOFT_ENTER(driver);
  const auto module = driver->modules.Find(Number(handle));
  if (module == nullptr) return driver->InvalidHandle();
  return module->Place(name, reinterpret_cast<std::uint8_t*>(address));
}

CUSPAN_SOFT_OWN void cuspan_soft_set_log_identity(const cuspan::softgpu::LogIdentity* identity) {
  cuspan::SetLogName("cuspan", "proxy", identity->device);
  cuspan::SetLogRun(identity->run, identity->session);
}

CUSPAN_SOFT_OWN void cuspan_soft_watch_compilations(cuspan::softgpu::CompilationWatcher watcher,
                                                    void* argument) {
  cuspan::softgpu::SetCompilationWatcher(watcher, argument);
}
