// One PTX module: indexed when loaded, its kernels compiled at first launch.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proxy/softgpu/rt/compiled_kernel.h"

namespace cuspan::softgpu {

struct KernelParameter {
  std::uint32_t offset;  // In ThreadContext::params.
  std::uint32_t bytes;
};

// What the driver's function attributes and the launch need to know.
struct KernelInfo {
  std::string name;
  std::vector<KernelParameter> parameters;
  std::uint32_t parameter_bytes = 0;           // End of the last parameter.
  std::uint32_t static_shared_bytes = 0;       // Of the kernel and all it may call.
  std::uint32_t local_bytes = 0;               // Declared .local memory of the kernel itself.
  std::uint32_t max_threads = 1024;            // From .maxntid / .reqntid, else 1024.
  std::uint32_t required_ntid[3] = {0, 0, 0};  // .reqntid, or zeros.
  bool needs_fibers = false;                   // Contains something that may suspend a thread.
  bool prints = false;                         // May call printf.
  bool uses_heap = false;                      // May call malloc or free.
};

// The blocks that a kernel is compiled for; zeros: any.
struct BlockShape {
  std::uint32_t x = 0, y = 0, z = 0;
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

// A .global or .const variable of the module.
struct ModuleVariable {
  struct Relocation {  // At `offset` of the initial bytes stands the address of `symbol` +
                       // `addend`.
    std::uint64_t offset;
    std::string symbol;
    std::int64_t addend;
  };
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;
  bool constant = false;
  bool managed = false;               // __managed__: the host uses it by the same address.
  std::vector<std::uint8_t> initial;  // Shorter than `bytes`: the rest is zero.
  std::vector<Relocation> relocations;
};

class KernelCache;

// Whether one call of a kernel's code executes a warp or a thread. kAuto: a warp where that
// is right for the kernel and worth it; kVector: where that is right.
enum class ExecutionModel : std::uint8_t { kAuto, kVector, kThread };

// Which code a kernel gets. kLast: optimised, and its first launch waits until that is compiled;
// kFirst: code that is compiled quickly and not optimised; kAuto: large kernels have that until
// there is optimised code.
enum class CodeTier : std::uint8_t { kAuto, kFirst, kLast };

namespace jit {
class BackgroundCompiler;
}

struct ProgramOptions {
  // Where compiled kernels are kept; must outlive the program. Null: nowhere.
  KernelCache* cache = nullptr;
  // Each access of a kernel is checked by cuspan_rt_check.
  bool check_accesses = false;
  // Threads take turns at each access (CUSPAN_SOFT_SCHEDULE).
  bool interleaved = false;
  ExecutionModel model = ExecutionModel::kAuto;
  CodeTier tier = CodeTier::kAuto;
  // What compiles optimised code meanwhile; must outlive the program. Null: kAuto is kLast.
  jit::BackgroundCompiler* background = nullptr;
  // How long a launch waits for optimised code that an earlier run did not get.
  std::chrono::seconds patience{20};

  static ProgramOptions OfSettings();
};

// Thread-safe after Load. The owner must keep it alive while any of its kernels runs.
class Program {
 public:
  // Indexes `ptx` (the whole text of one module, without a trailing NUL).
  // Fails with kInvalid, naming the line, for text that is not PTX, and with
  // kUnsupported, naming instruction, kernel and line, for what can not be run.
  static Result<std::unique_ptr<Program>> Load(std::string ptx, const ProgramOptions& options);
  // The same, with the options of the settings.
  static Result<std::unique_ptr<Program>> Load(std::string ptx);
  virtual ~Program() = default;

  // Looks at all of the text, for those who write PTX: kInvalid, naming the line, for what no
  // compiler takes. `linked`: what it calls must be in it. Otherwise a kernel is parsed when it is
  // needed first.
  virtual Status Check(bool linked) = 0;

  virtual std::uint32_t ptx_version()
      const = 0;                             // Major × 10 + minor, as in the .version directive.
  virtual std::uint32_t target() const = 0;  // 75 for `.target sm_75`.
  virtual const std::vector<ModuleVariable>& variables() const = 0;
  virtual std::vector<std::string> kernel_names() const = 0;
  // Whether the module declares what launches kernels from kernels.
  virtual bool launches_kernels() const = 0;
  // The kernel whose address, as kernels see it, is `address`, and the bytes of its parameters;
  // nullopt when it is no kernel's. Any thread, at once: nothing is parsed.
  virtual std::optional<std::pair<std::string, std::uint32_t>> KernelAt(
      const void* address) const = 0;
  // Parses the kernel if that has not happened yet and the cache does not have it. kNotFound
  // when there is none of that name.
  virtual Result<const KernelInfo*> Kernel(std::string_view name) = 0;
  // Where variable `name` lies. To be called for every variable before the first Compile; the last
  // call counts. False, and without effect, once there is code that has the addresses.
  virtual bool Bind(std::string_view name, void* address) = 0;
  // Compiles the kernel for blocks of `shape`, once for all shapes that may share code; later
  // calls return the same, or better code that has come since.
  virtual Result<CompiledKernel> Compile(std::string_view name, const BlockShape& shape = {}) = 0;
};

}  // namespace cuspan::softgpu
