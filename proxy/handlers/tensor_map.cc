// Tensor maps: the driver encodes them in an opaque format.
#include <algorithm>
#include <iterator>

#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {
namespace {

// The driver reads `rank` elements of the arrays.
Status CheckRank(std::uint32_t rank, std::uint32_t least) {
  if (rank >= least && rank <= std::tuple_size_v<decltype(TensorLayout::sizes)>)
    return Status::Ok();
  return Status::Invalid("a tensor map of {} dimensions", rank);
}

// Creates the map on the worker; encode(CUtensorMap*) returns a CUresult.
template <typename Op, typename Encode>
Status EncodeOnWorker(DeviceSession& session, const Origin& origin, Encode encode) {
  return OnWorker<Op>(session, origin, [&session, encode] {
    CUtensorMap map{};
    typename Op::Reply reply;
    reply.result = session.faults().Check(encode(&map));
    std::copy(std::begin(map.opaque), std::end(map.opaque), reply.map.begin());
    return reply;
  });
}

CUtensorMapDataType TypeOf(const TensorLayout& layout) {
  return static_cast<CUtensorMapDataType>(layout.type);
}
CUtensorMapInterleave InterleaveOf(const TensorLayout& layout) {
  return static_cast<CUtensorMapInterleave>(layout.interleave);
}
CUtensorMapSwizzle SwizzleOf(const TensorLayout& layout) {
  return static_cast<CUtensorMapSwizzle>(layout.swizzle);
}
CUtensorMapL2promotion PromotionOf(const TensorLayout& layout) {
  return static_cast<CUtensorMapL2promotion>(layout.promotion);
}
CUtensorMapFloatOOBfill FillOf(const TensorLayout& layout) {
  return static_cast<CUtensorMapFloatOOBfill>(layout.fill);
}
void* AddressOf(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const TensorMapTiled& op) {
  CUSPAN_RETURN_IF_ERROR(CheckRank(op.layout.rank, 1));
  return EncodeOnWorker<TensorMapTiled>(session, origin, [&session, op](CUtensorMap* map) {
    const TensorLayout& layout = op.layout;
    return session.driver().cuTensorMapEncodeTiled(
        map, TypeOf(layout), layout.rank, AddressOf(layout.address), layout.sizes.data(),
        layout.strides.data(), op.box.data(), layout.steps.data(), InterleaveOf(layout),
        SwizzleOf(layout), PromotionOf(layout), FillOf(layout));
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const TensorMapIm2col& op) {
  CUSPAN_RETURN_IF_ERROR(CheckRank(op.layout.rank, 3));
  return EncodeOnWorker<TensorMapIm2col>(session, origin, [&session, op](CUtensorMap* map) {
    const TensorLayout& layout = op.layout;
    return session.driver().cuTensorMapEncodeIm2col(
        map, TypeOf(layout), layout.rank, AddressOf(layout.address), layout.sizes.data(),
        layout.strides.data(), op.lower.data(), op.upper.data(), op.channels, op.pixels,
        layout.steps.data(), InterleaveOf(layout), SwizzleOf(layout), PromotionOf(layout),
        FillOf(layout));
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const TensorMapIm2colWide& op) {
  CUSPAN_RETURN_IF_ERROR(CheckRank(op.layout.rank, 3));
  return EncodeOnWorker<TensorMapIm2colWide>(session, origin, [&session, op](CUtensorMap* map) {
    if (session.driver().cuTensorMapEncodeIm2colWide == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    const TensorLayout& layout = op.layout;
    return session.driver().cuTensorMapEncodeIm2colWide(
        map, TypeOf(layout), layout.rank, AddressOf(layout.address), layout.sizes.data(),
        layout.strides.data(), op.lower, op.upper, op.channels, op.pixels, layout.steps.data(),
        InterleaveOf(layout), static_cast<CUtensorMapIm2ColWideMode>(op.mode), SwizzleOf(layout),
        PromotionOf(layout), FillOf(layout));
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const TensorMapAddress& op) {
  return EncodeOnWorker<TensorMapAddress>(session, origin, [&session, op](CUtensorMap* map) {
    std::copy(op.map.begin(), op.map.end(), std::begin(map->opaque));
    return session.driver().cuTensorMapReplaceAddress(map, AddressOf(op.address));
  });
}

}  // namespace cuspan::proxy
