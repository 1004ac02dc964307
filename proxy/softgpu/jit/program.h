// One PTX module: indexed when loaded; its kernels are compiled at their first launch.
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
  std::uint32_t offset;  // Offset in ThreadContext::params.
  std::uint32_t bytes;
};

// Facts needed by the driver's function attributes and by launches.
struct KernelInfo {
  std::string name;
  std::vector<KernelParameter> parameters;
  std::uint32_t parameter_bytes = 0;           // End of the last parameter.
  std::uint32_t static_shared_bytes = 0;       // Includes all functions it may call.
  std::uint32_t local_bytes = 0;               // .local memory of all its functions.
  std::uint32_t max_threads = 1024;            // From .maxntid / .reqntid, else 1024.
  std::uint32_t required_ntid[3] = {0, 0, 0};  // .reqntid, or zeros.
  bool needs_fibers = false;                   // May suspend a thread.
  bool prints = false;                         // May call printf.
  bool uses_heap = false;                      // May call malloc or free.
};

// Block dimensions a kernel is compiled for; zeros: any.
struct BlockShape {
  std::uint32_t x = 0, y = 0, z = 0;
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

// A .global or .const variable of the module.
struct ModuleVariable {
  struct Relocation {  // `initial` has the address of `symbol` + `addend` at `offset`.
    std::uint64_t offset;
    std::string symbol;
    std::int64_t addend;
  };
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;
  bool constant = false;
  bool managed = false;               // __managed__: the host uses the same address.
  std::vector<std::uint8_t> initial;  // If shorter than `bytes`, the rest is zero.
  std::vector<Relocation> relocations;
};

class KernelCache;

// One call of a kernel's code executes a warp or a thread. kAuto: a warp if the kernel allows it
// and profits; kVector: a warp if the kernel allows it.
enum class ExecutionModel : std::uint8_t { kAuto, kVector, kThread };

// Level of a kernel's code. kLast: optimised; the first launch waits for its compilation. kFirst:
// quickly compiled, not optimised. kAuto: kFirst for large kernels until optimised code is
// available, else kLast.
enum class CodeTier : std::uint8_t { kAuto, kFirst, kLast };

namespace jit {
class BackgroundCompiler;
}

struct ProgramOptions {
  // Cache of compiled kernels; must outlive the program. Null: none.
  KernelCache* cache = nullptr;
  // Checks each access of a kernel by cuspan_rt_check.
  bool check_accesses = false;
  // Switches threads at each access (CUSPAN_SOFT_SCHEDULE).
  bool interleaved = false;
  ExecutionModel model = ExecutionModel::kAuto;
  CodeTier tier = CodeTier::kAuto;
  // Compiler of optimised code in the background; must outlive the program. Null: kAuto equals
  // kLast.
  jit::BackgroundCompiler* background = nullptr;
  // Time a launch waits for optimised code not finished by an earlier run.
  std::chrono::seconds patience{20};

  static ProgramOptions OfSettings();
};

// Threads: any after Load. The owner must keep it alive while any of its kernels runs.
class Program {
 public:
  // Indexes `ptx` (the whole text of one module, without a trailing NUL). Returns kInvalid, naming
  // the line, for invalid PTX, and kUnsupported, naming instruction, kernel and line, for
  // unsupported PTX.
  static Result<std::unique_ptr<Program>> Load(std::string ptx, const ProgramOptions& options);
  // The same, with options from the settings.
  static Result<std::unique_ptr<Program>> Load(std::string ptx);
  virtual ~Program() = default;

  // Checks the whole text, for programs with PTX of their own; otherwise, kernels are parsed on
  // first use. Returns kInvalid, naming the line, for text invalid for every compiler. `linked`:
  // all called functions must be in it.
  virtual Status Check(bool linked) = 0;

  virtual std::uint32_t ptx_version() const = 0;  // .version: major × 10 + minor.
  virtual std::uint32_t target() const = 0;       // 75 for `.target sm_75`.
  virtual const std::vector<ModuleVariable>& variables() const = 0;
  virtual std::vector<std::string> kernel_names() const = 0;
  // True if the module declares the device-side launch function.
  virtual bool launches_kernels() const = 0;
  // Returns the kernel with this device-side address, and the size of its parameters in bytes;
  // nullopt if the address is not a kernel's. Returns at once, without parsing. Threads: any.
  virtual std::optional<std::pair<std::string, std::uint32_t>> KernelAt(
      const void* address) const = 0;
  // Returns facts about a kernel, parsed on first use unless cached. Returns kNotFound for an
  // unknown name.
  virtual Result<const KernelInfo*> Kernel(std::string_view name) = 0;
  // Sets the address of variable `name`. Must be called for every variable before the first
  // Compile; the last call counts. Returns false, without effect, once code with addresses exists.
  virtual bool Bind(std::string_view name, void* address) = 0;
  // Compiles the kernel for blocks of `shape`, once for all shapes sharing code. Later calls return
  // the same code, or better code completed since.
  virtual Result<CompiledKernel> Compile(std::string_view name, const BlockShape& shape = {}) = 0;
};

}  // namespace cuspan::softgpu
