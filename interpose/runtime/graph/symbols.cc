// Graph nodes copying to and from variables of the program.
#include "interpose/runtime/copy_box.h"
#include "interpose/runtime/graph/nodes.h"

namespace cuspan {
namespace {

// Part of a variable on the current device.
struct SymbolPart {
  const void* symbol;
  std::size_t offset;
  std::size_t bytes;
};

// use(location, sides) → BoxRequest describes the copy.
template <typename Use>
Error DescribeSymbol(const SymbolPart& part, cudaMemcpyKind kind, Work* work, Use&& use) {
  return WithSession([&](Session& session) -> Error {
    std::byte* place = nullptr;
    CUSPAN_RETURN_IF_FAILED(
        LocateInVariable(session, part.symbol, part.offset, part.bytes, &place));
    CopySides sides{};
    CUSPAN_RETURN_IF_FAILED(SidesOf(kind, &sides));
    return DescribeCopy(use(place, sides), work);
  });
}

Error DescribeToSymbol(const SymbolPart& part, const void* source, cudaMemcpyKind kind,
                       Work* work) {
  return DescribeSymbol(part, kind, work, [&](std::byte* place, CopySides sides) {
    return BoxOfRun(place, source, part.bytes, sides);
  });
}

Error DescribeFromSymbol(void* destination, const SymbolPart& part, cudaMemcpyKind kind,
                         Work* work) {
  return DescribeSymbol(part, kind, work, [&](std::byte* place, CopySides sides) {
    return BoxOfRun(destination, place, part.bytes, sides);
  });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_NODE(cudaGraphAddMemcpyNodeToSymbol, cudaGraphMemcpyNodeSetParamsToSymbol,
                   cudaGraphExecMemcpyNodeSetParamsToSymbol,
                   DescribeToSymbol({symbol, offset, bytes}, source, kind, work),
                   const void* symbol, const void* source, std::size_t bytes, std::size_t offset,
                   cudaMemcpyKind kind)

CUSPAN_EXPORT_NODE(cudaGraphAddMemcpyNodeFromSymbol, cudaGraphMemcpyNodeSetParamsFromSymbol,
                   cudaGraphExecMemcpyNodeSetParamsFromSymbol,
                   DescribeFromSymbol(destination, {symbol, offset, bytes}, kind, work),
                   void* destination, const void* symbol, std::size_t bytes, std::size_t offset,
                   cudaMemcpyKind kind)
