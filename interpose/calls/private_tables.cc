#include "interpose/calls/private_tables.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/cancellation.h"
#include "common/format.h"
#include "common/log.h"
#include "common/mutex.h"
#include "interpose/calls/context.h"
#include "interpose/calls/library.h"
#include "interpose/calls/stream.h"

namespace cuspan {
namespace {

// Logs the message once.
void Note(const std::string& what) {
  static auto* const mutex = new Mutex;
  static auto* const said CUSPAN_PT_GUARDED_BY(*mutex) = new std::set<std::string>;
  const MutexLock lock(*mutex);
  if (said->insert(what).second) LogInfo("{}", what);
}

std::string LibraryOf(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "the program";
  return info.dli_fname;
}

// A table begins with its size in bytes. The functions after it are identified by position.
template <std::size_t kPlaces>
using Table = std::array<const void*, kPlaces>;

template <typename Function>
const void* Address(Function* function) {
  return reinterpret_cast<const void*>(function);
}

template <unsigned kTable, std::size_t kPlace>
CUresult Missing() {
  const CancellationOff cancellation;
  Note(Format("{} calls function {} of the driver's private table {:08x}, which is not supported",
              LibraryOf(__builtin_return_address(0)), kPlace, kTable));
  return CUDA_ERROR_NOT_SUPPORTED;
}

template <unsigned kTable, std::size_t... kPlaces>
Table<sizeof...(kPlaces)> Missings(std::index_sequence<kPlaces...>) {
  Table<sizeof...(kPlaces)> table{Address(&Missing<kTable, kPlaces>)...};
  table[0] = reinterpret_cast<const void*>(sizeof table);
  return table;
}

// --- Calling thread

CUresult CurrentContextOf(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = HandleOf(ThisThread().contexts.top());
  return CUDA_SUCCESS;
}

// --- Contexts

// Calls body(Session&, Context&) → Error for a context; null means the current one.
template <typename Body>
CUresult AboutContext(CUcontext handle, Body&& body) {
  const CancellationOff cancellation;
  return WithSession([&](Session& session) -> Error {
           Context* context = ThisThread().contexts.top();
           if (handle != nullptr) CUSPAN_RETURN_IF_FAILED(FindContext(session, handle, &context));
           if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
           return body(session, *context);
         })
      .driver();
}

CUresult NumberOfContext(CUcontext handle, std::uint64_t* number) {
  return AboutContext(handle, [&](Session&, const Context& context) -> Error {
    if (number == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *number = context.number();
    return CUDA_SUCCESS;
  });
}

CUresult NumberOfStream(CUcontext handle, CUstream stream, std::uint64_t* number) {
  return AboutContext(handle, [&](Session& session, const Context&) -> Error {
    if (number == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamTarget target;
    CUSPAN_RETURN_IF_FAILED(session.streams().Resolve(stream, DefaultStream::kLegacy, &target));
    *number = IdOf(target);
    return CUDA_SUCCESS;
  });
}

// Returns a non-null handle for the stream: stream 0 becomes CU_STREAM_LEGACY.
CUresult HandleOfStream(CUcontext handle, CUstream stream, CUstream* real) {
  return AboutContext(handle, [&](Session&, const Context&) -> Error {
    if (real == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *real = stream == nullptr ? CU_STREAM_LEGACY : stream;
    return CUDA_SUCCESS;
  });
}

// --- Modules

// Calls use(data, function, number of the module) for each function of a module. Returns their
// count.
std::size_t EachFunction(CUcontext, CUmodule module,
                         void (*use)(void* data, CUfunction function, std::uint64_t module),
                         void* data) {
  const CancellationOff cancellation;
  unsigned count = 0;
  if (use == nullptr || CountKernels(module, &count).failed()) return 0;
  std::vector<const FunctionRecord*> functions;
  const Error result = ForKernels(module, count, [&](std::size_t, const FunctionRecord* function) {
    functions.push_back(function);
  });
  if (result.failed()) return 0;
  for (const FunctionRecord* const function : functions)
    use(data, HandleOf<CUfunction>(NumberOf(function->handle)), NumberOf(module));
  return functions.size();
}

struct KnownTable {
  std::array<unsigned char, sizeof(CUuuid::bytes)> id;
  const void* table;
};

// cuBLAS, cuBLASLt and cuFFT request the first two, cuFFT the third. cuBLASLt requests the last one
// without checking for an error; none of its functions is supported.
std::array<KnownTable, 4> KnownTables() {
  static const auto thread = [] {
    auto table = Missings<0x42d85a81>(std::make_index_sequence<3>());
    table[2] = Address(&CurrentContextOf);
    return table;
  }();
  static const auto contexts = [] {
    auto table = Missings<0x21318c60>(std::make_index_sequence<52>());
    table[4] = Address(&NumberOfContext);
    table[39] = Address(&NumberOfStream);
    table[51] = Address(&HandleOfStream);
    return table;
  }();
  static const auto modules = [] {
    auto table = Missings<0x6e163fbe>(std::make_index_sequence<8>());
    table[7] = Address(&EachFunction);
    return table;
  }();
  static const auto unsupported = Missings<0x1734dc26>(std::make_index_sequence<17>());
  return {{{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a,
             0xec, 0xdc},
            thread.data()},
           {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24,
             0xc8, 0xf2},
            contexts.data()},
           {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1,
             0x99, 0x1e},
            modules.data()},
           {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd,
             0x8b, 0xca},
            unsupported.data()}}};
}

}  // namespace

Error GetPrivateTable(const void** table, const CUuuid* id, const void* caller) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  for (const KnownTable& known : KnownTables())
    if (std::memcmp(known.id.data(), id->bytes, known.id.size()) == 0) *table = known.table;
  if (*table != nullptr) return CUDA_SUCCESS;
  std::string name;
  for (const char byte : id->bytes) name += Format("{:02x}", static_cast<unsigned char>(byte));
  Note(Format("{} asks for the driver's private table {}, which is not supported",
              LibraryOf(caller), name));
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace cuspan
