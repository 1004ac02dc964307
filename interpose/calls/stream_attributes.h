// Attributes of a stream beside its flags and priority: hints about caches, waiting and memory
// domains. They do not change results, and are only stored here.
#pragma once

#include <cuda.h>

#include "interpose/calls/base/error.h"
#include "interpose/client/session.h"

namespace cuspan {

Error GetStreamAttribute(CUstream stream, CUlaunchAttributeID attribute,
                         CUlaunchAttributeValue* value, DefaultStream meaning);
Error SetStreamAttribute(CUstream stream, CUlaunchAttributeID attribute,
                         const CUlaunchAttributeValue* value, DefaultStream meaning);
Error CopyStreamAttributes(CUstream to, CUstream from, DefaultStream meaning);

}  // namespace cuspan
