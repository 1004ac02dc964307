// Attributes of streams other than flags and priority.
#include "interpose/calls/stream_attributes.h"

#include "interpose/runtime/entry.h"
#include "interpose/runtime/same_bytes.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaStreamGetAttribute, _ptsz,
                    (cudaStream_t stream, cudaLaunchAttributeID attribute,
                     cudaLaunchAttributeValue* value),
                    Answer([&]() -> Error {
                      if (value == nullptr) return cudaErrorInvalidValue;
                      CUlaunchAttributeValue drivers{};
                      CUSPAN_RETURN_IF_FAILED(GetStreamAttribute(
                          stream, static_cast<CUlaunchAttributeID>(attribute), &drivers, meaning));
                      *value = SameBytes<cudaLaunchAttributeValue>(drivers);
                      return cudaSuccess;
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamSetAttribute, _ptsz,
                    (cudaStream_t stream, cudaLaunchAttributeID attribute,
                     const cudaLaunchAttributeValue* value),
                    Answer([&]() -> Error {
                      if (value == nullptr) return cudaErrorInvalidValue;
                      const auto drivers = SameBytes<CUlaunchAttributeValue>(*value);
                      return SetStreamAttribute(stream, static_cast<CUlaunchAttributeID>(attribute),
                                                &drivers, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from),
                    Answer([&] { return CopyStreamAttributes(to, from, meaning); }))
