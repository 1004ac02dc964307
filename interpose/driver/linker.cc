// Linking device code at run time.
#include "interpose/calls/linker.h"

#include "interpose/driver/entry.h"

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT CUresult cuLinkCreate_v2(unsigned count, CUjit_option* names, void** values,
                                       CUlinkState* linker) {
  return AnswerInContext([&](Session&) -> Error {
    if (linker == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Options<CUjit_option> options;
    CUSPAN_RETURN_IF_FAILED(ReadOptions(names, values, count, &options));
    return CreateLinker(options, linker);
  });
}

CUSPAN_EXPORT CUresult cuLinkAddData_v2(CUlinkState linker, CUjitInputType kind, void* data,
                                        std::size_t bytes, const char* name, unsigned count,
                                        CUjit_option* names, void** values) {
  return AnswerInContext([&](Session&) -> Error {
    Options<CUjit_option> options;
    CUSPAN_RETURN_IF_FAILED(ReadOptions(names, values, count, &options));
    return AddToLinker(linker, {kind, data, bytes, name}, options);
  });
}

CUSPAN_EXPORT CUresult cuLinkAddFile_v2(CUlinkState linker, CUjitInputType kind, const char* path,
                                        unsigned count, CUjit_option* names, void** values) {
  return AnswerInContext([&](Session&) -> Error {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Options<CUjit_option> options;
    CUSPAN_RETURN_IF_FAILED(ReadOptions(names, values, count, &options));
    return AddFileToLinker(linker, kind, path, options);
  });
}

CUSPAN_EXPORT CUresult cuLinkComplete(CUlinkState linker, void** image, std::size_t* bytes) {
  return AnswerInContext([&](Session&) -> Error {
    if (linker == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return CompleteLinker(linker, image, bytes);
  });
}

CUSPAN_EXPORT CUresult cuLinkDestroy(CUlinkState linker) {
  return AnswerInContext([&](Session&) { return DestroyLinker(linker); });
}
